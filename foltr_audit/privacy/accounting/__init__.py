"""Accounting: privacy that is proven for a chain of defenses, as upper bounds on epsilon."""

from foltr_audit.privacy.accounting.bound import run_bound, upper_bound
from foltr_audit.privacy.accounting.proven_curve import trade_off
from foltr_audit.privacy.accounting.situation import AccountingContext
from foltr_audit.privacy.accounting.sum_members import SumMembers
from foltr_audit.privacy.bounds import RunBound, UpperBound

__all__ = [
    "AccountingContext",
    "RunBound",
    "SumMembers",
    "UpperBound",
    "run_bound",
    "trade_off",
    "upper_bound",
]
