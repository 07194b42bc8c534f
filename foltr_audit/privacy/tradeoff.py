"""What a proof promises: the most that any test can reach, and the largest epsilon that keeps a limit on it.

A test tells two neighbouring inputs apart. Its false positive rate is how often it says "1" of input 0, its
true positive rate, or power, how often it says "1" of input 1. A proof bounds the power at every false
positive rate, and so accuracy, the area under the ROC curve (AUC), and how often a secret is guessed. See
`docs/maths.md`, "Ceilings".
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from foltr_audit.errors import UsageError
from foltr_audit.privacy.gaussian_dp import LARGEST, gaussian_delta
from foltr_audit.utils.arrays import Floats, freeze

# Both functions invert what `TradeOff.of_epsilon` promises. With e = e^eps its curve bends once, at the false
# positive rate (1 - delta) / (1 + e). So its AUC is `1 - (1 - delta)^2 / (1 + e)`, and the accuracy of a bit
# that is as likely as not is `(e + delta) / (1 + e)`. See `docs/maths.md`, "Ceilings".

_ROUNDING = 1e-12


def epsilon_of_auc(auc: float, delta: float = 0.0) -> float:
    """The largest epsilon whose AUC is at most `auc`.

    >>> round(epsilon_of_auc(0.6), 3)
    0.405

    Raises:
        UsageError: a value out of range, or an AUC that delta alone exceeds.
    """
    return _logarithm("--auc", auc, delta, (1.0 - delta) ** 2, auc - delta * (1.0 - 0.5 * delta))


def epsilon_of_accuracy(accuracy: float, delta: float = 0.0) -> float:
    """The largest epsilon with which a bit that is as likely as not is guessed right this often at most.

    >>> round(epsilon_of_accuracy(0.75), 3)
    1.099

    Raises:
        UsageError: a value out of range, or an accuracy that delta alone exceeds.
    """
    return _logarithm("--accuracy", accuracy, delta, 1.0 - delta, accuracy - 0.5 * delta)


def _logarithm(name: str, limit: float, delta: float, scale: float, rest: float) -> float:
    """Epsilon with `1 - limit = scale / (1 + e^eps)`; `rest` is what the limit allows beyond delta."""
    if not 0.5 <= limit < 1:
        raise UsageError(f"{name}: {limit:g}; expected at least 0.5, below 1")
    if not 0 <= delta < 1:
        raise UsageError(f"--delta: {delta:g}; expected at least 0, below 1")
    if rest < 0.5 - _ROUNDING:
        least = limit + 0.5 - rest
        raise UsageError(
            f"{name}: {limit:g}; expected at least {least:.3g}, which delta {delta:g} alone reaches"
        )
    return max(0.0, math.log(max(scale / (1.0 - limit) - 1.0, 1.0)))


_STEEPEST = 700.0  # e^eps overflows soon after; a larger epsilon bounds no power above 1e-304
_TANGENTS = 400  # thresholds at which a Gaussian's curve is bounded by its tangent
_HALVINGS = 60  # of an interval, until float64 has no number between its ends
_FARTHEST = 9.0  # standard deviations from the middle to the last of them

Line = tuple[float, float]
"""Slope and value at a false positive rate of 0."""


@dataclass(frozen=True, eq=False)
class TradeOff:
    """The largest power at each false positive rate: a concave, piecewise linear curve.

    A curve of a proof bounds every test of every two neighbouring inputs, and is the same with the two inputs
    exchanged. Dong, Roth & Su 2022 call one minus it the trade-off function f.

    Attributes:
        false_positive: false positive rates at which the curve bends, rising from 0 to 1, float64 (m,).
        true_positive: the largest power at each of them, float64 (m,); above 0 at rate 0 if delta is.

    Source: Dong, Roth & Su 2022, "Gaussian differential privacy", section 2; Kairouz, Oh & Viswanath 2015,
    "The composition theorem for differential privacy", section 2.
    """

    false_positive: Floats
    true_positive: Floats

    def __post_init__(self) -> None:
        freeze(self, false_positive=np.float64, true_positive=np.float64)

    @classmethod
    def of_bounds(cls, bounds: Iterable[tuple[float, float]]) -> Self:
        """The curve of a mechanism that is (epsilon, delta)-DP for several pairs at once.

        Each pair bounds the power at rate a by `e^eps a + delta` and by `1 - e^-eps (1 - delta - a)`. An
        infinite epsilon bounds nothing; without any bound the power is 1.

        Raises:
            UsageError: an epsilon below 0, or a delta outside [0, 1].
        """
        lines: list[Line] = [(0.0, 1.0)]
        for eps, delta in bounds:
            if not (eps >= 0 and 0 <= delta <= 1):
                raise UsageError(
                    f"trade-off: eps={eps:g}, delta={delta:g}; expected eps >= 0, 0 <= delta <= 1"
                )
            if eps <= _STEEPEST:
                lines.append((math.exp(eps), delta))
                lines.append((math.exp(-eps), 1.0 - math.exp(-eps) * (1.0 - delta)))
        return cls(*_envelope(lines))

    @classmethod
    def of_epsilon(cls, eps: float, delta: float = 0.0) -> Self:
        """The curve of an (epsilon, delta)-DP mechanism.

        >>> round(TradeOff.of_epsilon(1.2).auc, 3)
        0.769
        """
        return cls.of_bounds([(eps, delta)])

    @classmethod
    def of_mu(cls, mu: float) -> Self:
        """The curve of a mu-GDP mechanism, by its tangents, which lie above it by less than 1e-4.

        >>> round(TradeOff.of_mu(1.0).auc, 3)
        0.76

        Source: Dong, Roth & Su 2022, "Gaussian differential privacy", definition 2.1 and corollary 2.13.

        Raises:
            UsageError: mu negative, not a number, or above 1e9.
        """
        thresholds = 0.5 * mu + np.linspace(0.0, _FARTHEST, _TANGENTS)
        eps = (mu * thresholds - 0.5 * mu * mu).tolist() if mu <= LARGEST else [0.0]
        return cls.of_bounds((each, gaussian_delta(mu, each)) for each in eps if each <= _STEEPEST)

    def power(self, rate: ArrayLike) -> Floats:
        """The largest true positive rate at each false positive rate, in the shape of `rate`."""
        at = np.asarray(rate, dtype=np.float64)
        return np.asarray(np.interp(at, self.false_positive, self.true_positive))

    @property
    def auc(self) -> float:
        """The largest area under a ROC curve: `e^eps / (1 + e^eps)` of pure epsilon.

        `Phi(mu / sqrt 2)` of mu-GDP, but for the width of the tangents.
        """
        width = np.diff(self.false_positive)
        # A dot product of BLAS depends on its number of threads.
        return float(np.sum(width * (self.true_positive[1:] + self.true_positive[:-1]))) / 2.0

    def accuracy(self, prior: ArrayLike = 0.5) -> Floats:
        """The largest probability to guess a bit that is 1 with probability `prior`, in its shape.

        The best test minimises the error `(1 - prior) a + prior f(a)`, a the false positive rate, and the
        error is linear between two bends.
        """
        one = np.asarray(prior, dtype=np.float64)[..., np.newaxis]
        return np.asarray(((1.0 - one) * (1.0 - self.false_positive) + one * self.true_positive).max(axis=-1))

    def success(self, prior: ArrayLike) -> Floats:
        """The largest probability to name a secret right, in the shape of `prior`.

        The secret has any number of values, of which every two are neighbouring inputs. A guess names x with
        probability p_x if x is the secret, and r_x if another value is, so that `p_x <= power(r_x)`. With k
        the largest prior, and s the probability of a right guess, `sum (1 - prior_x) r_x = 1 - s`, and, since
        the power is concave, `s <= power(k (1 - s) / (1 - k))`. For pure epsilon and k up to 1/2 that is
        `e^eps k / (1 + k (e^eps - 1))`: the prior odds grow by e^eps at most. It is never above `power(k)`,
        which also holds for guesses that need not be exact.

        Args:
            prior: the probability of the most probable value without the observation.

        Source: `power(k)` is Hayes, Mahloujifar & Balle 2023, "Bounding training data reconstruction in
        DP-SGD", theorem 2; the sharper bound follows from the same argument with the mixture of all other
        values as second input.
        """
        likely = np.asarray(prior, dtype=np.float64)
        low, high = likely.copy(), np.ones_like(likely)
        others = np.maximum(1.0 - likely, np.finfo(np.float64).tiny)
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            reached = self.power(np.minimum(likely * (1.0 - middle) / others, 1.0)) >= middle
            low, high = np.where(reached, middle, low), np.where(reached, high, middle)
        return np.asarray(high)

    @property
    def pieces(self) -> tuple[Floats, Floats]:
        """Probabilities of the outcomes of the most revealing mechanism under input 0 and 1, each (m,).

        Every mechanism that keeps to the curve can be simulated from one of these outcomes (Blackwell 1953;
        Dong, Roth & Su 2022, theorem 2.10). The first speaks most for input 1.
        """
        return np.diff(self.false_positive, prepend=0.0), np.diff(self.true_positive, prepend=0.0)


def pooled_curve(curve: TradeOff, priors: ArrayLike) -> TradeOff | None:
    """The largest power over documents that are clicked with different known probabilities, pooled.

    A test sees the document, hence its prior, and an outcome of a mechanism. By Neyman and Pearson the best
    order is that of the posterior odds: prior odds times the likelihood ratio of the outcome. Two documents
    are taken to be of two independent observations.

    Args:
        curve: what is proven for one click.
        priors: probability of a click on each document before the observation, (n,).

    Returns:
        The curve of clicked against unclicked documents; None where all or none are clicked.

    Source: Neyman & Pearson 1933, "On the problem of the most efficient tests of statistical hypotheses".
    """
    prior, often = np.unique(np.asarray(priors, dtype=np.float64), return_counts=True)
    zero, one = curve.pieces
    unclicked = (often * (1.0 - prior))[:, np.newaxis] * zero
    clicked = (often * prior)[:, np.newaxis] * one
    both = clicked + unclicked
    share = np.divide(clicked, both, out=np.zeros_like(both), where=both > 0).ravel()
    order = np.argsort(-share, kind="stable")
    hits, alarms = (np.concatenate([[0.0], np.cumsum(each.ravel()[order])]) for each in (clicked, unclicked))
    if not (hits[-1] > 0 and alarms[-1] > 0):
        return None
    return TradeOff(alarms / alarms[-1], hits / hits[-1])


def _envelope(lines: list[Line]) -> tuple[Floats, Floats]:
    """The smallest of some lines on 0..1, of which one is the constant 1: its bends and values there."""
    lowest: list[Line] = []
    steepest_first = sorted(set(lines), key=lambda line: (-line[0], line[1]))
    for slope, value in steepest_first:
        if lowest and slope == lowest[-1][0]:
            continue  # parallel to one that lies below
        while len(lowest) > 1 and _crossing(lowest[-2], (slope, value)) <= _crossing(lowest[-2], lowest[-1]):
            lowest.pop()
        lowest.append((slope, value))
    bends = [0.0, *(_crossing(one, other) for one, other in pairwise(lowest)), 1.0]
    inside = np.unique(np.clip(bends, 0.0, 1.0))
    slopes, values = np.array(lowest).T
    heights = [float((slopes * rate + values).min()) for rate in inside]
    return inside, np.clip(np.maximum.accumulate(heights), 0.0, 1.0)


def _crossing(one: Line, other: Line) -> float:
    """Where two lines cross; the second one is less steep."""
    return (other[1] - one[1]) / (one[0] - other[0])
