"""Which systems differ, and by how much: paired t-tests of every pair, as JSON and on a terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from foltr_audit.core.ranking_metrics import OFFLINE_NDCG
from foltr_audit.core.results import Estimate
from foltr_audit.errors import UsageError
from foltr_audit.experiments.runs.systems import RankingSystem, match_runs
from foltr_audit.experiments.store import FINAL, ONLINE_MEAN, ONLINE_SUM
from foltr_audit.judge.significance import PairedTest, bonferroni, paired_t_test, stars
from foltr_audit.report.render.terminal import print_table
from foltr_audit.report.results.plain_report import PlainReport
from foltr_audit.report.tables.columns import interval_text
from foltr_audit.report.tables.table import Column, Table, make_table
from foltr_audit.utils.formatting import JsonValue, short
from foltr_audit.utils.rows import ResultRow

if TYPE_CHECKING:
    from rich.console import Console

_METHOD = "Paired two-sided t-test; p corrected: Bonferroni within a table, * below .05, ** below .01."
_COLUMNS = (
    "95 %: interval of each difference on its own. d_z: mean over standard deviation of the differences."
)
DEFAULT_METRICS = (OFFLINE_NDCG, ONLINE_SUM)


@dataclass(frozen=True, kw_only=True)
class SystemRow(ResultRow):
    """One system.

    Attributes:
        system: its name.
        folder: where its Runs are.
        runs: how many.
        fields: the Spec fields in which the systems differ.
    """

    system: str
    folder: str
    runs: int
    fields: Mapping[str, JsonValue]


@dataclass(frozen=True, kw_only=True)
class MeanRow(ResultRow):
    """Mean and standard deviation (n - 1) of a metric of a system over its Runs."""

    metric: str
    system: str
    runs: int
    mean: float
    sd: float


@dataclass(frozen=True, kw_only=True)
class ComparisonRow(ResultRow):
    """The paired t-test of a metric of two systems; `comparisons` of the metric are corrected for."""

    metric: str
    a: str
    b: str
    pairs: int
    difference: Estimate
    effect_size: float
    t: float
    p: float
    p_bonferroni: float
    comparisons: int
    stars: str


@dataclass(frozen=True, kw_only=True)
class SignificanceReport(PlainReport):
    """Systems, and for each metric the comparison of every two of them.

    Attributes:
        systems: one row per system.
        means: one row per metric and system.
        comparisons: one row per metric and pair of systems; the correction counts the rows of a metric.
    """

    SCHEMA: ClassVar[str] = "foltr-audit/significance/1"

    systems: tuple[SystemRow, ...]
    means: tuple[MeanRow, ...]
    comparisons: tuple[ComparisonRow, ...]

    @classmethod
    def of(
        cls, systems: Sequence[RankingSystem], metrics: Sequence[str] = (), *, paired_only: bool = False
    ) -> SignificanceReport:
        """Compare every two systems.

        Args:
            systems: at least two.
            metrics: names of `StoredRun.metrics`, or `final`; none for the default ones.
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
            systems=tuple(
                SystemRow(system=one.name, folder=str(one.folder), runs=len(one.runs), fields=one.fields)
                for one in systems
            ),
            means=tuple(_mean(one, name) for name in names for one in systems),
            comparisons=tuple(row for name in names for row in _comparisons(systems, name, paired_only)),
        )

    def print(self, console: Console) -> None:
        """The systems, and a table per metric."""
        print_table(self._systems_table(), console)
        numbers = {row.system: i for i, row in enumerate(self.systems, start=1)}
        for metric in dict.fromkeys(row.metric for row in self.comparisons):
            rows = [row for row in self.comparisons if row.metric == metric]
            console.print()
            print_table(_comparison_table(metric, rows, numbers), console)
            for row in rows:
                if math.isinf(row.effect_size):
                    pair = _pair(row, numbers)
                    console.print(f"{pair}: the same difference in every pair, so p is 0", highlight=False)
        console.print()
        for line in (_METHOD, _COLUMNS):
            console.print(line, highlight=False)

    def _systems_table(self) -> Table:
        cells = {(row.system, row.metric): f"{_number(row.mean)} +- {_number(row.sd)}" for row in self.means}

        def metric_column(metric: str) -> Column[SystemRow]:
            return Column(metric, lambda row: cells[row.system, metric])

        numbers = {row.system: str(i) for i, row in enumerate(self.systems, start=1)}
        columns: list[Column[SystemRow]] = [
            Column("", lambda row: numbers[row.system]),
            Column("system", lambda row: row.system, "fold"),
            Column("runs", lambda row: str(row.runs)),
            *map(metric_column, dict.fromkeys(row.metric for row in self.means)),
        ]
        return make_table("systems", columns, self.systems, caption="mean +- standard deviation over runs")


