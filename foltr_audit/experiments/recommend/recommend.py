"""A whole recommendation: proofs, then the search on the validation split, then the test split once."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from foltr_audit.auditing.verdict import FALSE
from foltr_audit.core.plugins import Attack
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.results import DataRecord, GapRecord
from foltr_audit.core.settings.attack import AttackSpec, changed_protocol
from foltr_audit.core.settings.audit import AuditSpec
from foltr_audit.core.settings.base import one_error
from foltr_audit.core.settings.defaults import NO_DEFENSE, TRIALS
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.errors import UsageError
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.comparison.grid import CellPlan, ComparisonGrid, GridExpansion
from foltr_audit.experiments.comparison.runner import failure_error, run_cells
from foltr_audit.experiments.comparison.workers import Workers
from foltr_audit.experiments.decide import MOST_LOSS, cost_doubt
from foltr_audit.experiments.recommend.candidates import CandidateEvaluator, search
from foltr_audit.experiments.recommend.space import (
    Candidate,
    CandidateAccountant,
    CandidatePoint,
    PrivacyLimits,
    SearchSpace,
    interval_end,
)
from foltr_audit.experiments.run import data_record
from foltr_audit.experiments.runner import Runner
from foltr_audit.experiments.table import ComparedPool, Difference, proof_of, worst_audit
from foltr_audit.utils.formatting import short
from foltr_audit.utils.progress import SILENT, Progress


@dataclass(frozen=True, kw_only=True)
class SearchBudget:
    """How much is run: `runs` repetitions and an audit of `trials` confirm the chosen candidate."""

    candidates: int = 40
    search_runs: int = 1
    runs: int = 3
    trials: int = TRIALS

    def __post_init__(self) -> None:
        for name in ("candidates", "search_runs", "runs"):
            if getattr(self, name) < 1:
                option = name.replace("_", "-")
                raise UsageError(f"--{option}: {getattr(self, name)}; expected at least 1")
        with one_error("", {"trials": "--trials"}):
            AuditSpec(trials=self.trials)


NEXT = 5
"""How many other candidates are reported: the best one of each of that many other defenses."""


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """The result of a search.

    Of the `refused` defenses none can be proven to keep the limit, with any amount of noise. A candidate may
    occur twice among the `judged`, which are in the order of the search; `chosen` is an index of these, None
    where none keeps the limits. Cells of the confirmation that could not be run are `lost`.
    """

    base: Spec
    limits: PrivacyLimits
    effort: SearchBudget
    data: DataRecord
    refused: tuple[Candidate, ...]
    judged: tuple[Candidate, ...]
    chosen: int | None
    lost: list[GapRecord] = field(default_factory=list)

    @property
    def winner(self) -> Candidate | None:
        return None if self.chosen is None else self.judged[self.chosen]

    @property
    def counts(self) -> dict[str, int]:
        """How many candidates were run, how many were different, and what came of them."""
        outcomes = Counter(candidate.outcome for candidate in self.judged)
        return {
            "candidates": len(self.judged),
            "different": len({candidate.point for candidate in self.judged}),
            "kept": outcomes["kept"],
            "above_auc": outcomes["above --max-attack-auc"] + outcomes["unknown attack"],
            "above_loss": outcomes["costs too much"] + outcomes["cost not known"],
            "refused": outcomes["refused"],
            "failed": outcomes["failed"],
            "defenses_refused": len(self.refused),
        }

    @property
    def runners_up(self) -> list[int]:
        """Of the other defenses the best candidate within the limits, best first; none without a choice."""
        if self.winner is None:
            return []
        chosen = self.winner.point.alternative
        return self._of_each(
            {
                number: -candidate.score.utility
                for number, candidate in enumerate(self.judged)
                if candidate.score is not None
                and candidate.outcome == "kept"
                and candidate.point.alternative != chosen
            }
        )

    @property
    def nearest(self) -> list[int]:
        """Where none is within the limits: of each defense the candidate nearest to them, nearest first."""
        if self.chosen is not None:
            return []
        excesses = {n: one.score.excess for n, one in enumerate(self.judged) if one.score is not None}
        return self._of_each(excesses)

    def _of_each(self, values: Mapping[int, float]) -> list[int]:
        """The candidate of each defense with the smallest value, smallest first; at most `NEXT`."""
        first: dict[str, int] = {}
        for number in sorted(values, key=lambda number: values[number]):
            first.setdefault(self.judged[number].point.alternative, number)
        return list(first.values())[:NEXT]


LARGEST_TIE = 0.005
"""A candidate whose nDCG@10 is further below the best one's is never chosen for its bound."""


