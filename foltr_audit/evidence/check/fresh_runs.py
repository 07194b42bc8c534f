"""Runs a new comparison for a check, with the given chains and no more cells than the limits need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar, cast

from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.core.settings.audit import AuditSpec, AuditView
from foltr_audit.core.settings.experiment import Spec, first_difference
from foltr_audit.errors import UsageError
from foltr_audit.evidence.check.limits import SystemLimits
from foltr_audit.evidence.check.outcomes import Checked
from foltr_audit.evidence.check.subjects import ComparedSubjects, untried_warnings
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.comparison.grid import CellPlan, ComparisonGrid, GridExpansion
from foltr_audit.experiments.comparison.runner import failure_error, run_cells
from foltr_audit.experiments.comparison.workers import Workers
from foltr_audit.experiments.plan import Plan
from foltr_audit.experiments.runner import Runner
from foltr_audit.utils.progress import SILENT, Progress

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class CheckRunRequest:
    """The runs of a check.

    Attributes:
        plan: a Spec for each learner, click model, chain and repetition; users click the same way in training
            and attack.
        defenses: the chains as alternatives of a comparison.
        eps, sensitivity: of the published chain.
        audit: fields of the audit protocol.
    """

    plan: Plan
    defenses: tuple[str, ...]
    eps: tuple[float, ...] = ()
    sensitivity: float | None = None
    audit: dict[str, object] = field(default_factory=dict)

    def grid(self, limits: SystemLimits) -> ComparisonGrid:
        """The grid of a comparison with these cells; it audits only if a limit needs it."""
        specs = self.plan.specs
        table = specs[0].table()
        shared = {
            name: dict(cast("dict[str, object]", table[name]))
            for name in ("data", "population", "train", "trace", "attack")
        }
        folds = {spec.repetition: spec.data.fold for spec in specs}
        for outer, inner in _VARIED:
            del shared[outer][inner]
        named = self.audit.get("views", AuditSpec().views) if limits.no_refuted_claims else ()
        views = _each([*cast("Sequence[AuditView]", named), limits.view])
        grid: dict[str, object] = {
            "runs": len(folds),
            "defenses": self.defenses,
            "sensitivity": self.sensitivity,
            "attacks": _attacks(specs),
            "click_models": _each(spec.train.click_model for spec in specs),
            "learners": _each(spec.train.learner for spec in specs),
            "scenarios": _each(spec.population.scenario for spec in specs),
            "folds": _each(folds[run] for run in sorted(folds)),
            "audit": bool(limits.audited),
            "every_observer": False,
            "spec": {**shared, "seed": table["seed"], "audit": {**self.audit, "views": views}},
        }
        if self.eps:
            grid["eps"] = self.eps
        return ComparisonGrid.parse(grid)


_VARIED = (
    ("data", "fold"),
    ("population", "scenario"),
    ("train", "learner"),
    ("train", "click_model"),
    ("attack", "click_models"),
    ("attack", "methods"),
)
"""Fields of a Spec that are axes of a grid."""


def _attacks(specs: Sequence[Spec]) -> tuple[str, ...]:
    """The attacks as a grid names them: none if each Spec has its default ones."""
    protocols = [(spec.attack or AttackSpec(), spec.attacked_kind) for spec in specs]
    unnamed = [protocol.defaults_on(kind) for protocol, kind in protocols]
    return () if unnamed == [spec.attacks for spec in specs] else specs[0].attacks


def _each(values: Iterable[T]) -> list[T]:
    return list(dict.fromkeys(values))


def check_fresh(
    limits: SystemLimits,
    request: CheckRunRequest,
    folder: ComparisonFolder,
    progress: Progress = SILENT,
    *,
    named: bool,
    every: bool,
) -> Checked:
    """Run a request into a folder, and hold what it finds against the limits.

    Unless attacks are `named`, the default ones run too; `every` says that these are all attacks there are,
    of which some may not fit. A `UsageError` says that a cell cannot run.
    """
    if not named:
        plan = Plan(tuple(spec.with_strong_attacks() for spec in request.plan.specs))
        request = replace(request, plan=plan)
    limits = limits.seen_by_server((request.plan.specs[0].attack or AttackSpec()).hide)
    grid = request.grid(limits)
    runner = Runner(with_undefended=False)
    expansion = GridExpansion(grid, runner, {})
    twins = limits.max_ndcg_loss is not None  # the undefended trainings that a loss is compared with
    cells = [
        cell
        for cell in expansion.cells()
        if cell.label.alternative in grid.defenses or (twins and cell.kind == "attack")
    ]
    for left in expansion.left_out:
        if left.defense != "audit":  # a limit that needs an audit is not judged
            raise UsageError(f"{left.defense} cannot be judged: {left.why}")
    _refuse_other_specs(cells, request)
    folder.save_index(grid, cells, list(expansion.left_out))
    failed = run_cells([cell.spec for cell in cells], folder, Workers(jobs=1), progress)
    specs = {cell.spec.hash: cell.spec for cell in cells}
    for gap in failed:
        spec = specs[str(gap.run)]
        if spec.audit is None or gap.exit_code != UsageError.exit_code:
            names = ", ".join(limits.given if spec.audit is None else limits.audited)
            raise failure_error(gap, f"{names} cannot be judged: {'+'.join(spec.defense)}: ")
    compared = ComparedSubjects.read(folder, grid.defenses, progress=progress)
    untried = untried_warnings(request.plan) if limits.max_attack_auc is not None else ()
    warnings = [*untried, *compared.warnings()]
    return Checked(limits, compared.subjects(limits, all_attacks=not every), compared.config, warnings)


def _refuse_other_specs(cells: Sequence[CellPlan], request: CheckRunRequest) -> None:
    """Refuse Specs of a --config that are not a grid: the grid would judge other Specs than these."""
    made = {_bare(cell.spec) for cell in cells if cell.kind == "attack"}
    for spec in request.plan.specs:
        if _bare(spec) not in made:
            difference = first_difference(_bare(spec), next(iter(made)))
            raise UsageError(
                "--config: its cells may differ in learner, scenario, click model, defense, repetition and "
                f"fold, in all combinations; expected no other difference: {difference}"
            )


def _bare(spec: Spec) -> Spec:
    """A Spec that records no messages and is not audited, as in a comparison."""
    return spec.model_copy(update={"trace": spec.trace.model_copy(update={"every": 0}), "audit": None})
