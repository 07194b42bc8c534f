"""Every check of the lint, in the order of their findings."""

from __future__ import annotations

from foltr_audit.trace.lint.base import LintCheck
from foltr_audit.trace.lint.bit_equal import BitEqualityCheck
from foltr_audit.trace.lint.both_shares import ShareAnswerCheck
from foltr_audit.trace.lint.clear_fields import ClearFieldCheck
from foltr_audit.trace.lint.clear_metrics import ClearMetricCheck
from foltr_audit.trace.lint.counts import CountCheck
from foltr_audit.trace.lint.declared_sensitivity import SensitivityCheck
from foltr_audit.trace.lint.grid import GridCheck
from foltr_audit.trace.lint.mask_seeds import MaskSeedCheck
from foltr_audit.trace.lint.reused_noise import NoiseReuseCheck
from foltr_audit.trace.lint.reused_seeds import SeedReuseCheck
from foltr_audit.trace.lint.server_noise import ServerNoiseCheck
from foltr_audit.trace.lint.silent import SilentClientCheck
from foltr_audit.trace.lint.sparsity import SparsityCheck
from foltr_audit.trace.lint.unmasked import MaskCheck
from foltr_audit.trace.lint.weak_noise import WeakNoiseCheck

CHECKS: tuple[type[LintCheck], ...] = (
    BitEqualityCheck,
    SilentClientCheck,
    CountCheck,
    ClearMetricCheck,
    NoiseReuseCheck,
    SeedReuseCheck,
    WeakNoiseCheck,
    SensitivityCheck,
    ServerNoiseCheck,
    SparsityCheck,
    MaskCheck,
    MaskSeedCheck,
    ShareAnswerCheck,
    ClearFieldCheck,
    GridCheck,
)
"""A new check is a module with a subclass of `LintCheck`, and its name here."""
