"""Estimators: scores of a game's trials in, a lower bound on epsilon out."""

from foltr_audit.auditing.estimators.base import Estimator, LowerBound, TrialScores
from foltr_audit.auditing.estimators.bayesian import bayesian
from foltr_audit.auditing.estimators.betting import betting
from foltr_audit.auditing.estimators.clopper_pearson import clopper_pearson, clopper_pearson_bound
from foltr_audit.auditing.estimators.gaussian import gaussian_dp
from foltr_audit.auditing.estimators.normality import nearly_normal
from foltr_audit.auditing.estimators.one_run import one_run, one_run_bound

ESTIMATORS: dict[str, Estimator] = {
    "clopper-pearson": clopper_pearson,
    "gaussian-dp": gaussian_dp,
    "one-run": one_run,
    "bayesian": bayesian,
    "betting": betting,
}
"""Every estimator by its name."""

__all__ = [
    "ESTIMATORS",
    "Estimator",
    "LowerBound",
    "TrialScores",
    "clopper_pearson_bound",
    "nearly_normal",
    "one_run_bound",
]
