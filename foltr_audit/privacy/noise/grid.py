"""Noise on a grid: what its laws have in common, the discrete Gaussian, and Skellam."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from foltr_audit.privacy.loss.losses import GaussianLoss, LossProof, SensitivityBound, whole_multiple
from foltr_audit.privacy.noise.base import (
    FARTHEST,
    WINDOWS,
    AdditiveNoise,
    check_count,
    check_grid,
    drawn,
    multiples,
    stream_key,
)
from foltr_audit.privacy.noise.gaussian import within_deviations
from foltr_audit.privacy.noise.special_functions import log_scaled_bessel_i, slope_of_lattice
from foltr_audit.rng import ClientStreams
from foltr_audit.utils.arrays import Floats

_WIDE = 4096.0  # steps of standard deviation from which a law on a grid is normal to 1e-8
_SLACK = 1e-9  # of one step: what rounding may add to a width in steps


@dataclass(frozen=True, kw_only=True)
class GridNoise(AdditiveNoise):
    """Noise in whole multiples of `step`, nearly normal.

    Attributes:
        title: what proofs call it.
        fewest_steps: standard deviation, in grid steps, of the narrowest law of its kind.
        sigma: standard deviation of one draw, or of one of several that are added.
        step: width of the grid, above 0.
    """

    title: ClassVar[str]
    fewest_steps: ClassVar[float] = 0.0
    like_normal: ClassVar[bool] = True

    sigma: float
    step: float

    @property
    def grid(self) -> float:
        return self.step

    def proofs(self, hidden: SensitivityBound) -> tuple[LossProof, ...]:
        """The loss of noise on a grid, for vectors on that grid: nearly that of a Gaussian of its deviation.

        The last digits of a message off the grid would reveal it; so would a sum of draws of different
        weights.

        Source: `special_functions.py`. The Renyi divergences of Kairouz, Liu & Steinke 2021
        (proposition 14) and Agarwal, Kairouz & Liu 2021 (theorem 3.5) give about 8 % more at delta 1e-5.
        """
        how = f"{self.title} noise of deviation {self.scale:.4g} on a grid of {self.step:.4g} {hidden.where}"
        if not whole_multiple(hidden.grid, self.step):
            return (LossProof(None, f"{how}: messages are not rounded to that grid before the noise"),)
        if hidden.stretch > 1:
            return (LossProof(None, f"{how}: different weights move the sum off the grid"),)
        how += f", L2 distance {hidden.apart.l2:.4g}"
        loss = GaussianLoss(hidden.apart.l2 * self.gaussian_slope, normal=False)
        return (LossProof(loss, how, self.title),)

    @abstractmethod
    def integers(self, streams: ClientStreams, size: int) -> Floats:
        """Noise in grid steps, whole numbers as float64, (C, size)."""

    def sample(self, streams: ClientStreams, size: int) -> Floats:
        return self.step * self.integers(streams, size)

    def with_variance(self, share: float) -> Self:
        """The same law of a smaller sigma, of `fewest_steps` steps at least."""
        return replace(self, sigma=max(self.sigma * math.sqrt(share), self.fewest_steps * self.step))

    def probability_within(self, size: ArrayLike) -> Floats | None:
        """`P[|X| <= size]` at each size >= 0: the sum of the masses.

        Where the standard deviation is above 4,096 steps it is that of normal noise within half a step more,
        which is right to 1e-8.
        """
        x = np.abs(np.asarray(size, dtype=np.float64))
        return self.within_steps(np.floor(x / self.step + _SLACK))

    def concentration(self, half: ArrayLike) -> Floats | None:
        """The largest P[|X - c| < half] over all c, at each half > 0.

        An open interval of length `2 half` holds at most m = ceil(2 half / step) grid points, wherever it
        lies; any m points are at most as probable as the m most probable ones, and these are the m next to
        0, as the mass falls on both sides.
        """
        points = np.ceil(2.0 * np.asarray(half, dtype=np.float64) / self.step - _SLACK)
        inner = self.within_steps(np.floor((points - 1.0) / 2.0))
        outer = self.within_steps(np.floor(points / 2.0))
        return None if inner is None or outer is None else 0.5 * (inner + outer)

    def half_widths(self) -> Floats:
        """K + 1/2 steps, from half a step to nearly all of the noise."""
        most = 8.0 * max(1.0, self.scale / self.step)
        whole = np.unique(np.round(np.geomspace(1.0, most, WINDOWS)))
        return np.asarray(self.step * (np.concatenate([[0.0], whole]) + 0.5))

    def within_steps(self, steps: Floats) -> Floats | None:
        """`P[|X| <= steps]`, whole numbers >= 0; None where the masses are not known."""
        spread = self.scale / self.step
        if spread > _WIDE:
            return within_deviations((steps + 0.5) / spread)
        # Beyond 12 deviations (and 40 steps for narrow laws) the mass is below the rounding of the sum.
        last = min(float(np.max(steps, initial=0.0)), math.ceil(12.0 * spread) + 40.0)
        mass = self.step * np.exp(self.log_density(self.step * np.arange(last + 1.0)))
        within = mass[0] + 2.0 * np.concatenate([[0.0], np.cumsum(mass[1:])])
        return np.asarray(np.minimum(within, 1.0)[np.minimum(steps, last).astype(np.int64)])


_LATTICE = np.arange(1.0, 6.0)  # further terms of the sums below are smaller than 1e-70
_LARGEST_TAU = 1e-9  # distance of a sum of discrete Gaussians from a discrete Gaussian
_SUMMANDS = 10_000  # terms of tau that are added one by one: the later ones are all but equal


@dataclass(frozen=True, kw_only=True)
class DiscreteGaussian(GridNoise):
    """The sum of `count` discrete Gaussian variates on the multiples of `step`.

    As text e.g. `discrete-gaussian:sigma=0.5,step=0.01,count=7`.

    P(k step) of one of them is proportional to `exp(-(k step / sigma)^2 / 2)`. Their sum is **not** again a
    discrete Gaussian. Its variance is `count` times that of one, exactly. Its log mass is given as that of
    one discrete Gaussian of `sigma sqrt(count)`: right for a count of 1, else off by at most `tau / 2` at any
    point (3e-4 for two of them at sigma = step, 1e-16 at sigma = 2 step).

    Source: Kairouz, Liu & Steinke 2021, "The distributed discrete Gaussian mechanism for federated learning
    with secure aggregation", theorem 1 and section 4, whose bounds need sigma >= step / 2.

    Attributes:
        sigma: parameter of one variate, in units of x; 1/2 to 2^24 steps.
        step: width of the grid, above 0.
        count: how many variates are added up, at least 1.
    """

    name: ClassVar[str] = "discrete-gaussian"
    title: ClassVar[str] = "discrete Gaussian"
    fewest_steps: ClassVar[float] = 0.5

    count: int = 1

    def __post_init__(self) -> None:
        check_count(self.count)
        check_grid("discrete Gaussian", self.sigma, self.step, (0.5, "1/2"))

    @property
    def scale(self) -> float:
        """The parameter of the discrete Gaussian that comes nearest to the sum."""
        return self.sigma * math.sqrt(self.count)

    @property
    def variance(self) -> float:
        """Variance of one coordinate, exactly: a little below `count sigma^2` on a coarse grid."""
        spread = self.sigma / self.step
        weights = 2.0 * np.exp(-2.0 * (math.pi * spread * _LATTICE) ** 2)
        mean_square = float(weights @ _LATTICE**2) / (1.0 + float(weights.sum()))
        lost = (2.0 * math.pi * spread) ** 2 * mean_square
        return self.count * self.sigma**2 * (1.0 - lost)

    @property
    def tau(self) -> float:
        """The tau of the paper's theorem 1: 0 for a count of 1."""
        k = np.arange(1.0, min(self.count, _SUMMANDS + 1))
        terms = np.exp(-2.0 * (math.pi * self.sigma / self.step) ** 2 * k / (k + 1.0))
        rest = (self.count - 1 - k.size) * float(terms[-1]) if k.size else 0.0
        return 10.0 * (float(terms.sum()) + rest)

    def log_density(self, x: ArrayLike) -> Floats:
        """Natural logarithm of the mass at each multiple of `step` over `step`, smooth in between."""
        spread = self.scale / self.step
        images = 1.0 + 2.0 * float(np.exp(-2.0 * (math.pi * spread * _LATTICE) ** 2).sum())
        z = np.minimum(multiples(x, self.scale), math.sqrt(FARTHEST))
        constant = 0.5 * math.log(2.0 * math.pi) + math.log(self.scale) + math.log(images)
        return np.asarray(-0.5 * z * z - constant)

    def integers(self, streams: ClientStreams, size: int) -> Floats:
        """As of every law on a grid, in time proportional to `count`."""
        from foltr_audit.kernels.noise import discrete_gaussians

        drawn = discrete_gaussians(self.sigma / self.step, size * self.count, *stream_key(streams))
        return np.asarray(drawn.reshape(streams.clients.size, size, self.count).sum(axis=2))

    def summed(self, count: int) -> DiscreteGaussian:
        return replace(self, count=self.count * count)

    def within_steps(self, steps: Floats) -> Floats | None:
        """`P[|X| <= steps]`, whole numbers >= 0; None for a sum that is no discrete Gaussian."""
        return None if self.tau > _LARGEST_TAU else super().within_steps(steps)

    @property
    def gaussian_slope(self) -> float:
        """The slope c for moves by multiples of the grid.

        It is that of one discrete Gaussian. For a sum, the error of its log mass, tau / 2, adds to the
        difference of two heights `Phi^-1(F)` at most `sqrt(pi / 2) tau`, since `S(x) / phi(x)` is
        largest at 0.

        Source: `special_functions.py`; sums of log-concave lattice laws are log-concave.
        """

        def log_mass(k: Floats) -> Floats:
            return self.log_density(k * self.step) + math.log(self.step)

        slope = slope_of_lattice(log_mass, self.scale / self.step)
        error = math.sqrt(0.5 * math.pi) * self.tau if self.count > 1 else 0.0
        return (slope + error) / self.step

    def renyi(self, order: float, l1: float, l2: float, coordinates: int) -> float:
        """Upper bound on the Renyi divergence of this noise from itself moved by a multiple of the grid.

        Args:
            order: alpha >= 1.
            l1: L1 norm of the move, in units of x.
            l2: its L2 norm.
            coordinates: how many coordinates there are.

        Source: Kairouz, Liu & Steinke 2021, proposition 14.
        """
        across, far, tau = l1 / self.scale, l2 / self.scale, self.tau
        return min(
            0.5 * order * far**2 + tau * coordinates,
            0.5 * order * (far**2 + 2.0 * across * tau + tau**2 * coordinates),
            0.5 * order * (far + tau * math.sqrt(coordinates)) ** 2,
        )


