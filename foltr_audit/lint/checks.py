"""Every check of the lint, in the order in which findings are told."""

from __future__ import annotations

from foltr_audit.lint.bit_equal import BitEqual
from foltr_audit.lint.check import Check
from foltr_audit.lint.clear_fields import ClearFields
from foltr_audit.lint.counts import Counts
from foltr_audit.lint.grid import Grid
from foltr_audit.lint.reused_noise import ReusedNoise
from foltr_audit.lint.reused_seeds import ReusedSeeds
from foltr_audit.lint.silent import Silent
from foltr_audit.lint.sparsity import Sparsity
from foltr_audit.lint.unmasked import Unmasked
from foltr_audit.lint.weak_noise import WeakNoise

CHECKS: tuple[type[Check], ...] = (
    BitEqual,
    Silent,
    Counts,
    ReusedNoise,
    ReusedSeeds,
    WeakNoise,
    Sparsity,
    Unmasked,
    ClearFields,
    Grid,
)
"""A new check is a module with a subclass of `Check`, and its name here."""
