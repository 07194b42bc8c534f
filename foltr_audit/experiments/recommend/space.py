"""The search space: defenses that can be proven to keep the limit on epsilon, and their parameters."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import Any, Literal, NamedTuple

from foltr_audit.auditing.noise_for_target import calibrations
from foltr_audit.core.results import AttackRecord, ProofRecord
from foltr_audit.core.settings.defaults import DELTA, NO_DEFENSE, SECURE_AGGREGATION, UNIT, VIEW
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.errors import UsageError
from foltr_audit.experiments.comparison.alternatives import PROVEN, DefenseAlternative
from foltr_audit.experiments.comparison.grid import DefenseLabel
from foltr_audit.experiments.decide import cost_doubt
from foltr_audit.experiments.table import NOT_TESTED, Difference
from foltr_audit.privacy.accounting import UpperBound, run_bound, trade_off, upper_bound
from foltr_audit.privacy.observer_views import without_lists
from foltr_audit.privacy.tradeoff import epsilon_of_auc
from foltr_audit.simulation.setup import Setup
from foltr_audit.utils.arrays import Floats
from foltr_audit.utils.formatting import short

LEAST_EPS = 1e-4
"""The smallest limit on epsilon."""

ROUNDING = 1.0 + 1e-9
"""How many times its target a bound may be, as in `auditing.noise_for_target`."""


@dataclass(frozen=True, kw_only=True)
class PrivacyLimits:
    """Limits on what one observer may learn: infinite or None for none.

    They are on the proven epsilon of one message for one interaction, on the one-sided 95 % upper bound
    of the AUC of every attack, and on the AUC that the proof leaves to any attack on a click. Of the views,
    `individual` is a server that sees what each client sends, which is the sum under secure aggregation;
    `aggregate` one that gets only sums, which something outside of the chain computes. With `+lists` the
    epsilon must also hold for a server that sees the shown lists; attacks always see them.
    """

    max_eps: float = math.inf
    max_auc: float | None = None
    max_proven_auc: float | None = None
    view: Literal["individual", "individual+lists", "aggregate", "aggregate+lists"] = VIEW
    delta: float = DELTA

    def __post_init__(self) -> None:
        if not self.max_eps >= LEAST_EPS:
            raise UsageError(f"--max-eps: {self.max_eps:g}; expected at least {LEAST_EPS:g}, or inf")
        if self.max_auc is not None and not 0 < self.max_auc <= 1:
            raise UsageError(f"--max-attack-auc: {self.max_auc:g}; expected above 0, at most 1")
        if self.max_proven_auc is not None and not 0.5 < self.max_proven_auc < 1:
            raise UsageError(f"--max-proven-auc: {self.max_proven_auc:g}; expected above 0.5, below 1")
        if not 0 < self.delta < 1:
            raise UsageError(f"--delta: {self.delta:g}; expected between 0 and 1")
        if without_lists(self.view) not in ("individual", "aggregate"):
            raise UsageError(f"--view: {self.view!r}; expected individual or aggregate, each also +lists")
        if not self.single and self.max_auc is not None:
            raise UsageError(
                f"--max-attack-auc: attacks read single messages, and --view {self.view} grants none; "
                "expected none, or --view individual"
            )

    @classmethod
    def given(
        cls,
        *,
        max_eps: float | None,
        max_attack_auc: float | None,
        max_proven_auc: float | None,
        view: Literal["individual", "individual+lists", "aggregate", "aggregate+lists"],
        delta: float,
    ) -> PrivacyLimits:
        """The limits that a command or a call names; None for no limit.

        Raises:
            UsageError: no limit on what is proven, or as the class.
        """
        if max_eps is None and max_proven_auc is None:
            raise UsageError("--max-eps: missing; expected it, --max-proven-auc, or both")
        return cls(
            max_eps=math.inf if max_eps is None else max_eps,
            max_auc=max_attack_auc,
            max_proven_auc=max_proven_auc,
            view=view,
            delta=delta,
        )

    @property
    def single(self) -> bool:
        """Whether the observer sees what single clients send."""
        return without_lists(self.view) == "individual"

    def proves(self, epsilon: float) -> bool:
        """Whether a proven epsilon is within the limit."""
        return epsilon <= self.max_eps * ROUNDING

    def promises(self, auc: float) -> bool:
        """Whether an AUC that a proof leaves to attacks is within the limit."""
        return self.max_proven_auc is None or auc <= self.max_proven_auc * ROUNDING

    def excess(self, auc_upper: float | None) -> float:
        """By how much the upper bound of an attack's AUC exceeds the limit; at most 0 within it.

        Where attacks are limited and none could run, this is 1, the largest excess: nothing is known.
        """
        if self.max_auc is None:
            return -1.0
        if auc_upper is None or math.isnan(auc_upper):
            return 1.0
        return auc_upper - self.max_auc


USUAL_NORM = 1.5
"""The published norm, with which every mechanism is tried first."""

EPS_SPAN = 30.0
"""The smallest target is the limit over this."""

MOST_EPS = 100.0
"""The largest target, even if the limit is larger or infinite: the search needs an end on its log scale."""

FAIR_SHARE = 0.75
"""Share of the candidates that is divided equally among the defenses."""

_DIGITS = 3  # of searched numbers, so that chains stay readable
_HALVINGS = 9  # of the logarithm of the largest epsilon that keeps a limit on AUC


class CandidatePoint(NamedTuple):
    """A defense, the epsilon that its noise is calibrated for, and the norm that models are clipped to."""

    alternative: str
    eps: float | None = None
    norm: float | None = None

    @property
    def label(self) -> DefenseLabel:
        """Its name in a comparison."""
        return DefenseLabel(self.alternative, self.eps, None if self.norm is None else 2.0 * self.norm)


@dataclass(frozen=True, kw_only=True)
class CandidateScore:
    """The mean nDCG@10 of a candidate on the validation split over repetitions, 0 to 1.

    `excess` is by how much it breaks a limit; at most 0 where it keeps it, never above 1.
    """

    utility: float
    excess: float

    @property
    def feasible(self) -> bool:
        """Whether it keeps the limit."""
        return self.excess <= 0


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidate:
    """One candidate: what accounting says of it, and its results on the validation split.

    The proof, in the limits' view, is of one interaction in one message, and of one client over the whole
    run. `refused` and `failed` say why accounting rejects it or why it could not be run; else they are empty.
    `queries` holds the nDCG@10 of each query, a mean over repetitions, float64 (Q,), NaN where it does not
    count, and `difference` compares them with no defense. The attack is the one with the largest upper bound
    of its AUC.
    """

    point: CandidatePoint
    defense: tuple[str, ...] = ()
    proof: ProofRecord | None = None
    refused: str = ""
    failed: str = ""
    queries: Floats | None = None
    difference: Difference = NOT_TESTED
    attack: AttackRecord | None = None
    score: CandidateScore | None = None

    @property
    def eps_proven(self) -> float:
        return math.inf if self.proof is None else self.proof.upper.epsilon

    @property
    def auc_proven(self) -> float:
        """The AUC that the proof leaves to any attack on a click; 1 where nothing is proven."""
        return 1.0 if self.proof is None or self.proof.auc is None else self.proof.auc

    @property
    def attack_end(self) -> float | None:
        """The one-sided 95 % upper bound of the attack's AUC; None where it is not known."""
        return None if self.attack is None else interval_end(self.attack)

    @property
    def outcome(
        self,
    ) -> Literal[
        "refused",
        "failed",
        "kept",
        "cost not known",
        "costs too much",
        "unknown attack",
        "above --max-attack-auc",
    ]:
        """What came of it; of one that breaks several limits what its loss of nDCG@10 says."""
        if self.refused:
            return "refused"
        if self.score is None:
            return "failed"
        if self.score.feasible:
            return "kept"
        if doubt := cost_doubt(self.difference):
            return doubt
        return "unknown attack" if self.attack_end is None else "above --max-attack-auc"