@dataclass(frozen=True, kw_only=True)
class Skellam(GridNoise):
    """Differences `step (k - k')` of two Poisson variates of mean `(sigma / step)^2 / 2`.

    As text e.g. `skellam:sigma=0.5,step=0.01`.

    The sum of n of them is Skellam noise of `sigma sqrt(n)`, exactly. With v = (sigma / step)^2 and the
    modified Bessel function I, P(k step) = exp(-v) I_|k|(v).

    Source: Agarwal, Kairouz & Liu 2021, "The Skellam mechanism for differentially private federated
    learning", sections 2 and 3.

    Attributes:
        sigma: standard deviation, in units of x; 1e-6 to 2^24 steps.
        step: width of the grid, above 0.
    """

    name: ClassVar[str] = "skellam"
    title: ClassVar[str] = "Skellam"

    def __post_init__(self) -> None:
        check_grid("Skellam noise", self.sigma, self.step, (1e-6, "1e-6"))

    @property
    def scale(self) -> float:
        """The standard deviation."""
        return self.sigma

    @property
    def variance(self) -> float:
        return self.sigma * self.sigma

    def log_density(self, x: ArrayLike) -> Floats:
        """Natural logarithm of the mass at each multiple of `step` over `step`, smooth in between."""
        orders = multiples(x, self.step)
        log_mass = log_scaled_bessel_i(orders.ravel(), (self.sigma / self.step) ** 2)
        return np.asarray(log_mass.reshape(orders.shape) - math.log(self.step))

    def integers(self, streams: ClientStreams, size: int) -> Floats:
        from foltr_audit.kernels.noise import poisson_differences

        mean = 0.5 * (self.sigma / self.step) ** 2
        given = (mean, size, *stream_key(streams))
        return drawn("poisson", streams, (mean, size), lambda: poisson_differences(*given))

    def summed(self, count: int) -> Skellam:
        check_count(count)
        return replace(self, sigma=self.sigma * math.sqrt(count))

    @property
    def gaussian_slope(self) -> float:
        """The slope c for moves by multiples of the grid, about `(1 + 1 / (6 v)) / sigma`.

        Source: `special_functions.py`; the law is log-concave, as a convolution of Poisson laws.
        """
        return _slope((self.sigma / self.step) ** 2) / self.step

    def renyi(self, order: int, l1: float, l2: float) -> float:
        """Upper bound on the Renyi divergence of this noise from itself moved by a multiple of the grid.

        Args:
            order: alpha, a whole number above 1.
            l1: L1 norm of the move, in units of x.
            l2: its L2 norm.

        Source: Agarwal, Kairouz & Liu 2021, theorem 3.5 (as corollary 4.1 for a scaled grid).
        """
        across, far, v = l1 / self.step, l2 / self.step, (self.sigma / self.step) ** 2
        near = ((2.0 * order - 1.0) * far**2 + 6.0 * across) / (4.0 * v) / v
        return order * far**2 / (2.0 * v) + min(near, 1.5 * across / v)


@lru_cache(maxsize=256)
def _slope(v: float) -> float:
    """The slope of Skellam noise of variance v on the whole numbers."""
    return slope_of_lattice(lambda k: log_scaled_bessel_i(k, v), math.sqrt(v))
