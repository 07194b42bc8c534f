"""Laws of the noise that defenses add: what they draw from, and what an observer may know of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foltr_audit.errors import UsageError
from foltr_audit.rng import ClientStreams


@dataclass(frozen=True, kw_only=True)
class GammaShare:
    """One of n independent shares whose sum is Laplace noise.

    A share is `gamma - gamma'` with both Gamma(shape 1/n, scale s); n of them sum to Laplace(s).
    Its variance is 2 s^2 / n. For n >= 2 most coordinates of a share are vanishingly small.

    Source: Kotz, Kozubowski & Podgorski 2001, "The Laplace distribution and generalizations", section 2.4;
    used by Wang et al. 2021, "Effective and privacy-preserving federated online learning to rank", eq. 16.

    Attributes:
        n: number of shares that make one Laplace variate, at least 1.
        scale: scale s of that Laplace variate, above 0.

    Raises:
        UsageError: n or scale out of range.
    """

    n: int
    scale: float

    def __post_init__(self) -> None:
        if not self.n >= 1:
            raise UsageError(f"noise: {self.n} Gamma shares; expected at least 1")
        if not 0 < self.scale < np.inf:
            raise UsageError(f"noise: scale {self.scale}; expected a positive number")

    @property
    def variance(self) -> float:
        """Variance of one share."""
        return 2.0 * self.scale**2 / self.n

    def sample(self, streams: ClientStreams, size: int) -> NDArray[np.float64]:
        """One share per client and coordinate, shape (C, size)."""
        from foltr_audit.kernels.gamma import gamma_differences

        return self.scale * gamma_differences(
            1.0 / self.n, size, streams.clients, streams.round, streams.purpose_code, np.uint64(streams.key)
        )
