"""Trial scores in, lower bounds out: from error rates, from bets, and for normal noise from means."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, wraps
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from foltr_audit.core.results import LowerBound
from foltr_audit.errors import UsageError
from foltr_audit.privacy.gaussian_dp import gaussian_epsilon
from foltr_audit.privacy.noise import AdditiveNoise
from foltr_audit.utils.arrays import Bools, Floats, Ints, read_only

# Tails of the score range are the events that thresholds make: a tail `score >= t` is evidence for hypothesis
# 1, a tail `score <= t` for hypothesis 0. Scores are only compared with each other, so that an increasing
# function of all scores changes nothing.

FEWEST = 10
"""Fewest trials of each hypothesis in each part: fewer show nothing at usual confidences."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TrialScores:
    """Scores of a game's trials; higher = more like hypothesis 1. They may be infinite, but not NaN.

    Thresholds may be chosen on `choose_zero` and `choose_one`, float64 (m,) each; `zero` and `one`, (n,)
    each, are evaluated. Trials of one hypothesis are independent of each other and follow one law. Two trials
    at the same place, one of each hypothesis, may share noise unless all are `independent`: in a sum, that of
    the other clients.
    """

    choose_zero: Floats
    choose_one: Floats
    zero: Floats
    one: Floats
    independent: bool = False

    def __post_init__(self) -> None:
        for names in (("choose_zero", "choose_one"), ("zero", "one")):
            for name in names:
                scores: Floats = read_only(getattr(self, name), np.float64)
                if scores.ndim != 1 or not scores.size >= FEWEST:
                    wanted = f"expected one row of at least {FEWEST} scores"
                    raise UsageError(f"trials: {name} of shape {scores.shape}; {wanted}")
                if np.isnan(scores).any():
                    raise UsageError(f"trials: {name} holds NaN; expected numbers, which may be infinite")
                object.__setattr__(self, name, scores)
            first, second = (getattr(self, name).size for name in names)
            if first != second:
                raise UsageError(
                    f"trials: {first} scores in {names[0]}, {second} in {names[1]}; expected the same number"
                )

    @property
    def chosen_on(self) -> int:
        """Trials per hypothesis m that thresholds are chosen on."""
        return self.choose_zero.size

    @property
    def evaluated(self) -> int:
        """Trials per hypothesis n that are evaluated."""
        return self.zero.size

    def mirrored(self) -> TrialScores:
        """The same game with the hypotheses swapped: every score is negated."""
        return TrialScores(
            choose_zero=-self.choose_one,
            choose_one=-self.choose_zero,
            zero=-self.one,
            one=-self.zero,
            independent=self.independent,
        )


class Estimator(Protocol):
    """A lower bound on the epsilon of the mechanism that a game was played with."""

    def __call__(
        self, trials: TrialScores, *, delta: float, confidence: float, rng: np.random.Generator
    ) -> LowerBound:
        """The bound at a delta and a confidence; only estimators that toss coins use `rng`."""


Bounds = Callable[[TrialScores, float, float, np.random.Generator], tuple[float, float]]
"""From trials, delta, confidence and a generator to `epsilon` and `ceiling` of a `LowerBound`."""


def estimator(name: str, assumes: str = "") -> Callable[[Bounds], Estimator]:
    """Make an estimator of a function that computes bounds; it checks delta and confidence first.

    One that assumes something, which is normal noise, has no bound at delta 0.
    """

    def decorate(compute: Bounds) -> Estimator:
        @wraps(compute)
        def estimate(
            trials: TrialScores, *, delta: float, confidence: float, rng: np.random.Generator
        ) -> LowerBound:
            check_level(name, delta, confidence)
            if assumes and not delta > 0:
                why = "expected delta > 0: a Gaussian gives no eps at delta 0"
                raise UsageError(f"estimator {name}: delta={delta:g}; {why}")
            epsilon, ceiling = compute(trials, delta, confidence, rng)
            return LowerBound(
                estimator=name,
                epsilon=epsilon,
                ceiling=ceiling,
                confidence=confidence,
                delta=delta,
                trials=trials.evaluated,
                assumes=assumes,
            )

        return estimate

    return decorate


