"""What noise has to hide, and its privacy loss, in one round or in several."""

from __future__ import annotations

import math
from dataclasses import dataclass

from foltr_audit.privacy.bounds import RestsOn
from foltr_audit.privacy.gaussian_dp import LARGEST, gaussian_epsilon
from foltr_audit.privacy.loss.composition import (
    amplified,
    amplified_over,
    gaussian_sometimes,
    laplace_over,
    laplace_sometimes,
    pure_over,
    pure_sometimes,
    sampled_gaussian_over,
)

_NEAR = 1e-9  # how far the ratio of two grids may be from a whole number


@dataclass(frozen=True)
class Norms:
    """Upper bounds on the norms of a vector; infinite where none is known.

    Attributes:
        l1: sum of absolute values.
        l2: Euclidean norm.
        linf: largest absolute value.
    """

    l1: float = math.inf
    l2: float = math.inf
    linf: float = math.inf

    @classmethod
    def of_ball(cls, radius: float, order: float) -> Norms:
        """The bounds of a vector in one ball of order 1, 2 or infinity."""
        return cls(**{{1.0: "l1", 2.0: "l2", math.inf: "linf"}[float(order)]: radius})

    @property
    def known(self) -> bool:
        """Whether any norm is bounded."""
        return math.isfinite(min(self.l1, self.l2, self.linf))

    def within(self, other: Norms) -> Norms:
        """The bounds of a vector that obeys both."""
        return Norms(min(self.l1, other.l1), min(self.l2, other.l2), min(self.linf, other.linf))

    def times(self, factor: float) -> Norms:
        """The bounds of the vector times a positive number."""
        return Norms(self.l1 * factor, self.l2 * factor, self.linf * factor)

    def moved(self, by: float, size: int) -> Norms:
        """The bounds of a vector of `size` coordinates after each of them moved by at most `by`."""
        return Norms(self.l1 + size * by, self.l2 + math.sqrt(size) * by, self.linf + by)

    def tightened(self, size: int) -> Norms:
        """The three bounds for a vector of `size` coordinates, each as small as the others allow.

        `linf <= l2 <= l1 <= sqrt(P) l2`, `l2 <= sqrt(P) linf`, `l1 <= P linf` and `l2^2 <= l1 linf`.
        """
        root = math.sqrt(size)
        linf = min(self.linf, self.l2, self.l1)
        l1 = min(self.l1, root * self.l2, size * linf)
        l2 = min(self.l2, l1, root * linf, math.sqrt(l1) * math.sqrt(linf))
        return Norms(l1, l2, linf)


def whole_multiple(grid: float, step: float) -> bool:
    """Whether every multiple of `grid` is one of `step`."""
    if not (grid > 0 and step > 0):
        return False
    ratio = grid / step
    return ratio >= 1 - _NEAR and abs(ratio - round(ratio)) <= _NEAR * ratio


@dataclass(frozen=True)
class PureLoss:
    """The loss of a mechanism of which no more than its pure epsilon is known.

    Attributes:
        once: its epsilon.
        count: how often it runs in one round.
    """

    once: float
    count: int = 1

    def epsilon(self, rounds: int, delta: float, share: float) -> float:
        """Epsilon at delta after T rounds; `share`: of the clients in a round's secret sample, 1 without."""
        if share < 1:
            return pure_over(amplified(self.count * self.once, share), rounds, delta)
        return pure_over(self.once, rounds * self.count, delta)

    def epsilon_sometimes(self, rounds: int, delta: float, share: float) -> float:
        """Epsilon at delta after T rounds, each with a share of the clients, which the observer knows."""
        return pure_sometimes(self.once, self.count, rounds, share, delta)


@dataclass(frozen=True)
class LaplaceLoss:
    """The loss of Laplace noise; an upper bound for sums of several Laplace draws.

    Attributes:
        once: L1 distance over scale.
    """

    once: float

    def epsilon(self, rounds: int, delta: float, share: float) -> float:
        plain = laplace_over(self.once, rounds, delta)
        if share == 1:
            return plain
        added = amplified_over(lambda spent: laplace_over(self.once, 1, spent), rounds, delta, share)
        return min(plain, added, pure_over(amplified(self.once, share), rounds, delta))

    def epsilon_sometimes(self, rounds: int, delta: float, share: float) -> float:
        return laplace_sometimes(self.once, rounds, share, delta)


@dataclass(frozen=True)
class GaussianLoss:
    """The loss of a mu-GDP mechanism: T rounds of mu are one round of sqrt(T) mu.

    Source: Dong, Roth & Su 2022, "Gaussian differential privacy", corollary 3.3.

    Attributes:
        mu: for Gaussian noise, the L2 distance over the standard deviation.
        normal: the noise is Gaussian itself, for which a secret sample is accounted more tightly.
    """

    mu: float
    normal: bool = True

    def epsilon(self, rounds: int, delta: float, share: float) -> float:
        plain = self._plain(rounds, delta)
        if share == 1 or not delta > 0 or not math.isfinite(plain) or self.mu == 0:
            return plain
        added = amplified_over(lambda spent: self._plain(1, spent), rounds, delta, share)
        if not self.normal:
            return min(plain, added)
        return min(plain, added, sampled_gaussian_over(self.mu, share, rounds, delta))

    def epsilon_sometimes(self, rounds: int, delta: float, share: float) -> float:
        if self.mu == 0 or not delta > 0:
            return self._plain(rounds, delta)
        return gaussian_sometimes(self.mu, rounds, share, delta)

    def _plain(self, rounds: int, delta: float) -> float:
        mu = self.mu * math.sqrt(rounds)
        if mu == 0:
            return 0.0
        return gaussian_epsilon(mu, delta) if delta > 0 and mu <= LARGEST else math.inf


PrivacyLoss = PureLoss | LaplaceLoss | GaussianLoss
"""The privacy loss of one round of a mechanism."""


@dataclass(frozen=True, kw_only=True)
class SensitivityBound:
    """The distance between neighbours that noise has to hide.

    Attributes:
        apart: how far apart two neighbouring vectors may be, `stretch` included.
        parameters: coordinates P.
        grid: step of the grid that they lie on, 0 if on none.
        where: what the noise is on, for messages, e.g. `in the sum of 900 messages`.
        stretch: largest weight of a message in a sum over the smallest.
    """

    apart: Norms
    parameters: int
    grid: float
    where: str
    stretch: float = 1.0

    @property
    def l1_text(self) -> str:
        """The L1 distance in words, with a note where it follows from an L2 bound."""
        size, l2 = self.parameters, self.apart.l2
        stretched = size > 1 and math.isclose(self.apart.l1, math.sqrt(size) * l2, rel_tol=1e-9)
        note = f" (sqrt({size}) times {l2:.4g} in L2)" if stretched else ""
        return f"L1 distance {self.apart.l1:.4g}{note}"


@dataclass(frozen=True)
class LossProof:
    """A loss that is proven for one round, or why there is none.

    Attributes:
        loss: the loss; None where nothing is proven.
        how: in a few words.
        kind: what kind of noise it is, in a word or two.
        share: share of the clients in a secret sample that amplifies it; 1 where there is none.
        rests_on: whose noise it counts.
        spent: how much of delta goes to other ways to fail.
        whole: it is about all rounds together, so that it does not compose.
    """

    loss: PrivacyLoss | None
    how: str
    kind: str = ""
    share: float = 1.0
    rests_on: RestsOn = "message"
    spent: float = 0.0
    whole: bool = False
