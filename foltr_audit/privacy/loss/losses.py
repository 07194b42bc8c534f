"""The privacy loss of one round of a mechanism, and of several rounds."""

from __future__ import annotations

import math
from dataclasses import dataclass

from foltr_audit.privacy.gaussian_dp import LARGEST, gaussian_epsilon
from foltr_audit.privacy.loss.composition import (
    amplified,
    amplified_over,
    laplace_over,
    pure_over,
    sampled_gaussian_over,
)
from foltr_audit.privacy.loss.participation import gaussian_sometimes, laplace_sometimes, pure_sometimes


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
        """Epsilon at delta after T rounds."""
        plain = laplace_over(self.once, rounds, delta)
        if share == 1:
            return plain
        added = amplified_over(lambda spent: laplace_over(self.once, 1, spent), rounds, delta, share)
        return min(plain, added, pure_over(amplified(self.once, share), rounds, delta))

    def epsilon_sometimes(self, rounds: int, delta: float, share: float) -> float:
        """Epsilon at delta after T rounds, each with a share of the clients, which the observer knows."""
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
        """Epsilon at delta after T rounds."""
        plain = self._plain(rounds, delta)
        if share == 1 or not delta > 0 or not math.isfinite(plain) or self.mu == 0:
            return plain
        added = amplified_over(lambda spent: self._plain(1, spent), rounds, delta, share)
        if not self.normal:
            return min(plain, added)
        return min(plain, added, sampled_gaussian_over(self.mu, share, rounds, delta))

    def epsilon_sometimes(self, rounds: int, delta: float, share: float) -> float:
        """Epsilon at delta after T rounds, each with a share of the clients, which the observer knows."""
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
