"""Lower bounds from many canaries at once, each in or out by a coin, and guesses of the coins.

Which canaries are guessed in or out is a rule fixed before the guesses are counted. `one-run` bounds epsilon,
`one-run-fdp` the mu of Gaussian noise by the trade-off function of that noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from foltr_audit.auditing.estimators.repeated_trials import (
    NORMAL,
    TrialScores,
    check_level,
    estimator,
    every_tail,
)
from foltr_audit.errors import UsageError
from foltr_audit.privacy.gaussian_dp import gaussian_epsilon
from foltr_audit.utils.arrays import Bools, Floats, Ints

_UNLUCKY = 1e-4  # how often coins ask for more trials of a hypothesis than there are
_MARGINS = ((0.0, 0.3989), (1.0, 0.0833), (2.0, 0.0085))  # z, and the mean of max(Z - z, 0) for a normal Z
_TAILS = 32  # tails of each end that are tried, at most; their sizes have equal ratios

GuessWorth = Callable[[int, int, int, float], float]
"""The bound that v right guesses of r show: of canaries m, guesses r, right guesses v, and confidence."""


class GuessRule(NamedTuple):
    """How coins are guessed: the `share` of all canaries for which they are.

    The first are those whose score ranks among the `low` share of lowest pooled scores (guessed out), or the
    `high` share of highest ones (guessed in).
    """

    low: float
    high: float
    share: float


def choose_guessing(trials: TrialScores, confidence: float, worth: GuessWorth | None = None) -> GuessRule:
    """The rule whose bound is largest on the part for choosing, if the bounds of all rules must hold at once.

    Else the best of a thousand rules would often be one with a few lucky guesses. Each trial counts as half a
    canary, and no more canaries count than will be evaluated. Without `worth` the bound is the one for delta
    0; with it, it is that of the best rule at delta 0 of each size of guesses: it is too slow for all. Fewer
    canaries than a tail held may be guessed, see `_with_margins`.
    """
    highest, lowest = _thinned(trials), _thinned(trials.mirrored())
    held = 2 * trials.chosen_on
    canaries = canaries_of(trials)
    scale = min(1.0, canaries / held)
    guessed = highest.sum(axis=0)[:, np.newaxis] + lowest.sum(axis=0)
    right = highest[1][:, np.newaxis] + lowest[1]
    possible = np.argwhere((guessed <= held) & (right > 0))
    tails, sure = (counts[tuple(possible.T)] / held for counts in (guessed, right))
    shares, expected = _with_margins(tails, sure / tails, 1.0 / canaries + 1.0 / held)
    places = np.flatnonzero((shares > 0) & (expected > 0))
    r, v = (scale * held * each.flat[places] for each in (shares, expected))
    alpha = (1.0 - confidence) / len(possible)
    sizes = np.floor(2.0 * np.log2(r)) if worth is not None else np.zeros(r.size)
    groups = [_best_trades(r, v, np.flatnonzero(sizes == size)) for size in np.unique(sizes)]
    bounds = [binomial_bound(v[group], r[group], alpha) for group in groups]
    of_size = [int(group[np.argmax(bound)]) for group, bound in zip(groups, bounds, strict=True)]
    best = of_size[0]
    if worth is not None:
        known = {i: float(bound.max()) for i, bound in zip(of_size, bounds, strict=True)}

        def rank(i: int) -> tuple[float, float]:  # where all show nothing, the one that is next to it
            return worth(round(scale * held), round(r[i]), int(v[i]), 1.0 - alpha), known[i]

        best = max(of_size, key=rank)
    high, low = possible[places[best] % len(possible)]
    return GuessRule(
        low=float(lowest[:, low].sum()) / held,
        high=float(highest[:, high].sum()) / held,
        share=float(shares.flat[places[best]]),
    )


def _best_trades(r: Floats, v: Floats, places: Ints) -> Ints:
    """Those places of r guesses, v of them right, that no other beats with fewer guesses and more right ones.

    The bound of a place that another beats is smaller. Of equal places the first stays.
    """
    order = places[np.lexsort((-v[places], r[places]))]
    most = np.maximum.accumulate(v[order])
    return np.sort(order[np.concatenate([[True], v[order][1:] > most[:-1]])])


def _with_margins(tails: Floats, accuracy: Floats, variance: float) -> tuple[Floats, Floats]:
    """The shares of canaries to guess, and to guess right, if tails are guessed up to a margin, (3, k) each.

    The number of canaries in a tail varies by chance. Guesses beyond the tail are right half of the time.
    `tails` are shares of pooled scores, (k,), and `accuracy` is that of the guesses there; `variance` is that
    of a share over its share that is outside times its share that is inside.
    """
    deviation = np.sqrt(np.maximum(tails * (1.0 - tails), 0.0) * variance)
    shares, beyond = (
        np.array([[each] for each in several]) * deviation for several in zip(*_MARGINS, strict=True)
    )
    shares = tails - shares
    return shares, accuracy * (shares - beyond) + 0.5 * beyond


def canaries_of(trials: TrialScores) -> int:
    """How many canaries m can be played with n trials of each hypothesis, one trial for each canary.

    Trials that share noise must not both be read: then m = n. If all are independent, m is the largest number
    of coins that rarely fall on one side more than n times.
    """
    from scipy import special

    n = trials.evaluated
    if not trials.independent:
        return n
    few, many = n, 2 * n + 1
    while many - few > 1:
        middle = (few + many) // 2
        rare = 2.0 * float(special.bdtrc(n, middle, 0.5)) <= _UNLUCKY
        few, many = (middle, many) if rare else (few, middle)
    return few


def guesses(trials: TrialScores, coins: Bools, guessing: GuessRule) -> tuple[int, int]:
    """How many coins (m,) are guessed, and how many of the guesses are right.

    The number does not depend on the scores. A canary is a trial of its coin's hypothesis: the one at its
    place or, where all are independent, the next one. If the coins ask for more trials than there are, no
    guess counts as right, so that nothing is shown. Ties are decided by the order of the canaries.
    """
    count, places = max(1, round(guessing.share * coins.size)), np.arange(coins.size)
    if trials.independent:
        places = np.where(coins, np.cumsum(coins), np.cumsum(~coins)) - 1
        if places.max() >= trials.evaluated:
            return count, 0
    scores = np.where(coins, trials.one[places], trials.zero[places])
    pooled = np.sort(np.concatenate([trials.choose_zero, trials.choose_one]))
    ranks = np.searchsorted(pooled, scores, side="left") + np.searchsorted(pooled, scores, side="right")
    # Ties are in the middle: the same from either end.
    rank = (ranks + _leaning(pooled, scores)) / (2 * pooled.size)
    above, below = rank - (1.0 - guessing.high), guessing.low - rank
    first = np.argsort(-np.maximum(above, below), kind="stable")[:count]
    return count, int(((above >= below) == coins)[first].sum())


def _leaning(pooled: Floats, scores: Floats) -> Floats:
    """1/2 for scores (m,) that are nearer to the next of `pooled` than to the one before, -1/2 for others.

    So a gap between the hypotheses is divided in its middle. `pooled` ascends; 0 for scores that are equal to
    one of it, in the middle of a gap, or at the ends.
    """
    rank = np.clip(np.searchsorted(pooled, scores, side="left"), 1, pooled.size - 1)
    lower, higher = pooled[rank - 1], pooled[rank]
    with np.errstate(over="ignore", invalid="ignore"):
        nearer = np.sign((scores - lower) - (higher - scores))
    return np.where((lower < scores) & (scores < higher), 0.5 * nearer, 0.0)


def _thinned(trials: TrialScores) -> Ints:
    """Scores of the wrong and of the right hypothesis in the empty tail and some others, int64 (2, k).

    Among them is the largest tail without a score of the wrong hypothesis.
    """
    held = np.stack(every_tail(trials.choose_zero, trials.choose_one)[1:])[:, ::-1]
    sizes = held.sum(axis=0)
    wanted = np.geomspace(1.0, sizes[-1], _TAILS)
    spread = np.minimum(np.searchsorted(sizes, wanted), sizes.size - 1)
    pure = max(0, int(np.searchsorted(held[0], 0, side="right")) - 1)
    kept = np.unique(np.append(spread, pure))
    return np.concatenate([np.zeros((2, 1), dtype=np.int64), held[:, kept]], axis=1)


def binomial_bound(right: ArrayLike, guesses: ArrayLike, alpha: float) -> Floats:
    """ln(q / (1 - q)) of the q at which P[Bin(r, q) >= v] = alpha; v > 0; counts need not be whole.

    The smallest eps that v right guesses of r do not refute at delta 0.
    """
    from scipy import special

    v = np.asarray(right, dtype=np.float64)
    left = np.asarray(guesses, dtype=np.float64) - v + 1.0
    # 1 - q has an inverse function of its own: subtracting a q next to 1 from 1 would lose its digits.
    with np.errstate(divide="ignore"):  # -inf of a q below the smallest number: no bound
        return np.asarray(
            np.log(special.betaincinv(v, left, alpha)) - np.log(special.betainccinv(left, v, alpha))
        )


_ONE_RUN = "one-run"


@estimator(_ONE_RUN)
def one_run(
    trials: TrialScores, delta: float, confidence: float, rng: np.random.Generator
) -> tuple[float, float]:
    """Lower bound from m canaries; for each, a fair coin of `rng` chooses the hypothesis.

    A canary is the next trial under hypothesis 1 if its coin is 1, else under 0; in trials that share noise,
    the one at its own place. The r most extreme ones are guessed; r, and what counts as extreme at either
    end, are fixed on the part for choosing. m is a little less than all trials, of both hypotheses, and one
    half of them if they share noise: see `canaries_of`.

    *Guarantees* for any mechanism: P(epsilon > true eps) <= 1 - confidence, over trials and coins.

    Source: Steinke, Nasr & Jagielski 2023, "Privacy auditing with one (1) training run", algorithm 1;
    Mahloujifar, Melis & Chaudhuri 2025, "Auditing f-differential privacy in one run", for delta.
    """

    def worth(canaries: int, count: int, right: int, sure: float) -> float:
        return one_run_bound(canaries, count, right, delta, sure)

    m, count, right = _guessed(trials, confidence, rng, worth if delta > 0 else None)
    epsilon = one_run_bound(m, count, right, delta, confidence)
    return epsilon, one_run_bound(m, m, m, delta, confidence)


def _guessed(
    trials: TrialScores, confidence: float, rng: np.random.Generator, worth: GuessWorth | None
) -> tuple[int, int, int]:
    """Canaries, guesses and right guesses, by the best rule for coins of a generator."""
    coins = rng.integers(0, 2, size=canaries_of(trials)).astype(np.bool_)
    return coins.size, *guesses(trials, coins, choose_guessing(trials, confidence, worth))


def check_counts(name: str, canaries: int, count: int, right: int) -> None:
    """Raise `UsageError` for counts of canaries, guesses and right guesses that do not fit."""
    if not 0 <= right <= count <= canaries:
        raise UsageError(
            f"estimator {name}: {right} right of {count} guesses of {canaries} canaries; expected no more"
        )


def one_run_bound(canaries: int, guesses: int, right: int, delta: float, confidence: float) -> float:
    """The smallest eps that v right guesses of r, of the coins of m canaries, do not refute at delta.

    An eps is refuted if `most_likely` is at most 1 - confidence. The number of guesses must be fixed in
    advance, and the coins fair and independent.

    Source: as `one_run`; see `docs/maths.md`, "Guesses of coins".

    >>> round(one_run_bound(1000, 1000, 1000, 0.0, 0.95), 2)
    5.81
    """
    from scipy import optimize

    check_level(_ONE_RUN, delta, confidence)
    check_counts(_ONE_RUN, canaries, guesses, right)
    if right == 0:
        return 0.0
    alpha = 1.0 - confidence
    high, weight = max(0.0, float(binomial_bound(right, guesses, alpha))), canaries * delta
    if weight == 0 or high == 0:
        return high

    def beyond(eps: float) -> float:
        return most_likely(guesses, right, eps, weight) - alpha

    if beyond(0.0) >= 0:
        return 0.0
    return float(optimize.brentq(beyond, 0.0, high, xtol=1e-12)) if beyond(high) > 0 else high


def most_likely(guesses: int, right: int, eps: float, weight: float) -> float:
    """How likely v >= 1 of r guesses or more are right, at most, if the mechanism is (eps, delta)-DP.

    It is P[W >= v] (1 + weight P[W < v] / (v P[W = v])), but at most 1, where W is binomial of r guesses that
    are right with probability e^eps / (1 + e^eps), and `weight` is m delta for m canaries.
    """
    from scipy import special

    q = 1.0 / (1.0 + math.exp(-eps))
    further = np.arange(1, guesses - right + 1)
    with np.errstate(over="ignore"):  # P[W >= v] / P[W = v], by the ratios of successive probabilities
        ratio = 1.0 + float(
            np.cumprod(math.exp(eps) * (guesses - right + 1 - further) / (right + further)).sum()
        )
    above, below = float(special.bdtrc(right - 1, guesses, q)), float(special.bdtr(right - 1, guesses, q))
    return min(1.0, above + weight * below * ratio / right) if weight > 0 else above


_ONE_RUN_FDP = "one-run-fdp"
_PRECISION, _ROUGH = 1e-10, 1e-3  # of mu: of a bound, and of those that choose a rule

Inverse = Callable[[float], float]
"""The inverse of 1 - f: from the probability of an event to its least one for a neighbouring input."""


@estimator(_ONE_RUN_FDP, assumes=NORMAL)
def one_run_fdp(
    trials: TrialScores, delta: float, confidence: float, rng: np.random.Generator
) -> tuple[float, float]:
    """Lower bound on mu of Gaussian DP from m canaries as in `one_run`, and its eps at delta.

    *Assumes* that the noise is normal: an attacker who tells two neighbouring inputs apart does no better
    than by telling N(0, 1) from N(mu, 1), and the eps at delta is that of the largest such mu. The score
    may be any.

    *Guarantees* under this assumption: P(epsilon > true eps) <= 1 - confidence, over trials and coins.

    Source: Mahloujifar, Melis & Chaudhuri 2025, "Auditing f-differential privacy in one run", for guesses of
    coins; Dong, Roth & Su 2022, "Gaussian differential privacy", corollary 2.13, for eps.

    Raises:
        UsageError: delta outside (0, 1): a Gaussian has no pure eps; or confidence outside (0, 1).
    """

    def worth(canaries: int, count: int, right: int, sure: float) -> float:
        return one_run_mu(canaries, count, right, sure, precision=_ROUGH)

    m, count, right = _guessed(trials, confidence, rng, worth)
    bounds = (one_run_mu(m, *counts, confidence) for counts in ((count, right), (m, m)))
    epsilon, ceiling = (gaussian_epsilon(mu, delta) for mu in bounds)
    return epsilon, ceiling


def one_run_mu(
    canaries: int, guesses: int, right: int, confidence: float, precision: float = _PRECISION
) -> float:
    """The smallest mu of Gaussian DP that v right guesses of r, of m canaries, do not refute, rounded down.

    A mu is refuted if right guesses that are as likely as 1 - confidence would need a total probability above
    1: see `least_total`. The number of guesses must be fixed in advance, and the coins fair and independent.
    The bound is at most `precision` too small.

    >>> round(one_run_mu(1000, 1000, 1000, 0.95), 2)
    2.37
    """
    check_level(_ONE_RUN_FDP, 0.0, confidence)
    check_counts(_ONE_RUN_FDP, canaries, guesses, right)

    def refuted(mu: float) -> bool:
        return least_total(canaries, guesses, right, 1.0 - confidence, gaussian_inverse(mu)) > 1.0

    low, high = 0.0, 1.0
    if not refuted(low):
        return low
    while refuted(high):
        low, high = high, 2.0 * high
    while high - low > precision:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def least_total(canaries: int, guesses: int, right: int, chance: float, inverse: Inverse) -> float:
    """The total probability of all counts of right guesses, at least, if v or more have this chance.

    With s_i the probability of i or more right guesses of r, for m canaries, a trade-off function f (its
    `inverse` is increasing and convex, 0 at 0) demands for every i that

        s_i >= (m inverse(((i + 1) s_(i + 1) + A) / m) + A + s_(i + 1)) / (r - i),  A = s_(i + 2) + ... + s_r.

    The right side increases in all s_j, so the least s_0 follows from s_v = chance and s_j = 0 for j > v.
    Once a step does not increase s, no later one does. A total above 1 is impossible: then v or more right
    guesses are less likely than `chance`. The recursion stops at the first s_i above 1.

    Source: as `one_run_fdp`; the derivation is in `docs/maths.md`, "Guesses of coins".
    """
    total, above = chance, 0.0
    for i in range(right - 1, -1, -1):
        hit = ((i + 1) * total + above) / canaries
        above += total
        least = (canaries * inverse(hit) + above) / (guesses - i)
        if least <= total:
            break
        total = least
        if total > 1.0:
            break
    return total


def gaussian_inverse(mu: float) -> Inverse:
    """The least probability of an event under N(0, 1) that has a given one under N(mu, 1)."""
    from scipy import special

    return lambda y: float(special.ndtr(special.ndtri(y) - mu)) if 0.0 < y < 1.0 else max(0.0, y)
