"""Estimators: scores of a game's trials in, a lower bound on epsilon out."""

from foltr_audit.auditing.estimators.base import Estimator, LowerBound, Trials
from foltr_audit.auditing.estimators.choose import ESTIMATORS, choose_estimator
from foltr_audit.auditing.estimators.clopper_pearson import clopper_pearson_bound
from foltr_audit.auditing.estimators.one_run import one_run_bound

__all__ = [
    "ESTIMATORS",
    "Estimator",
    "LowerBound",
    "Trials",
    "choose_estimator",
    "clopper_pearson_bound",
    "one_run_bound",
]
