"""What laws on a grid have in common."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from foltr_audit.privacy.loss.losses import GaussianLoss
from foltr_audit.privacy.loss.norms import whole_multiple
from foltr_audit.privacy.loss.proof import LossProof, SensitivityBound
from foltr_audit.privacy.noise.base import WINDOWS, AdditiveNoise
from foltr_audit.privacy.noise.gaussian import within_deviations
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
        """The step."""
        return self.step

    def proofs(self, hidden: SensitivityBound) -> tuple[LossProof, ...]:
        """The loss of noise on a grid, for vectors on that grid: nearly that of a Gaussian of its deviation.

        The last digits of a message off the grid would reveal it; so would a sum of draws of different
        weights.

        Source: `foltr_audit.privacy.noise.probit`. The Renyi divergences of Kairouz, Liu & Steinke 2021
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

    def with_variance(self, share: float) -> Self:
        """The same law of a smaller sigma, of `fewest_steps` steps at least."""
        return replace(self, sigma=max(self.sigma * math.sqrt(share), self.fewest_steps * self.step))

    def probability_within(self, size: ArrayLike) -> Floats | None:
        """P[|X| <= size] at each size >= 0: the sum of the masses.

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
        """P[|X| <= steps], whole numbers >= 0; None where the masses are not known."""
        spread = self.scale / self.step
        if spread > _WIDE:
            return within_deviations((steps + 0.5) / spread)
        # Beyond 12 deviations (and 40 steps for narrow laws) the mass is below the rounding of the sum.
        last = min(float(np.max(steps, initial=0.0)), math.ceil(12.0 * spread) + 40.0)
        mass = self.step * np.exp(self.log_density(self.step * np.arange(last + 1.0)))
        within = mass[0] + 2.0 * np.concatenate([[0.0], np.cumsum(mass[1:])])
        return np.asarray(np.minimum(within, 1.0)[np.minimum(steps, last).astype(np.int64)])
