"""Laws of the noise that defenses add: what they draw from, and what an observer may know of it.

A law's `text` is how it travels as public knowledge; `parse_law` reads it back. `GammaShare`, `Gaussian`,
`Skellam` and `DiscreteGaussian` are laws that defenses draw from; `Rounding` and `ScaleFree` are how
decoders write down that there is no noise, or that nothing is known of it.
"""

from __future__ import annotations

from foltr_audit.noise_laws.base import AddedNoise, NoiseLaw
from foltr_audit.noise_laws.decoders import Rounding, ScaleFree
from foltr_audit.noise_laws.discrete_gaussian import DiscreteGaussian
from foltr_audit.noise_laws.gamma_share import FLOOR, GammaShare
from foltr_audit.noise_laws.gaussian import Gaussian
from foltr_audit.noise_laws.skellam import Skellam
from foltr_audit.noise_laws.texts import parse_law

__all__ = [
    "FLOOR",
    "AddedNoise",
    "DiscreteGaussian",
    "GammaShare",
    "Gaussian",
    "NoiseLaw",
    "Rounding",
    "ScaleFree",
    "Skellam",
    "parse_law",
]