def interval_end(attack: AttackRecord) -> float | None:
    """The one-sided 95 % upper bound of an attack's AUC; None without one."""
    bounds = attack.metric("auc").bounds
    return None if bounds is None else bounds[1]


class CandidateAccountant:
    """Proves candidates for one experiment, before anything is simulated."""

    def __init__(self, setup: Setup, limits: PrivacyLimits) -> None:
        """`setup` is the experiment without a defense."""
        if setup.learner.sends != "models":
            raise UsageError(
                f"recommend: learner {setup.learner.name} sends {setup.learner.sends}; "
                "expected one that sends models"
            )
        if not setup.clients.alike_in_number:
            raise UsageError(
                f"recommend: scenario {setup.spec.population.scenario}: clients have different numbers of "
                "interactions, and so weights; audits assume equal clients: expected equal numbers"
            )
        if setup.clients.intents > 1:
            raise UsageError(
                f"recommend: {setup.spec.data.source}, scenario {setup.spec.population.scenario}: clients "
                f"have {setup.clients.intents} intents, which are judged on the training split; expected one "
                "intent, since nothing is held out to choose on"
            )
        self.setup = setup
        self.limits = limits

    def prove(self, point: CandidatePoint) -> Candidate:
        """A candidate with its proof, or why accounting rejects it."""
        norm = USUAL_NORM if point.norm is None else point.norm
        try:
            chain = DefenseAlternative(point.alternative).chain(
                self.setup, point.eps or 1.0, 2.0 * norm, self.limits.delta
            )
            spec = Spec.parse({**self.setup.spec.table(), "defense": list(chain)}, "")
            privacy = Setup(spec, self.setup.collection).privacy
        except UsageError as error:
            return Candidate(point=point, refused=str(error))
        events, view = privacy.events(), self.limits.view
        seen = privacy.situation(view, UNIT, rounds=None, delta=self.limits.delta)
        proof = ProofRecord(
            of="all rounds",
            view=view,
            unit=UNIT,
            rounds=seen.rounds,
            upper=upper_bound(events, seen),
            auc=trade_off(events, seen).auc,
        )
        candidate = Candidate(point=point, defense=chain, proof=proof)
        if why := self._why_not(candidate, proof.upper):
            return replace(candidate, refused=why)
        whole_run = run_bound(events, privacy.lifetime(seen))
        return replace(candidate, proof=proof.model_copy(update={"whole_run": whole_run}))

    def _why_not(self, candidate: Candidate, upper: UpperBound) -> str:
        """Why a candidate breaks a limit on proofs; empty where it keeps them."""
        target = candidate.point.eps
        if not self.limits.proves(upper.epsilon):
            return upper.how
        if target is not None and upper.epsilon > target * ROUNDING:
            return f"made for epsilon {target:g}, in this view and chain {upper.how}"
        if self.limits.max_proven_auc is not None and math.isinf(upper.epsilon):
            return upper.how
        if not self.limits.promises(candidate.auc_proven):
            auc, limit = short(candidate.auc_proven), short(self.limits.max_proven_auc)
            return f"the proof leaves an AUC of {auc} to attacks, above {limit}: {upper.how}"
        return ""


