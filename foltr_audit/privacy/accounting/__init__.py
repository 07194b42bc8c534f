"""Accounting: privacy that is proven for a chain of defenses, as upper bounds on epsilon."""

from foltr_audit.privacy.accounting.bound import upper_bound
from foltr_audit.privacy.accounting.situation import AccountingContext, UpperBound

__all__ = ["AccountingContext", "UpperBound", "upper_bound"]
