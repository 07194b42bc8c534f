"""The most that any audit can show: the Neyman-Pearson test of the nearest mechanism with a smaller epsilon.

A bound that is right with probability 1 - alpha is a test of every "epsilon is at most e" at level alpha. The
most powerful test of one mechanism that keeps e against the true one bounds the power of all of them. The
optimum is the e at which that power is 1/2: no estimator has a larger median.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from foltr_audit.privacy.gaussian_dp import gaussian_epsilon, gaussian_mu
from foltr_audit.utils.arrays import Floats

_POINTS = 1 << 16  # of the lattice for sums of log ratios
_REACH = 12.0  # standard deviations on each side of their mean
_PIECES = 4000  # of the continuous part of a law


class LossLaw(NamedTuple):
    """The law of the log likelihood ratio under hypothesis 1; under hypothesis 0 it has the opposite sign.

    Attributes:
        losses: its values, (k,).
        shares: their probabilities, (k,).
    """

    losses: Floats
    shares: Floats


def response_losses(eps: float) -> LossLaw:
    keep = 1.0 / (1.0 + math.exp(-eps))
    return LossLaw(np.array([eps, -eps]), np.array([keep, 1.0 - keep]))


def laplace_losses(eps: float) -> LossLaw:
    """The law for Laplace noise of scale 1 / eps and a shift of 1; between its two ends in small pieces."""
    ends = np.linspace(0.0, 1.0, _PIECES + 1)  # x between both means; the loss is eps (2 x - 1)
    below = 0.5 * np.exp(-eps * (1.0 - ends))  # P[noise + 1 <= x]
    inner = eps * (ends[1:] + ends[:-1] - 1.0)
    return LossLaw(np.concatenate([[-eps], inner, [eps]]), np.concatenate([below[:1], np.diff(below), [0.5]]))


def pure_optimum(law: LossLaw, trials: int, confidence: float) -> float:
    """The optimum at delta 0 for n independent trials of each hypothesis.

    Of all pairs of laws with losses within -e ... e the one next to the true pair, by the sum of both
    Kullback-Leibler divergences, has the same mixture, and the losses clipped to -e ... e.

    Source: Neyman & Pearson 1933, "On the problem of the most efficient tests of statistical hypotheses".
    """
    from scipy import optimize

    largest = float(law.losses.max())

    def too_often(eps: float) -> float:
        return median_level(log_ratios(law, eps), law.shares, 2 * trials) - (1.0 - confidence)

    return (
        float(optimize.brentq(too_often, 0.0, largest * (1.0 - 1e-9), xtol=1e-7))
        if too_often(0.0) < 0
        else 0.0
    )


def log_ratios(law: LossLaw, eps: float) -> Floats:
    """Log ratio, true pair over the nearest one, of a trial with each loss."""
    return np.asarray(np.logaddexp(0.0, -np.clip(law.losses, -eps, eps)) - np.logaddexp(0.0, -law.losses))


def median_level(ratios: Floats, shares: Floats, trials: int) -> float:
    """How often the test whose power is 1/2 refutes the nearest pair.

    The sum S of the trials' log ratios has the true law P. Under the nearest pair its law is P e^-S.
    """
    mean = float(shares @ ratios)
    spread = math.sqrt(float(shares @ np.square(ratios - mean)) * trials)
    if spread == 0.0:
        return 0.5
    step = 2.0 * _REACH * spread / _POINTS
    # Every ratio is shared between the two nearest points of the lattice, so that the mean stays.
    place = (ratios - mean) / step
    low = np.floor(place).astype(np.int64)
    one = np.zeros(_POINTS)
    np.add.at(one, low % _POINTS, shares * (low + 1 - place))
    np.add.at(one, (low + 1) % _POINTS, shares * (place - low))
    sums = np.fft.fftshift(np.clip(np.fft.irfft(np.fft.rfft(one) ** trials, _POINTS), 0.0, None))
    values = trials * mean + step * (np.arange(_POINTS) - _POINTS // 2)
    power = np.cumsum(sums[::-1])  # from the largest sum downwards
    level = np.cumsum(sums[::-1] * np.exp(-np.maximum(values[::-1], -600.0)))
    return float(np.interp(0.5 * power[-1], power, level))


def normal_optimum(eps: float, delta: float, trials: int, correlation: float, confidence: float) -> float:
    """The optimum for normal noise of known variance; pairs of trials have a known correlation.

    The most powerful test of a smaller distance of the two means compares their difference with a quantile.
    """
    from scipy import special

    error = math.sqrt(2.0 * (1.0 - correlation) / trials)
    mu = gaussian_mu(eps, delta) - float(special.ndtri(confidence)) * error
    return gaussian_epsilon(max(0.0, mu), delta)