def check_level(name: str, delta: float, confidence: float) -> None:
    """Raise `UsageError` for a delta outside [0, 1) or a confidence outside (0, 1)."""
    if not 0 <= delta < 1:
        raise UsageError(f"estimator {name}: delta={delta:g}; expected 0 <= delta < 1")
    if not 0 < confidence < 1:
        raise UsageError(f"estimator {name}: confidence={confidence:g}; expected 0 < confidence < 1")


def upper_rate(errors: ArrayLike, trials: int, alpha: float) -> Floats:
    """Upper end of a one-sided interval for the rate of events, by their number in n trials.

    The (1 - alpha) quantile of Beta(x + 1, n - x), and 1 for x = n: too low with probability <= alpha.

    Source: Clopper & Pearson 1934, "The use of confidence or fiducial limits illustrated in the case of
    the binomial".
    """
    from scipy import special

    x = np.asarray(errors, dtype=np.float64)
    left = np.maximum(trials - x, 0.5)  # any positive number: not used where all trials are events
    return np.where(x >= trials, 1.0, special.betainccinv(x + 1.0, left, alpha))


@lru_cache(maxsize=4)
def upper_rates(trials: int, alpha: float) -> Floats:
    """`upper_rate` for 0, 1, ... n events in n trials, float64 (n + 1,), read-only."""
    return read_only(upper_rate(np.arange(trials + 1), trials, alpha), np.float64)


def epsilon_of_rates(intruders: Floats, missing: Floats, delta: float) -> Floats:
    """ln((1 - missing - delta) / intruders): no smaller eps allows both rates of an event.

    Elementwise; it may be negative, and is -inf where 1 - missing <= delta. For an event that holds with
    probability at least 1 - `missing` under one hypothesis and at most `intruders` under the other.

    Source: Kairouz, Oh & Viswanath 2015, "The composition theorem for differential privacy", theorem 2.1.
    """
    sure = np.maximum(1.0 - missing - delta, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(sure) - np.log(intruders))


Worth = Callable[[Ints, Ints], Floats]
"""How telling tails are: of `intruders` (scores of the wrong hypothesis inside) and `missing` (scores of
the right one outside), counts in the part that thresholds are chosen on."""


class ScoreTail(NamedTuple):
    """Scores at one end of the range, the threshold included; if `above` it, evidence for hypothesis 1.

    Its worth, the `intruders` (scores of the wrong hypothesis inside) and `missing` (of the right one
    outside) are those in the part that it was chosen on.
    """

    threshold: float
    above: bool
    worth: float = 0.0
    intruders: int = 0
    missing: int = 0

    @property
    def rank(self) -> tuple[float, int, int]:
        """The order of the best tails of both directions, which hypotheses that swap roles do not change."""
        return self.worth, -self.intruders, -self.missing

    def right_and_wrong(self, trials: TrialScores) -> tuple[Bools, Bools]:
        """Which evaluated scores lie inside: of its own hypothesis, and of the other, (n,) each."""
        zero, one = (
            scores >= self.threshold if self.above else scores <= self.threshold
            for scores in (trials.zero, trials.one)
        )
        return (one, zero) if self.above else (zero, one)

    def errors(self, trials: TrialScores) -> tuple[int, int]:
        """Evaluated false positives and false negatives, if scores in the tail count for its hypothesis."""
        right, wrong = self.right_and_wrong(trials)
        missing, intruders = right.size - int(right.sum()), int(wrong.sum())
        return (intruders, missing) if self.above else (missing, intruders)


def every_tail(zero: Floats, one: Floats) -> tuple[Floats, Ints, Ints]:
    """All tails `score >= t` of pooled scores: every distinct threshold t, ascending, (k,).

    And the numbers of scores of either hypothesis in each tail, int64 (k,).
    """
    threshold = np.unique(np.concatenate([zero, one]))
    zeros, ones = (
        np.asarray(scores.size - np.searchsorted(np.sort(scores), threshold, side="left"), np.int64)
        for scores in (zero, one)
    )
    return threshold, zeros, ones


def best_of_direction(trials: TrialScores, worth: Worth, *, above: bool) -> ScoreTail:
    """The tail of one direction that is worth most on the part for choosing; of equals, the largest."""
    game = trials if above else trials.mirrored()
    threshold, intruders, inside = every_tail(game.choose_zero, game.choose_one)
    missing = trials.chosen_on - inside
    values = worth(intruders, missing)
    best = int(np.argmax(values))
    at = float(threshold[best])
    return ScoreTail(
        at if above else -at, above, float(values[best]), int(intruders[best]), int(missing[best])
    )


