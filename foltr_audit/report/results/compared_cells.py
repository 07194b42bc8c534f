"""The cells of one defense in one world, and what a comparison says of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from foltr_audit.auditing.verdict import CONTRADICTION, FALSE
from foltr_audit.core.ranking_metrics import OFFLINE_NDCG, ONLINE_NDCG, mean_of_rounds
from foltr_audit.core.settings.local_paths import path_name
from foltr_audit.core.warning_codes import CodedWarning
from foltr_audit.experiments.comparison.alternatives import DefenseAlternative
from foltr_audit.experiments.comparison.cells import CellRecord
from foltr_audit.experiments.comparison.expansion import DefenseLabel
from foltr_audit.experiments.comparison.facts import AuditFacts, CellFacts
from foltr_audit.judge.bootstrap import QueryBootstrap
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.judge.significance import mean_interval, paired_t_test
from foltr_audit.privacy.observer_views import VIEWS, sees, sees_lists
from foltr_audit.report.results.attack_rows import scored
from foltr_audit.report.results.compare_rows import (
    AuditedView,
    ClaimRow,
    ComparedAttackRow,
    ComparedGroupRow,
    ComparedRefusal,
    ComparedSetting,
    ComparedWarningRow,
    CompareRow,
    CurveRow,
    ServedRow,
    ViewCeiling,
)
from foltr_audit.report.results.group_success import scored_groups
from foltr_audit.report.results.pareto import ByQuery
from foltr_audit.report.results.whole_run import RunBoundRow
from foltr_audit.rng import Streams
from foltr_audit.simulation.intent_metrics import evaluated_on
from foltr_audit.utils.arrays import Floats
from foltr_audit.utils.rows import UNKNOWN, Estimate

NOISE_SHARES = "FA102"
"""The warning of a message, or a sum, that holds only a part of the noise."""


@dataclass(frozen=True, kw_only=True)
class CellGroup:
    """The cells of one defense in one world: they differ in repetition and fold only.

    Attributes:
        label: the defense's name.
        cells: the attacked cells.
        findings: what the audit of its claim found; empty without one.
    """

    label: DefenseLabel
    cells: list[CellRecord]
    findings: Sequence[AuditFacts] = ()

    @cached_property
    def setting(self) -> ComparedSetting:
        """The columns that name its rows."""
        spec, facts, label = self.cells[0].spec, self.cells[0].facts, self.label
        # The epsilon that the chain is proven for if its name promises a proof, else what its parts claim
        promised = DefenseAlternative(label.alternative).proven(label.eps, 0.0)
        return ComparedSetting(
            data=path_name(spec.data.source),
            scenario=spec.population.scenario,
            click_model=spec.train.click_model,
            learner=facts.learner,
            pdgd=facts.pdgd,
            name=label.text,
            alternative=label.alternative,
            eps=label.eps,
            sensitivity=label.sensitivity,
            defense="+".join(spec.defense),
            eps_claimed=float(facts.eps_claimed if promised is None else promised["claim"]),
            runs=len(self.cells),
        )

    @property
    def facts(self) -> list[CellFacts]:
        """The facts of each cell."""
        return [cell.facts for cell in self.cells]

    @property
    def streams(self) -> Streams:
        """Streams of the bootstrap."""
        return Streams(self.cells[0].spec.seed)

    @cached_property
    def evidence(self) -> ClickEvidence | None:
        """The judged lists of all repetitions."""
        pieces = [cell.evidence for cell in self.cells if cell.evidence is not None]
        return ClickEvidence.combined(pieces) if pieces else None

    def paired(self, other: CellGroup) -> tuple[CellGroup, CellGroup]:
        """This group and another one with the repetitions that both have, in the same order."""
        mine, theirs = self._by_run(), other._by_run()
        if list(mine) == list(theirs):
            return self, other
        both = [run for run in mine if run in theirs]
        return (
            replace(self, cells=[mine[run] for run in both]),
            replace(other, cells=[theirs[run] for run in both]),
        )

    def _by_run(self) -> dict[tuple[int, int], CellRecord]:
        return {(cell.spec.repetition, cell.spec.data.fold): cell for cell in self.cells}

    @cached_property
    def query_ndcg(self) -> ByQuery:
        """Names of the evaluated queries that count, by fold, and their nDCG, a mean over repetitions."""
        found: dict[str, list[float]] = {}
        for cell in self.cells:
            for number, value in enumerate(cell.query_ndcg.tolist()):
                if not np.isnan(value):
                    found.setdefault(f"{cell.spec.data.fold}:{number:07d}", []).append(value)
        names = sorted(found)
        return np.array(names, dtype=np.str_), np.array([float(np.mean(found[name])) for name in names])

    def online_mean(self) -> Floats:
        """Mean online nDCG@10 of each repetition."""
        return np.array([facts.online_mean for facts in self.facts])


def attack_rows_of(group: CellGroup) -> list[ComparedAttackRow]:
    """One row per guesser, baselines first."""
    if group.evidence is None:
        return []
    return [
        ComparedAttackRow(method=method, baseline=baseline, setting=group.setting, found=found)
        for method, baseline, found in scored(group.evidence, group.streams)
    ]


def group_rows_of(group: CellGroup) -> list[ComparedGroupRow]:
    """Attack success by group of clients, hit hardest first; none where clients do not differ."""
    if group.evidence is None:
        return []
    return [
        ComparedGroupRow(method=method, baseline=baseline, setting=group.setting, found=found)
        for method, baseline, found in scored_groups(group.evidence, group.streams)
    ]


def refused_rows_of(group: CellGroup) -> list[ComparedRefusal]:
    """One row per attack that could not run, with the reason."""
    refused = {} if group.evidence is None else group.evidence.refused
    return [
        ComparedRefusal(method=method, setting=group.setting, reason=reason)
        for method, reason in refused.items()
    ]


def compare_row(
    group: CellGroup,
    attacks: Sequence[ComparedAttackRow],
    hit: Sequence[ComparedGroupRow],
    base: CellGroup | None,
    runs_asked: int,
) -> CompareRow:
    """The row of a group of cells.

    Args:
        group: the cells.
        attacks: its rows of `attack_rows_of`.
        hit: its rows of `group_rows_of`.
        base: the cells without a defense to compare it with; None if there are none.
        runs_asked: repetitions of the grid.
    """
    best, guess = (_highest(attacks, baseline=baseline) for baseline in (False, True))
    names, values = group.query_ndcg
    served = served_rows(group)
    worst = served[0] if served else None
    hardest = next((row for row in hit if best and row.method == best.method and row.found.place == 1), None)
    if base is None or base.cells[0].spec == group.cells[0].spec:
        offline = online = _NOT_TESTED
    else:
        offline, online = _differences(*group.paired(base))
    return CompareRow(
        setting=group.setting,
        audits=_audits(group.findings),
        attack=best.method if best else None,
        attacks=sum(not row.baseline for row in attacks),
        accuracy=best.found.accuracy if best else UNKNOWN,
        precision=best.found.precision if best else UNKNOWN,
        recall=best.found.recall if best else UNKNOWN,
        f1=best.found.f1 if best else UNKNOWN,
        auc=best.found.auc if best else UNKNOWN,
        tpr_at_1=best.found.tpr_at_1 if best else UNKNOWN,
        lists=best.found.lists if best else None,
        runs_without_sum=sum(bool(facts.unread) for facts in group.facts),
        ceiling_auc=_ceiling(group.facts),
        ceilings=tuple(
            ViewCeiling(view=one.view, auc=one.auc, how=one.how) for one in group.facts[0].proven_aucs
        ),
        baseline=guess.method if guess else None,
        baseline_auc=guess.found.auc.value if guess else None,
        ndcg=QueryBootstrap(names, group.streams).share(values) if names.size else UNKNOWN,
        evaluated_on=evaluated_on([cell.rounds for cell in group.cells]),
        ceiling=_mean([facts.ceiling for facts in group.facts]),
        untrained=_mean([facts.untrained for facts in group.facts]),
        validation=_mean([facts.validation for facts in group.facts]),
        online_mean=_over_runs(group.online_mean()),
        online_sum=_mean([facts.online_sum for facts in group.facts]),
        clipped=_mean([facts.clipped for facts in group.facts]),
        ndcg_difference=offline[0],
        ndcg_p=offline[1],
        online_difference=online[0],
        online_p=online[1],
        bytes_per_client=_mean([facts.bytes_per_client for facts in group.facts]),
        worst_served_group=worst.group if worst else None,
        worst_served_online=worst.online_mean if worst else None,
        groups=len(served) or None,
        runs_asked=runs_asked,
        worst_attacked_group=hardest.found.group if hardest else None,
        worst_attacked_auc=hardest.found.auc.own.value if hardest else None,
    )


def _mean(values: Sequence[float | None]) -> float | None:
    """Mean over repetitions; None where it is not known of all."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if len(known) == len(values) else None


