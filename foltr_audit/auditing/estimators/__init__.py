"""Estimators: scores of a game's trials in, a lower bound on epsilon out."""

from foltr_audit.auditing.estimators.one_run import one_run, one_run_bound, one_run_fdp
from foltr_audit.auditing.estimators.repeated_trials import (
    Estimator,
    TrialScores,
    betting,
    clopper_pearson,
    clopper_pearson_bound,
    gaussian_dp,
    nearly_normal,
)

ESTIMATORS: dict[str, Estimator] = {
    "clopper-pearson": clopper_pearson,
    "gaussian-dp": gaussian_dp,
    "one-run": one_run,
    "one-run-fdp": one_run_fdp,
    "betting": betting,
}
"""Every estimator by its name."""

ANYTIME = ("betting",)
"""Estimators that are valid whenever trials stop, whatever they have shown."""

FOR_NORMAL = ("gaussian-dp", "one-run-fdp")
"""Estimators for normal noise (`nearly_normal`) and a delta above 0."""

__all__ = [
    "ANYTIME",
    "ESTIMATORS",
    "FOR_NORMAL",
    "Estimator",
    "TrialScores",
    "clopper_pearson_bound",
    "nearly_normal",
    "one_run_bound",
]
