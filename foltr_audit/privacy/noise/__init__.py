"""Laws of the noise that defenses add: what they draw from, and what an observer may know of it.

A law's `text` is how it travels as public knowledge; `parse_law` reads it back. `GammaShare`, `Gaussian`,
`Skellam` and `DiscreteGaussian` are laws that defenses draw from. Decoders use `RoundingNoise` where there is
no noise and `ScaleFreeNoise` where nothing is known of it.
"""

from __future__ import annotations

from foltr_audit.privacy.noise.base import AdditiveNoise, NoiseLaw
from foltr_audit.privacy.noise.discrete_gaussian import DiscreteGaussian
from foltr_audit.privacy.noise.gamma_share import FLOOR, GammaShare
from foltr_audit.privacy.noise.gaussian import Gaussian
from foltr_audit.privacy.noise.parse import parse_law
from foltr_audit.privacy.noise.skellam import Skellam
from foltr_audit.privacy.noise.without_defense import RoundingNoise, ScaleFreeNoise

__all__ = [
    "FLOOR",
    "AdditiveNoise",
    "DiscreteGaussian",
    "GammaShare",
    "Gaussian",
    "NoiseLaw",
    "RoundingNoise",
    "ScaleFreeNoise",
    "Skellam",
    "parse_law",
]