def _ceiling(facts: Sequence[CellFacts]) -> float | None:
    """The largest proven AUC of the attacked messages of all repetitions; None where nothing is proven."""
    known = [1.0 if one.attacked_auc is None else one.attacked_auc.auc for one in facts]
    return max(known) if max(known) < 1 else None


def _highest(attacks: Sequence[ComparedAttackRow], *, baseline: bool) -> ComparedAttackRow | None:
    """The attack, or the guess without a message, with the highest AUC."""
    several = [row for row in attacks if row.baseline == baseline]
    return max(several, key=lambda row: row.found.auc.value if row.found.auc.known else -1.0, default=None)


def _audits(findings: Sequence[AuditFacts]) -> dict[str, AuditedView]:
    """What was found of each audited view; of several units the worst one."""
    found = {}
    for view in VIEWS:
        several = [one for one in findings if one.view == view]
        if several:
            worst = max(several, key=_badness)
            found[view] = AuditedView(
                eps_claimed=worst.eps_claimed,
                eps_proven=worst.upper.epsilon,
                eps_exact=worst.exact,
                eps_measured=worst.lower.epsilon,
                eps_ceiling=worst.lower.ceiling,
                delta=worst.delta,
                verdict=worst.verdict,
                unit=worst.unit,
                run=RunBoundRow.of(worst.run),
            )
    return found


