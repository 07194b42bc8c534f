"""Estimators of lower bounds by their names."""

from __future__ import annotations

from foltr_audit.auditing.estimators.base import Estimator
from foltr_audit.auditing.estimators.bayesian import bayesian
from foltr_audit.auditing.estimators.betting import betting
from foltr_audit.auditing.estimators.clopper_pearson import clopper_pearson
from foltr_audit.auditing.estimators.gaussian import gaussian_dp
from foltr_audit.auditing.estimators.one_run import one_run
from foltr_audit.errors import UsageError, did_you_mean

ESTIMATORS: dict[str, Estimator] = {
    "clopper-pearson": clopper_pearson,
    "gaussian-dp": gaussian_dp,
    "one-run": one_run,
    "bayesian": bayesian,
    "betting": betting,
}
"""Every estimator by its name."""


def choose_estimator(name: str) -> Estimator:
    """The estimator of a name.

    Raises:
        UsageError: an unknown name.
    """
    if name not in ESTIMATORS:
        raise UsageError(f"--estimator: unknown estimator {name!r}; {did_you_mean(name, ESTIMATORS)}")
    return ESTIMATORS[name]