def _default(systems: Sequence[RankingSystem]) -> tuple[str, ...]:
    """The default metrics; the mean instead of the sum where numbers of rounds differ."""
    same = len({one.rounds for one in systems}) == 1
    return DEFAULT_METRICS if same else (OFFLINE_NDCG, ONLINE_MEAN)


def _mean(system: RankingSystem, metric: str) -> MeanRow:
    values = np.array([run.value(metric) for run in system.runs.values()])
    sd = float(values.std(ddof=1)) if values.size > 1 else float("nan")
    return MeanRow(metric=metric, system=system.name, runs=values.size, mean=float(values.mean()), sd=sd)


def _comparisons(systems: Sequence[RankingSystem], metric: str, paired_only: bool) -> list[ComparisonRow]:
    pairs = list(combinations(systems, 2))
    tests = [_test(a, b, metric, paired_only) for a, b in pairs]
    corrected = bonferroni([test.p for test in tests])
    return [
        ComparisonRow(
            metric=metric,
            a=a.name,
            b=b.name,
            pairs=test.pairs,
            difference=Estimate(test.difference, test.ends),
            effect_size=test.effect_size,
            t=test.t,
            p=test.p,
            p_bonferroni=p,
            comparisons=len(pairs),
            stars=stars(p),
        )
        for (a, b), test, p in zip(pairs, tests, corrected, strict=True)
    ]


def _test(a: RankingSystem, b: RankingSystem, metric: str, paired_only: bool) -> PairedTest:
    repetitions = match_runs(a, b, paired_only=paired_only)
    first, second = (
        np.array([system.runs[repetition].value(metric) for repetition in repetitions]) for system in (a, b)
    )
    return paired_t_test(first, second)


def _comparison_table(metric: str, rows: Sequence[ComparisonRow], numbers: Mapping[str, int]) -> Table:
    def effect(row: ComparisonRow) -> str:
        return "-" if math.isnan(row.effect_size) else f"{row.effect_size:.2f}"

    columns: list[Column[ComparisonRow]] = [
        Column("systems", lambda row: _pair(row, numbers), "name"),
        Column("pairs", lambda row: str(row.pairs)),
        Column("difference", lambda row: _number(row.difference.value)),
        Column("95 %", lambda row: interval_text(row.difference, _number)),
        Column("d_z", effect),
        Column("p", lambda row: _p(row.p)),
        Column("p corrected", lambda row: _p(row.p_bonferroni)),
        Column("", lambda row: row.stars, "name"),
    ]
    return make_table(metric, columns, rows, spare=("d_z", "pairs", "95 %", "p"))


def _pair(row: ComparisonRow, numbers: Mapping[str, int]) -> str:
    return f"{numbers[row.a]} - {numbers[row.b]}"


def _number(value: float) -> str:
    return short(value, 4) if not abs(value) >= 10 else f"{value:.2f}"


def _p(value: float) -> str:
    return "<.0001" if 0 < value < 0.00005 else short(value, 4)