def best_tail(trials: TrialScores, worth: Worth) -> ScoreTail:
    """The tail of either direction that is worth most on the part for choosing."""
    tails = (best_of_direction(trials, worth, above=above) for above in (True, False))
    return max(tails, key=lambda tail: tail.rank)


def worth_in_epsilon(m: int, delta: float, alpha: float) -> Worth:
    """The worth of tails of m trials: the eps that bounds of both rates, at alpha each, prove."""
    rates = upper_rates(m, alpha)
    return lambda intruders, missing: epsilon_of_rates(rates[intruders], rates[missing], delta)


@estimator("clopper-pearson")
def clopper_pearson(
    trials: TrialScores, delta: float, confidence: float, _rng: np.random.Generator
) -> tuple[float, float]:
    """Lower bound from Clopper-Pearson intervals of the false positive and the false negative rate.

    One tail of the scores, of either direction, is fixed on the part for choosing: the one whose bound is
    largest there. On the evaluated part its two error rates get upper bounds that fail with probability at
    most (1 - confidence) / 2 each. Both inequalities of (eps, delta)-DP then hold with them, of this event
    and of its complement, and the larger of the two bounds needs no further correction.

    *Guarantees* for any mechanism: P(epsilon > true eps) <= 1 - confidence, over independent trials.

    Source: Jagielski, Ullman & Oprea 2020, "Auditing differentially private machine learning"; Nasr et
    al. 2021, "Adversary instantiation", for both directions. See `docs/maths.md`, "Auditing".
    """
    tail = best_tail(trials, worth_in_epsilon(trials.chosen_on, delta, 0.5 * (1.0 - confidence)))
    n = trials.evaluated
    epsilon = clopper_pearson_bound(*tail.errors(trials), n, delta=delta, confidence=confidence)
    return epsilon, clopper_pearson_bound(0, 0, n, delta=delta, confidence=confidence)


def clopper_pearson_bound(
    false_positives: int, false_negatives: int, trials: int, *, delta: float, confidence: float
) -> float:
    """The bound from the errors in n trials of each hypothesis, by a rule fixed in advance.

    >>> round(clopper_pearson_bound(0, 0, 1000, delta=0.0, confidence=0.95), 1)
    5.6
    """
    errors = np.array([false_positives, false_negatives])
    rates = upper_rate(errors, trials, 0.5 * (1.0 - confidence))
    return max(0.0, float(epsilon_of_rates(rates, rates[::-1], delta).max()))


# Most of the capital bets stakes near the best guess, as the rates behind the guess are uncertain. The rest
# bets stakes that pay off if far fewer or far more pairs come than the guess was made for.
_LADDER = 2.0 ** (np.arange(-4, 5) / 2)
_FAR = 2.0 ** np.arange(-5, 41)
_FAR_SHARE = 0.1
# Wealth is looked at after each of the first pairs, then 32 times per doubling of their number: any subset
# of looks is valid, and this one keeps memory small and loses next to nothing.
_EVERY, _PER_DOUBLING = 256, 32
_DOUBT = 1e-3  # how often a rate lies above (below) the end of its interval that `hopeless` takes


class Bets(NamedTuple):
    """One direction's share of the capital: its parts (J,), whose `shares` sum to 1, and the stake of each.

    A stake is a factor of what a pair of trials pays. `kinds` (T, 4) are numbers of pairs at each look: with
    only the right trial inside the tail, only the wrong one, both, none.
    """

    stakes: Floats
    shares: Floats
    kinds: Ints | Floats

    def log_wealth(self, eps: float, delta: float) -> Floats:
        """Logarithm of the wealth at each look, from one unit of capital that bets against eps, (T,).

        A stake that could lose everything counts as lost. So wealth never increases with eps.
        """
        ratio = math.exp(eps)
        safe = self.stakes * (ratio + delta) < 1.0 - 1e-12
        if not safe.any():
            return np.full(self.kinds.shape[0], -np.inf)
        pays = np.array([1.0, -ratio, 1.0 - ratio, 0.0]) - delta
        logs = np.log1p(np.outer(pays, self.stakes[safe]))
        wealth = np.einsum("tk,kj->tj", self.kinds.astype(np.float64), logs)
        return np.asarray(np.logaddexp.reduce(wealth + np.log(self.shares[safe]), axis=1))


