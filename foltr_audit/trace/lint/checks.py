"""Every check of the lint, in the order in which findings are told."""

from __future__ import annotations

from foltr_audit.trace.lint.base import Check
from foltr_audit.trace.lint.bit_equal import BitEqual
from foltr_audit.trace.lint.clear_fields import ClearFields
from foltr_audit.trace.lint.counts import Counts
from foltr_audit.trace.lint.grid import Grid
from foltr_audit.trace.lint.reused_noise import ReusedNoise
from foltr_audit.trace.lint.reused_seeds import ReusedSeeds
from foltr_audit.trace.lint.silent import Silent
from foltr_audit.trace.lint.sparsity import Sparsity
from foltr_audit.trace.lint.unmasked import Unmasked
from foltr_audit.trace.lint.weak_noise import WeakNoise

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
