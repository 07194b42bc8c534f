"""Shares that sum to Laplace noise: differences of Gamma variates."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from foltr_audit.errors import UsageError
from foltr_audit.privacy.loss.losses import GaussianLoss, LaplaceLoss, LossProof, PureLoss, SensitivityBound
from foltr_audit.privacy.noise.base import (
    AdditiveNoise,
    check_count,
    check_scale,
    drawn,
    multiples,
    stream_key,
)
from foltr_audit.privacy.noise.special_functions import MIXTURE_PEAK, log_bessel_k
from foltr_audit.rng import ClientStreams
from foltr_audit.utils.arrays import Floats

_LARGEST_SHAPE = 8.0  # above it the Bessel functions of `probability_within` lose digits
_NEAR = 1e-2  # multiples of the scale below which the first terms of a series are exact
FLOOR = 1e-9
"""Smallest |x| / scale at which the density of a Gamma share is taken: it may be infinite at 0."""


@dataclass(frozen=True, kw_only=True)
class GammaShare(AdditiveNoise):
    """The sum of `count` of n independent shares, all of which together are Laplace noise.

    As text e.g. `gamma-share:n=1000,scale=2.5,count=7`.

    A share is `gamma - gamma'` with both Gamma(shape 1/n, scale s); n of them sum to Laplace(s).
    The variance of one is 2 s^2 / n. For n >= 2 most coordinates of a share are vanishingly small.

    Source: Kotz, Kozubowski & Podgorski 2001, "The Laplace distribution and generalizations", section 2.4
    and, for the density of a share, 4.1; used by Wang et al. 2021, "Effective and privacy-preserving
    federated online learning to rank", eq. 16.

    Attributes:
        n: number of shares that make one Laplace variate, at least 1.
        scale: scale s of that Laplace variate, above 0.
        count: how many shares are added up, at least 1; more than n are possible.
    """

    name: ClassVar[str] = "gamma-share"

    n: int
    scale: float
    count: int = 1

    def __post_init__(self) -> None:
        if not self.n >= 1:
            raise UsageError(f"noise: {self.n} Gamma shares; expected at least 1")
        check_count(self.count, "Gamma shares")
        check_scale("scale", self.scale)

    @property
    def shape(self) -> float:
        """Shape of both Gamma variates: 1 for Laplace noise."""
        return self.count / self.n

    @property
    def variance(self) -> float:
        return 2.0 * self.shape * self.scale * self.scale

    def log_density(self, x: ArrayLike) -> Floats:
        """Natural logarithm of the density at each x; closer to 0 than 1e-9 scales, that at 1e-9 scales."""
        z = np.maximum(multiples(x, self.scale), FLOOR)
        order = self.shape - 0.5
        constant = math.lgamma(self.shape) + 0.5 * math.log(math.pi) + math.log(self.scale)
        return np.asarray(order * np.log(0.5 * z) + log_bessel_k(abs(order), z) - constant)

    @property
    def has_pole(self) -> bool:
        # Of small shapes without a Bessel function: scipy.special takes a third of numba's time to import.
        return self.shape <= 0.5 or super().has_pole

    def sample(self, streams: ClientStreams, size: int) -> Floats:
        """One sum of shares per client and coordinate, shape (C, size)."""
        from foltr_audit.kernels.noise import gamma_differences

        given = (self.shape, size, *stream_key(streams))
        return self.scale * drawn("gamma", streams, (self.shape, size), lambda: gamma_differences(*given))

    def summed(self, count: int) -> GammaShare:
        return replace(self, count=self.count * count)

    def worst_loss(self, shifts: ArrayLike) -> Floats:
        """The largest `ln f(x) / f(x - shift)` over all x for each shift; infinite where unbounded.

        For a shape of 1 or more it is that of Laplace noise, reached in the tails. Below 1 the density is
        log-convex on either side of its peak, so that x = 0 is worst; at 1/2 or less that peak is infinite.
        """
        size = np.abs(np.asarray(shifts, dtype=np.float64))
        if self.shape >= 1.0:
            return np.asarray(size / self.scale)
        if self.shape <= 0.5:
            return np.where(size > 0, np.inf, 0.0)
        z, a = multiples(size, self.scale), self.shape
        # Both forms are computed for every shift, each with arguments cut off to where it holds.
        near, far = np.minimum(z, _NEAR), np.maximum(size, _NEAR * self.scale)
        peak = math.lgamma(a - 0.5) - math.lgamma(a) - math.log(self.scale) - math.log(2.0)
        peak -= 0.5 * math.log(math.pi)
        loss = np.where(z < _NEAR, _loss_near_peak(near, a - 0.5), peak - self.log_density(far))
        return np.where(size > 0, np.maximum(loss, z), 0.0)

    @property
    def gaussian_slope(self) -> float:
        """The slope c: `sqrt(2 pi) f(0)` for a shape of 1 or more, where the law is log-concave.

        Source: `special_functions.py`; a difference of Gamma variates is a normal one whose
        variance is a Gamma variate (Kotz, Kozubowski & Podgorski 2001, proposition 4.1.2).
        """
        a = self.shape
        if a < 1.0:
            return math.inf
        fall = math.exp(math.lgamma(a - 0.5) - math.lgamma(a))
        return MIXTURE_PEAK * fall / (2.0 * math.sqrt(math.pi) * self.scale)

    @property
    def order(self) -> int:
        """1: enough shares together are Laplace noise, whose pure epsilon grows with the L1 distance."""
        return 1

    def proofs(self, hidden: SensitivityBound) -> tuple[LossProof, ...]:
        """The losses of Gamma shares, whose sum has the shape a = their number / n.

        With a >= 1 the loss of a coordinate grows by no more than its shift over the scale, and L1 counts;
        and the sum of several Laplace draws is nearly Gaussian, for which L2 counts. For 1/2 < a < 1 the
        density is a mixture of two-sided exponentials (proportional to the integral over t > 1 of
        `e^(-|x| t / s) (t^2 - 1)^(-a)`), so its logarithm is convex on either side of 0 and the loss of one
        coordinate is concave in the shift: an L1 distance costs most when it is spread evenly, and an even
        spread keeps the L2 and Linf distances smallest. For a <= 1/2 the density is infinite at 0.

        Source: for a = 1, Dwork et al. 2006, "Calibrating noise to sensitivity in private data analysis",
        proposition 1; of a sum at a delta, `foltr_audit.privacy.noise.special_functions`.
        """
        l1, l2, size = hidden.apart.l1, hidden.apart.l2, hidden.parameters
        if self.shape >= 1:
            of = f" (a sum of {self.shape:.4g} Laplace draws)" if self.shape > 1 else ""
            noise = f"Laplace noise of scale {self.scale:.4g} {hidden.where}"
            near = GaussianLoss(l2 * self.gaussian_slope, normal=False)
            return (
                LossProof(LaplaceLoss(l1 / self.scale), f"{noise}, {hidden.l1_text}"),
                LossProof(near, f"{noise}{of}, L2 distance {l2:.4g}"),
            )
        shares = f"{self.count} of {self.n} Gamma shares of scale {self.scale:.4g}"
        if self.shape <= 0.5:
            holder = hidden.where.removeprefix("on ").removeprefix("in ")
            why = f"{holder} holds {shares}; half of the shares or fewer prove no finite epsilon"
            return (LossProof(None, why),)
        spread = float(self.worst_loss(l1 / size))
        how = f"{shares} {hidden.where}, {hidden.l1_text} spread over {size} coordinates"
        return (LossProof(PureLoss(size * spread), how),)

    def with_variance(self, share: float) -> GammaShare:
        return replace(self, scale=self.scale * math.sqrt(share))

    def probability_within(self, size: ArrayLike) -> Floats | None:
        """`P[|X| <= size]` at each size >= 0; None for a shape above 8, where Bessel functions lose digits.

        With z = size / scale, v = a - 1/2, and L the modified Struve function, it is
        `z (K_v(z) L_(v-1)(z) + K_(v-1)(z) L_v(z))`.

        Source: Olver et al. 2010, "NIST handbook of mathematical functions", 10.43.2.
        """
        from scipy.special import kv, modstruve

        if self.shape > _LARGEST_SHAPE:
            return None
        z, order = np.abs(np.asarray(size, dtype=np.float64)) / self.scale, self.shape - 0.5
        least = 1e-150 if self.shape <= 1.0 else 1e-15  # Bessel functions of higher order overflow earlier
        y = np.clip(z, least, 500.0)
        found = y * (kv(order, y) * modstruve(order - 1, y) + kv(order - 1, y) * modstruve(order, y))
        return np.where(z > 0, np.clip(found, 0.0, 1.0), 0.0)


def _loss_near_peak(z: Floats, v: float) -> Floats:
    """`-ln f(z) / f(0)` for z = |x| / scale of at most `_NEAR` and 0 < v = shape - 1/2 < 1/2.

    By the first terms of `z^v K_v(z)`, since the difference of two logarithms would cancel.

    Source: Olver et al. 2010, "NIST handbook of mathematical functions", 10.27.4 and 10.25.2.
    """
    q = 0.25 * z * z
    even = q / (1.0 - v) * (1.0 + q / (2.0 * (2.0 - v)) * (1.0 + q / (3.0 * (3.0 - v))))
    ratio = math.exp(math.lgamma(1.0 - v) - math.lgamma(1.0 + v))
    odd = ratio * q**v * (1.0 + q / (1.0 + v) * (1.0 + q / (2.0 * (2.0 + v))))
    return np.asarray(-np.log1p(np.maximum(even - odd, -1.0 + 1e-15)))
