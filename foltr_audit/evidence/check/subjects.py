"""The subjects of a check of a comparison, one for each of its pools, and the attacks that a check names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

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
    ComparisonTable,
    chain_of,
    proof_of,
    read_table,
    warnings_of,
)
from foltr_audit.judge.protocol import not_for_clicks
from foltr_audit.utils.formatting import JsonValue, join_names, name_in
from foltr_audit.utils.progress import SILENT, Progress


@dataclass(frozen=True, kw_only=True)
class ComparedSubjects:
    """All pools of a finished comparison, those that are judged, its grid, and what is missing in it."""

    table: ComparisonTable
    chosen: Sequence[ComparedPool]
    config: dict[str, JsonValue]
    left_out: Sequence[GridExclusion] = ()
    failed: Mapping[Spec, str] = field(default_factory=dict)

    @classmethod
    def read(
        cls,
        folder: ComparisonFolder,
        defenses: Sequence[str] = (),
        eps: Sequence[float] = (),
        progress: Progress = SILENT,
    ) -> ComparedSubjects:
        """Read a comparison, of which only audits may have failed; its pools as in `chosen_pools`."""
        planned, left_out = folder.cells(), folder.left_out()
        specs = {cell.spec.hash: cell.spec for cell in planned}
        gaps = [(specs[str(gap.run)], gap.why) for gap in folder.failures()]
        failed = {spec: why for spec, why in gaps if spec.audit is not None}
        done = [cell for cell in planned if cell.spec not in failed]
        table = read_table(folder, planned, done, progress)
        return cls(
            table=table,
            chosen=chosen_pools(table, left_out, defenses, eps),
            config=folder.grid.public.table(),
            left_out=left_out,
            failed=failed,
        )

    def subjects(self, limits: SystemLimits, *, all_attacks: bool = False) -> list[CheckSubject]:
        """The chosen pools; `all_attacks` as in `CheckSubject`."""
        every = self.table.pools
        learners = len({pool.record.learner for pool in every}) > 1
        scenarios = len({pool.world[1] for pool in every}) > 1
        return [
            CheckSubject(
                name=_name(pool, learners, scenarios),
                chain=pool.chain,
                attacks=[record for record in pool.attacks if record.role == "attack"],
                refused=refusals(pool.refused),
                all_attacks=all_attacks,
                proof=proof_of(pool, limits.view),
                audits=pool.audits,
                ndcg=pool.ndcg,
                difference=pool.difference if pool.defended else NOTHING_LOST,
                missing=self._missing(pool),
                warnings=pool.record.warnings,
            )
            for pool in self.chosen
        ]

    def _missing(self, pool: ComparedPool) -> dict[Reason, str]:
        missing: dict[Reason, str] = {
            "loss": "there is no training without a defense to compare with",
            "proof": "the comparison holds no such proof",
        }
        if pool.unread:
            missing["attacks"] = "no round opens a sum, so that attacks have nothing to read"
        if not pool.audits:
            why = [left.why for left in self.left_out if left.defense in ("audit", pool.label.alternative)]
            chain = chain_of(pool.spec)
            why += [reason for spec, reason in self.failed.items() if chain_of(spec) == chain]
            known = "; ".join(dict.fromkeys(why)) or "no audit of it was run"
            ran = self.config.get("audit", True)
            missing["audits"] = missing["links"] = known if ran else "the comparison ran without audits"
        return missing

    def warnings(self) -> Iterator[CodedWarning]:
        """The warnings about the judged pools, and what the comparison left out."""
        names = {pool.name for pool in self.chosen}
        for pool in self.table.pools:
            if pool.name in names:
                yield from (warning.about(pool.name) for warning in warnings_of(pool))
        for left in self.left_out:
            yield coded("left out", f"left out of the comparison: {left.learner}, {left.defense}: {left.why}")


def chosen_pools(
    table: ComparisonTable,
    left_out: Sequence[GridExclusion] = (),
    defenses: Sequence[str] = (),
    eps: Sequence[float] = (),
) -> list[ComparedPool]:
    """The pools of some alternatives, as they were written, or of all except `none`; and of some epsilons.

    Alternatives without an epsilon are always chosen.

    Raises:
        UsageError: there is no such alternative or epsilon, or no pool is left.
    """
    known, there = table.alternatives, table.epsilons
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
        for pool in table.pools
        if pool.label.alternative in wanted and (not eps or pool.label.eps in (None, *eps))
    ]
    if not chosen:
        raise UsageError(
            "the comparison contains only the runs without a defense; choose them with --defense none"
        )
    return chosen


def _name(pool: ComparedPool, learners: bool, scenarios: bool) -> str:
    _, scenario, click_model = pool.world
    more = [pool.record.learner] * learners + [scenario] * scenarios
    return ", ".join((pool.name, f"{click_model} clicks", *more))


def check_comparison(
    limits: SystemLimits,
    path: Path,
    defenses: Sequence[str] = (),
    eps: Sequence[float] = (),
    progress: Progress = SILENT,
) -> Checked:
    """Check rows of a finished comparison, see `ComparedSubjects.read`."""
    compared = ComparedSubjects.read(ComparisonFolder.open(path), defenses, eps, progress)
    limits = limits.seen_by_server((compared.chosen[0].spec.attack or AttackSpec()).hide)
    return Checked(limits, compared.subjects(limits), compared.config, list(compared.warnings()))


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
