"""A credible lower end of epsilon, from posteriors of both error rates instead of intervals."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from foltr_audit.auditing.estimators.base import TrialScores, estimator
from foltr_audit.auditing.estimators.tails import bounds_of_best_tail
from foltr_audit.utils.arrays import Floats
from foltr_audit.utils.frozen_arrays import read_only

_PRIOR = 0.5  # both parameters of Jeffreys' Beta prior of a rate
_NODES = 256
_LARGEST = 50.0  # no number of trials that fits in memory shows more


@estimator("bayesian", assumes="a prior: not a guarantee")
def bayesian(
    trials: TrialScores, delta: float, confidence: float, _rng: np.random.Generator
) -> tuple[float, float]:
    """Lower end of a one-sided credible interval of eps at one threshold fixed on the part for choosing.

    The posteriors of the two error rates are independent Betas (Jeffreys' prior, Beta(1/2, 1/2)). The eps of
    a pair of rates is the smallest that allows both of them; the bound is its (1 - confidence) quantile, by
    integration. On average over rates drawn from that prior it is too large with probability
    1 - confidence. For a given mechanism the probability may be larger or smaller: there is no guarantee.

    Source: Zanella-Beguelin et al. 2023, "Bayesian estimation of differential privacy" (the prior is that
    of its authors' program); here with the two inequalities of the scores' declared direction only.
    """
    return bounds_of_best_tail(trials, credible_bound, delta=delta, confidence=confidence)


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
        """Posterior probability that the true eps is at most this one, less 1 - confidence."""
        ratio = math.exp(eps)
        least = np.maximum(1.0 - delta - ratio * outer, (1.0 - delta - outer) / ratio)
        given = special.betaincc(few + _PRIOR, trials - few + _PRIOR, np.clip(least, 0.0, 1.0))
        return float(np.sum(weights * given)) - (1.0 - confidence)

    if beyond(0.0) >= 0:
        return 0.0
    return float(optimize.brentq(beyond, 0.0, _LARGEST, xtol=1e-12))


@lru_cache(maxsize=1)
def _rule() -> tuple[Floats, Floats]:
    """Nodes and weights of Fejer's first rule on (0, 1).

    It needs no linear algebra, so its last digits do not depend on the LAPACK library.
    """
    angles = (np.arange(_NODES) + 0.5) * np.pi / _NODES
    j = np.arange(1, _NODES // 2 + 1)
    waves = np.cos(2.0 * np.outer(angles, j)) / (4.0 * j * j - 1.0)
    weights: Floats = read_only((1.0 - 2.0 * waves.sum(axis=1)) / _NODES, np.float64)
    nodes: Floats = read_only(0.5 * (1.0 + np.cos(angles)), np.float64)
    return nodes, weights