def _badness(finding: AuditFacts) -> tuple[int, float, float]:
    """How bad a finding is: false claims before open ones before proven ones, then by their bounds."""
    place = 2 if finding.verdict in (*FALSE, CONTRADICTION) else 0 if finding.verdict == "proven" else 1
    return place, finding.upper.epsilon, finding.lower.epsilon


_Test = tuple[Estimate, float | None]
"""A mean difference with its interval, and its p-value."""

_NOT_TESTED: _Test = (UNKNOWN, None)


def _differences(group: CellGroup, base: CellGroup) -> tuple[_Test, _Test]:
    """How much better a group is than no defense, offline and online, over the repetitions that both have.

    Offline over queries that both have.
    """
    if not group.cells:
        return _NOT_TESTED, _NOT_TESTED
    names, values = group.query_ndcg
    base_names, base_values = base.query_ndcg
    both = np.intersect1d(names, base_names)
    mine, theirs = values[np.isin(names, both)], base_values[np.isin(base_names, both)]
    return _tested(mine, theirs), _tested(group.online_mean(), base.online_mean())


def _tested(mine: Floats, theirs: Floats) -> _Test:
    """Mean difference, its interval and p-value (paired t-test, not corrected), of two or more pairs.

    The interval is one within -1 and 1, of `FEWEST` or more pairs.
    """
    known = np.isfinite(mine) & np.isfinite(theirs)
    mine, theirs = mine[known], theirs[known]
    if mine.size < 2:
        return Estimate(float(mine.mean() - theirs.mean()) if mine.size else math.nan), None
    test = paired_t_test(mine, theirs)
    ends = None if test.ends is None else (max(test.ends[0], -1.0), min(test.ends[1], 1.0))
    return Estimate(test.difference, ends), test.p


def _over_runs(values: Floats) -> Estimate:
    """Mean nDCG, with Student's interval within 0 and 1 over `FEWEST` or more runs in which it is defined."""
    values = values[np.isfinite(values)]
    return Estimate(float(values.mean()) if values.size else math.nan, mean_interval(values))


def served_rows(group: CellGroup) -> list[ServedRow]:
    """Mean online nDCG@10 of each group of clients, served worst first; none where clients do not differ."""
    served = [
        ServedRow(
            setting=group.setting,
            group=name,
            online_mean=float(
                np.mean([mean_of_rounds(cell.rounds[f"{ONLINE_NDCG}/{name}"]) for cell in group.cells])
            ),
        )
        for name in group.facts[0].groups
        if all(f"{ONLINE_NDCG}/{name}" in cell.rounds for cell in group.cells)
    ]
    return sorted(served, key=lambda row: row.online_mean)


def curve_row(group: CellGroup) -> CurveRow:
    """Means over runs of online and offline nDCG@10 by round."""
    online, offline = (
        np.mean([cell.rounds[name] for cell in group.cells], axis=0).tolist()
        for name in (ONLINE_NDCG, OFFLINE_NDCG)
    )
    rounds = group.cells[0].rounds["round"].astype(int).tolist()
    return CurveRow(setting=group.setting, round=tuple(rounds), online=tuple(online), offline=tuple(offline))


def warning_rows(group: CellGroup) -> list[ComparedWarningRow]:
    """The warnings about a group, each once, but for missing noise that the proof of its claim counts in."""
    setting = group.setting
    return [
        ComparedWarningRow(
            name=setting.name,
            alternative=setting.alternative,
            eps=setting.eps,
            learner=setting.learner,
            code=found.code,
            warning=found.text,
        )
        for found in map(CodedWarning.parse, dict.fromkeys(group.facts[0].warnings))
        if found.code != NOISE_SHARES or not _is_proven(group)
    ]


def _is_proven(group: CellGroup) -> bool:
    """Whether the claim of a group is proven for who sees messages or sums, without lists."""
    verdicts = {finding.verdict for finding in group.findings if not sees_lists(finding.view)}
    return verdicts == {"proven"}


def claim_rows(group: CellGroup) -> list[ClaimRow]:
    """What the audit of a group's claim found."""
    setting = group.setting
    rows = [
        ClaimRow(
            learner=setting.learner,
            scenario=setting.scenario,
            name=setting.name,
            defense=setting.defense,
            view=finding.view,
            sees=sees(finding.view, finding.colluders),
            unit=finding.unit,
            canary=finding.canary,
            eps_claimed=finding.eps_claimed,
            delta=finding.delta,
            eps_upper=finding.upper.epsilon,
            run=RunBoundRow.of(finding.run),
            eps_exact=finding.exact,
            eps_lower=finding.lower.epsilon,
            eps_ceiling=finding.lower.ceiling,
            confidence=finding.lower.confidence,
            trials=finding.lower.trials,
            verdict=finding.verdict,
            why=finding.why,
            declared=finding.declared,
            declared_why=finding.declared_why,
            upper_how=finding.upper.how,
        )
        for finding in group.findings
    ]
    return list(dict.fromkeys(rows))
