"""The distribution of the size of noise under a law, by summing or integrating its density."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from foltr_audit.privacy.noise import AdditiveNoise
from foltr_audit.privacy.noise.gamma_share import FLOOR
from foltr_audit.utils.arrays import Floats

_DECADES = (math.log10(FLOOR), 5.0)  # of |x| over the scale; smaller noise counts as 0
_PER_DECADE = 2000
_MOST_POINTS = 1 << 20  # points of a lattice that are summed; a finer lattice is integrated
_SMALL = 1e-6  # of the scale
_EXCESS = 1e-3  # by how much the total mass may exceed 1


class LawTable(NamedTuple):
    """P(|X| <= x) at ascending sizes x.

    Attributes:
        sizes: in units of the noise, float64 (T,); of a lattice half a step above each point.
        within: float64 (T,).
        repeats: probability that two draws are equal; 0 for a continuous law.
        small: a size below which rounding may make draws equal.
    """

    sizes: Floats
    within: Floats
    repeats: float
    small: float

    def level(self, level: float) -> tuple[float, float]:
        """The first size with at least this probability, and its exact probability."""
        place = min(int(np.searchsorted(self.within, level)), self.sizes.size - 1)
        return float(self.sizes[place]), float(self.within[place])


@lru_cache(maxsize=64)
def law_table(law: AdditiveNoise) -> LawTable | None:
    """The table of a law; None where its density integrates to more than 1: the law is no law."""
    step = law.grid
    far = 60.0 * math.sqrt(law.variance)
    found = _summed(law, step, far) if step > 0 and far < step * _MOST_POINTS else _integrated(law)
    return found if found.within[-1] <= 1.0 + _EXCESS else None


def _summed(law: AdditiveNoise, step: float, far: float) -> LawTable:
    points = np.arange(math.ceil(far / step) + 2) * step
    masses = np.exp(law.log_density(points)) * step
    # Before masses are doubled to cover both signs: two draws are equal only if their signs are too.
    repeats = float(masses[0] ** 2 + 2.0 * (masses[1:] ** 2).sum())
    masses[1:] *= 2.0
    return LawTable(np.asarray(points + 0.5 * step), np.cumsum(masses), repeats, 0.0)


def _integrated(law: AdditiveNoise) -> LawTable:
    """By Simpson's rule over ln x, since a density may be infinite at 0; missing mass counts at 0."""
    from scipy.integrate import cumulative_simpson

    low, high = _DECADES
    logs = np.linspace(low, high, round((high - low) * _PER_DECADE) + 1) * math.log(10.0)
    sizes = law.scale * np.exp(logs)
    density = 2.0 * np.exp(law.log_density(sizes) + logs + math.log(law.scale))
    within = cumulative_simpson(density, x=logs, initial=0.0)
    step = law.grid  # of a lattice too fine to sum
    repeats = step * math.exp(float(law.log_density(0.0))) if step > 0 else 0.0
    return LawTable(sizes, within + max(0.0, 1.0 - float(within[-1])), repeats, _SMALL * law.scale)
