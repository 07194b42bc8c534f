"""How an audit chooses what it evaluates, and the bounds of all estimators for the same trials."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np

from foltr_audit.auditing.estimators import ESTIMATORS, FOR_NORMAL, LowerBound, TrialScores
from foltr_audit.auditing.trial_scores import Pair


def about_best(promised: Sequence[float], *, share: float = 0.8, chance: float = 0.25) -> list[int]:
    """Which promised bounds are about as good as the best, in their order.

    A promised bound varies by chance: those above a `share` of the best, less `chance`, count as equal.

    >>> about_best([1.2, 0.1, 1.3])
    [0, 2]
    """
    enough = share * max(promised) - chance
    return [place for place, bound in enumerate(promised) if bound >= enough]


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
    """The bounds of estimators for the same trials.

    Args:
        trials: the trials.
        stream: the random stream of an estimator, by its name.
        delta: of the bounds.
        confidence: of each bound.
        normal: whether the scores are normal; without that, or with delta 0, estimators for normal noise are
            left out.
        among: names of the estimators.
    """
    for name, estimator in ESTIMATORS.items():
        if name in among and (name not in FOR_NORMAL or (delta > 0 and normal)):
            yield estimator(trials, delta=delta, confidence=confidence, rng=stream(name))


def split(pair: Pair, choosing: int, *, independent: bool = False) -> TrialScores:
    """Scores with the first `choosing` of each hypothesis set apart."""
    zero, one = pair
    return TrialScores(
        choose_zero=zero[:choosing],
        choose_one=one[:choosing],
        zero=zero[choosing:],
        one=one[choosing:],
        independent=independent,
    )
