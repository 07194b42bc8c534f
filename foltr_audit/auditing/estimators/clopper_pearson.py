"""A lower bound from exact intervals of both error rates."""

from __future__ import annotations

import numpy as np

from foltr_audit.auditing.estimators.base import LowerBound, TrialScores, check_level
from foltr_audit.auditing.estimators.rates import epsilon_of_rates, upper_rate
from foltr_audit.auditing.estimators.tails import best_tail, worth_in_epsilon

NAME = "clopper-pearson"


def clopper_pearson(
    trials: TrialScores, *, delta: float, confidence: float, rng: np.random.Generator
) -> LowerBound:
    """Lower bound from Clopper-Pearson intervals of the false positive and the false negative rate.

    One tail of the scores is fixed on the part for choosing (the one whose bound is largest there, in
    either direction). On the evaluated part its two error rates get upper bounds that fail with probability
    at most (1 - confidence) / 2 each. With probability `confidence` neither fails, and then both
    inequalities of (eps, delta)-DP, of this one event and of its complement, hold with them: the larger of
    the two bounds needs no further correction. A tail of its own for each direction would: four rates.

    *Guarantees* for any mechanism: P(epsilon > true eps) <= 1 - confidence, over independent trials.

    Source: Jagielski, Ullman & Oprea 2020, "Auditing differentially private machine learning"; Nasr et
    al. 2021, "Adversary instantiation", for both directions. MATHS section 6.

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
        epsilon=clopper_pearson_bound(*tail.errors(trials), n, delta=delta, confidence=confidence),
        ceiling=clopper_pearson_bound(0, 0, n, delta=delta, confidence=confidence),
        confidence=confidence,
        delta=delta,
        trials=n,
    )


def clopper_pearson_bound(
    false_positives: int, false_negatives: int, trials: int, *, delta: float, confidence: float
) -> float:
    """The bound from so many errors in n trials of each hypothesis, by a rule fixed in advance.

    >>> round(clopper_pearson_bound(0, 0, 1000, delta=0.0, confidence=0.95), 1)
    5.6
    """
    errors = np.array([false_positives, false_negatives])
    rates = upper_rate(errors, trials, 0.5 * (1.0 - confidence))
    return max(0.0, float(epsilon_of_rates(rates, rates[::-1], delta).max()))
