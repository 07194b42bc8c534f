"""A lower bound for mechanisms that are as private as one Gaussian."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from foltr_audit.auditing.estimators.base import LowerBound, Trials, check_level
from foltr_audit.auditing.estimators.rates import upper_rate, upper_rates
from foltr_audit.auditing.estimators.tails import best_tail
from foltr_audit.errors import UsageError
from foltr_audit.gaussian_dp import gaussian_epsilon

NAME = "gaussian-dp"


def gaussian_dp(trials: Trials, *, delta: float, confidence: float, rng: np.random.Generator) -> LowerBound:
    """Lower bound on mu of Gaussian DP at one threshold, and the eps that this mu has at delta.

    mu >= -Phi^-1(FPR) - Phi^-1(FNR), with upper bounds of both rates at (1 - confidence) / 2 each; the
    threshold is the one with the largest mu in the part for choosing.

    *Guarantees* for mechanisms whose trade-off curve is a Gaussian's (Gaussian noise; its composition):
    P(epsilon > true eps) <= 1 - confidence. For all others it may be far too large, so `assumes` says so.

    Source: Nasr et al. 2023, "Tight auditing of differentially private machine learning"; MATHS section 6.

    Raises:
        UsageError: delta outside (0, 1): a Gaussian has no pure eps; or confidence outside (0, 1).
    """
    del rng
    check_level(NAME, delta, confidence)
    if not delta > 0:
        raise UsageError(
            f"estimator {NAME}: delta={delta:g}; expected delta > 0: a Gaussian gives no eps at delta 0"
        )
    alpha = 0.5 * (1.0 - confidence)
    rates = upper_rates(trials.chosen_on, alpha)
    tail = best_tail(trials, lambda intruders, missing: _mu(rates[intruders], rates[missing]))
    n = trials.evaluated
    return LowerBound(
        estimator=NAME,
        epsilon=_epsilon(*tail.errors(trials), n, delta, alpha),
        ceiling=_epsilon(0, 0, n, delta, alpha),
        confidence=confidence,
        delta=delta,
        trials=n,
        assumes="Gaussian DP",
    )


def _mu(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mu that leaves these two error rates possible; -inf where one of them is 1."""
    from scipy import special

    return np.asarray(-special.ndtri(first) - special.ndtri(second))


def _epsilon(false_positives: int, false_negatives: int, trials: int, delta: float, alpha: float) -> float:
    rates = upper_rate(np.array([false_positives, false_negatives]), trials, alpha)
    mu = float(_mu(rates[0], rates[1]))
    return gaussian_epsilon(mu, delta) if mu > 0 else 0.0
