"""Secure aggregation: the server learns a sum of messages and none of them."""

from foltr_audit.privacy.secure_aggregation.fixed_point import FixedPoint
from foltr_audit.privacy.secure_aggregation.protocol import SecureSum, SecureSumParameters
from foltr_audit.privacy.secure_aggregation.result import AggregationAbort, SecureSumResult

__all__ = ["AggregationAbort", "FixedPoint", "SecureSum", "SecureSumParameters", "SecureSumResult"]
