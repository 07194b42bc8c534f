"""How an audit chooses what it evaluates and when it stops, and the bounds of all estimators."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np

from foltr_audit.auditing.estimators import ESTIMATORS, FOR_NORMAL, TrialScores
from foltr_audit.auditing.estimators.repeated_trials import hopeless, refutes
from foltr_audit.core.results import LowerBound
from foltr_audit.utils.arrays import Floats

Pair = Floats
"""Scores of the trials under hypothesis 0 and 1, float64 (2, N)."""

_RIDGE = 1e-9  # share of the mean variance that is added to a covariance to invert it


def about_best(promised: Sequence[float], *, share: float = 0.8, chance: float = 0.25) -> list[int]:
    """Which promised bounds are about as good as the best, in their order.

    A promised bound varies by chance: those above a `share` of the best, less `chance`, count as equal.

    >>> about_best([1.2, 0.1, 1.3])
    [0, 2]
    """
    enough = share * max(promised) - chance
    return [number for number, bound in enumerate(promised) if bound >= enough]


def promised_bound(trials: TrialScores, *, confidence: float, delta: float = 0.0) -> float:
    """The Clopper-Pearson bound of some trials."""
    rng = np.random.Generator(np.random.Philox(0))  # which this estimator does not draw from
    return ESTIMATORS["clopper-pearson"](trials, delta=delta, confidence=confidence, rng=rng).epsilon


def every_bound(
    trials: TrialScores,
    stream: Callable[[str], np.random.Generator],
    *,
    delta: float,
    confidence: float,
    normal: bool,
    among: Collection[str] = ESTIMATORS,
) -> Iterator[LowerBound]:
    """The bounds of those estimators for the same trials that are named.

    `stream` gives the random stream of an estimator. Those for normal noise are left out at delta 0, and
    where scores are not `normal`.
    """
    for name, estimator in ESTIMATORS.items():
        if name in among and (name not in FOR_NORMAL or (delta > 0 and normal)):
            yield estimator(trials, delta=delta, confidence=confidence, rng=stream(name))


def split(pair: Pair, choosing: int, *, independent: bool = False) -> TrialScores:
    """Scores with the first `choosing` of each hypothesis set apart."""
    (choose_zero, choose_one), (zero, one) = pair[:, :choosing], pair[:, choosing:]
    return TrialScores(
        choose_zero=choose_zero, choose_one=choose_one, zero=zero, one=one, independent=independent
    )


_FIRST = 60  # trials in the first batch; each batch doubles their number

Play = Callable[[range], Pair]
"""The scores of some of the trials that are evaluated."""


def play_until_decided(
    choose: Pair, play: Play, *, claim: float, delta: float, confidence: float, most: int
) -> TrialScores:
    """Trials in growing batches, at most `most`, until bets refute a claim, or could no longer refute it.

    They stand behind the part for choosing. An infinite claim is never refuted.
    """
    pair = choose
    for batch in batches(most):
        pair = np.concatenate([pair, play(batch)], axis=1)
        trials = split(pair, choose.shape[1])
        if np.isfinite(claim) and (
            refutes(trials, claim, delta=delta, confidence=confidence)
            or hopeless(trials, most, claim, delta=delta, confidence=confidence)
        ):
            break
    return trials


def batches(most: int) -> Iterator[range]:
    """Numbers of the trials of each batch."""
    first, last = 0, _FIRST
    while first < most:
        if most - last < last - first:  # a rest that is smaller than the batch joins it
            last = most
        yield range(first, last)
        first, last = last, 2 * last


def discriminant(seen: Floats, learning: int) -> Pair:
    """Scores by Fisher's linear discriminant of what was seen under hypothesis 0 and 1, (2, N, P).

    The means and the covariance are those of the first `learning` trials.

    Source: Fisher 1936, "The use of multiple measurements in taxonomic problems".
    """
    learned = seen[:, :learning]
    means = learned.mean(axis=1)
    shift, both = means[1] - means[0], np.concatenate([*(learned - means[:, np.newaxis])])
    covariance = both.T @ both / max(1, len(both) - 2)
    # The second term is above 0 where messages carry no noise, and the covariance is 0.
    ridge = _RIDGE * float(np.trace(covariance)) / covariance.shape[0] + _RIDGE**2 * float(shift @ shift)
    if not ridge > 0:  # neither noise nor shift
        return np.zeros(seen.shape[:2])
    weights = np.linalg.solve(covariance + ridge * np.eye(covariance.shape[0]), shift)
    return np.stack([side @ weights for side in seen])
