"""A lower bound from many canaries at once, each in or out by a coin, and guesses of the coins."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from foltr_audit.auditing.estimators.base import TrialScores, check_level, estimator
from foltr_audit.auditing.estimators.tails import TailTable
from foltr_audit.errors import UsageError
from foltr_audit.utils.arrays import Bools, Floats, Ints

_NAME = "one-run"

_TAILS = 32  # tails of each end that are tried, at most; their sizes have equal ratios


class GuessRule(NamedTuple):
    """How coins are guessed.

    Attributes:
        low, high: canaries whose score ranks among the lowest (highest) share of pooled scores are the
            first to be guessed out (in); shares between 0 and 1.
        share: share of all canaries that are guessed.
    """

    low: float
    high: float
    share: float


@estimator(_NAME)
def one_run(
    trials: TrialScores, delta: float, confidence: float, rng: np.random.Generator
) -> tuple[float, float]:
    """Lower bound from n canaries; for each, a fair coin of `rng` chooses the hypothesis.

    Canary i is trial i under hypothesis 1 if its coin is 1, else under 0. The r most extreme ones are
    guessed; r, and what counts as extreme at either end, are fixed on the part for choosing.

    *Guarantees* for any mechanism: P(epsilon > true eps) <= 1 - confidence, over trials and coins. Here each
    canary has a trial of its own, and the bound is weaker than others: half of the trials are not read.

    Source: Steinke, Nasr & Jagielski 2023, "Privacy auditing with one (1) training run", algorithm 1 and
    theorem 5.2.
    """
    n = trials.evaluated
    coins = rng.integers(0, 2, size=n).astype(np.bool_)
    guessed, right = guesses(trials, coins, choose_guessing(trials, delta, confidence))
    epsilon = one_run_bound(n, guessed, right, delta, confidence)
    return epsilon, one_run_bound(n, n, n, delta, confidence)


def one_run_bound(canaries: int, guesses: int, right: int, delta: float, confidence: float) -> float:
    """The smallest eps that v right guesses of r do not refute at delta.

    An eps is refuted if P[W >= v] + 2 m delta max_i P[v - i <= W < v] / i <= 1 - confidence, where W is
    binomial of r guesses that are right with probability e^eps / (1 + e^eps). The number of guesses must
    be fixed in advance, and the coins fair and independent.

    Args:
        canaries: their number m.
        guesses: how many coins were guessed, r.
        right: how many of them were right, v.
        delta: of (eps, delta)-DP.
        confidence: probability that the bound holds.

    Source: as `one_run`.

    >>> round(one_run_bound(1000, 1000, 1000, 0.0, 0.95), 2)
    5.81

    Raises:
        UsageError: counts that do not fit, delta outside [0, 1) or confidence outside (0, 1).
    """
    from scipy import optimize

    check_level(_NAME, delta, confidence)
    if not 0 <= right <= guesses <= canaries:
        raise UsageError(
            f"estimator {_NAME}: {right} right of {guesses} guesses of {canaries} canaries; expected no more"
        )
    if right == 0:
        return 0.0
    alpha = 1.0 - confidence
    high, weight = max(0.0, float(_pure_bound(right, guesses, alpha))), 2.0 * canaries * delta
    if weight == 0 or high == 0:
        return high

    def beyond(eps: float) -> float:
        return tail_probability(guesses, right, eps, weight) - alpha

    if beyond(0.0) >= 0:
        return 0.0
    return float(optimize.brentq(beyond, 0.0, high, xtol=1e-12)) if beyond(high) > 0 else high


def tail_probability(guesses: int, right: int, eps: float, weight: float) -> float:
    """P[W >= v] + weight max_i P[v - i <= W < v] / i for v >= 1: no less than the chance of v right guesses.

    The mean probability of the i values below v rises with i while the next one is more probable than that
    mean, so the maximum is found by bisection. If all of v, v - 1, ... lie below the mode, it is at i = 1.
    """
    from scipy import special

    q, v = 1.0 / (1.0 + math.exp(-eps)), right
    mode = min(math.floor((guesses + 1) * q), guesses)
    below = float(special.bdtr(v - 1, guesses, q))

    def window(i: int) -> float:
        return below - (float(special.bdtr(v - i - 1, guesses, q)) if i < v else 0.0)

    low, high = max(1, v - mode), v  # rising up to low: there the next value is at most the mode
    while low < high:
        i = (low + high) // 2
        if i * (window(i + 1) - window(i)) > window(i):
            low = i + 1
        else:
            high = i
    return float(special.bdtrc(v - 1, guesses, q)) + weight * window(low) / low


def choose_guessing(trials: TrialScores, delta: float, confidence: float) -> GuessRule:
    """The rule whose bound is largest on the part for choosing.

    Each of its trials counts as half a canary. The bound is for the number of canaries that will be
    evaluated, or that this part holds if these are fewer. With a delta, one rule of each size of guesses is
    compared, the best at delta 0: the bound with a delta is too slow for all of them.
    """
    mirrored = trials.mirrored()
    highest = _thinned(TailTable.of(trials.choose_zero, trials.choose_one))
    lowest = _thinned(TailTable.of(mirrored.choose_zero, mirrored.choose_one))
    held = 2 * trials.chosen_on
    scale = min(1.0, trials.evaluated / held)
    guessed = highest.sum(axis=0)[:, np.newaxis] + lowest.sum(axis=0)
    right = highest[1][:, np.newaxis] + lowest[1]
    possible = np.argwhere((guessed <= held) & (right > 0))
    r, v = (scale * counts[tuple(possible.T)] for counts in (guessed, right))
    bounds = _pure_bound(v, r, 1.0 - confidence)
    best = int(np.argmax(bounds))
    if delta > 0:
        canaries, sizes = round(scale * held), np.floor(2.0 * np.log2(r))
        of_size = [
            int(each[np.argmax(bounds[each])])
            for each in map(np.flatnonzero, sizes == np.unique(sizes)[:, np.newaxis])
        ]
        best = max(of_size, key=lambda i: one_run_bound(canaries, round(r[i]), int(v[i]), delta, confidence))
    high, low = possible[best]
    return GuessRule(
        low=float(lowest[:, low].sum()) / held,
        high=float(highest[:, high].sum()) / held,
        share=float(guessed[high, low]) / held,
    )


def guesses(trials: TrialScores, coins: Bools, guessing: GuessRule) -> tuple[int, int]:
    """How many coins (n,) are guessed, and how many of the guesses are right.

    The number does not depend on the scores. Ties are decided by the order of the trials.
    """
    scores = np.where(coins, trials.one, trials.zero)
    pooled = np.sort(np.concatenate([trials.choose_zero, trials.choose_one]))
    ranks = np.searchsorted(pooled, scores, side="left") + np.searchsorted(pooled, scores, side="right")
    rank = ranks / (2 * pooled.size)  # ties in the middle: the same from either end
    above, below = rank - (1.0 - guessing.high), guessing.low - rank
    count = max(1, round(guessing.share * coins.size))
    first = np.argsort(-np.maximum(above, below), kind="stable")[:count]
    return count, int(((above >= below) == coins)[first].sum())


def _thinned(tails: TailTable) -> Ints:
    """Scores of the wrong and of the right hypothesis in the empty tail and some others, int64 (2, k)."""
    held = np.stack([tails.zero, tails.one])[:, ::-1]
    sizes = held.sum(axis=0)
    wanted = np.geomspace(1.0, sizes[-1], _TAILS)
    kept = np.unique(np.minimum(np.searchsorted(sizes, wanted), sizes.size - 1))
    return np.concatenate([np.zeros((2, 1), dtype=np.int64), held[:, kept]], axis=1)


def _pure_bound(right: ArrayLike, guesses: ArrayLike, alpha: float) -> Floats:
    """ln(q / (1 - q)) of the q at which P[Bin(r, q) >= v] = alpha; v > 0; counts need not be whole."""
    from scipy import special

    v = np.asarray(right, dtype=np.float64)
    left = np.asarray(guesses, dtype=np.float64) - v + 1.0
    # 1 - q has an inverse function of its own: subtracting a q next to 1 from 1 would lose its digits.
    return np.asarray(
        np.log(special.betaincinv(v, left, alpha)) - np.log(special.betainccinv(left, v, alpha))
    )
