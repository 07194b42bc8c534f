"""Checks of a comparison: a subject for each of its pools; and the attacks that a check names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from foltr_audit.core.plugins import Attack
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.core.settings.defaults import NO_DEFENSE
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.core.warning_kinds import CodedWarning, coded
from foltr_audit.errors import UsageError, suggest_name
from foltr_audit.evidence.check.limits import SystemLimits
from foltr_audit.evidence.check.outcomes import Checked, CheckSubject, Reason
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.comparison.grid import GridExclusion
from foltr_audit.experiments.plan import Plan
from foltr_audit.experiments.table import (
    NOTHING_LOST,
    ComparedPool,
    chain_of,
    read_pools,
    warnings_of,
)
from foltr_audit.judge.protocol import not_for_clicks
from foltr_audit.utils.formatting import JsonValue, join_names, name_in
from foltr_audit.utils.progress import SILENT, Progress


def check_comparison(
    limits: SystemLimits,
    folder: ComparisonFolder,
    defenses: Sequence[str] = (),
    eps: Sequence[float] = (),
    progress: Progress = SILENT,
    *,
    all_attacks: bool = False,
) -> Checked:
    """Check pools of a comparison, see `chosen_pools`, of which only audits may have failed.

    `all_attacks` as in `CheckSubject`.
    """
    planned, left_out = folder.cells(), folder.left_out()
    specs = {cell.spec.hash: cell.spec for cell in planned}
    gaps = [(specs[str(gap.run)], gap.why) for gap in folder.failures()]
    failed = {spec: why for spec, why in gaps if spec.audit is not None}
    pools = read_pools(folder, planned, [cell for cell in planned if cell.spec not in failed], progress)
    chosen = chosen_pools(pools, left_out, defenses, eps)
    limits = limits.seen_by_server((chosen[0].spec.attack or AttackSpec()).hide)
    config = folder.grid.public.table()
    return checked_pools(limits, pools, chosen, config, left_out, failed, all_attacks=all_attacks)


def checked_pools(
    limits: SystemLimits,
    pools: Sequence[ComparedPool],
    chosen: Sequence[ComparedPool],
    config: Mapping[str, JsonValue],
    left_out: Sequence[GridExclusion] = (),
    failed: Mapping[Spec, str] = MappingProxyType({}),
    *,
    all_attacks: bool = False,
) -> Checked:
    """A subject for each chosen pool; `failed` are the audits that failed, and why."""
    several = {
        "learner": len({pool.record.learner for pool in pools}) > 1,
        "scenario": len({pool.world[1] for pool in pools}) > 1,
    }
    subjects = []
    for pool in chosen:
        _, scenario, click_model = pool.world
        names = [pool.name, f"{click_model} clicks"]
        names += [pool.record.learner] * several["learner"] + [scenario] * several["scenario"]
        missing: dict[Reason, str] = {
            "loss": "there is no training without a defense to compare with",
            "proof": "the comparison holds no such proof",
        }
        if pool.unread:
            missing["attacks"] = "no round opens a sum, so that attacks have nothing to read"
        if not pool.audits:
            why = [left.why for left in left_out if left.defense in ("audit", pool.label.alternative)]
            why += [reason for spec, reason in failed.items() if chain_of(spec) == chain_of(pool.spec)]
            known = "; ".join(dict.fromkeys(why)) or "no audit of it was run"
            ran = config.get("audit", True)
            missing["audits"] = missing["links"] = known if ran else "the comparison ran without audits"
        subjects.append(
            CheckSubject(
                name=", ".join(names),
                chain=pool.chain,
                attacks=[record for record in pool.attacks if record.role == "attack"],
                refused=refusals(pool.refused),
                all_attacks=all_attacks,
                proof=pool.proof(limits.view),
                audits=pool.audits,
                ndcg=pool.ndcg,
                difference=pool.difference if pool.defended else NOTHING_LOST,
                missing=missing,
                warnings=pool.record.warnings,
            )
        )
    judged = {pool.name for pool in chosen}
    warnings = [
        warning.about(pool.name) for pool in pools if pool.name in judged for warning in warnings_of(pool)
    ]
    warnings += [
        coded("left out", f"left out of the comparison: {left.learner}, {left.defense}: {left.why}")
        for left in left_out
    ]
    return Checked(limits, subjects, config, warnings)


def chosen_pools(
    pools: Sequence[ComparedPool],
    left_out: Sequence[GridExclusion] = (),
    defenses: Sequence[str] = (),
    eps: Sequence[float] = (),
) -> list[ComparedPool]:
    """The pools of some alternatives, as they were written, or of all except `none`; and of some epsilons.

    Alternatives without an epsilon are always chosen.

    Raises:
        UsageError: there is no such alternative or epsilon, or no pool is left.
    """
    known = list(dict.fromkeys(pool.label.alternative for pool in pools))
    there = sorted({pool.label.eps for pool in pools if pool.label.eps is not None})
    why_left = {row.defense: row.why for row in left_out}
    for name in defenses:
        if name not in known:
            why = f"left out: {why_left[name]}" if name in why_left else suggest_name(name, known)
            raise UsageError(f"--defense: {name!r} is not a defense of this comparison; {why}")
    for value in eps:
        if value not in there:
            listed = ", ".join(f"{one:g}" for one in there) or "none"
            raise UsageError(
                f"--eps: {value:g} is not an epsilon of this comparison; expected one of {listed}"
            )
    wanted = defenses or [name for name in known if name != NO_DEFENSE]
    chosen = [
        pool
        for pool in pools
        if pool.label.alternative in wanted and (not eps or pool.label.eps in (None, *eps))
    ]
    if not chosen:
        raise UsageError(
            "the comparison contains only the runs without a defense; choose them with --defense none"
        )
    return chosen


def click_attacks(methods: Sequence[str], *, every: bool) -> tuple[str, ...]:
    """The attacks among some that infer clicks; with `every` the others are skipped, else refused."""
    problems = {text: not_for_clicks([make(Attack, text)]) for text in methods}
    for problem in () if every else problems.values():
        for name, why in problem.items():
            raise UsageError(f"--method {name}: {why}; expected attacks that max_attack_auc can be judged by")
    return tuple(text for text in methods if not problems[text])


def untried_warnings(plan: Plan) -> Iterator[CodedWarning]:
    """A warning if attacks were named and a default one for the kind of messages is not among them."""
    for protocol, kind in ((spec.attack, spec.attacked_kind) for spec in plan.specs):
        if protocol is not None:
            ran = {name_in(text) for text in protocol.methods_on(kind)}
            usual = [make(Attack, text) for text in protocol.defaults_on(kind)]
            missing = [attack.label for attack in usual if attack.name not in ran]
            if missing:
                yield coded(
                    "untried attacks",
                    f"max_attack_auc is not judged by {join_names(missing, 'or')}, which were not tried; "
                    "leave out --method to judge by them too",
                )


def refusals(reasons: Mapping[str, str]) -> dict[str, str]:
    """Why attacks could not run, by their names; baselines are left out."""
    return {name: why for name, why in reasons.items() if not make(Attack, name).baseline}
