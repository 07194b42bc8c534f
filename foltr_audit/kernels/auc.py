"""Area under the ROC curve, and points on it, for many weightings of the same scores at once.

A bootstrap of a thousand resamples sorts the scores once and then takes one pass over them for each.
"""

from __future__ import annotations

import numpy as np

from .jit import Bools, Floats, Ints, inlined, kernel, read_only
from .threads import in_parts

_RESAMPLES = 64  # of one part: their weights are added together


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
    given = (positive, tie, cluster, read_only(weights), out)
    in_parts(lambda begin, end: fill_auc(*given, begin, end), out.size, _RESAMPLES)
    return out


@kernel
def fill_auc(
    positive: Bools, tie: Ints, cluster: Ints, weights: Ints, out: Floats, begin: int, end: int
) -> None:
    """Fill out[begin:end] of `weighted_auc`."""
    # The weights of some resamples lie side by side, so that one instruction adds those of several.
    together = min(_RESAMPLES, end - begin)
    side = np.empty((weights.shape[1], together))
    won, below, positives = np.empty(together), np.empty(together), np.empty(together)
    for first in range(begin, end, _RESAMPLES):
        count = min(together, end - first)
        for c in range(weights.shape[1]):
            for r in range(count):
                side[c, r] = weights[first + r, c]
        _walk(positive, tie, cluster, side, won, below, positives)
        for r in range(count):
            pairs = 2.0 * positives[r] * below[r]
            out[first + r] = won[r] / pairs if pairs > 0.0 else np.nan


@inlined
def _win(
    positive: Bools, cluster: Ints, side: Floats, first: int, last: int, below: Floats, won: Floats
) -> None:
    """Add the weight `below` (r,) to `won` for each positive item of first .. last - 1, by its weight."""
    for j in range(first, last):
        if positive[j]:
            row = cluster[j]
            for r in range(side.shape[1]):
                won[r] += side[row, r] * below[r]


@kernel
def _walk(
    positive: Bools, tie: Ints, cluster: Ints, side: Floats, won: Floats, below: Floats, positives: Floats
) -> None:
    """Fill twice the weight of won pairs, and that of each class, (r,), from weights (clusters, r)."""
    # A positive item wins the negative weight below its score, and that up to it: a tie counts half as much.
    # These are whole numbers, which float64 adds exactly below 2^53, in any order.
    for r in range(side.shape[1]):
        won[r], below[r], positives[r] = 0.0, 0.0, 0.0
    i = 0
    while i < tie.size:
        last = i + 1
        while last < tie.size and tie[last] == tie[i]:
            last += 1
        _win(positive, cluster, side, i, last, below, won)
        for j in range(i, last):
            row = cluster[j]
            if positive[j]:
                for r in range(side.shape[1]):
                    positives[r] += side[row, r]
            else:
                for r in range(side.shape[1]):
                    below[r] += side[row, r]
        _win(positive, cluster, side, i, last, below, won)
        i = last


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
    given = (positive, tie, cluster, read_only(weights), allowed, out)
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
