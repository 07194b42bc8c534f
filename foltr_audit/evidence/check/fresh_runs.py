"""Runs a new comparison for a check, with the given chains and no more cells than the limits need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.core.settings.audit import AuditSpec
from foltr_audit.core.settings.experiment import Spec, first_difference
from foltr_audit.errors import UsageError
from foltr_audit.evidence.check.limits import SystemLimits
from foltr_audit.evidence.check.outcomes import Checked
from foltr_audit.evidence.check.subjects import check_comparison, untried_warnings
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.comparison.grid import CellPlan, ComparisonGrid, GridExpansion
from foltr_audit.experiments.comparison.runner import failure_error, run_cells
from foltr_audit.experiments.comparison.workers import Workers
from foltr_audit.experiments.plan import Plan
from foltr_audit.experiments.runner import Runner
from foltr_audit.utils.progress import SILENT, Progress


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
        table: dict[str, Any] = dict(specs[0].table())
        shared = {name: dict(table[name]) for name in ("data", "population", "train", "trace", "attack")}
        for outer, inner in _VARIED:
            del shared[outer][inner]
        # Without attacks the grid takes the default ones of each cell.
        protocols = [(spec.attack or AttackSpec(), spec.attacked_kind) for spec in specs]
        by_default = all(
            protocol.defaults_on(kind) == spec.attacks
            for (protocol, kind), spec in zip(protocols, specs, strict=True)
        )
        folds = dict(sorted({spec.repetition: spec.data.fold for spec in specs}.items()))
        named: Any = self.audit.get("views", AuditSpec().views) if limits.no_refuted_claims else ()
        views = _distinct((*named, limits.view))
        grid: dict[str, object] = {
            "runs": len(folds),
            "defenses": self.defenses,
            "sensitivity": self.sensitivity,
            "attacks": () if by_default else specs[0].attacks,
            "click_models": _distinct(spec.train.click_model for spec in specs),
            "learners": _distinct(spec.train.learner for spec in specs),
            "scenarios": _distinct(spec.population.scenario for spec in specs),
            "folds": _distinct(folds.values()),
            "audit": bool(limits.audited),
            "every_observer": False,
            "spec": {**shared, "seed": table["seed"], "audit": {**self.audit, "views": views}},
        }
        return ComparisonGrid.parse(grid | ({"eps": self.eps} if self.eps else {}))


_VARIED = (
    *(("data", "fold"), ("population", "scenario"), ("train", "learner"), ("train", "click_model")),
    *(("attack", "click_models"), ("attack", "methods")),
)
"""Fields of a Spec that are axes of a grid."""


def _distinct(values: Iterable[object]) -> list[object]:
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
    checked = check_comparison(limits, folder, grid.defenses, progress=progress, all_attacks=not every)
    untried = untried_warnings(request.plan) if limits.max_attack_auc is not None else ()
    return checked._replace(warnings=[*untried, *checked.warnings])


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
