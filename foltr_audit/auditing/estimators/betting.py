"""An anytime-valid lower bound: bets against an epsilon, whose wealth rarely grows if the epsilon holds."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from foltr_audit.auditing.estimators.base import (
    BestTail,
    TrialScores,
    best_of_direction,
    estimator,
    upper_rate,
    worth_in_epsilon,
)
from foltr_audit.utils.arrays import Bools, Floats, Ints

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
    """One direction's share of the capital.

    Attributes:
        stakes: the stake of each part of it on a pair, as a factor of what the pair pays, (J,).
        shares: the sizes of the parts, (J,), which sum to 1.
        kinds: at each look (T,), how many pairs had only the right trial inside the tail, only the
            wrong one, both, none, (T, 4).
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
    each direction, with stakes that are fixed on the part for choosing. The mean of both is one wealth, so
    two directions need no further correction. Bisection finds the largest refuted eps, since the wealth
    against a smaller eps is never smaller.

    *Guarantees* for any mechanism: P(epsilon > true eps at any number of pairs) <= 1 - confidence. Trials
    may be added until the bound is large enough, as long as the part for choosing stays as it is.

    Source: Waudby-Smith & Ramdas 2024, "Estimating means of bounded random variables by betting",
    section 4; Gonzalez et al. 2025, "Sequentially auditing differential privacy", for audits.
    """
    alpha = 1.0 - confidence
    bets = _both_bets(trials, delta, alpha)
    ceiling = _ceiling(trials.chosen_on, trials.evaluated, delta, alpha)
    return min(_refuted(bets, trials.evaluated, delta, alpha), ceiling), ceiling


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
    alpha = 1.0 - confidence
    final = [
        bets._replace(kinds=_at_best(bets.kinds[-1:], most)) for bets in _both_bets(trials, delta, alpha)
    ]
    return not _looks_that_refute(final, eps, delta, alpha).any()


def _at_best(kinds: Ints | Floats, most: int) -> Floats:
    """Kinds of all of `most` pairs, (1, 4), if those after the first go as well as `hopeless` says."""
    n = int(kinds.sum())
    pays, *cost = kinds[0, :3].tolist()
    rates = [float(upper_rate(pays, n, _DOUBT)), *(1.0 - float(upper_rate(n - x, n, _DOUBT)) for x in cost)]
    rates.append(max(0.0, 1.0 - sum(rates)))
    return np.asarray(kinds + (most - n) * np.array([rates]))


def _both_bets(trials: TrialScores, delta: float, alpha: float) -> list[Bets]:
    worth = worth_in_epsilon(trials.chosen_on, delta, 0.5 * alpha)
    tails = [best_of_direction(trials, worth, above=above) for above in (True, False)]
    return [_place_bets(best, trials, delta, alpha) for best in tails]


def _place_bets(best: BestTail, trials: TrialScores, delta: float, alpha: float) -> Bets:
    stakes, shares = _stakes(best, trials.chosen_on, delta, alpha)
    return Bets(stakes, shares, _kinds(*best.tail.right_and_wrong(trials)))


def _stakes(found: BestTail, m: int, delta: float, alpha: float) -> tuple[Floats, Floats]:
    """Stakes and shares around the best stake for m pairs like those chosen on: sqrt(2 ln(1/a) / (m v)).

    v is the variance of what a pair pays at the eps of the rates there.
    """
    wrong, right = (found.intruders + 0.5) / (m + 1.0), (m - found.missing + 0.5) / (m + 1.0)
    ratio = max((right - delta) / wrong, 1.0)
    variance = right * (1.0 - right) + ratio * ratio * wrong * (1.0 - wrong)
    best = math.sqrt(2.0 * math.log(1.0 / alpha) / (m * variance))
    far = best * _FAR[best * _FAR < 1.0]
    if not far.size:
        return best * _LADDER, np.full(_LADDER.size, 1.0 / _LADDER.size)
    shares = [(1.0 - _FAR_SHARE) / _LADDER.size] * _LADDER.size + [_FAR_SHARE / far.size] * far.size
    return np.concatenate([best * _LADDER, far]), np.array(shares)


def _kinds(right: Bools, wrong: Bools) -> Ints:
    """Numbers of pairs of each kind at each look, int64 (T, 4); see `Bets`."""
    looks = _looks(right.size)
    kinds = [np.cumsum(kind)[looks - 1] for kind in (right & ~wrong, wrong & ~right, right & wrong)]
    return np.stack([*kinds, looks - sum(kinds)], axis=1).astype(np.int64)


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
