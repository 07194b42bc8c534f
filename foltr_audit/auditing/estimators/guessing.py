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
    compared, the best at delta 0: other bounds are too slow for all.
    """
    mirrored = trials.mirrored()
    highest = _thinned(TailTable.of(trials.choose_zero, trials.choose_one))
    lowest = _thinned(TailTable.of(mirrored.choose_zero, mirrored.choose_one))
    held = 2 * trials.chosen_on
    scale = min(1.0, canaries_of(trials) / held)
    guessed = highest.sum(axis=0)[:, np.newaxis] + lowest.sum(axis=0)
    right = highest[1][:, np.newaxis] + lowest[1]
    possible = np.argwhere((guessed <= held) & (right > 0))
    r, v = (scale * counts[tuple(possible.T)] for counts in (guessed, right))
    alpha = (1.0 - confidence) / len(possible)
    bounds = binomial_bound(v, r, alpha)
    best = int(np.argmax(bounds))
    if worth is not None:
        canaries, sizes = round(scale * held), np.floor(2.0 * np.log2(r))
        of_size = [
            int(each[np.argmax(bounds[each])])
            for each in map(np.flatnonzero, sizes == np.unique(sizes)[:, np.newaxis])
        ]

        def rank(i: int) -> tuple[float, float]:  # where all show nothing, the one that is next to it
            return worth(canaries, round(r[i]), int(v[i]), 1.0 - alpha), float(bounds[i])

        best = max(of_size, key=rank)
    high, low = possible[best]
    return GuessRule(
        low=float(lowest[:, low].sum()) / held,
        high=float(highest[:, high].sum()) / held,
        share=float(guessed[high, low]) / held,
    )


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
    rank = ranks / (2 * pooled.size)  # ties in the middle: the same from either end
    above, below = rank - (1.0 - guessing.high), guessing.low - rank
    first = np.argsort(-np.maximum(above, below), kind="stable")[:count]
    return count, int(((above >= below) == coins)[first].sum())


def _thinned(tails: TailTable) -> Ints:
    """Scores of the wrong and of the right hypothesis in the empty tail and some others, int64 (2, k)."""
    held = np.stack([tails.zero, tails.one])[:, ::-1]
    sizes = held.sum(axis=0)
    wanted = np.geomspace(1.0, sizes[-1], _TAILS)
    kept = np.unique(np.minimum(np.searchsorted(sizes, wanted), sizes.size - 1))
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
