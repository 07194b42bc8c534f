"""What attacks on membership found: one row per setting, run, view and method."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from foltr_audit.core.settings.experiment import Spec
from foltr_audit.core.settings.membership import MembershipSpec
from foltr_audit.core.warning_codes import warning_code
from foltr_audit.experiments.membership.experiment import MembershipFinding
from foltr_audit.experiments.plan import Plan
from foltr_audit.experiments.runner import RunResult
from foltr_audit.judge.scoring import FALSE_POSITIVES
from foltr_audit.report.results.base import (
    DatasetFacts,
    Report,
    Setting,
    WarningRow,
    groups,
    utility_rows,
    warning_rows,
)
from foltr_audit.utils.rows import Estimate, ResultRow, column

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
            name: MembershipMetric(found=found, chance=CHANCE[name], ceiling=limit.metrics.get(name))
            for name, found in finding.metrics.items()
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
        from foltr_audit.report.tables.membership import print_membership

        print_membership(self, console)

    @classmethod
    def of(cls, plan: Plan, cells: Sequence[RunResult]) -> MembershipReport:
        """The report on the cells of a plan."""
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
