"""Gaussian differential privacy: eps and delta of mechanisms that are as private as Gaussian noise.

A mechanism is mu-GDP if telling two neighbours apart is no easier than telling N(0, 1) from N(mu, 1):
Gaussian noise of standard deviation sigma on a vector of L2 sensitivity D is D/sigma-GDP, and no better.
`mu`, `eps` and `delta` have no unit. See `docs/maths.md`, "Gaussian DP".
"""

from __future__ import annotations

import math

from foltr_audit.errors import UsageError

LARGEST = 1e9
"""The largest mu and eps that float64 resolves here: noise of a billionth of the sensitivity."""

# The searches are our own, not dp_accounting's get_epsilon_gaussian and get_sigma_gaussian: those stop
# within an absolute 1e-12 on either side of the root. `gaussian_mu` must never be too large, since a proof
# rests on it, and small eps need a relative precision.
_TOLERANCE = 1e-13
_SMALL = 1e-3
"""Below this mu the two terms of delta agree in many digits, and their difference is taken as an integral."""


def gaussian_delta(mu: float, eps: float) -> float:
    """The smallest delta for which every mu-GDP mechanism is (eps, delta)-DP.

    delta = Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2), without cancellation of large terms.

    Source: Balle & Wang 2018, "Improving the Gaussian mechanism for differential privacy", theorem 8;
    Dong, Roth & Su 2022, "Gaussian differential privacy", corollary 2.13.

    >>> f"{gaussian_delta(1.0, 1.0):.6f}"
    '0.126937'

    Raises:
        UsageError: mu or eps negative, not a number, or above 1e9.
    """
    _check("mu", mu)
    _check("eps", eps)
    if mu == 0:
        return 0.0
    return math.exp(min(_log_delta(mu, eps / mu - 0.5 * mu), 0.0))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The smallest eps, at least 0, for which every mu-GDP mechanism is (eps, delta)-DP.

    To a relative 1e-12 or so. At delta = 0 it is infinite, unless mu = 0: a Gaussian gives no pure eps.

    Source: as `gaussian_delta`, solved for eps.

    Raises:
        UsageError: mu negative, not a number or above 1e9; delta outside [0, 1).
    """
    from scipy import optimize, special

    _check("mu", mu)
    _check_delta(delta)
    if mu == 0 or _log_delta(mu, -0.5 * mu) <= _log(delta):
        return 0.0
    if delta == 0:
        return math.inf
    # with eps = mu (z + mu/2), delta is at most Phi(-z): the root lies below this z
    highest = float(-special.ndtri(delta))
    target = math.log(delta)
    z = optimize.brentq(lambda z: _log_delta(mu, z) - target, -0.5 * mu, highest, xtol=_TOLERANCE)
    return float(mu * (z + 0.5 * mu))


def gaussian_mu(eps: float, delta: float) -> float:
    """The largest mu for which every mu-GDP mechanism is (eps, delta)-DP; noise sigma = sensitivity / mu.

    To a relative 1e-12 or so, and never too large: `gaussian_delta(gaussian_mu(eps, delta), eps) <= delta`.

    Source: Balle & Wang 2018, "Improving the Gaussian mechanism for differential privacy", algorithm 1.

    >>> f"{1 / gaussian_mu(1.0, 1e-5):.4f}"
    '3.7306'

    Raises:
        UsageError: eps negative, not a number or above 1e9; delta outside [0, 1).
    """
    _check("eps", eps)
    _check_delta(delta)
    if delta == 0:
        return 0.0
    low, high = 0.0, 1.0
    while gaussian_delta(high, eps) <= delta:
        low, high = high, 2.0 * high
    while high - low > _TOLERANCE * high:
        middle = 0.5 * (low + high)
        # Two ends that are neighbours in float64 have no number between them: the loop would not end.
        if not low < middle < high:
            break
        low, high = (middle, high) if gaussian_delta(middle, eps) <= delta else (low, middle)
    # Delta falls at least as fast as mu: what is taken off is more than the rounding of delta.
    return low * (1.0 - 1e-12) if low < _SMALL else low


def _log_delta(mu: float, z: float) -> float:
    """Log of delta at eps = mu (z + mu/2), by Mills' ratio R(x) = Phi(-x) / phi(x).

    delta = phi(z) (R(z) - R(z + mu)), since e^eps phi(z + mu) = phi(z). For z < 0 the first term is computed
    as Phi(-z), since R would overflow. For a small mu the difference is the integral of -R'(x) = 1 - x R(x),
    by Simpson's rule.
    """
    from scipy import special

    log_phi = -0.5 * z * z - 0.5 * math.log(2.0 * math.pi)
    if mu < _SMALL:
        first, middle, last = (1.0 - x * _mills(x) for x in (z, z + 0.5 * mu, z + mu))
        return log_phi + _log(mu / 6.0 * (first + 4.0 * middle + last))
    other = _mills(z + mu)
    if z < 0:
        return _log(float(special.ndtr(-z)) - math.exp(log_phi) * other)
    return log_phi + _log(_mills(z) - other)


def _mills(x: float) -> float:
    """Mills' ratio of the normal law; of a large x < 0 it overflows."""
    from scipy import special

    return math.sqrt(0.5 * math.pi) * float(special.erfcx(x / math.sqrt(2.0)))


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf


def _check(name: str, value: float) -> None:
    # Written with `not`, this refuses NaN too: every comparison with NaN is false.
    if not 0 <= value <= LARGEST:
        raise UsageError(f"gaussian dp: {name}={value:g}; expected 0 <= {name} <= {LARGEST:g}")


def _check_delta(delta: float) -> None:
    if not 0 <= delta < 1:
        raise UsageError(f"gaussian dp: delta={delta:g}; expected 0 <= delta < 1")
