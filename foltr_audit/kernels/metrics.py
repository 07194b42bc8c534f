"""Metrics of shown lists, and true positives of scores."""

from __future__ import annotations

import numpy as np

from foltr_audit.kernels.elementary import log2
from foltr_audit.kernels.jit import Bools, Floats, Ints, inlined, kernel, read_only, unsigned
from foltr_audit.kernels.threads import in_parts

# --- metrics of shown lists ------------------------------------------------------------------------
# Source: Burges et al. 2005, "Learning to rank using gradient descent", for DCG in this form: gain
# 2^r - 1, discount log2(rank + 1).

# A table: powers of two are exact in it whatever the library's `pow` does.
_GAINS = np.append(np.ldexp(1.0, np.arange(1024)) - 1.0, np.inf)  # of grades 0 to 1023, and of all others


@kernel
def discounts(k: int) -> Floats:
    """Weight of each of k ranks in DCG: 1 / log2(rank + 1)."""
    out = np.empty(k)
    for rank in range(k):
        out[rank] = 1.0 / log2(rank + 2.0)
    return out


@inlined
def _gain(grade: int) -> float:
    return float(_GAINS[min(grade, 1024)])


@kernel
def dcg_over_best(
    labels: Ints, offsets: Ints, queries: Ints, shown: Ints, discounts: Floats, best: Floats
) -> Floats:
    """DCG of lists (I, k) shown for queries (I,) over the best of each query (queries,), 0 where that is 0.

    `discounts` (k,) holds the weight of each rank.
    """
    out = np.empty(queries.size)
    for i in range(queries.size):
        first, total = offsets[queries[i]], 0.0
        for rank in range(shown.shape[1]):
            if shown[i, rank] >= 0:
                total += _gain(labels[unsigned(first + shown[i, rank])]) * discounts[rank]
        ideal = best[queries[i]]
        out[i] = total / ideal if ideal > 0.0 else 0.0
    return out


@kernel
def ideal_dcg_of_queries(labels: Ints, offsets: Ints, discounts: Floats) -> Floats:
    """The highest DCG that the documents of each query allow."""
    k = discounts.size
    out, best = np.empty(offsets.size - 1), np.empty(k, dtype=np.int64)
    for query in range(offsets.size - 1):
        counted, total = 0, 0.0
        for document in range(offsets[query], offsets[query + 1]):
            if counted == k and labels[document] <= best[k - 1]:
                continue
            counted = min(counted + 1, k)
            rank = counted - 1  # `best` falls: the new grade moves up to its place
            while rank > 0 and best[rank - 1] < labels[document]:
                best[rank] = best[rank - 1]
                rank -= 1
            best[rank] = labels[document]
        for rank in range(counted):
            total += _gain(best[rank]) * discounts[rank]
        out[query] = total
    return out


@kernel
def reciprocal_ranks(clicks: Bools) -> Floats:
    """1 / rank of the first click of each list (I, k); 0 without a click."""
    out = np.empty(clicks.shape[0])
    for i in range(clicks.shape[0]):
        out[i] = 0.0
        for rank in range(clicks.shape[1]):
            if clicks[i, rank]:
                out[i] = 1.0 / (rank + 1.0)
                break
    return out


@kernel
def reciprocal_ranks_of_relevant(labels: Ints, offsets: Ints, queries: Ints, shown: Ints) -> Floats:
    """1 / rank of the first document with a label above 0 of each list (I, k); 0 without one."""
    out = np.empty(queries.size)
    for i in range(queries.size):
        first, out[i] = offsets[queries[i]], 0.0
        for rank in range(shown.shape[1]):
            if shown[i, rank] >= 0 and labels[first + shown[i, rank]] > 0:
                out[i] = 1.0 / (rank + 1.0)
                break
    return out


@kernel
def average_precisions(labels: Ints, offsets: Ints, queries: Ints, shown: Ints, relevant: Ints) -> Floats:
    """Precision at the ranks of relevant documents, summed over min(k, relevant); 0 where none is.

    `relevant` (queries,) counts the documents of each query with a label above 0.
    """
    out = np.empty(queries.size)
    for i in range(queries.size):
        first, found, total = offsets[queries[i]], 0, 0.0
        for rank in range(shown.shape[1]):
            if shown[i, rank] >= 0 and labels[first + shown[i, rank]] > 0:
                found += 1
                total += found / (rank + 1.0)
        most = min(relevant[queries[i]], shown.shape[1])
        out[i] = total / most if most > 0 else 0.0
    return out


@kernel
def expected_reciprocal_ranks(
    labels: Ints, offsets: Ints, queries: Ints, shown: Ints, click: Floats
) -> Floats:
    """Expected 1 / rank of the first click on each list (I, k), from P(click | grade).

    Grades beyond the last of `click` are clicked like that one.
    """
    out = np.empty(queries.size)
    for i in range(queries.size):
        first, unclicked, total = offsets[queries[i]], 1.0, 0.0
        for rank in range(shown.shape[1]):
            if shown[i, rank] >= 0:
                chance = click[min(labels[first + shown[i, rank]], click.size - 1)]
                total += unclicked * chance / (rank + 1.0)
                unclicked *= 1.0 - chance
        out[i] = total
    return out


# --- the low end of the ROC curve ------------------------------------------------------------------
# A bootstrap of a thousand resamples sorts the scores once and then takes one pass over them for each.

_RESAMPLES = 64  # of one part


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
    positive: Bools, tie: Ints, cluster: Ints, weights: Ints, allowed: Ints, out: Ints, begin: int, end: int
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
