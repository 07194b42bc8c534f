"""What one mechanism costs at a delta, when it runs once, several times, or in some rounds of a run.

Every function gives an upper bound. At delta = 0 pure epsilons add up; the numerical accountants of
dp-accounting are used for positive deltas only. See `docs/maths.md`, "Composition".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from foltr_audit.privacy.gaussian_dp import LARGEST, gaussian_delta, gaussian_mu

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
    from dp_accounting.rdp import RdpAccountant

_CLASSICAL_LARGEST = 1.0
_DIGITS = 10
_FEW = 5
_MARGIN = 1e-6  # for eps in 1e-4 .. 100 and delta from 1e-15, rounding loses 2e-9 of delta, at most 6e-7
ORDERS = (*range(2, 65), *(round(2 ** (i / 4)) for i in range(25, 81)))
"""Whole orders at which Renyi divergences are converted: all up to 64, then four per doubling to 2^20."""


@lru_cache(maxsize=256)
def gaussian_sigma(eps: float, delta: float, sensitivity: float) -> float:
    """The smallest sigma of a Gaussian mechanism that is (eps, delta) private, per sensitivity to ten digits.

    Never too small: it is for a delta that is smaller by more than rounding loses in this range, and is
    rounded up to ten digits. In further digits the special functions of systems differ.

    Args:
        eps: epsilon, at least 1e-6; values above 1e9 count as 1e9.
        delta: at least 1e-30, below 1.
        sensitivity: L2 distance of neighbouring inputs, above 0.

    Source: Balle & Wang 2018, "Improving the Gaussian mechanism for differential privacy: analytical
    calibration and optimal denoising", section 3 and algorithm 1.
    """
    return sensitivity * _rounded_up(1.0 / gaussian_mu(min(eps, LARGEST), delta * (1.0 - _MARGIN)))


def classical_gaussian_sigma(eps: float, delta: float, sensitivity: float) -> float:
    """`sqrt(2 ln(1.25 / delta)) sensitivity / eps`, which holds up to an epsilon of 1.

    Source: Dwork & Roth 2014, "The algorithmic foundations of differential privacy", theorem A.1.

    Raises:
        ValueError: eps is above 1, where the formula gives too little noise.
    """
    if not eps <= _CLASSICAL_LARGEST:
        raise ValueError(
            f"eps={eps:g}: the classical calibration holds up to 1; expected calibration=analytic"
        )
    return _rounded_up(math.sqrt(2.0 * math.log(1.25 / delta))) * (sensitivity / eps)


def _rounded_up(x: float) -> float:
    """A positive number at `_DIGITS` digits, not below it.

    In exact decimals, since the result is a proof. `auditing.noise_for_target` rounds in binary instead: its
    numbers are checked afterwards, and 1.1 has to stay 1.1.
    """
    exact = Decimal(x)
    return float(exact.quantize(Decimal(1).scaleb(exact.adjusted() - _DIGITS + 1), ROUND_CEILING))


def l1_diameter(norm: float, order: int, parameters: int) -> float:
    """The largest L1 distance of two points in a ball, rounded up to five digits.

    Args:
        norm: radius of the ball.
        order: its norm, 1 or 2.
        parameters: number P of coordinates.
    """
    return few_digits(2.0 * norm * (math.sqrt(parameters) if order == 2 else 1.0), math.ceil)


def few_digits(value: float, how: Callable[[float], int], digits: int = _FEW) -> float:
    """A positive number with few significant digits; `how` rounds, e.g. `math.ceil`."""
    places = digits - 1 - math.floor(math.log10(value))
    # 10 to a negative power is not exact in binary. Division by an exact power keeps 1.1 as 1.1.
    if places >= 0:
        return how(value * 10.0**places) / 10.0**places
    return float(how(value / 10.0**-places) * 10**-places)


def epsilon_of_renyi(divergence: Callable[[int], float], delta: float) -> float:
    """The smallest epsilon at a delta that Renyi divergences of the orders `ORDERS` prove; at least 0.

    Source: Canonne, Kamath & Steinke 2020, "The discrete Gaussian for differential privacy", proposition 12.
    """
    found: Iterator[float] = (
        divergence(order) + math.log1p(-1.0 / order) - (math.log(delta) + math.log(order)) / (order - 1)
        for order in ORDERS
    )
    return max(0.0, min(found))


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


# Each round has a cohort of its own, a uniform sample of a share q of the clients. So the number K of rounds
# in which a client takes part is binomial, whatever its data. An observer that knows who takes part knows K:
# if k rounds together are (eps, delta_k)-DP, the run is (eps, sum of P(K = k) delta_k)-DP. Every function
# gives an upper bound of epsilon. See `docs/maths.md`, "A whole run".
#
# Source: Balle, Barthe & Gaboardi 2018, "Privacy amplification by subsampling", section 2: hockey-stick
# divergences are jointly convex, and those of mixtures with known components are equal to the mean.

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
    losses = _sometimes_laplace_losses(epsilon, rounds, share)
    with np.errstate(over="ignore"):  # large losses have tiny probabilities; infinity is safe
        found = float(losses.get_epsilon_for_delta(delta))
    return min(rounds * epsilon, found)


@lru_cache(maxsize=4)
def _sometimes_laplace_losses(epsilon: float, rounds: int, share: float) -> PrivacyLossDistribution:
    """The distribution of the privacy loss of a run, for all deltas."""
    once, never = (laplace_losses(epsilon, times, rounds) for times in (1, 0))
    return once.compute_mixture(never, share).self_compose(rounds)


def participation(rounds: int, share: float, delta: float) -> list[tuple[int, float]]:
    """Numbers of rounds in which a client takes part, rising, each with its probability.

    Where there are many, some stand for smaller ones, so that bounds err on the safe side. Numbers above all
    of these have less than a millionth of delta together, and count as a failure.
    """
    if share >= 1:
        return [(rounds, 1.0)]
    from scipy.stats import binom

    high = min(rounds, int(binom.isf(_OUTSIDE * delta, rounds, share)) + 1)
    low = int(binom.ppf(_LOWEST, rounds, share))
    step = math.ceil((high - low + 1) / _MOST_COUNTS)
    counts = np.arange(high, low - 1, -step)[::-1] if step > 1 else np.arange(high + 1)
    chances = np.diff(binom.cdf(counts, rounds, share), prepend=0.0)
    return list(zip(counts.tolist(), chances.tolist(), strict=True))
