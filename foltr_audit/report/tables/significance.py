"""Which systems differ, and by how much: paired t-tests of every pair, as JSON and on a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from rich.markup import escape

from foltr_audit.core.ranking_metrics import OFFLINE_NDCG
from foltr_audit.errors import UsageError
from foltr_audit.experiments.runs.reader import FINAL, ONLINE_MEAN, ONLINE_SUM
from foltr_audit.experiments.runs.systems import RankingSystem, match_runs
from foltr_audit.judge.significance import PairedTest, bonferroni, paired_t_test, stars
from foltr_audit.report.results.base import Row
from foltr_audit.report.tables.layout import (
    Column,
    difference_interval_column,
    print_fitting,
    rows_table,
    text_column,
)
from foltr_audit.utils.formatting import json_text, short

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

SCHEMA = "foltr-audit/significance/1"
_METHOD = "Paired two-sided t-test; p corrected: Bonferroni within a table, * below .05, ** below .01."
_COLUMNS = (
    "95 %: interval of each difference on its own. d_z: mean over standard deviation of the differences."
)
DEFAULT_METRICS = (OFFLINE_NDCG, ONLINE_SUM)


@dataclass(frozen=True, kw_only=True)
class SignificanceReport:
    """Systems, and for each metric the comparison of every two of them.

    Attributes:
        systems: one row per system: `system`, `folder`, `runs`, and `fields` with the Spec fields in which
            the systems differ.
        means: one row per metric and system: mean and standard deviation (n - 1) over its Runs.
        comparisons: one row per metric and pair of systems; the correction counts the rows of a metric.
    """

    systems: list[Row]
    means: list[Row]
    comparisons: list[Row]

    @classmethod
    def of(
        cls, systems: Sequence[RankingSystem], metrics: Sequence[str] = (), *, paired_only: bool = False
    ) -> SignificanceReport:
        """Compare every two systems.

        Args:
            systems: at least two.
            metrics: names of `RunReader.metrics`, or `final`; none for the default ones.
            paired_only: leave Runs without a partner out, instead of refusing them.

        Raises:
            UsageError: an unknown metric, one that was not taken, sums over different numbers of rounds, or
                Runs that are no pairs.
            TraceError: a damaged Run.
        """
        names = dict.fromkeys(
            OFFLINE_NDCG if name == FINAL else name for name in metrics or _default(systems)
        )
        if ONLINE_SUM in names and len({one.rounds for one in systems}) > 1:
            counts = ", ".join(str(count) for count in sorted({one.rounds for one in systems}))
            raise UsageError(f"--metric {ONLINE_SUM}: sums over {counts} rounds; expected {ONLINE_MEAN}")
        return cls(
            systems=[
                {"system": one.name, "folder": str(one.folder), "runs": len(one.runs), "fields": one.fields}
                for one in systems
            ],
            means=[_mean(one, name) for name in names for one in systems],
            comparisons=[row for name in names for row in _comparisons(systems, name, paired_only)],
        )

    def json(self) -> str:
        """Everything as one JSON object; an infinite effect size is `"inf"`, an undefined one null."""
        return json_text({"schema": SCHEMA, **vars(self)})

    def print(self, console: Console) -> None:
        """The systems, and a table per metric."""
        console.print(self._systems_table())
        numbers = {row["system"]: i for i, row in enumerate(self.systems, start=1)}
        for metric in dict.fromkeys(row["metric"] for row in self.comparisons):
            rows = [row for row in self.comparisons if row["metric"] == metric]
            console.print()
            print_fitting(partial(_comparison_table, metric, rows, numbers), _LESS, console)
            for row in rows:
                if math.isinf(row["effect_size"]):
                    pair = _pair(row, numbers)
                    console.print(f"{pair}: the same difference in every pair, so p is 0", highlight=False)
        console.print()
        for line in (_METHOD, _COLUMNS):
            console.print(line, highlight=False)

    def _systems_table(self) -> Table:
        cells = {
            (row["system"], row["metric"]): f"{_number(row['mean'])} +- {_number(row['sd'])}"
            for row in self.means
        }

        def metric_column(metric: str) -> Column:
            return Column(escape(metric), lambda row: cells[row["system"], metric])

        return rows_table(
            "systems",
            "mean +- standard deviation over runs",
            [
                text_column("", "number", "number"),
                text_column("system", "system"),
                text_column("runs", "runs", "number"),
                *map(metric_column, dict.fromkeys(row["metric"] for row in self.means)),
            ],
            [row | {"number": i} for i, row in enumerate(self.systems, start=1)],
        )


def _default(systems: Sequence[RankingSystem]) -> tuple[str, ...]:
    """The default metrics; the mean instead of the sum where numbers of rounds differ."""
    same = len({one.rounds for one in systems}) == 1
    return DEFAULT_METRICS if same else (OFFLINE_NDCG, ONLINE_MEAN)


def _mean(system: RankingSystem, metric: str) -> Row:
    values = np.array([run.value(metric) for run in system.runs.values()])
    return {
        "metric": metric,
        "system": system.name,
        "runs": values.size,
        "mean": float(values.mean()),
        "sd": float(values.std(ddof=1)) if values.size > 1 else float("nan"),
    }


def _comparisons(systems: Sequence[RankingSystem], metric: str, paired_only: bool) -> list[Row]:
    pairs = list(combinations(systems, 2))
    tests = [_test(a, b, metric, paired_only) for a, b in pairs]
    corrected = bonferroni([test.p for test in tests])
    return [
        {
            "metric": metric,
            "a": a.name,
            "b": b.name,
            "pairs": test.pairs,
            "difference": test.difference,
            "difference_ci95": test.ends,
            "effect_size": test.effect_size,
            "t": test.t,
            "p": test.p,
            "p_bonferroni": p,
            "comparisons": len(pairs),
            "stars": stars(p),
        }
        for (a, b), test, p in zip(pairs, tests, corrected, strict=True)
    ]


def _test(a: RankingSystem, b: RankingSystem, metric: str, paired_only: bool) -> PairedTest:
    repetitions = match_runs(a, b, paired_only=paired_only)
    first, second = (
        np.array([system.runs[repetition].value(metric) for repetition in repetitions]) for system in (a, b)
    )
    return paired_t_test(first, second)


_LESS = ("d_z", "pairs", "95 %", "p")
"""Columns that a comparison leaves out on a narrow terminal, first to last."""


def _comparison_table(metric: str, rows: Sequence[Row], numbers: dict[str, int], narrow: bool) -> Table:
    def effect(row: Row) -> str:
        return "-" if math.isnan(row["effect_size"]) else f"{row['effect_size']:.2f}"

    columns = [
        Column("systems", lambda row: _pair(row, numbers), "name"),
        text_column("pairs", "pairs", "number"),
        Column("difference", lambda row: _number(row["difference"])),
        difference_interval_column(_number),
        Column("d_z", effect),
        Column("p", lambda row: _p(row["p"])),
        Column("p corrected", lambda row: _p(row["p_bonferroni"])),
        text_column("", "stars", "name"),
    ]
    return rows_table(escape(metric), None, columns, rows, space=0 if narrow else 1)


def _pair(row: Row, numbers: dict[str, int]) -> str:
    return f"{numbers[row['a']]} - {numbers[row['b']]}"


def _number(value: float) -> str:
    return short(value, 4) if not abs(value) >= 10 else f"{value:.2f}"


def _p(value: float) -> str:
    return "<.0001" if 0 < value < 0.00005 else short(value, 4)
