"""Secure aggregation: the server learns a sum of messages and none of them."""

from foltr_audit.privacy.secure_aggregation.fixed_point import FixedPoint
from foltr_audit.privacy.secure_aggregation.outcome import AggregationAbort, SecureSumResult
from foltr_audit.privacy.secure_aggregation.protocol import SecureSum, SecureSumParameters

__all__ = ["AggregationAbort", "FixedPoint", "SecureSum", "SecureSumParameters", "SecureSumResult"]
