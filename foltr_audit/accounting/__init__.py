"""Accounting: privacy that is proven for a chain of defenses, as upper bounds on epsilon."""

from foltr_audit.accounting.bound import over_rounds, upper_bound
from foltr_audit.accounting.calibrate import Calibrated, calibrate, in_sums, mechanisms
from foltr_audit.accounting.situation import Situation, UpperBound

__all__ = [
    "Calibrated",
    "Situation",
    "UpperBound",
    "calibrate",
    "in_sums",
    "mechanisms",
    "over_rounds",
    "upper_bound",
]