@estimator("betting")
def betting(
    trials: TrialScores, delta: float, confidence: float, _rng: np.random.Generator
) -> tuple[float, float]:
    """Lower bound from the wealth of bets on pairs of trials, one of each hypothesis.

    If the mechanism is (eps, delta)-DP, a pair pays `1[right in A] - e^eps 1[wrong in A] - delta` for an
    event A, on average at most 0. Then the probability that any stakes ever multiply the capital by
    1 / (1 - confidence) is at most 1 - confidence (Ville 1939). Half of the capital bets on the best tail of
    each direction, with stakes that are fixed on the part for choosing. Bisection finds the largest refuted
    eps, since the wealth against a smaller eps is never smaller.

    *Guarantees* for any mechanism: P(epsilon > true eps at any number of pairs) <= 1 - confidence. Trials
    may be added until the bound is large enough, as long as the part for choosing stays as it is.

    Source: Waudby-Smith & Ramdas 2024, "Estimating means of bounded random variables by betting",
    section 4; Gonzalez et al. 2025, "Sequentially auditing differential privacy", for audits.
    """
    alpha = 1.0 - confidence
    ceiling = _ceiling(trials.chosen_on, trials.evaluated, delta, alpha)
    return min(_refuted(_both_bets(trials, delta, alpha), trials.evaluated, delta, alpha), ceiling), ceiling


def refutes(trials: TrialScores, eps: float, *, delta: float, confidence: float) -> bool:
    """Whether the bound of these trials is above eps."""
    alpha = 1.0 - confidence
    return bool(_looks_that_refute(_both_bets(trials, delta, alpha), eps, delta, alpha).any())


def hopeless(trials: TrialScores, most: int, eps: float, *, delta: float, confidence: float) -> bool:
    """Whether bets against eps will hardly win within `most` pairs.

    They do not win even if the pairs to come are as favourable as the pairs so far allow: as many of the kind
    that pays, and as few of the others, as the ends of one-sided 99.9 % intervals of their rates say.
    Who stops then keeps a valid bound, as at every stop.
    """
    alpha, n, final = 1.0 - confidence, trials.evaluated, []
    for bets in _both_bets(trials, delta, alpha):
        pays, *cost = bets.kinds[-1, :3].tolist()
        rates = [upper_rate(pays, n, _DOUBT), *(1.0 - upper_rate(n - x, n, _DOUBT) for x in cost)]
        rates.append(np.maximum(0.0, 1.0 - sum(rates)))
        final.append(bets._replace(kinds=bets.kinds[-1:] + (most - n) * np.array([rates])))
    return not _looks_that_refute(final, eps, delta, alpha).any()


def _both_bets(trials: TrialScores, delta: float, alpha: float) -> list[Bets]:
    worth = worth_in_epsilon(trials.chosen_on, delta, 0.5 * alpha)
    tails = (best_of_direction(trials, worth, above=above) for above in (True, False))
    return [_place_bets(tail, trials, delta, alpha) for tail in tails]


def _place_bets(tail: ScoreTail, trials: TrialScores, delta: float, alpha: float) -> Bets:
    """Bets on a tail with stakes around the best one for m pairs like those chosen on.

    It is sqrt(2 ln(1/alpha) / (m v)), with v the variance of what a pair pays at the eps of the rates there.
    """
    m, looks = trials.chosen_on, _looks(trials.evaluated)
    wrong, right = (tail.intruders + 0.5) / (m + 1.0), (m - tail.missing + 0.5) / (m + 1.0)
    ratio = max((right - delta) / wrong, 1.0)
    variance = right * (1.0 - right) + ratio * ratio * wrong * (1.0 - wrong)
    best = math.sqrt(2.0 * math.log(1.0 / alpha) / (m * variance))
    far = best * _FAR[best * _FAR < 1.0]
    near = (1.0 - _FAR_SHARE * bool(far.size)) / _LADDER.size
    shares = [near] * _LADDER.size + [_FAR_SHARE / max(1, far.size)] * far.size
    inside, other = tail.right_and_wrong(trials)
    kinds = [np.cumsum(kind)[looks - 1] for kind in (inside & ~other, other & ~inside, inside & other)]
    counts = np.stack([*kinds, looks - sum(kinds)], axis=1).astype(np.int64)
    return Bets(np.concatenate([best * _LADDER, far]), np.array(shares), counts)


