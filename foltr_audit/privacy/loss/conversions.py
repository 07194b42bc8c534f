"""From noise to (epsilon, delta) and back: the Gaussian mechanism, and Renyi divergences."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache

from foltr_audit.privacy.gaussian_dp import LARGEST, gaussian_mu

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


def few_digits(value: float, how: Callable[[float], int]) -> float:
    """A positive number with five significant digits; `how` rounds, e.g. `math.ceil`."""
    places = _FEW - 1 - math.floor(math.log10(value))
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
