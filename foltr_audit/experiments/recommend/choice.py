"""Which candidate is confirmed: of those that are as good as the best one, the one with the safest bound."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from foltr_audit.experiments.recommend.candidates import CandidateResult

LARGEST_TIE = 0.005
"""A candidate whose nDCG@10 is further below the best one's is never chosen for its bound."""


def choose(judged: Sequence[CandidateResult]) -> int | None:
    """Index of the chosen candidate; None where none is within the limits.

    A candidate ties with the best one if its mean nDCG@10 on the validation split is less than one standard
    error of their paired difference below, and less than `LARGEST_TIE`. Among those the smallest proven
    epsilon comes first, then the smallest upper end of an attack's interval, then the highest nDCG@10.

    Source: Breiman, Friedman, Olshen & Stone 1984, "Classification and regression trees", section 3.4.3 (the
    1 SE rule), here for paired queries.
    """
    kept = [number for number, one in enumerate(judged) if one.score is not None and one.score.feasible]
    if not kept:
        return None
    best = max(kept, key=lambda number: judged[number].ndcg)
    tied = [number for number in kept if ties(judged[number], judged[best])]
    return min(tied, key=lambda number: _order(judged[number]))


def ties(one: CandidateResult, best: CandidateResult) -> bool:
    """Whether a candidate is as good as the best one, up to chance."""
    below = best.ndcg - one.ndcg
    if below <= 0:
        return True
    if one.queries is None or best.queries is None:
        return False
    differences = best.queries - one.queries
    differences = differences[~np.isnan(differences)]
    if differences.size < 2:
        return False
    error = float(differences.std(ddof=1)) / math.sqrt(differences.size)
    return below < min(error, LARGEST_TIE)


def _order(one: CandidateResult) -> tuple[float, float, float]:
    proven = math.inf if one.proven is None else one.proven.upper.epsilon
    upper = 1.0 if one.leak is None or one.leak.upper is None else one.leak.upper
    return proven, upper, -one.ndcg