def _looks(n: int) -> Ints:
    """The numbers of pairs after which wealth is looked at, n included."""
    if n <= _EVERY:
        return np.arange(1, n + 1)
    doublings = math.log2(n / _EVERY)
    later = _EVERY * 2.0 ** (np.arange(1, math.floor(_PER_DOUBLING * doublings) + 1) / _PER_DOUBLING)
    return np.unique(np.concatenate([np.arange(1, _EVERY + 1), np.floor(later).astype(np.int64), [n]]))


def _refuted(bets: list[Bets], n: int, delta: float, alpha: float) -> float:
    """The largest eps against which the wealth once reached 1 / alpha, 0 if there is none."""
    low, high = 0.0, math.log(1.0 + n / math.log(1.0 / alpha))  # no stakes refute more: (1 + e^-eps)^n
    if not _looks_that_refute(bets, low, delta, alpha).any():
        return 0.0
    while high - low > 1e-10:
        middle = 0.5 * (low + high)
        won = _looks_that_refute(bets, middle, delta, alpha)
        if not won.any():
            high = middle
            continue
        # Wealth never increases with eps: only looks that refute a smaller eps can refute a larger one.
        low, bets = middle, [bet._replace(kinds=bet.kinds[won]) for bet in bets]
    return low


def _looks_that_refute(bets: list[Bets], eps: float, delta: float, alpha: float) -> Bools:
    """At which looks the wealth against eps is at least 1 / alpha, (T,)."""
    logs = [bet.log_wealth(eps, delta) for bet in bets]
    wealth = np.logaddexp.reduce(logs, axis=0) - math.log(len(bets))
    return np.asarray(wealth >= math.log(1.0 / alpha))


@lru_cache(maxsize=64)
def _ceiling(m: int, n: int, delta: float, alpha: float) -> float:
    """The eps that these bets refute where every score reveals its hypothesis."""
    perfect = TrialScores(choose_zero=np.zeros(m), choose_one=np.ones(m), zero=np.zeros(n), one=np.ones(n))
    best = best_of_direction(perfect, worth_in_epsilon(m, delta, 0.5 * alpha), above=True)
    return _refuted([_place_bets(best, perfect, delta, alpha)], n, delta, alpha)


# Confidence bounds on the distance of the mean scores come from the noncentral t law: T = (Z + c) / S has d
# degrees of freedom and noncentrality c if Z is standard normal, S^2 is chi-squared with d degrees of freedom
# over d, and both are independent.

NORMAL = "noise that is normal or nearly so"
"""What these estimators assume."""

MOST_KURTOSIS = 1e-5
"""Largest excess kurtosis of a coordinate of nearly normal noise."""


def nearly_normal(law: AdditiveNoise | None, rounded_to: float = 0.0) -> bool:
    """Whether noise of this law is normal, or so nearly that `gaussian-dp` holds for it.

    The law is that of all observed noise, e.g. of a sum; messages are rounded to multiples of `rounded_to`,
    before or after the noise, or not at all (0). The estimator is valid for laws that are `like_normal`
    (Gaussian, Skellam, discrete Gaussian) if the variance v of the noise, in squared steps of the widest
    grid, is at least 100,000: the excess kurtosis of Skellam noise is 1/v, that of rounded normal noise next
    to none. All other noise is not nearly normal: even a sum of n Laplace variates has one of 3/n.

    At this v the eps of one coordinate differs from that of normal noise of the same variance by less than a
    relative 1e-4 (deltas of 1e-9 and more, mu up to 3), and the relative standard error of the bound is at
    least 1 / sqrt(2n). At v = 100 the error is 4e-2, and bounds of 10,000 trials are too often too large.
    """
    if law is None or not law.like_normal:
        return False
    rounded_to = max(rounded_to, law.grid)
    return law.variance * MOST_KURTOSIS >= rounded_to * rounded_to


