"""A credible lower end of epsilon: posteriors of both error rates instead of intervals."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from foltr_audit.auditing.estimators.base import LowerBound, TrialScores, check_level
from foltr_audit.auditing.estimators.tails import best_tail, worth_in_epsilon
from foltr_audit.utils.frozen_arrays import read_only

NAME = "bayesian"

_PRIOR = 0.5  # both parameters of Jeffreys' Beta prior of a rate
_NODES = 256
_LARGEST = 50.0  # no number of trials that fits in memory shows more


def bayesian(trials: TrialScores, *, delta: float, confidence: float, rng: np.random.Generator) -> LowerBound:
    """Lower end of a one-sided credible interval of eps at one threshold fixed on the part for choosing.

    The posteriors of the two error rates are independent Betas (Jeffreys' prior, Beta(1/2, 1/2)); eps of a
    pair of rates is the smallest that allows both of them, and `epsilon` its (1 - confidence) quantile, by
    integration. On average over rates drawn from that prior it is too large with probability
    1 - confidence; for a given mechanism that may be more or less, so it is no guarantee, and says so.

    Source: Zanella-Beguelin et al. 2023, "Bayesian estimation of differential privacy" (the prior is that
    of its authors' program); here with the two inequalities of the scores' declared direction only.

    Raises:
        UsageError: delta outside [0, 1) or confidence outside (0, 1).
    """
    del rng
    check_level(NAME, delta, confidence)
    alpha = 0.5 * (1.0 - confidence)
    tail = best_tail(trials, worth_in_epsilon(trials.chosen_on, delta, alpha))
    n = trials.evaluated
    return LowerBound(
        estimator=NAME,
        epsilon=credible_bound(*tail.errors(trials), n, delta=delta, confidence=confidence),
        ceiling=credible_bound(0, 0, n, delta=delta, confidence=confidence),
        confidence=confidence,
        delta=delta,
        trials=n,
        assumes="a prior: not a guarantee",
    )


@lru_cache(maxsize=1024)
def credible_bound(
    false_positives: int, false_negatives: int, trials: int, *, delta: float, confidence: float
) -> float:
    """The eps that the true one exceeds with posterior probability `confidence`; 0 if there is none.

    The rate with more errors is integrated over: given it, the probability is a smooth function.
    """
    from scipy import optimize, special

    few, many = sorted((false_positives, false_negatives))
    shares, weights = _rule()
    outer = special.betaincinv(many + _PRIOR, trials - many + _PRIOR, shares)

    def beyond(eps: float) -> float:
        """Posterior probability of an eps of at most this one, less what the level allows."""
        ratio = math.exp(eps)
        least = np.maximum(1.0 - delta - ratio * outer, (1.0 - delta - outer) / ratio)
        given = special.betaincc(few + _PRIOR, trials - few + _PRIOR, np.clip(least, 0.0, 1.0))
        return float(np.sum(weights * given)) - (1.0 - confidence)

    if beyond(0.0) >= 0:
        return 0.0
    return float(optimize.brentq(beyond, 0.0, _LARGEST, xtol=1e-12))


@lru_cache(maxsize=1)
def _rule() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nodes and weights of Fejer's first rule on (0, 1); it needs no linear algebra."""
    angles = (np.arange(_NODES) + 0.5) * np.pi / _NODES
    j = np.arange(1, _NODES // 2 + 1)
    waves = np.cos(2.0 * np.outer(angles, j)) / (4.0 * j * j - 1.0)
    weights: NDArray[np.float64] = read_only((1.0 - 2.0 * waves.sum(axis=1)) / _NODES, np.float64)
    nodes: NDArray[np.float64] = read_only(0.5 * (1.0 + np.cos(angles)), np.float64)
    return nodes, weights
