"""Area under the ROC curve, and points on it, for many weightings of the same scores at once.

A bootstrap of a thousand resamples sorts the scores once and then takes one pass over them for each.
"""

from __future__ import annotations

import numpy as np

from .jit import Bools, Floats, Ints, kernel
from .threads import in_parts

_RESAMPLES = 16  # of one part: their weights are read together


def weighted_auc(positive: Bools, tie: Ints, cluster: Ints, weights: Ints) -> Floats:
    """AUC under each row of cluster weights; NaN where no pair has weight.

    Args:
        positive: whether a document was clicked, shape (D,), documents in rising order of score.
        tie: number of the distinct score, shape (D,), not falling.
        cluster: which cluster (query) a document belongs to, shape (D,).
        weights: how often each cluster counts, shape (resamples, clusters).

    Pairs of equal score count one half.
    """
    out = np.empty(weights.shape[0], dtype=np.float64)
    given = (positive, tie, cluster, weights, out)
    in_parts(lambda begin, end: fill_auc(*given, begin, end), out.size, _RESAMPLES)
    return out


@kernel
def fill_auc(
    positive: Bools, tie: Ints, cluster: Ints, weights: Ints, out: Floats, begin: int, end: int
) -> None:
    """Fill out[begin:end] of `weighted_auc`."""
    for b in range(begin, end):
        # Twice the weight of won pairs, so that a tie adds 1: whole numbers in float64 are exact below 2^53.
        won = 0.0
        below = 0.0
        positives = 0.0
        i = 0
        while i < tie.size:
            here_positive = 0.0
            here_negative = 0.0
            level = tie[i]
            while i < tie.size and tie[i] == level:
                if positive[i]:
                    here_positive += weights[b, cluster[i]]
                else:
                    here_negative += weights[b, cluster[i]]
                i += 1
            won += here_positive * (2.0 * below + here_negative)
            below += here_negative
            positives += here_positive
        pairs = 2.0 * positives * below
        out[b] = won / pairs if pairs > 0.0 else np.nan


def weighted_hits(positive: Bools, tie: Ints, cluster: Ints, weights: Ints, allowed: Ints) -> Ints:
    """Most true positives of a threshold that has no more false positives than allowed, (resamples, levels).

    Args:
        positive: whether a document was clicked, shape (D,), documents in rising order of score.
        tie: number of the distinct score, shape (D,), not falling.
        cluster: which cluster (query) a document belongs to, shape (D,).
        weights: how often each cluster counts, shape (resamples, clusters).
        allowed: false positives, shape (resamples, levels).

    A threshold takes all documents of equal score or none of them.
    """
    out = np.zeros(allowed.shape, dtype=np.int64)
    given = (positive, tie, cluster, weights, allowed, out)
    in_parts(lambda begin, end: fill_hits(*given, begin, end), weights.shape[0], _RESAMPLES)
    return out


@kernel
def fill_hits(
    positive: Bools,
    tie: Ints,
    cluster: Ints,
    weights: Ints,
    allowed: Ints,
    out: Ints,
    begin: int,
    end: int,
) -> None:
    """Fill out[begin:end] of `weighted_hits`."""
    for b in range(begin, end):
        most = 0
        for level in range(allowed.shape[1]):
            most = max(most, allowed[b, level])
        hits = 0
        alarms = 0
        i = tie.size - 1
        # From the highest score down: a lower threshold only adds false positives, so the walk may end once
        # they are too many for every level.
        while i >= 0 and alarms <= most:
            score = tie[i]
            while i >= 0 and tie[i] == score:
                if positive[i]:
                    hits += weights[b, cluster[i]]
                else:
                    alarms += weights[b, cluster[i]]
                i -= 1
            for level in range(allowed.shape[1]):
                if alarms <= allowed[b, level]:
                    out[b, level] = hits