# The trapezoidal rule over normal quantiles converges faster than any power of its step, since the integrand
# is smooth and vanishes at both ends: 1/8 and +-9 give an absolute 1e-13.
_REACH, _STEP = 9.0, 1.0 / 8.0
_NODES = np.arange(-_REACH, _REACH + _STEP, _STEP)
_WEIGHTS = _STEP * np.exp(-0.5 * _NODES**2) / math.sqrt(2.0 * math.pi)
_PRECISION = 1e-12  # relative, of the bound


def tail_probability(t: float, degrees: float, noncentrality: float) -> float:
    """P[T >= t] for t > 0, to an absolute 1e-13 or so; `scipy.special.nctdtr` never ends for t = 1e6.

    It is P[Z + c >= t S]. Of Z and t S the wider one is integrated analytically and the narrower one by the
    trapezoidal rule over its normal quantiles: so the integrand is smooth, and 150 nodes are enough.
    """
    from scipy import special

    half = 0.5 * degrees
    if t * t > 2.0 * degrees:  # the standard deviation of t S is about t / sqrt(2 d)
        reached = np.maximum(noncentrality + _NODES, 0.0) / t
        given = special.gammainc(half, half * reached * reached)
    else:
        given = special.ndtr(noncentrality - t * _scales(half))
    return float(np.sum(_WEIGHTS * given))


def noncentrality_bound(t: float, degrees: float, alpha: float) -> float:
    """Lower confidence bound on a noncentrality c >= 0: too large with probability alpha at most.

    The largest c with P[T >= t] <= alpha, rounded downwards; 0 where there is none. For t <= 0 it is 0. The
    degrees of freedom are above 2 and need not be whole.

    >>> round(noncentrality_bound(5.0, 18.0, 0.05), 3)
    2.813
    """
    if not t > 0 or tail_probability(t, degrees, 0.0) >= alpha:
        return 0.0
    low, high = 0.0, t
    while tail_probability(t, degrees, high) < alpha:
        low, high = high, 2.0 * high
    while high - low > _PRECISION * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if tail_probability(t, degrees, middle) < alpha else (low, middle)
    return low


@lru_cache(maxsize=16)
def _scales(half: float) -> Floats:
    """Quantiles of S, of 2 half degrees of freedom, at the normal probabilities of the nodes; read-only."""
    from scipy import special

    below, above = _NODES[_NODES < 0], _NODES[_NODES >= 0]
    lower, upper = (
        special.gammaincinv(half, special.ndtr(below)),
        special.gammainccinv(half, special.ndtr(-above)),
    )
    scales: Floats = read_only(np.sqrt(np.concatenate([lower, upper]) / half), np.float64)
    return scales


_UNITS = 1e9  # the bound is rounded down to 1e-9, since last digits of sums differ between processors
_NUISANCE = 0.02  # share of alpha that is spent on the correlation


@estimator("gaussian-dp", assumes=f"{NORMAL}, and a score that is linear in the message")
def gaussian_dp(
    trials: TrialScores, delta: float, confidence: float, _rng: np.random.Generator
) -> tuple[float, float]:
    """Lower bound on mu of Gaussian DP from the means and the variance of the scores, and its eps at delta.

    *Assumes* that the scores are normal, with the same variance under both hypotheses. They are if the noise
    is normal (`nearly_normal`) and the score is linear in the message: the projection onto the shift, a
    linear discriminant, or the log likelihood ratio of such noise; not the score of an attack.

    mu is then the distance of the two means in standard deviations, and (mean_1 - mean_0) / (s sqrt(2/n)) is
    noncentral t with noncentrality mu sqrt(n/2): see `mu_bound`. The bound is one-sided: higher scores are
    evidence for hypothesis 1. No threshold is chosen: the part for choosing is not read.

    The assumption extrapolates to scores that no trial has shown. So the bound is never above the ceiling:
    the mu that n trials prove of any mu-GDP mechanism if a threshold separates all of them. A score that is
    infinite was not drawn from a normal law: then the bound is 0.

    *Guarantees* under this assumption: P(epsilon > true eps) <= 1 - confidence. For other noise it may be far
    too large.

    Source: Johnson & Welch 1940, "Applications of the non-central t-distribution", for the bound on mu; Dong,
    Roth & Su 2022, "Gaussian differential privacy", corollary 2.13, for eps; Nasr et al. 2023, "Tight
    auditing of differentially private machine learning", for audits under this assumption and the ceiling.

    Raises:
        UsageError: delta outside (0, 1): a Gaussian has no pure eps; or confidence outside (0, 1).
    """
    alpha = 1.0 - confidence
    highest = _mu_without_errors(trials.evaluated, alpha)
    ceiling = gaussian_epsilon(highest, delta)
    epsilon = gaussian_epsilon(min(mu_bound(trials.zero, trials.one, alpha), highest), delta)
    return (epsilon if epsilon == ceiling else math.floor(epsilon * _UNITS) / _UNITS), ceiling


