"""Composition: what one mechanism costs when it runs several times, at a delta.

Every function gives an upper bound. At delta = 0 pure epsilons add up; the numerical accountants of
dp-accounting are used for positive deltas only. See `docs/maths.md`, "Composition".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
    from dp_accounting.rdp import RdpAccountant

from foltr_audit.privacy.loss.conversions import ORDERS

HUGE_LOSS = 500.0
"""A larger pure epsilon is not put on a grid, since e to the width of its steps would overflow."""

MOST_BINS = 2_000_000
"""Bins of a composed distribution at most, which bounds time and memory; so many rounds can be told apart."""

SMALLEST_DELTA = 1e-12
"""Below, rounding errors of the Fourier transform that convolves could matter."""

_SPREAD = 40.0  # standard deviations of a binomial law that are summed up; the rest counts in full
_LARGEST_SAMPLED_ORDER = 128  # the time for an order grows with its square
_SMALLEST_MU = 1e-4  # dp-accounting computes e^(mu^2) - 1, of which a smaller mu leaves no digits


def amplified(epsilon: float, share: float) -> float:
    """Pure epsilon after a secret sample of fixed size; a delta shrinks to share times delta.

    `ln(1 + q (e^eps - 1))` for neighbours that replace one client.

    Source: Balle, Barthe & Gaboardi 2018, "Privacy amplification by subsampling", theorem 9.
    """
    if math.isinf(epsilon):
        return math.inf
    # This form has no e^eps, which overflows from an epsilon of 710 on.
    return max(0.0, epsilon + math.log(share + (1.0 - share) * math.exp(-epsilon)))


def amplified_over(once: Callable[[float], float], rounds: int, delta: float, share: float) -> float:
    """Epsilon of T rounds, each with its own secret sample, by adding up; `once` maps delta to epsilon."""
    spent = delta / (rounds * share)
    return 0.0 if spent >= 1 else rounds * amplified(once(spent), share)


def pure_over(epsilon: float, times: int, delta: float) -> float:
    """Epsilon of any mechanism of a pure epsilon that runs several times.

    Randomised response is the worst of them: its privacy loss is +eps or -eps, and their number binomial.

    Source: Kairouz, Oh & Viswanath 2015, "The composition theorem for differential privacy", theorem 3.3.
    """
    total = times * epsilon
    if delta == 0 or not 0 < total < math.inf:
        return total
    return smallest(pure_delta(epsilon, times), total, delta)


@lru_cache(maxsize=64)
def pure_delta(epsilon: float, times: int) -> Callable[[float], float]:
    """Delta at each epsilon of any mechanism of a pure epsilon, above 0, that runs several times.

    Source: as `pure_over`.
    """
    from scipy.stats import binom

    chance = 1.0 / (1.0 + math.exp(-epsilon)) if epsilon < 700 else 1.0
    middle, spread = times * chance, _SPREAD * math.sqrt(times * chance * (1.0 - chance)) + 1.0
    low, high = max(0, math.floor(middle - spread)), min(times, math.ceil(middle + spread))
    counts = np.arange(low, high + 1)
    masses = binom.pmf(counts, times, chance)
    # What is not summed counts in full towards delta, so that the bound errs on the safe side.
    outside = float(binom.cdf(low - 1, times, chance) + binom.sf(high, times, chance))
    losses = (2.0 * counts - times) * epsilon

    def delta_at(eps: float) -> float:
        gained = -np.expm1(np.minimum(eps - losses, 0.0))
        return outside + float(masses @ gained)

    return delta_at


@lru_cache(maxsize=4096)
def laplace_over(epsilon: float, times: int, delta: float) -> float:
    """Epsilon of the Laplace mechanism of a pure epsilon = L1 distance / scale that runs several times.

    One coordinate that takes the whole distance is the worst: Laplace noise is log-concave, so several
    shorter steps, a group of neighbours in a row, are no easier to tell apart than one long step,
    Roth & Su 2022, "Gaussian differential privacy", lemma A.5). Its trade-off curve is exact for one run;
    for several runs, privacy loss distributions that err on the safe side are convolved.

    Source: Doroshenko et al. 2022, "Connect the dots: tighter discrete approximations of privacy loss
    distributions", as in dp-accounting.
    """
    total = times * epsilon
    if delta == 0 or not 0 < total < math.inf:
        return total
    if times == 1:
        return max(0.0, epsilon + 2.0 * math.log1p(-delta))
    if delta < SMALLEST_DELTA or epsilon > HUGE_LOSS or times > MOST_BINS:
        return pure_over(epsilon, times, delta)
    return min(total, float(_laplace_losses(epsilon, times).get_epsilon_for_delta(delta)))


@lru_cache(maxsize=4)
def _laplace_losses(epsilon: float, times: int) -> PrivacyLossDistribution:
    """The distribution of the privacy loss of several runs; it is slow to compose, and serves all deltas."""
    return laplace_losses(epsilon, times, times)


def laplace_losses(epsilon: float, times: int, most: int) -> PrivacyLossDistribution:
    """The distribution of the privacy loss of several runs, in bins that also suit `most` runs."""
    from dp_accounting.pld import privacy_loss_distribution

    width = max(epsilon / 2000.0, most * epsilon / MOST_BINS)
    if times == 0:
        return privacy_loss_distribution.identity(width)
    once = privacy_loss_distribution.from_laplace_mechanism(
        1.0, sensitivity=epsilon, value_discretization_interval=width
    )
    return once.self_compose(times)


@lru_cache(maxsize=4096)
def sampled_gaussian_over(mu: float, share: float, times: int, delta: float) -> float:
    """Epsilon of Gaussian noise on a secret sample of fixed size, drawn again each round.

    Args:
        mu: L2 distance of two neighbouring sums over the standard deviation, without sampling. Below 1e-4
            the epsilon is that of 1e-4.
        share: share of the clients in a sample, below 1.
        times: rounds.
        delta: delta above 0.

    Source: Wang, Balle & Kasiviswanathan 2019, "Subsampled Renyi differential privacy and analytical
    moments accountant", theorem 27, for neighbours that replace one client, as in dp-accounting.
    """
    return float(_sampled_gaussian(max(mu, _SMALLEST_MU), share, times).get_epsilon(delta))


@lru_cache(maxsize=64)
def _sampled_gaussian(mu: float, share: float, times: int) -> RdpAccountant:
    """The Renyi divergences of all rounds together, from which an epsilon follows at every delta."""
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    parts = 10**6  # dp-accounting takes whole numbers of clients: the share is rounded up to a millionth
    orders = [order for order in ORDERS if order <= _LARGEST_SAMPLED_ORDER]
    accountant = RdpAccountant(orders, dp_accounting.NeighboringRelation.REPLACE_ONE)
    event = dp_accounting.SampledWithoutReplacementDpEvent(
        parts, math.ceil(share * parts), dp_accounting.GaussianDpEvent(1.0 / mu)
    )
    accountant.compose(dp_accounting.SelfComposedDpEvent(event, times))
    return accountant


def smallest(delta_at: Callable[[float], float], high: float, delta: float) -> float:
    """The smallest eps in 0..high with `delta_at(eps) <= delta`, from above; `high` if there is none."""
    if delta_at(high) > delta:
        return high
    low = 0.0
    if delta_at(low) <= delta:
        return low
    for _ in range(100):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        low, high = (low, middle) if delta_at(middle) <= delta else (middle, high)
    return high