class SearchedNumbers(NamedTuple):
    """The smallest and largest target for the noise of a defense, and norm of its clip; or None."""

    eps: tuple[float, float] | None
    norms: tuple[float, float] | None

    @classmethod
    def of(cls, text: str, most: float) -> SearchedNumbers:
        """Those of an alternative, as the calibration of its mechanism says; targets are `most` or less."""
        alternative = DefenseAlternative(text)
        rule = None if alternative.promised is None else calibrations()[alternative.promised]
        clips = rule is not None and rule.order > 0
        eps = (most / EPS_SPAN, most) if alternative.uses_epsilon else None
        return cls(eps, rule.norms if rule is not None and clips else None)


@dataclass(frozen=True, kw_only=True)
class SearchSpace:
    """The candidates that exist: alternatives, each with the numbers that are searched for it.

    Those that have no candidate within the limits are `refused`.
    """

    defenses: dict[str, SearchedNumbers]
    refused: tuple[Candidate, ...] = ()

    @classmethod
    def of(cls, accountant: CandidateAccountant) -> SearchSpace:
        """Every mechanism with and without secure aggregation that can be proven at the limits themselves.

        One test per mechanism and limit suffices: whether a proof exists depends on the mechanism, the view
        and the message format, not on the target, since noise grows until the target is met or none meets it.
        """
        defenses: dict[str, SearchedNumbers] = {}
        refused: list[Candidate] = []
        for text in alternatives():
            largest = _largest(accountant, text)
            if largest.refused:
                refused.append(largest)
            else:
                defenses[text] = SearchedNumbers.of(text, largest.point.eps or math.inf)
        return cls(defenses=defenses, refused=tuple(refused))

    def starts(self, candidates: int) -> list[dict[str, object]]:
        """The parameters that are fixed for the first candidates, by name.

        First every defense once, at the limit and with the usual norm. Then the sampler chooses parameters,
        but the defenses take turns, until `FAIR_SHARE` of the candidates are drawn: a sampler alone stays
        with the defense that was lucky first.
        """
        found: list[dict[str, object]] = []
        for text, searched in self.defenses.items():
            fixed: dict[str, object] = {"defense": text}
            fixed |= {f"eps of {text}": searched.eps[1]} if searched.eps else {}
            fixed |= {f"norm of {text}": USUAL_NORM} if searched.norms else {}
            found.append(fixed)
        open_ones = [text for text, parameters in self.defenses.items() if parameters.eps]
        more = max(0, round(candidates * FAIR_SHARE) - len(found))
        found += [{"defense": text} for text in islice(cycle(open_ones), more)]
        return found[:candidates]

    def suggest(self, trial: Any) -> CandidatePoint:
        """The candidate of an Optuna trial, its numbers rounded to three digits."""
        text = trial.suggest_categorical("defense", list(self.defenses))
        searched = self.defenses[text]
        eps = trial.suggest_float(f"eps of {text}", *searched.eps, log=True) if searched.eps else None
        norm = trial.suggest_float(f"norm of {text}", *searched.norms, log=True) if searched.norms else None
        return CandidatePoint(
            text,
            None if eps is None or searched.eps is None else min(_round(eps), searched.eps[1]),
            None if norm is None else _round(norm),
        )


