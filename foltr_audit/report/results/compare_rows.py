"""The rows of a comparison, and which of them are Pareto-optimal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.ranking_metrics import OFFLINE_NDCG, ONLINE_NDCG
from foltr_audit.core.results import Estimate, Interval
from foltr_audit.core.warning_kinds import CodedWarning
from foltr_audit.judge.significance import paired_t_test
from foltr_audit.report.results.attack_rows import AttackMetrics
from foltr_audit.report.results.groups import GroupSuccess
from foltr_audit.report.results.whole_run import RunBoundRow
from foltr_audit.utils.formatting import JsonValue
from foltr_audit.utils.rows import ResultRow, column

CHANCE = 0.5
"""The AUC of an attack that learns nothing; one below it has been unlucky."""

DIGITS = 3
"""That tables print of AUC and nDCG."""

ByQuery = tuple[NDArray[np.str_], NDArray[np.float64]]
"""Names of queries in rising order, and the nDCG of each."""


class ParetoChoice(NamedTuple):
    """One choice.

    Attributes:
        leak: AUC of its best attack, lower is better; None where none could run.
        utility: nDCG, higher is better; None where it is not known.
        leak_ends: 95 % interval of the AUC; None where it has none.
        queries: the nDCG of each query.
        refuted: whether its claim is false.
    """

    leak: float | None
    utility: float | None
    leak_ends: Interval | None
    queries: ByQuery
    refuted: bool = False

    @property
    def known(self) -> bool:
        """Whether AUC and nDCG are."""
        return self.leak is not None and self.utility is not None

    def beats(self, other: ParetoChoice) -> bool:
        """Whether it is as good in both as printed, and shown to be better in one.

        Values are compared in three digits, as they are printed, and a leak below chance counts as chance.
        """
        if self.refuted:
            return False
        if self.leak is None or self.utility is None or other.leak is None or other.utility is None:
            return False
        mine, theirs = (max(round(leak, DIGITS), CHANCE) for leak in (self.leak, other.leak))
        gain = round(self.utility, DIGITS) - round(other.utility, DIGITS)
        if mine > theirs or gain < 0:
            return False
        return (mine < theirs and self._leaks_less(other)) or (gain > 0 and self._is_more_useful(other))

    def _leaks_less(self, other: ParetoChoice) -> bool:
        """Whether the 95 % interval of the difference of both AUCs lies on one side of 0.

        From the interval of each (Zou & Donner 2008, "Construction of confidence limits about effect
        measures"), as if they were independent; they share queries, which makes the true one narrower.
        """
        if self.leak is None or other.leak is None or self.leak_ends is None or other.leak_ends is None:
            return False
        apart = other.leak - max(self.leak, CHANCE)
        return apart > math.hypot(other.leak - other.leak_ends[0], max(0.0, self.leak_ends[1] - self.leak))

    def _is_more_useful(self, other: ParetoChoice) -> bool:
        """Whether the 95 % interval of the mean difference in nDCG over queries lies above 0."""
        both = np.intersect1d(self.queries[0], other.queries[0])
        mine, theirs = (values[np.isin(names, both)] for names, values in (self.queries, other.queries))
        ends = paired_t_test(mine, theirs).ends if both.size > 1 else None
        return ends is not None and ends[0] > 0.0


def front_of(choices: Sequence[ParetoChoice]) -> list[bool | None]:
    """Whether each choice is on the front: its claim is not false, and no other beats it; None: not known."""
    beaten = beaten_by(choices)
    return [
        None if not choice.known else not choice.refuted and not winners
        for choice, winners in zip(choices, beaten, strict=True)
    ]


def beaten_by(choices: Sequence[ParetoChoice]) -> list[list[int]]:
    """For each choice the numbers of those that beat it, most useful first; of the front where one does."""
    winners = [[n for n, other in enumerate(choices) if other.beats(choice)] for choice in choices]
    undominated = []
    for winners_of in winners:
        best = [number for number in winners_of if not winners[number]] or winners_of
        undominated.append(sorted(best, key=lambda number: -(choices[number].utility or 0.0)))
    return undominated


WorldKey = tuple[str, str, str]
"""Data, scenario and click model, which rows must share to be compared with each other."""


@dataclass(frozen=True, kw_only=True)
class ComparedSetting(ResultRow):
    """The columns that name a defense in a world.

    Attributes:
        data, scenario, click_model: its world.
        learner, pdgd: the learner with the parameters that are not at their default, and its PDGD setting.
        name: its name, e.g. `published, eps 1.2`.
        alternative, eps, sensitivity: the defense as given, and what it was made for; None where it does not
            depend on it.
        defense: the chain.
        eps_claimed: the epsilon that it is proven for, or that it claims; infinite without a claim.
        runs: repetitions.
    """

    data: str
    scenario: str
    click_model: str
    learner: str
    pdgd: str
    name: str
    alternative: str
    eps: float | None
    sensitivity: float | None
    defense: str
    eps_claimed: float
    runs: int

    @property
    def world(self) -> WorldKey:
        return self.data, self.scenario, self.click_model

    @property
    def key(self) -> tuple[str, str]:
        """What tells it from the others of its world: learner and name."""
        return self.learner, self.name


@dataclass(frozen=True, kw_only=True)
class AuditedView(ResultRow):
    """What an audit found of one view; of several units the worst one.

    Attributes:
        eps_claimed, eps_proven, eps_exact, eps_measured, eps_ceiling: epsilons: claimed, bounded by
            accounting, the exact loss (None where it has no formula), measured, and the most that could be.
        delta: of the claim.
        verdict: on the claim.
        unit: what neighbouring inputs differ in.
        run: what is proven for the whole run.
    """

    eps_claimed: float
    eps_proven: float
    eps_exact: float | None
    eps_measured: float
    eps_ceiling: float
    delta: float
    verdict: str
    unit: str
    run: RunBoundRow = column("run_", embedded=True)


@dataclass(frozen=True, kw_only=True)
class ViewCeiling(ResultRow):
    """The largest AUC of any attack on a click of the messages of a round, by the proof of one interaction.

    Attributes:
        view: whose observations.
        auc: of documents that are equally likely clicked; 1 where nothing is proven.
        how: how an epsilon is proven, or why none is.
    """

    view: str
    auc: float
    how: str


@dataclass(frozen=True, kw_only=True)
class CompareRow(ResultRow):
    """A defense in a world: what it claims, what the best attack finds, and what it costs.

    Attributes:
        setting: names it.
        audits: what audits found, by view; columns end in the view.
        attack, attacks: the attack with the highest AUC, None if none ran; and how many ran.
        accuracy, precision, recall, f1, auc, tpr_at_1: of that attack.
        lists: that it was judged on.
        runs_without_sum: runs in which no round opened a sum, so that attacks had nothing to read.
        ceiling_auc: the largest AUC of any attack on a click of the attacked messages, by proof, of documents
            that are equally likely clicked; None where nothing is proven.
        ceilings: the same for each view, of the messages of a round, for an observer of all rounds.
        baseline, baseline_auc: the guess without a message with the highest AUC.
        ndcg: offline nDCG@10.
        evaluated_on: which queries that is of.
        ceiling, untrained, validation: offline nDCG@10 of the ideal ranking, of an untrained model, and of
            the trained one on the validation split.
        online_mean, online_sum: online nDCG@10 over rounds.
        clipped: share of clipped steps.
        ndcg_difference, ndcg_p, online_difference, online_p: to no defense over what both have, with p of a
            paired t-test (not corrected).
        bytes_per_client: that a client sends in a round.
        worst_served_group, worst_served_online, groups: the group of clients that is served worst, and how
            many there are; None where clients do not differ.
        runs_asked: repetitions of the grid, of which some may be missing.
        worst_attacked_group, worst_attacked_auc: the group that the attack hits hardest.
        pareto: whether it is on the front of AUC and nDCG@10; None where one is not known.
        dominated_by: names of rows on the front that beat it.
    """

    setting: ComparedSetting = column(embedded=True)
    audits: Mapping[str, AuditedView] = column(embedded=True, default={})
    attack: str | None
    attacks: int
    accuracy: Estimate
    precision: Estimate
    recall: Estimate
    f1: Estimate
    auc: Estimate
    tpr_at_1: Estimate
    lists: int | None
    runs_without_sum: int = 0
    ceiling_auc: float | None = None
    ceilings: tuple[ViewCeiling, ...] = ()
    baseline: str | None
    baseline_auc: float | None
    ndcg: Estimate = column("ndcg@10")
    evaluated_on: str
    ceiling: float | None = column("ndcg@10_ceiling")
    untrained: float | None = column("ndcg@10_untrained")
    validation: float | None = column("ndcg@10_validation")
    online_mean: Estimate
    online_sum: float | None
    clipped: float | None
    ndcg_difference: Estimate = column("ndcg@10_difference")
    ndcg_p: float | None = column("ndcg@10_p")
    online_difference: Estimate = column("online_mean_difference")
    online_p: float | None = column("online_mean_p")
    bytes_per_client: float | None
    worst_served_group: str | None
    worst_served_online: float | None
    groups: int | None
    runs_asked: int
    worst_attacked_group: str | None
    worst_attacked_auc: float | None
    pareto: bool | None = None
    dominated_by: tuple[str, ...] = ()

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict on the claim by audited view; only of views with a claim."""
        claimed = (view for view, audit in self.audits.items() if not math.isinf(audit.eps_claimed))
        return {view: self.audits[view].verdict for view in claimed}

    @property
    def delta(self) -> float:
        """The largest delta of the audited views."""
        return max((audit.delta for audit in self.audits.values()), default=0.0)

    @property
    def unread(self) -> bool:
        """Whether attacks had nothing to read in any run, which is no success of 0."""
        return 0 < self.setting.runs == self.runs_without_sum

    @property
    def tested(self) -> bool:
        """Whether attack and ranker are known, so that it can be on the front."""
        return self.auc.known and self.ndcg.known


@dataclass(frozen=True, kw_only=True)
class ClaimRow(ResultRow):
    """One audited view, unit and canary of a defense.

    Attributes:
        learner, scenario, name, defense: the defense.
        view, sees: what the server sees, by name and in words.
        unit, canary: what neighbouring inputs differ in, and the pair that was played.
        eps_claimed, delta: the claim.
        eps_upper: bound by accounting, of one message.
        run: what is proven for the whole run.
        eps_exact: the loss of the pair, where it has a formula.
        eps_lower, eps_ceiling: what the trials show at least, and the most that they could.
        confidence, trials: of the trials.
        verdict, why: on the claim.
        declared, declared_why: whether links do what they declare.
        upper_how: how the bound was computed.
    """

    learner: str
    scenario: str
    name: str
    defense: str
    view: str
    sees: str
    unit: str
    canary: str
    eps_claimed: float
    delta: float
    eps_upper: float
    run: RunBoundRow = column("run_", embedded=True)
    eps_exact: float | None
    eps_lower: float
    eps_ceiling: float
    confidence: float
    trials: int
    verdict: str
    why: str
    declared: str
    declared_why: str
    upper_how: str


@dataclass(frozen=True, kw_only=True)
class ComparedAttackRow(ResultRow):
    """The results of one guesser in a setting."""

    method: str
    baseline: bool
    setting: ComparedSetting = column(embedded=True)
    view: str = "individual"
    found: AttackMetrics = column(embedded=True)

    def plain(self) -> dict[str, JsonValue]:
        """As of every row, with the click model before the setting."""
        plain = super().plain()
        first: dict[str, JsonValue] = {"method": self.method, "baseline": self.baseline}
        return {**first, "click_model": self.setting.click_model, **plain}


@dataclass(frozen=True, kw_only=True)
class ComparedGroupRow(ResultRow):
    """How well a guesser does on one group of clients in a setting."""

    method: str
    baseline: bool
    setting: ComparedSetting = column(embedded=True)
    found: GroupSuccess = column(embedded=True)


@dataclass(frozen=True, kw_only=True)
class ComparedRefusal(ResultRow):
    """An attack that could not run in a setting, and why."""

    method: str
    setting: ComparedSetting = column(embedded=True)
    reason: str


@dataclass(frozen=True, kw_only=True)
class ServedRow(ResultRow):
    """Mean online nDCG@10 of a group of clients."""

    setting: ComparedSetting = column(embedded=True)
    group: str
    online_mean: float


@dataclass(frozen=True, kw_only=True)
class CurveRow(ResultRow):
    """Learning curves of a setting: means over runs of online and offline nDCG@10 by round, from 0."""

    setting: ComparedSetting = column(embedded=True)
    round: tuple[int, ...]
    online: tuple[float, ...] = column(ONLINE_NDCG)
    offline: tuple[float, ...] = column(OFFLINE_NDCG)


@dataclass(frozen=True, kw_only=True)
class ComparedWarningRow(ResultRow):
    """An incompatible pair of defenses in a chain, in words."""

    name: str
    alternative: str
    eps: float | None
    learner: str
    code: str
    warning: str

    @property
    def coded(self) -> CodedWarning:
        return CodedWarning(self.code, self.warning)


@dataclass(frozen=True, kw_only=True)
class FailedCellRow(ResultRow):
    """A cell that could not be run, and why."""

    defense: str
    learner: str
    click_model: str
    run: int
    why: str


@dataclass(frozen=True, kw_only=True)
class UnfinishedRow(ResultRow):
    """Cells of one kind and setting, of which some are not done."""

    kind: str
    scenario: str
    click_model: str
    learner: str
    name: str
    cells: int
    done: int


@dataclass(frozen=True, kw_only=True)
class CellCounts(ResultRow):
    """How many cells of each kind were asked for."""

    attack: int
    audit: int
