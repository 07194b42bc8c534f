"""The report of `membership`: its rows and tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rich.markup import escape

from foltr_audit.core.results import Estimate
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.core.settings.membership import MembershipSpec
from foltr_audit.core.warning_kinds import warning_code
from foltr_audit.experiments.membership import MembershipFinding
from foltr_audit.experiments.plan import Plan
from foltr_audit.experiments.run import Run
from foltr_audit.judge.scoring import FALSE_POSITIVES
from foltr_audit.report.render.terminal import print_table
from foltr_audit.report.results.base import (
    DatasetFacts,
    Report,
    Setting,
    WarningRow,
    groups,
    setting_label,
    utility_rows,
    warning_rows,
)
from foltr_audit.report.tables.columns import (
    dataset_line,
    estimate_column,
    no_relevant,
    systems_of,
    utility_table,
)
from foltr_audit.report.tables.table import Cell, Column, Table, make_table
from foltr_audit.utils.formatting import short
from foltr_audit.utils.rows import ResultRow, column

if TYPE_CHECKING:
    from rich.console import Console


CHANCE = {"auc": 0.5} | {name: 1.0 / one_in for name, one_in in FALSE_POSITIVES.items()}
"""What guessing reaches."""


@dataclass(frozen=True, kw_only=True)
class MembershipMetric(ResultRow):
    """A metric of an attack on membership.

    Attributes:
        found: what the attack reaches.
        chance: what guessing reaches.
        ceiling: the most that the proof leaves to any attack; None where nothing is proven.
    """

    found: Estimate = column("")
    chance: float = column("_chance")
    ceiling: float | None = column("_ceiling")

    @property
    def broken(self) -> bool:
        """Whether the whole interval lies above the ceiling."""
        ends = self.found.ci95
        return self.ceiling is not None and ends is not None and ends[0] > self.ceiling


@dataclass(frozen=True, kw_only=True)
class MembershipRow(ResultRow):
    """How well one attack tells members from others in a run.

    Attributes:
        setting: what was run.
        run: its repetition.
        view, of, method: see `MembershipSpec`.
        observed: what the observer sees, in words.
        members: number of members of a federation.
        candidates: number of clients that are told to be members or not, half of which are.
        federations: number of attacked federations, each with all others as shadows.
        rounds: number of rounds of each.
        auc: area under the ROC curve.
        tpr_at_1, tpr_at_01: true positive rate at a false positive rate of 1 % and of 0.1 %.
        eps_upper: proven epsilon of one client over all rounds, infinite where nothing is proven.
        delta: its delta.
        upper_how: how it was proven, or why nothing is.
    """

    setting: Setting = column(embedded=True)
    run: int
    view: str
    of: str
    method: str
    observed: str
    members: int
    candidates: int
    federations: int
    rounds: int
    auc: MembershipMetric = column("auc", embedded=True)
    tpr_at_1: MembershipMetric = column("tpr_at_1", embedded=True)
    tpr_at_01: MembershipMetric = column("tpr_at_01", embedded=True)
    eps_upper: float
    delta: float
    upper_how: str

    @classmethod
    def of_finding(cls, finding: MembershipFinding, setting: Setting, spec: Spec) -> MembershipRow:
        """The columns of a finding of a run."""
        protocol = spec.membership or MembershipSpec()
        limit = finding.ceiling
        metrics = {
            name: MembershipMetric(found=estimate, chance=CHANCE[name], ceiling=limit.metrics.get(name))
            for name, estimate in finding.metrics.items()
        }
        return cls(
            setting=setting,
            run=spec.repetition,
            view=finding.view,
            of=protocol.of,
            method=finding.method,
            observed=_observed(finding.view, protocol.rounds_seen, spec.train.rounds),
            members=finding.members,
            candidates=finding.candidates,
            federations=finding.federations,
            rounds=spec.train.rounds,
            auc=metrics["auc"],
            tpr_at_1=metrics["tpr_at_1"],
            tpr_at_01=metrics["tpr_at_01"],
            eps_upper=limit.bound.epsilon,
            delta=limit.bound.delta,
            upper_how=limit.bound.how,
        )


@dataclass(frozen=True, kw_only=True)
class MembershipReport(Report):
    """The result of `membership`.

    Attributes:
        results: one row per setting, run, view and method.
    """

    SCHEMA: ClassVar[str] = "foltr-audit/membership/1"

    results: tuple[MembershipRow, ...]

    def show(self, console: Console) -> None:
        """Print the whole report on a console of rich."""
        print_membership(self, console)

    @classmethod
    def of(cls, plan: Plan, cells: Sequence[Run]) -> MembershipReport:
        rows = tuple(
            MembershipRow.of_finding(finding, group.setting, cell.spec)
            for group in groups(cells)
            for cell in group.cells
            for finding in cell.membership
        )
        return cls(
            config=plan.public.table(),
            dataset=DatasetFacts.of([cell.data for cell in cells]),
            utility=utility_rows(cells),
            warnings=(*warning_rows(cells), *_contradictions(rows)),
            results=rows,
        )


def _observed(view: str, seen: int | None, rounds: int) -> str:
    """What the observer of a view sees, in words."""
    if view == "released":
        return "first and trained model"
    return "every global model" if seen is None or seen >= rounds else f"last {seen + 1} global models"


def _contradictions(rows: Sequence[MembershipRow]) -> Iterator[WarningRow]:
    """A warning for each metric whose whole interval lies above its ceiling."""
    for row in rows:
        for name in CHANCE:
            metric: MembershipMetric = getattr(row, name)
            if metric.broken:
                yield WarningRow(
                    defense=row.setting.defense,
                    code=warning_code("above ceiling"),
                    warning=f"{row.method}, {row.observed}: {name} {metric.found.value:.3g} lies above the "
                    f"ceiling {metric.ceiling:.3g}: one such interval in 40 does by chance; if not, the "
                    "proof is wrong: repeat it with another --seed and more --shadows",
                )


_KNOWN = {
    "client": "the queries of a candidate are known",
    "log": "the queries of a candidate, and the draws behind its lists and clicks, are known",
}


def print_membership(report: MembershipReport, console: Console) -> None:
    """The whole report: data, a table per setting, what is proven, utility, and what it all means."""
    console.print(dataset_line(report.dataset, report.config, systems_of(report.results)))
    settings = list(dict.fromkeys(_key(row) for row in report.results))
    for setting in settings:
        rows = [row for row in report.results if _key(row) == setting]
        print_table(_table(rows, several=len(settings) > 1, report=report), console)
        for line in _proofs(rows):
            console.print(escape(line), highlight=False)
        console.print()
    print_table(utility_table(report.utility, no_relevant(report.config)), console)
    console.print()
    for line in conclusions(report.results):
        console.print(escape(line), style="bold", highlight=False)


def _key(row: MembershipRow) -> str:
    return str(row.setting)


def _table(rows: Sequence[MembershipRow], *, several: bool, report: MembershipReport) -> Table:
    first, runs = rows[0], len({row.run for row in rows}) > 1
    every = [row.setting for row in report.results]
    label = setting_label(first.setting, every) if several else ""
    label = "" if first.setting.defense.startswith(label) else f"{label}\n"
    columns: list[Column[MembershipRow]] = [
        Column("sees", lambda row: row.observed, "words"),
        *([Column[MembershipRow]("run", lambda row: str(row.run))] if runs else []),
        Column("method", lambda row: row.method, "name"),
        *_columns("AUC", lambda row: row.auc),
        *_columns("TPR at 1 %", lambda row: row.tpr_at_1),
        *_columns("TPR at .1 %", lambda row: row.tpr_at_01),
    ]
    chances = [short(metric.chance) for metric in (first.auc, first.tpr_at_1, first.tpr_at_01)]
    return make_table(
        f"{label}{first.setting.defense}\n"
        f"members among {first.candidates} candidates, {first.members} of them in a federation",
        columns,
        rows,
        caption=f"{first.federations} federations of {first.rounds} rounds, each attacked with the others as "
        f"shadows; {_KNOWN[first.of]}. TPR: members that are named, at 1 % and at .1 % false alarms. Below "
        f"each value: its 95 % interval. Chance: {', '.join(chances[:2])} and {chances[2]}. Ceiling: the "
        "most that the proof leaves to any attack.",
        section=lambda row: row.view,
    )


def _columns(
    name: str, metric: Callable[[MembershipRow], MembershipMetric]
) -> tuple[Column[MembershipRow], Column[MembershipRow]]:
    def ceiling(row: MembershipRow) -> Cell:
        of_row = metric(row)
        text = "none" if of_row.ceiling is None else short(of_row.ceiling)
        return Cell(text, mark="bad" if of_row.broken else "")

    return estimate_column(name, lambda row: metric(row).found), Column("ceiling", ceiling)


def _proofs(rows: Sequence[MembershipRow]) -> Iterator[str]:
    """What is proven for each view, once."""
    for row in {row.view: row for row in rows}.values():
        of = f"one client over {row.rounds} round{'s' * (row.rounds > 1)}"
        if math.isinf(row.eps_upper):
            yield f"{row.observed}: nothing is proven of {of}: {row.upper_how}"
        else:
            delta = f", delta {row.delta:g}" if row.delta else ""
            yield f"{row.observed}: epsilon {row.eps_upper:.3g}{delta} of {of}: {row.upper_how}"


def conclusions(rows: Sequence[MembershipRow]) -> Iterator[str]:
    """What the attacks show together: a sentence for each setting and view."""
    settings = [row.setting for row in rows]
    for key in dict.fromkeys((_key(row), row.view) for row in rows):
        of_view = [row for row in rows if (_key(row), row.view) == key]
        best = max(of_view, key=lambda row: row.auc.found.value)
        vary = len({str(setting) for setting in settings}) > 1
        where = f"{setting_label(best.setting, settings)}: " if vary else ""
        yield f"{where}{best.observed}: {_shown(best)}."


def _shown(row: MembershipRow) -> str:
    ends = row.auc.found.ci95
    if ends is None:
        return "too few federations to tell"
    if ends[0] <= row.auc.chance:
        return "no attack tells members from others better than chance"
    value = row.tpr_at_1.found.value
    return (
        f"{row.method} tells members from others, AUC {short(row.auc.found.value)}; it names "
        f"{100 * value:.3g} % of them with 1 % false alarms"
    )
