"""Losses over a run in which a client takes part in some rounds, and the observer knows in which.

Each round has a cohort of its own, a uniform sample of a share q of the clients. So the number K of rounds in
which a client takes part is binomial, whatever its data. An observer that knows who takes part knows K: if k
rounds together are (eps, delta_k)-DP, the run is (eps, sum of P(K = k) delta_k)-DP. Every function gives an
upper bound of epsilon. See `docs/maths.md`, "A whole run".

Source: Balle, Barthe & Gaboardi 2018, "Privacy amplification by subsampling", section 2: hockey-stick
divergences are jointly convex, and those of mixtures with known components are equal to the mean.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from foltr_audit.privacy.gaussian_dp import LARGEST, gaussian_delta
from foltr_audit.privacy.loss.composition import (
    HUGE_LOSS,
    MOST_BINS,
    SMALLEST_DELTA,
    laplace_losses,
    laplace_over,
    pure_delta,
    pure_over,
    smallest,
)

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

_MOST_COUNTS = 200  # numbers of rounds that are told apart; the next larger one stands for those between
_OUTSIDE = 1e-6  # share of delta that numbers of rounds above all others may take as a failure
_LOWEST = 1e-4  # probability below which a larger number of rounds stands for the smallest ones


def pure_sometimes(epsilon: float, runs: int, rounds: int, share: float, delta: float) -> float:
    """Epsilon of any mechanism of a pure epsilon that runs several times in each of T rounds."""
    worst = pure_over(epsilon, runs * rounds, delta)
    if delta == 0 or not 0 < epsilon < math.inf:
        return worst
    law = participation(rounds, share, delta)
    deltas = [(chance, pure_delta(epsilon, runs * count)) for count, chance in law if count > 0]

    def delta_at(eps: float) -> float:
        return _OUTSIDE * delta + sum(chance * each(eps) for chance, each in deltas)

    return smallest(delta_at, worst, delta)


def gaussian_sometimes(mu: float, rounds: int, share: float, delta: float) -> float:
    """Epsilon of a mu-GDP mechanism that runs once in each of T rounds, at a delta above 0."""
    law = participation(rounds, share, delta)
    each = [(chance, mu * math.sqrt(count)) for count, chance in law]
    if each[-1][1] > LARGEST:
        return math.inf

    def delta_at(eps: float) -> float:
        return _OUTSIDE * delta + sum(chance * gaussian_delta(one, eps) for chance, one in each)

    high = 1.0
    while delta_at(high) > delta:
        high *= 2.0
        if high > LARGEST:
            return math.inf
    return smallest(delta_at, high, delta)


def laplace_sometimes(epsilon: float, rounds: int, share: float, delta: float) -> float:
    """Epsilon of the Laplace mechanism that runs once in each of T rounds; see `laplace_over`.

    In a round in which the client does not take part, the privacy loss is 0.
    """
    if delta < SMALLEST_DELTA or not 0 < epsilon < math.inf or (epsilon <= HUGE_LOSS and rounds > MOST_BINS):
        return laplace_over(epsilon, rounds, delta)
    if epsilon > HUGE_LOSS:
        return pure_sometimes(epsilon, 1, rounds, share, delta)
    losses = _laplace_losses(epsilon, rounds, share)
    with np.errstate(over="ignore"):  # large losses have tiny probabilities; infinity is safe
        found = float(losses.get_epsilon_for_delta(delta))
    return min(rounds * epsilon, found)


@lru_cache(maxsize=4)
def _laplace_losses(epsilon: float, rounds: int, share: float) -> PrivacyLossDistribution:
    """The distribution of the privacy loss of a run, for all deltas."""
    once, never = (laplace_losses(epsilon, times, rounds) for times in (1, 0))
    return once.compute_mixture(never, share).self_compose(rounds)


def participation(rounds: int, share: float, delta: float) -> list[tuple[int, float]]:
    """Numbers of rounds in which a client takes part, rising, each with its probability.

    Where there are many, some stand for smaller ones, so that bounds err on the safe side. Numbers above all
    of these have less than a millionth of delta together, and count as a failure.
    """
    from scipy.stats import binom

    if share >= 1:
        return [(rounds, 1.0)]
    high = min(rounds, int(binom.isf(_OUTSIDE * delta, rounds, share)) + 1)
    low = int(binom.ppf(_LOWEST, rounds, share))
    step = math.ceil((high - low + 1) / _MOST_COUNTS)
    counts = np.arange(high, low - 1, -step)[::-1] if step > 1 else np.arange(high + 1)
    chances = np.diff(binom.cdf(counts, rounds, share), prepend=0.0)
    return list(zip(counts.tolist(), chances.tolist(), strict=True))
