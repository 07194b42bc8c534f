"""The report of `study membership`: its rows, tables and conclusions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from foltr_audit.core.settings.experiment import Spec
from foltr_audit.core.settings.membership import MembershipSpec
from foltr_audit.experiments.membership import CHANCE, MembershipFinding, lies_above
from foltr_audit.experiments.plan import Plan
from foltr_audit.experiments.run import Run
from foltr_audit.report.documents import Row, Section, nested
from foltr_audit.report.plan_report import PlanReport
from foltr_audit.report.settings import (
    SETTING,
    Setting,
    by_setting,
    each_run,
    no_relevant,
    setting_label,
    setting_title,
    utility_table,
    warning_row,
)
from foltr_audit.report.table import Cell, Column, Table, counted, make_table, value_cell
from foltr_audit.report.terminal import print_table
from foltr_audit.utils.formatting import short

if TYPE_CHECKING:
    from rich.console import Console

MEMBERSHIP = Section(
    SETTING,
    "run:int view of method observed members:int candidates:int federations:int rounds:int",
    *(f"{name}:est {name}_chance:num {name}_ceiling:num|null" for name in CHANCE),
    "eps_upper:num delta:num upper_how",
)
"""An attack on one view of a run; each metric beside chance and beside the most that the proof leaves to any
attack; and what is proven of one client over all rounds."""

_HEADERS = {"auc": "AUC", "tpr_at_1": "TPR at 1 %", "tpr_at_01": "TPR at .1 %"}
_KNOWN = {
    "client": "the queries of a candidate are known",
    "log": "the queries of a candidate, and the draws behind its lists and clicks, are known",
}


@dataclass(frozen=True, kw_only=True)
class MembershipReport(PlanReport):
    """The result of `membership`.

    Attributes:
        results: one row per setting, run, view and method.
    """

    SCHEMA = "foltr-audit/membership/1"
    FIELDS = Section(PlanReport.SHARED, nested("results", MEMBERSHIP))

    results: tuple[Row, ...]

    @classmethod
    def of(cls, plan: Plan, runs: Sequence[Run]) -> MembershipReport:
        findings = [
            (setting, run.spec, finding) for setting, run in each_run(runs) for finding in run.membership
        ]
        shared = cls.shared(plan, runs)
        shared["warnings"] += tuple(
            warning_row(warning, setting.defense)
            for setting, _, finding in findings
            for warning in finding.contradictions()
        )
        return cls(**shared, results=tuple(_row(*each) for each in findings))

    def show(self, console: Console) -> None:
        """Print the data, a table for each setting and what is proven, utility, and what it all means."""
        console.print(self.about)
        settings = by_setting(self.results)
        for rows in settings:
            print_table(_table(rows, self.results), console)
            for line in _proofs(rows):
                console.print(escape(line), highlight=False)
            console.print()
        print_table(utility_table(self.utility, no_relevant(self.config)), console)
        console.print()
        for line in _conclusions(self.results):
            console.print(escape(line), style="bold", highlight=False)


def _row(setting: Setting, spec: Spec, finding: MembershipFinding) -> Row:
    metrics: dict[str, Any] = {}
    for name, chance in CHANCE.items():
        limit = finding.ceiling.metrics.get(name)
        metrics |= {name: finding.metrics[name], f"{name}_chance": chance, f"{name}_ceiling": limit}
    bound = finding.ceiling.bound
    return MEMBERSHIP.of(
        finding,
        setting,
        run=spec.repetition,
        of=(spec.membership or MembershipSpec()).of,
        rounds=spec.train.rounds,
        **metrics,
        eps_upper=bound.epsilon,
        delta=bound.delta,
        upper_how=bound.how,
    )


def _table(rows: Sequence[Row], every: Sequence[Row]) -> Table:
    first, runs = rows[0], len({row["run"] for row in rows}) > 1
    chances = [short(chance) for chance in CHANCE.values()]
    return make_table(
        f"{setting_title(first.setting, [row.setting for row in every])}\n"
        f"members among {first['candidates']} candidates, {first['members']} of them in a federation",
        [
            Column("sees", "observed", "words"),
            *([Column("run", "run")] if runs else []),
            Column("method", "method", "name"),
            *(column for name in CHANCE for column in (Column(_HEADERS[name], name), _ceiling(name))),
        ],
        rows,
        caption=f"{first['federations']} federations of {counted(first['rounds'], 'round')}, each attacked "
        f"with the others as shadows; {_KNOWN[first['of']]}. TPR: share of members named at 1 % and at .1 % "
        f"false alarms. In brackets: 95 % intervals. Chance: {', '.join(chances[:2])} and {chances[2]}. "
        "Ceiling: the most that the proof leaves to any attack; a dash where nothing is proven",
        section=lambda row: row["view"],
    )


def _ceiling(name: str) -> Column:
    def cell(row: Row) -> Cell:
        limit = row[f"{name}_ceiling"]
        return value_cell(limit)._replace(mark="bad" if lies_above(row[name], limit) else "")

    return Column("ceil-\ning", cell)


def _proofs(rows: Sequence[Row]) -> Iterator[str]:
    """What is proven for each view, once."""
    for row in {row["view"]: row for row in rows}.values():
        of = f"one client over {counted(row['rounds'], 'round')}"
        if math.isinf(row["eps_upper"]):
            yield f"{row['observed']}: nothing is proven of {of}: {row['upper_how']}"
        else:
            delta = f", delta {row['delta']:g}" if row["delta"] else ""
            yield f"{row['observed']}: epsilon {row['eps_upper']:.3g}{delta} of {of}: {row['upper_how']}"


def _conclusions(rows: Sequence[Row]) -> Iterator[str]:
    """What the attacks show together: a sentence for each setting and view."""
    settings = [of_setting[0].setting for of_setting in by_setting(rows)]
    for of_setting in by_setting(rows):
        for view in dict.fromkeys(row["view"] for row in of_setting):
            best = max((row for row in of_setting if row["view"] == view), key=lambda row: row.number("auc"))
            where = f"{setting_label(best.setting, settings)}: " if len(settings) > 1 else ""
            yield f"{where}{best['observed']}: {_shown(best)}."


def _shown(row: Row) -> str:
    ends = row["auc"].ci95
    if ends is None:
        return "too few federations to tell"
    if ends[0] <= CHANCE["auc"]:
        return "no attack tells members from others better than chance"
    return (
        f"{row['method']} tells members from others, AUC {short(row.number('auc'))}; it names "
        f"{100 * row.number('tpr_at_1'):.3g} % of them with 1 % false alarms"
    )