def _largest(accountant: CandidateAccountant, text: str) -> Candidate:
    """An alternative with the usual norm at about the largest target within the limits.

    A limit on the AUC has another largest epsilon for each mechanism: that of a pure epsilon is the smallest,
    and the others are found by bisection.
    """
    limits = accountant.limits
    has_eps = DefenseAlternative(text).uses_epsilon
    most = min(limits.max_eps, MOST_EPS)

    def prove(eps: float) -> Candidate:
        norm = USUAL_NORM if has_eps else None
        return accountant.prove(CandidatePoint(text, eps if has_eps else None, norm))

    best = prove(most)
    if limits.max_proven_auc is None or not has_eps or not best.refused:
        return best
    low = min(_round_down(epsilon_of_auc(limits.max_proven_auc)), most)
    best, high = prove(low), most
    for _ in range(0 if best.refused else _HALVINGS):
        middle = _round_down(math.sqrt(low * high))
        tried = prove(middle)
        if tried.refused:
            high = middle
        else:
            low, best = middle, tried
    return best


def alternatives() -> tuple[str, ...]:
    """No defense, secure aggregation alone, and every mechanism with and without it."""
    several = [f"{PROVEN}{name}" for name in calibrations()]
    summed = [f"{text}+{SECURE_AGGREGATION}" for text in several]
    return (NO_DEFENSE, SECURE_AGGREGATION, *several, *summed)


def _round(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _round_down(value: float) -> float:
    unit = 10.0 ** (math.floor(math.log10(value)) + 1 - _DIGITS)
    return float(f"{math.floor(value / unit) * unit:.{_DIGITS}g}")