def choose(judged: Sequence[Candidate]) -> int | None:
    """Index of the chosen candidate; None where none is within the limits, of which one is on the loss.

    A candidate ties with the best one if its mean nDCG@10 on the validation split is less than one standard
    error of their paired difference below, and less than `LARGEST_TIE`. Among those the smallest proven
    epsilon comes first, then the smallest upper bound of an attack's AUC, then the highest nDCG@10.

    Source: Breiman, Friedman, Olshen & Stone 1984, "Classification and regression trees", section 3.4.3 (the
    1 SE rule), here for paired queries.
    """
    kept = {
        number: one.score.utility for number, one in enumerate(judged) if one.score and one.score.feasible
    }
    if not kept:
        return None
    best = max(kept, key=lambda number: kept[number])
    tied = [number for number in kept if _ties(judged[number], judged[best], kept[best] - kept[number])]
    return min(tied, key=lambda number: (*_risk(judged[number]), -kept[number]))


def _ties(one: Candidate, best: Candidate, below: float) -> bool:
    """Whether a candidate is as good as the best one, up to chance."""
    if below <= 0:
        return True
    if one.queries is None or best.queries is None:
        return False
    differences = best.queries - one.queries
    differences = differences[~np.isnan(differences)]
    if differences.size < 2:
        return False
    error = float(differences.std(ddof=1)) / math.sqrt(differences.size)
    return below < min(error, LARGEST_TIE)


def _risk(one: Candidate) -> tuple[float, float]:
    return one.eps_proven, 1.0 if one.attack_end is None else one.attack_end


# None of their results is used for the choice.

TEST = "test"


def confirm(
    base: Spec,
    point: CandidatePoint,
    limits: PrivacyLimits,
    study: Runner,
    folder: ComparisonFolder,
    workers: Workers,
    effort: SearchBudget,
    progress: Progress = SILENT,
) -> list[GapRecord]:
    """Run a candidate and no defense again, and audit the candidate; the folder's index lists these cells.

    Repetitions follow those of the search.
    """
    grid = confirmation_grid(base, point, limits, effort)
    cells = [
        _fresh(cell, limits, effort.search_runs)
        for cell in GridExpansion(grid, study, {}).cells()
        if cell.kind == "attack" or cell.label.alternative == point.alternative
    ]
    folder.save_index(grid, cells, [])
    return run_cells([cell.spec for cell in cells], folder, workers, progress, "confirm")


def _fresh(cell: CellPlan, limits: PrivacyLimits, first_run: int) -> CellPlan:
    """A cell in a new repetition; without attacks where the observer sees no single message."""
    update: dict[str, object] = {"repetition": first_run + cell.spec.repetition}
    if cell.kind == "attack" and not limits.single:
        update["attack"] = None
    return cell._replace(spec=cell.spec.model_copy(update=update))


def confirmation_grid(
    base: Spec, point: CandidatePoint, limits: PrivacyLimits, effort: SearchBudget
) -> ComparisonGrid:
    """The grid of one candidate and no defense, on the test split."""
    attack = changed_protocol(base.attack or AttackSpec(), {"on": (TEST,)})
    audit = AuditSpec(trials=effort.trials, views=(limits.view,))
    table = ComparisonGrid.of_spec(base.model_copy(update={"attack": attack, "audit": audit})).table()
    table |= {"runs": effort.runs, "delta": limits.delta, "eps": [point.eps or 1.0], "every_observer": False}
    table["defenses"] = list(dict.fromkeys([NO_DEFENSE, point.alternative]))
    if point.label.sensitivity is not None:
        table["sensitivity"] = point.label.sensitivity
    return ComparisonGrid.parse(table)


