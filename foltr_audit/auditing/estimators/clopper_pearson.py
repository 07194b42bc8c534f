"""A lower bound from exact intervals of both error rates."""

from __future__ import annotations

import numpy as np

from foltr_audit.auditing.estimators.base import TrialScores, estimator
from foltr_audit.auditing.estimators.rates import epsilon_of_rates, upper_rate
from foltr_audit.auditing.estimators.tails import best_tail, worth_in_epsilon


@estimator("clopper-pearson")
def clopper_pearson(
    trials: TrialScores, delta: float, confidence: float, _rng: np.random.Generator
) -> tuple[float, float]:
    """Lower bound from Clopper-Pearson intervals of the false positive and the false negative rate.

    One tail of the scores, of either direction, is fixed on the part for choosing: the one whose bound is
    largest there. On the evaluated part its two error rates get upper bounds that fail with probability at
    most (1 - confidence) / 2 each. With probability `confidence` neither fails. Then both inequalities of
    (eps, delta)-DP hold with them, of this one event and of its complement, and the larger of the two bounds
    needs no further correction. One tail for each direction would need it: four rates.

    *Guarantees* for any mechanism: P(epsilon > true eps) <= 1 - confidence, over independent trials.

    Source: Jagielski, Ullman & Oprea 2020, "Auditing differentially private machine learning"; Nasr et
    al. 2021, "Adversary instantiation", for both directions. See `docs/maths.md`, "Auditing".
    """
    tail = best_tail(trials, worth_in_epsilon(trials.chosen_on, delta, 0.5 * (1.0 - confidence)))
    n = trials.evaluated
    epsilon = clopper_pearson_bound(*tail.errors(trials), n, delta=delta, confidence=confidence)
    return epsilon, clopper_pearson_bound(0, 0, n, delta=delta, confidence=confidence)


def clopper_pearson_bound(
    false_positives: int, false_negatives: int, trials: int, *, delta: float, confidence: float
) -> float:
    """The bound from the errors in n trials of each hypothesis, by a rule fixed in advance.

    >>> round(clopper_pearson_bound(0, 0, 1000, delta=0.0, confidence=0.95), 1)
    5.6
    """
    errors = np.array([false_positives, false_negatives])
    rates = upper_rate(errors, trials, 0.5 * (1.0 - confidence))
    return max(0.0, float(epsilon_of_rates(rates, rates[::-1], delta).max()))
