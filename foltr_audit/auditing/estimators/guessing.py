"""Guesses of coins: which canaries are guessed in or out, by a rule fixed before the guesses are counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from foltr_audit.auditing.estimators.base import TrialScores
from foltr_audit.auditing.estimators.tails import TailTable
from foltr_audit.utils.arrays import Bools, Floats, Ints

_UNLUCKY = 1e-4  # how often coins ask for more trials of a hypothesis than there are
_MARGINS = ((0.0, 0.3989), (1.0, 0.0833), (2.0, 0.0085))  # z, and the mean of max(Z - z, 0) for a normal Z
_TAILS = 32  # tails of each end that are tried, at most; their sizes have equal ratios

GuessWorth = Callable[[int, int, int, float], float]
"""The bound that v right guesses of r show: of canaries m, guesses r, right guesses v, and confidence."""


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


def choose_guessing(trials: TrialScores, confidence: float, worth: GuessWorth | None = None) -> GuessRule:
    """The rule whose bound is largest on the part for choosing, if the bounds of all rules must hold at once.

    Else the best of a thousand rules would often be one with a few lucky guesses. Each trial counts as half a
    canary. The bound is for the number of canaries that will be evaluated, or that this part holds if these
    are fewer. Without `worth` it is the one for delta 0. With it, one rule of each size of guesses is
    compared, the best at delta 0: other bounds are too slow for all. Fewer canaries than a tail held may be
    guessed, see `_with_margins`.
    """
    mirrored = trials.mirrored()
    highest = _thinned(TailTable.of(trials.choose_zero, trials.choose_one))
    lowest = _thinned(TailTable.of(mirrored.choose_zero, mirrored.choose_one))
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

    Args:
        tails: shares of pooled scores in k tails, (k,).
        accuracy: of the guesses there, (k,).
        variance: of a share, times its share that is outside times its share that is inside.
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


def _scores_of(trials: TrialScores, coins: Bools) -> Floats | None:
    """The score of each canary (m,), which is a trial of its coin's hypothesis; None if there are too few."""
    if not trials.independent:
        return np.asarray(np.where(coins, trials.one, trials.zero))
    place = np.where(coins, np.cumsum(coins), np.cumsum(~coins)) - 1
    if place.max() >= trials.evaluated:
        return None
    return np.asarray(np.where(coins, trials.one[place], trials.zero[place]))


def guesses(trials: TrialScores, coins: Bools, guessing: GuessRule) -> tuple[int, int]:
    """How many coins (m,) are guessed, and how many of the guesses are right.

    The number does not depend on the scores. Ties are decided by the order of the canaries. If the coins ask
    for more trials than there are, no guess counts as right, so that nothing is shown.
    """
    count, scores = max(1, round(guessing.share * coins.size)), _scores_of(trials, coins)
    if scores is None:
        return count, 0
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
    place = np.searchsorted(pooled, scores, side="left")
    between = (place > 0) & (place < pooled.size)
    place = np.where(between, place, 1)
    lower, higher = pooled[place - 1], pooled[place]
    between &= (lower < scores) & (scores < higher)
    with np.errstate(over="ignore", invalid="ignore"):
        nearer = np.sign((scores - lower) - (higher - scores))
    return np.asarray(np.where(between, 0.5 * nearer, 0.0))


def _thinned(tails: TailTable) -> Ints:
    """Scores of the wrong and of the right hypothesis in the empty tail and some others, int64 (2, k).

    Among them is the largest tail without a score of the wrong hypothesis.
    """
    held = np.stack([tails.zero, tails.one])[:, ::-1]
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
    return np.asarray(
        np.log(special.betaincinv(v, left, alpha)) - np.log(special.betainccinv(left, v, alpha))
    )
