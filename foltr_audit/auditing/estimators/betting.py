"""An anytime-valid lower bound: bets against an epsilon that would multiply a fortune if it were true."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foltr_audit.auditing.estimators.base import LowerBound, TrialScores, check_level
from foltr_audit.auditing.estimators.tails import BestTail, best_of_direction, worth_in_epsilon

NAME = "betting"

_LADDER = 2.0 ** (np.arange(-4, 5) / 2)  # stakes with most of the capital, as multiples of the best guess
_FAR = 2.0 ** np.arange(-5, 41)  # stakes with the rest: for far fewer or more pairs than it was made from
_FAR_SHARE = 0.1
_EVERY, _PER_DOUBLING = 256, 32  # the fortune is looked at after each of the first pairs, then this often


class Bets(NamedTuple):
    """One direction's share of the capital.

    Attributes:
        stakes: what each part of it bets on a pair, as a factor of what the pair pays, (J,).
        shares: how large the parts are, (J,), in sum 1.
        kinds: after each look (T,), how many pairs had only the right trial inside the tail, only the
            wrong one, both, none, int64 (T, 4).
    """

    stakes: NDArray[np.float64]
    shares: NDArray[np.float64]
    kinds: NDArray[np.int64]

    def log_wealth(self, eps: float, delta: float) -> NDArray[np.float64]:
        """Logarithm of what one unit of capital has become after each look, if eps is bet against, (T,).

        A stake that could lose everything is left out, as if it had been lost: so the fortune never grows
        with eps, whatever the pairs.
        """
        ratio = math.exp(eps)
        safe = self.stakes * (ratio + delta) < 1.0 - 1e-12
        if not safe.any():
            return np.full(self.kinds.shape[0], -np.inf)
        pays = np.array([1.0, -ratio, 1.0 - ratio, 0.0]) - delta
        logs = np.log1p(np.outer(pays, self.stakes[safe]))
        each = np.einsum("tk,kj->tj", self.kinds.astype(np.float64), logs)
        return np.asarray(np.logaddexp.reduce(each + np.log(self.shares[safe]), axis=1))


def betting(trials: TrialScores, *, delta: float, confidence: float, rng: np.random.Generator) -> LowerBound:
    """Lower bound from fortunes made by betting on pairs of trials, one of each hypothesis.

    If the mechanism is (eps, delta)-DP, a pair pays `1[right in A] - e^eps 1[wrong in A] - delta` for an
    event A, in the mean at most 0, and no stakes make a fortune of 1 / (1 - confidence) with a greater
    probability than 1 - confidence, ever (Ville 1939). Half of the capital bets on the best tail of each
    direction, with stakes that are fixed on the part for choosing; its mean is one fortune, so both
    directions need no further correction. The largest eps refuted is found by bisection: the fortune
    against a smaller eps is never smaller.

    *Guarantees* for any mechanism: P(epsilon > true eps at any number of pairs) <= 1 - confidence. Trials
    may be added until the bound is large enough, as long as the part for choosing stays as it is.

    Source: Waudby-Smith & Ramdas 2024, "Estimating means of bounded random variables by betting",
    section 4; Gonzalez et al. 2025, "Sequentially auditing differential privacy", for audits.

    Raises:
        UsageError: delta outside [0, 1) or confidence outside (0, 1).
    """
    del rng
    check_level(NAME, delta, confidence)
    alpha = 1.0 - confidence
    worth = worth_in_epsilon(trials.chosen_on, delta, 0.5 * alpha)
    bets = []
    for above in (True, False):
        found = best_of_direction(trials, worth, above=above)
        inside = found.tail.right_and_wrong(trials)
        bets.append(Bets(*_stakes(found, trials.chosen_on, delta, alpha), _kinds(*inside)))
    ceiling = _ceiling(trials.chosen_on, trials.evaluated, delta, alpha)
    return LowerBound(
        estimator=NAME,
        epsilon=min(_refuted(bets, trials.evaluated, delta, alpha), ceiling),
        ceiling=ceiling,
        confidence=confidence,
        delta=delta,
        trials=trials.evaluated,
    )


def _stakes(
    found: BestTail, m: int, delta: float, alpha: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Stakes, and shares, around the best one for m pairs like those chosen on: sqrt(2 ln(1/a) / (m v)).

    v is the variance of what a pair pays at the eps that the rates there suggest.
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


def _kinds(right: NDArray[np.bool_], wrong: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Kinds of pairs so far, at each look, int64 (T, 4): see `Bets`."""
    looks = _looks(right.size)
    kinds = [np.cumsum(kind)[looks - 1] for kind in (right & ~wrong, wrong & ~right, right & wrong)]
    return np.stack([*kinds, looks - sum(kinds)], axis=1).astype(np.int64)


def _looks(n: int) -> NDArray[np.int64]:
    """After how many of n pairs the fortune is looked at: the last one is one of them."""
    if n <= _EVERY:
        return np.arange(1, n + 1)
    doublings = math.log2(n / _EVERY)
    later = _EVERY * 2.0 ** (np.arange(1, math.floor(_PER_DOUBLING * doublings) + 1) / _PER_DOUBLING)
    return np.unique(np.concatenate([np.arange(1, _EVERY + 1), np.floor(later).astype(np.int64), [n]]))


def _refuted(bets: list[Bets], n: int, delta: float, alpha: float) -> float:
    """The largest eps against which the capital once became 1 / alpha, 0 if there is none."""

    def refutes(eps: float) -> bool:
        logs = [each.log_wealth(eps, delta) for each in bets]
        wealth = np.logaddexp.reduce(logs, axis=0) - math.log(len(bets))
        return bool(wealth.max() >= math.log(1.0 / alpha))

    low, high = 0.0, math.log(1.0 + n / math.log(1.0 / alpha))  # no stakes refute more: (1 + e^-eps)^n
    if not refutes(low):
        return 0.0
    while high - low > 1e-10:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if refutes(middle) else (low, middle)
    return low


@lru_cache(maxsize=64)
def _ceiling(m: int, n: int, delta: float, alpha: float) -> float:
    """What these bets refute where every score tells its hypothesis."""
    perfect = TrialScores(choose_zero=np.zeros(m), choose_one=np.ones(m), zero=np.zeros(n), one=np.ones(n))
    found = best_of_direction(perfect, worth_in_epsilon(m, delta, 0.5 * alpha), above=True)
    bets = Bets(*_stakes(found, m, delta, alpha), _kinds(*found.tail.right_and_wrong(perfect)))
    return _refuted([bets], n, delta, alpha)