def mu_bound(zero: Floats, one: Floats, alpha: float) -> float:
    """Lower confidence bound on (mean_1 - mean_0) / sigma: too large with probability alpha at most.

    Scores at the same place may be correlated with a coefficient rho in [0, 1]: two sums hold the same noise
    of other clients. Their sum and their difference are independent, so that s^2, the mean of both variances,
    is by its first two moments sigma^2 over d times chi-squared of d = 2 (n - 1) / (1 + rho^2), exactly for
    rho = 0 and for rho = 1, and T / sqrt(1 - rho) is noncentral t. The bound is the smallest over an interval
    for rho, which takes 1/50 of alpha: it is at one of its ends, since the variance of T is convex in rho. It
    is infinite for different scores without any noise, and 0 if a score is infinite.

    Source: Johnson & Welch 1940 (as `gaussian_dp`) for rho = 0; Satterthwaite 1946, "An approximate
    distribution of estimates of variance components", for the degrees of freedom; Berger & Boos 1994, "P
    values maximized over a confidence set for the nuisance parameter", for rho.
    """
    if not (np.isfinite(zero).all() and np.isfinite(one).all()):
        return 0.0
    largest = max(float(np.abs(zero).max()), float(np.abs(one).max())) or 1.0
    first, second = zero / largest, one / largest  # their squares neither overflow nor vanish
    from_first, from_second = first - first[0], second - second[0]  # constant scores: exactly 0
    between = from_second - from_first
    gap = float(second[0] - first[0] + between.mean())
    apart = 0.5 * float(between.var(ddof=1))  # sigma^2 (1 - rho)
    common = 0.5 * float((from_first + from_second).var(ddof=1))  # sigma^2 (1 + rho)
    sigma = math.sqrt(0.5 * (apart + common))
    if sigma == 0 or not gap > 0:
        return math.inf if gap > 0 else 0.0
    nuisance = _NUISANCE * alpha
    correlations = _correlations(apart, common, zero.size, nuisance)
    return min(bound_at(rho, gap / sigma, zero.size, alpha - nuisance) for rho in correlations)


def _correlations(apart: float, common: float, pairs: int, alpha: float) -> tuple[float, float]:
    """A confidence interval for rho in [0, 1]: it misses rho with probability alpha at most.

    The ratio of both variances is (1 + rho) / (1 - rho) times a variate of F with n - 1 and n - 1 degrees of
    freedom.
    """
    from scipy import special

    half = 0.5 * (pairs - 1)
    share = float(special.betainccinv(half, half, 0.5 * alpha))  # of F in F + 1
    low, high = (
        (common * (1.0 - part) - apart * part) / (common * (1.0 - part) + apart * part)
        for part in (share, 1.0 - share)
    )
    return max(0.0, low), max(0.0, high)


def bound_at(rho: float, distance: float, n: int, alpha: float) -> float:
    """The bound on mu if rho is known; `distance` is that of the means in estimated standard deviations."""
    from scipy import special

    if rho == 1.0:  # the difference of the means is known, only s is random
        half = 0.5 * (n - 1)
        return distance * math.sqrt(float(special.gammaincinv(half, alpha)) / half)
    error = math.sqrt(2.0 * (1.0 - rho) / n)
    return error * noncentrality_bound(distance / error, 2.0 * (n - 1) / (1.0 + rho * rho), alpha)


def _mu_without_errors(n: int, alpha: float) -> float:
    """The mu that n trials of each hypothesis without an error prove, by upper bounds of both error rates."""
    from scipy import special

    rate = float(upper_rate(0, n, 0.5 * alpha))
    return max(0.0, -2.0 * float(special.ndtri(rate)))
