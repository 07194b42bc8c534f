"""A whole recommendation: proofs, then the search on the validation split, then the test split once.

None of the results on the test split is used for the choice.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import NamedTuple

import numpy as np

from foltr_audit.auditing.verdict import FALSE
from foltr_audit.core.plugins import Attack
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.results import AttackRecord, DataRecord, GapRecord
from foltr_audit.core.settings.attack import AttackSpec, changed_protocol
from foltr_audit.core.settings.audit import AuditSpec
from foltr_audit.core.settings.base import one_error
from foltr_audit.core.settings.defaults import NO_DEFENSE, TRIALS
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.errors import UsageError
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.comparison.grid import ComparisonGrid, GridExpansion
from foltr_audit.experiments.comparison.runner import failure_error, run_cells
from foltr_audit.experiments.comparison.workers import Workers
from foltr_audit.experiments.decide import MOST_LOSS, cost_doubt
from foltr_audit.experiments.recommend.space import (
    Candidate,
    CandidateAccountant,
    CandidatePoint,
    CandidateScore,
    PrivacyLimits,
    SearchSpace,
    interval_end,
)
from foltr_audit.experiments.run import data_record
from foltr_audit.experiments.runner import Runner
from foltr_audit.experiments.store import StoredRun
from foltr_audit.experiments.table import (
    NOT_TESTED,
    NOTHING_LOST,
    ComparedPool,
    Difference,
    over_queries,
    worst_audit,
)
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.judge.scoring import click_records
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Floats
from foltr_audit.utils.formatting import short
from foltr_audit.utils.optional_dependencies import package, quiet
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


BATCH = 4
"""Candidates that are drawn before any score is reported; fixed, so that a seed gives the same search for any
number of processes."""

Judge = Callable[[Sequence[CandidatePoint]], Sequence[CandidateScore | None]]
"""Scores candidates; None for one that was not run."""


def search(
    space: SearchSpace, judge: Judge, candidates: int, streams: Streams
) -> list[tuple[CandidatePoint, CandidateScore | None]]:
    """Draw candidates in batches and score them; the order is the same for a seed.

    `SearchSpace.starts` fixes the first candidates. The sampler sees a candidate without a score as the worst
    possible one.

    Source: Bergstra et al. 2011, "Algorithms for hyper-parameter optimization", section 4. Optuna ranks
    candidates that break a limit below all others, by how far they exceed it.
    """
    optuna = package("optuna", "recommend")
    seed = int(streams.generator("recommend/search").integers(2**31))
    found: list[tuple[CandidatePoint, CandidateScore | None]] = []
    with quiet(optuna):
        # All candidates of a batch are drawn before one of them has a score: the constant liar keeps them
        # apart. Defenses have different parameters, so the sampler models each set of them as a group.
        sampler = optuna.samplers.TPESampler(
            seed=seed,
            constraints_func=lambda trial: (trial.user_attrs["excess"],),
            multivariate=True,
            group=True,
            constant_liar=True,
        )
        study = optuna.create_study(direction="maximize", sampler=sampler)
        for parameters in space.starts(candidates):
            study.enqueue_trial(parameters)
        while len(found) < candidates:
            trials = [study.ask() for _ in range(min(BATCH, candidates - len(found)))]
            points = [space.suggest(trial) for trial in trials]
            scores = judge(points)
            # Told in the order of the draws, not as cells finish: the next draws depend on this order.
            for trial, score in zip(trials, scores, strict=True):
                known = score or CandidateScore(utility=0.0, excess=1.0)
                trial.set_user_attr("excess", known.excess)
                study.tell(trial, known.utility)
            found += zip(points, scores, strict=True)
    return found


class CandidateEvaluator:
    """Runs batches of candidates beside no defense, and stores their results in `judged`."""

    def __init__(
        self,
        accountant: CandidateAccountant,
        folder: ComparisonFolder,
        workers: Workers,
        *,
        total: int,
        runs: int = 1,
        progress: Progress = SILENT,
    ) -> None:
        """Nothing is run yet; cells are stored in the folder, and `total` candidates make up the search."""
        self.accountant = accountant
        self.folder = folder
        self.workers = workers
        self.total = total
        self.runs = runs
        self.progress = progress
        self.judged: list[Candidate] = []
        self.lost: list[GapRecord] = []

    def __call__(self, points: Sequence[CandidatePoint]) -> list[CandidateScore | None]:
        """Score candidates; None for one that accounting rejected or that could not be run."""
        proven = [self.accountant.prove(point) for point in points]
        specs = {one.point: self.specs(one.defense) for one in proven if not one.refused}
        undefended = self.specs([NO_DEFENSE]) if specs else []
        every = list(dict.fromkeys(chain(undefended, *specs.values())))
        first = len(self.judged) + 1
        name = f"candidates {first} to {first + len(points) - 1} of {self.total}"
        failed = run_cells(every, self.folder, self.workers, self.progress, name) if every else []
        self.lost += failed
        why = {gap.run: gap.why for gap in failed}
        alone = [self.folder.read(spec) for spec in undefended if spec.hash not in why]
        judged = [one if one.refused else self._judged(one, specs[one.point], why, alone) for one in proven]
        self.judged += judged
        return [candidate.score for candidate in judged]

    def specs(self, defense: Sequence[str]) -> list[Spec]:
        """The repetitions of a candidate: attacked on the validation split if attacks are limited."""
        base, attack = self.accountant.setup.spec, None
        if base.attack is not None and self.accountant.limits.max_auc is not None:
            attack = changed_protocol(base.attack, {"on": ("vali",)})
        # Only the trained model counts, so that the rounds before it need no evaluation.
        train = base.train.model_copy(update={"evaluate_every": base.train.rounds})
        blank = base.model_copy(update={"train": train, "attack": attack}).table()
        defended = Spec.parse({**blank, "defense": list(defense)}, "")
        return [defended.model_copy(update={"repetition": run}) for run in range(self.runs)]

    def _judged(
        self,
        candidate: Candidate,
        specs: Sequence[Spec],
        why: Mapping[str | None, str],
        undefended: Sequence[StoredRun],
    ) -> Candidate:
        """A candidate with the results of its cells, next to the cells without a defense."""
        for spec in specs:
            if spec.hash in why:
                return replace(candidate, failed=why[spec.hash])
        cells = [self.folder.read(spec) for spec in specs]
        ndcg = float(np.mean(np.array([cell.utility.validation for cell in cells], dtype=np.float64)))
        if math.isnan(ndcg):
            return replace(candidate, failed="no query of the validation split counts")
        attack, queries = worst_attack(cells), _by_query(cells)
        difference = over_queries(queries, _by_query(undefended)) if undefended else NOT_TESTED
        if candidate.point.alternative == NO_DEFENSE:
            difference = NOTHING_LOST
        leaked = self.accountant.limits.excess(None if attack is None else interval_end(attack))
        score = CandidateScore(utility=ndcg, excess=max(leaked, difference.upper_loss - MOST_LOSS))
        return replace(candidate, queries=queries, difference=difference, attack=attack, score=score)


def _by_query(cells: Sequence[StoredRun]) -> Floats:
    """nDCG@10 by query, a mean over cells, float64 (Q,); NaN where a query does not count."""
    return np.asarray(np.mean([cell.validation_ndcg for cell in cells], axis=0))


def worst_attack(cells: Sequence[StoredRun]) -> AttackRecord | None:
    """The attack with the largest upper bound of its AUC, pooled over repetitions; None without one.

    Guesses, which read no message, do not count.
    """
    pieces = [cell.evidence for cell in cells if cell.evidence is not None]
    if not pieces:
        return None
    attacks = [
        # Other metrics, which nobody reads, would hold the judged lists in memory.
        record.model_copy(update={"metrics": {n: record.metric(n) for n in ("auc", "above_guess")}})
        for record in click_records(ClickEvidence.combined(pieces), Streams(cells[0].spec.seed))
        if record.role == "attack"
    ]
    ends = {attack.method: interval_end(attack) for attack in attacks}
    return max(attacks, key=lambda one: -1.0 if (end := ends[one.method]) is None else end, default=None)


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
        chosen = None if self.winner is None else self.winner.point.alternative
        return self._of_each(
            {
                number: -candidate.score.utility
                for number, candidate in enumerate(self.judged if chosen else ())
                if candidate.score and candidate.outcome == "kept" and candidate.point.alternative != chosen
            }
        )

    @property
    def nearest(self) -> list[int]:
        """Where none is within the limits: of each defense the candidate nearest to them, nearest first."""
        judged = self.judged if self.chosen is None else ()
        return self._of_each({n: one.score.excess for n, one in enumerate(judged) if one.score})

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
    cells = []
    for cell in GridExpansion(grid, study, {}).cells():
        again: dict[str, object] = {"repetition": effort.search_runs + cell.spec.repetition}
        if cell.kind == "attack" and not limits.single:  # the observer sees no single message
            again["attack"] = None
        if cell.kind == "attack" or cell.label.alternative == point.alternative:
            cells.append(cell._replace(spec=cell.spec.model_copy(update=again)))
    folder.save_index(grid, cells, [])
    return run_cells([cell.spec for cell in cells], folder, workers, progress, "confirm")


def confirmation_grid(
    base: Spec, point: CandidatePoint, limits: PrivacyLimits, effort: SearchBudget
) -> ComparisonGrid:
    """The grid of one candidate and no defense, on the test split."""
    attack = changed_protocol(base.attack or AttackSpec(), {"on": ("test",)})
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
    broken = []
    ends = [
        (end, one) for one in pool.attacks if one.role == "attack" and (end := interval_end(one)) is not None
    ]
    upper, worst = max(ends, key=lambda pair: pair[0], default=(None, None))
    if limits.max_auc is not None and (upper is None or worst is None):
        broken.append("no attack could be run on the test split")
    elif worst is not None and limits.excess(upper) > 0:
        broken.append(
            f"the AUC of {worst.method} is at 95 % confidence at most {short(upper)} "
            f"(limit {short(limits.max_auc)}); the best guess without a message has "
            f"{short(worst.more['guess_auc'])}"
        )
    audit, proof = worst_audit(pool, limits.view), pool.proof(limits.view)
    if audit is None:
        broken.append("its epsilon was not audited")
    else:
        if audit.verdict in FALSE:
            broken.append(f"the verdict on its epsilon is: {audit.verdict}")
        proven = audit.upper.epsilon
        if not limits.proves(proven):
            shown = "no epsilon" if math.isinf(proven) else f"epsilon {proven:g}, above {limits.max_eps:g}"
            broken.append(f"the audit proves {shown}")
        left = 1.0 if proof is None or proof.auc is None else proof.auc
        if not limits.promises(left):
            broken.append(f"the proof leaves an AUC of {short(left)}, above {short(limits.max_proven_auc)}")
    doubt = cost_doubt(pool.difference) if pool.defended else None
    return [*broken, describe_cost(doubt, pool.difference, "test")] if doubt else broken


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