def broken_on_test(pool: ComparedPool | None, lost: Sequence[GapRecord], limits: PrivacyLimits) -> list[str]:
    """What the confirmation shows against a recommended defense, in words; empty if nothing.

    `pool` is None where none of its cells on the test split could be run; `lost` are those that could not.
    """
    if pool is None or lost:
        return [f"the confirmation could not be run: {lost[0].why if lost else ''}"]
    return [*_leaks(pool, limits), *_claims(pool, limits), *_costs(pool)]


def _leaks(pool: ComparedPool, limits: PrivacyLimits) -> list[str]:
    if limits.max_auc is None:
        return []
    ends = ((interval_end(attack), attack) for attack in pool.attacks if attack.role == "attack")
    known = [(end, attack) for end, attack in ends if end is not None]
    if not known:
        return ["no attack could be run on the test split"]
    upper, worst = max(known, key=lambda pair: pair[0])
    if limits.excess(upper) <= 0:
        return []
    return [
        f"the AUC of {worst.method} is at 95 % confidence at most {short(upper)} "
        f"(limit {short(limits.max_auc)}); the best guess without a message has "
        f"{short(worst.more['guess_auc'])}"
    ]


def _claims(pool: ComparedPool, limits: PrivacyLimits) -> list[str]:
    audit, proof = worst_audit(pool, limits.view), proof_of(pool, limits.view)
    if audit is None:
        return ["its epsilon was not audited"]
    faults = [f"the verdict on its epsilon is: {audit.verdict}"] if audit.verdict in FALSE else []
    proven = audit.upper.epsilon
    if not limits.proves(proven):
        shown = "no epsilon" if math.isinf(proven) else f"epsilon {proven:g}, above {limits.max_eps:g}"
        faults.append(f"the audit proves {shown}")
    left = 1.0 if proof is None or proof.auc is None else proof.auc
    if not limits.promises(left):
        faults.append(f"the proof leaves an AUC of {short(left)}, above {short(limits.max_proven_auc)}")
    return faults


def _costs(pool: ComparedPool) -> list[str]:
    doubt = cost_doubt(pool.difference) if pool.defended else None
    return [describe_cost(doubt, pool.difference, "test")] if doubt else []


def describe_cost(doubt: str, difference: Difference, split: str) -> str:
    """What speaks against a loss on the queries of a split, and how many would show what is not known."""
    loss, needed = difference.loss, difference.queries_needed(MOST_LOSS)
    if loss is None:
        return f"{doubt}: there is no run without a defense to compare with"
    shown, more = f"up to {short(loss.upper)}", ""
    if doubt == "costs too much":
        shown = f"at least {short(loss.lower)}"
    elif needed is not None:
        more = f"; about {needed:,} {split} queries would settle it, instead of {loss.n:,}"
    return (
        f"{doubt}: {short(loss.mean)} of nDCG@10 lost, at 95 % confidence {shown} "
        f"(limit {short(MOST_LOSS)}){more}"
    )


SPARE = 1.25
"""Times as many draws as the interval would need on average, since its width is an estimate too."""

FEWEST_QUERIES = 4
"""With fewer queries it takes more queries, not more draws of each.

Of so few, many resamples hold one query only, whatever its spread (`judge.significance.mean_ends`). Beyond
that an interval is never narrower than one more query at an end of the range makes it.
"""


