"""Laws of the noise that defenses add.

A law's `text` makes it public knowledge; `parse_law` reads it back. Defenses draw from `GammaShare`,
`Gaussian`, `Skellam` and `DiscreteGaussian`. Decoders use `RoundingNoise` where there is no noise and
`ScaleFreeNoise` where nothing is known of it. See `docs/maths.md`, "Noise".
"""

from __future__ import annotations

from foltr_audit.privacy.noise.base import AdditiveNoise, NoiseLaw, RoundingNoise, ScaleFreeNoise
from foltr_audit.privacy.noise.gamma_share import FLOOR, GammaShare
from foltr_audit.privacy.noise.gaussian import Gaussian
from foltr_audit.privacy.noise.grid import DiscreteGaussian, Skellam
from foltr_audit.privacy.noise.parse import parse_law

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
