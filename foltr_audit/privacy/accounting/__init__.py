"""Accounting: privacy that is proven for a chain of defenses, as upper bounds on epsilon."""

from foltr_audit.privacy.accounting.bound import over_rounds, upper_bound
from foltr_audit.privacy.accounting.situation import Situation, UpperBound

__all__ = [
    "Situation",
    "UpperBound",
    "over_rounds",
    "upper_bound",
]
