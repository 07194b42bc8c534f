"""Which systems differ, and by how much: paired t-tests of every pair, as JSON and on a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from foltr_audit.core.ranking_metrics import OFFLINE_NDCG
from foltr_audit.core.results import Estimate
from foltr_audit.errors import UsageError
from foltr_audit.experiments.runs.systems import RankingSystem, find_metric, match_runs
from foltr_audit.experiments.store import FINAL, ONLINE_MEAN, ONLINE_SUM
from foltr_audit.judge.significance import bonferroni, paired_t_test, stars
from foltr_audit.report.documents import Document, Row, Section, nested
from foltr_audit.report.table import Column, Table, columns_of, interval_text, make_table
from foltr_audit.report.terminal import print_lines, print_table
from foltr_audit.utils.formatting import short

if TYPE_CHECKING:
    from rich.console import Console

_NOTES = (
    "Paired two-sided t-test; p corrected: Bonferroni within a table, * below .05, ** below .01.",
    "95 %: interval of each difference on its own. d_z: mean over standard deviation of the differences.",
)
SYSTEM = Section("system folder runs:int fields:table")
MEAN = Section("metric system runs:int mean:num sd:num")
COMPARISON = Section(
    "metric a b pairs:int difference:est effect_size:num t:num p:num p_bonferroni:num comparisons:int stars"
)


@dataclass(frozen=True, kw_only=True)
class SignificanceReport(Document):
    """Systems, their means over Runs, and for each metric the comparison of every two of them."""

    SCHEMA = "foltr-audit/significance/1"
    FIELDS = Section(nested("systems", SYSTEM), nested("means", MEAN), nested("comparisons", COMPARISON))

    systems: Sequence[Row]
    means: Sequence[Row]
    comparisons: Sequence[Row]

    @classmethod
    def of(
        cls, systems: Sequence[RankingSystem], metrics: Sequence[str] = (), *, paired_only: bool = False
    ) -> SignificanceReport:
        """Compare every two of at least two systems that have a metric, see `find_metric`.

        `paired_only` leaves Runs without a partner out.

        Raises:
            UsageError: an unknown metric, one that was not taken, sums over different numbers of rounds, or
                Runs that are no pairs.
            TraceError: a damaged Run.
        """
        lengths = sorted({system.rounds for system in systems})
        usual = (OFFLINE_NDCG, ONLINE_SUM if len(lengths) == 1 else ONLINE_MEAN)
        names = dict.fromkeys(OFFLINE_NDCG if name == FINAL else name for name in metrics or usual)
        tested = {metric: of for name in names for metric, of in find_metric(systems, name).items()}
        if ONLINE_SUM in tested and len(lengths) > 1:
            counts = ", ".join(map(str, lengths))
            raise UsageError(f"--metric {ONLINE_SUM}: sums over {counts} rounds; expected {ONLINE_MEAN}")
        return cls(
            systems=[
                SYSTEM.of(each, system=each.name, folder=str(each.folder), runs=len(each.runs))
                for each in systems
            ],
            means=[_mean(each, metric) for metric, of in tested.items() for each in of],
            comparisons=[
                row for metric, of in tested.items() for row in _comparisons(of, metric, paired_only)
            ],
        )

    def show(self, console: Console) -> None:
        """Print the systems, and a table per metric."""
        numbers = {row["system"]: str(i) for i, row in enumerate(self.systems, start=1)}
        print_table(self._systems_table(numbers), console)
        for metric in dict.fromkeys(row["metric"] for row in self.comparisons):
            rows = [row for row in self.comparisons if row["metric"] == metric]
            console.print()
            print_table(_comparison_table(metric, rows, numbers), console)
            for pair in (_pair(row, numbers) for row in rows if math.isinf(row["effect_size"])):
                console.print(f"{pair}: the same difference in every pair, so p is 0", highlight=False)
        console.print()
        print_lines(_NOTES, console)

    def _systems_table(self, numbers: Mapping[str, str]) -> Table:
        cells = {
            (row["system"], row["metric"]): f"{_number(row['mean'])} +- {_number(row['sd'])}"
            for row in self.means
        }

        def metric_column(metric: str) -> Column:
            return Column(metric.replace("/", "\n"), lambda row: cells.get((row["system"], metric), "-"))

        columns = [
            Column("", lambda row: numbers[row["system"]]),
            *columns_of("system:fold; runs"),
            *map(metric_column, dict.fromkeys(row["metric"] for row in self.means)),
        ]
        return make_table("systems", columns, self.systems, caption="mean +- standard deviation over runs")


def _mean(system: RankingSystem, metric: str) -> Row:
    values = np.array([system.value(key, metric) for key in system.runs])
    sd = float(values.std(ddof=1)) if values.size > 1 else math.nan
    mean = float(values.mean())
    return MEAN.row({"metric": metric, "system": system.name, "runs": values.size, "mean": mean, "sd": sd})


def _comparisons(systems: Sequence[RankingSystem], metric: str, paired_only: bool) -> Iterator[Row]:
    pairs = list(combinations(systems, 2))
    tests = []
    for a, b in pairs:
        repetitions = match_runs(a, b, paired_only=paired_only)
        values = [np.array([each.value(key, metric) for key in repetitions]) for each in (a, b)]
        tests.append(paired_t_test(*values))
    for (a, b), test, p in zip(pairs, tests, bonferroni([test.p for test in tests]), strict=True):
        difference = Estimate(test.difference, test.ends)
        corrected: dict[str, Any] = {"p_bonferroni": p, "comparisons": len(pairs), "stars": stars(p)}
        yield COMPARISON.of(test, metric=metric, a=a.name, b=b.name, difference=difference, **corrected)


def _comparison_table(metric: str, rows: Sequence[Row], numbers: Mapping[str, str]) -> Table:
    def effect(row: Row) -> str:
        return "-" if math.isnan(row["effect_size"]) else f"{row['effect_size']:.2f}"

    columns = [
        Column("systems", lambda row: _pair(row, numbers), "name"),
        *columns_of("pairs"),
        Column("difference", lambda row: _number(row.number("difference"))),
        Column("95 %", lambda row: interval_text(row["difference"], 4)),
        Column("d_z", effect),
        Column("p", lambda row: _p(row["p"])),
        Column("p corrected", lambda row: _p(row["p_bonferroni"])),
        *columns_of("=stars:name"),
    ]
    return make_table(metric, columns, rows, spare=("d_z", "pairs", "95 %", "p"))


def _pair(row: Row, numbers: Mapping[str, str]) -> str:
    return f"{numbers[row['a']]} - {numbers[row['b']]}"


def _number(value: float) -> str:
    return short(value, 4) if not abs(value) >= 10 else f"{value:.2f}"


def _p(value: float) -> str:
    return "<.0001" if 0 < value < 0.00005 else short(value, 4)