class AttackSample(NamedTuple):
    """The sample behind an attack's AUC.

    Attributes:
        half_width: from the AUC to its one-sided 95 % upper bound.
        queries: that were attacked.
        repeats: draws of clicks and noise for each.
        guess: the AUC of the best guess without a message, which an attack that only guesses has.
    """

    half_width: float
    queries: int
    repeats: int
    guess: float

    def too_small(self, limit: float) -> bool:
        """Whether even an attack that only guesses is above a limit, by the width of its interval alone."""
        return self.guess + self.half_width > limit

    def times(self, limit: float) -> float:
        """How many times as large the sample would have to be for an attack that only guesses to pass.

        The half-width of an interval falls with the square root of the number of draws. That of an attack
        at chance comes from clicks and noise, which are new in each draw, and not from which queries there
        are. Infinite where no sample is large enough.
        """
        room = limit - self.guess
        return SPARE * (self.half_width / room) ** 2 if room > 0 else math.inf

    def describe(self, limit: float) -> str:
        """A sentence on a sample that is too small for a limit; empty where it is large enough."""
        if not self.too_small(limit):
            return ""
        each = "" if self.repeats == 1 else f", {self.repeats} times each"
        start = (
            f"The sample is too small: with {self.queries} queries{each}, the interval of an "
            f"attack that only guesses (AUC {short(self.guess)}) ends at about "
            f"{short(self.guess + self.half_width)} (limit {short(limit)})"
        )
        times = self.times(limit)
        if math.isinf(times):
            return f"{start}. No sample is large enough, since the limit is not above {short(self.guess)}."
        if self.queries < FEWEST_QUERIES:
            queries = max(FEWEST_QUERIES, math.ceil(times * self.queries))
            return f"{start}. About {queries} queries would be enough; more draws of these few would not."
        return f"{start}. About --repeats {math.ceil(times * self.repeats)} would be enough, or more queries."


def describe_sample(found: Recommendation, pool: ComparedPool | None, broken: Sequence[str]) -> str:
    """Whether the sample is too small for a candidate to pass; empty where one did, or it is large enough.

    It is the one of the candidate with the narrowest interval, or if one was chosen that of the test split.
    """
    limit, protocol = found.limits.max_auc, found.base.attack
    tested = () if pool is None else pool.attacks
    if limit is None or protocol is None or (tested and not broken):
        return ""
    attacks = [attack for attack in tested if attack.role == "attack"]
    samples = [
        AttackSample(
            max(0.0, end - attack.metric("auc").value),
            attack.counts["queries"],
            protocol.repeats,
            attack.more["guess_auc"],
        )
        for attack in attacks or [one.attack for one in found.judged if one.attack is not None]
        if (end := interval_end(attack)) is not None
    ]
    return min(samples).describe(limit) if samples else ""


def attacked_as_trained(spec: Spec) -> Spec:
    """The experiment of a search: users click in training as where fresh clients are attacked."""
    protocol = changed_protocol(spec.attack or AttackSpec(), {"click_models": [spec.train.click_model]})
    for text in protocol.methods_on(spec.attacked_kind):
        asks = make(Attack, text).asks
        if asks != "clicks":
            raise UsageError(f"--method: {text} infers the {asks}; expected attacks that infer clicks")
    return spec.model_copy(update={"attack": protocol})


def recommend(
    base: Spec,
    limits: PrivacyLimits,
    effort: SearchBudget,
    folder: ComparisonFolder,
    workers: Workers,
    progress: Progress = SILENT,
) -> Recommendation:
    """Search for the defense with the best nDCG@10 within limits, and confirm it; see `choose` for ties.

    The folder stores all cells; a search with the same Spec, limits and effort finds them there again.
    """
    study = Runner(progress, with_undefended=False)
    trace = base.trace.model_copy(update={"every": 0})
    base = base.model_copy(update={"defense": (NO_DEFENSE,), "repetition": 0, "trace": trace})
    # An audit that cannot be confirmed in the end is refused before the search.
    confirmation_grid(base, CandidatePoint(NO_DEFENSE), limits, effort)
    setup = study.setup(base)
    accountant = CandidateAccountant(setup, limits)
    space = SearchSpace.of(accountant)
    candidates = CandidateEvaluator(
        accountant, folder, workers, total=effort.candidates, runs=effort.search_runs, progress=progress
    )
    found = search(space, candidates, effort.candidates, setup.streams) if space.defenses else []
    if candidates.lost and not any(one.score for one in candidates.judged):
        raise failure_error(candidates.lost[0], "recommend: no candidate could be run; the first: ")
    chosen = choose(candidates.judged)
    failed = []
    if chosen is not None:
        failed = confirm(base, found[chosen][0], limits, study, folder, workers, effort, progress)
    return Recommendation(
        base=base,
        limits=limits,
        effort=effort,
        data=data_record(setup.collection),
        refused=space.refused,
        judged=tuple(candidates.judged),
        chosen=chosen,
        lost=failed,
    )
