"""Secure aggregation: the server learns a sum of messages and none of them."""

from foltr_audit.privacy.secure_aggregation.fixed_point import FixedPoint
from foltr_audit.privacy.secure_aggregation.outcome import Abort, Outcome
from foltr_audit.privacy.secure_aggregation.protocol import Plan, SecureSum

__all__ = ["Abort", "FixedPoint", "Outcome", "Plan", "SecureSum"]
