"""Secure aggregation: the server learns the sum of the messages and no single one.

Begin with: `protocol.py`. See `docs/maths.md`, "Secure aggregation".
"""

from foltr_audit.privacy.secure_aggregation.fixed_point import FixedPoint
from foltr_audit.privacy.secure_aggregation.protocol import (
    SecureSum,
    SecureSumParameters,
    SecureSumResult,
)

__all__ = ["FixedPoint", "SecureSum", "SecureSumParameters", "SecureSumResult"]
