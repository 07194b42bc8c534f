"""Metrics of shown lists, and true positives of scores."""

from __future__ import annotations

import numpy as np

from foltr_audit.kernels.elementary import log2
from foltr_audit.kernels.jit import Bools, Floats, Ints, inlined, kernel, read_only, unsigned
from foltr_audit.kernels.threads import filled

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
def dcg_of_lists(labels: Ints, offsets: Ints, queries: Ints, shown: Ints, discounts: Floats) -> Floats:
    """DCG of lists (I, k) shown for queries (I,), with the weight of each rank in `discounts` (k,)."""
    out = np.empty(queries.size)
    for i in range(queries.size):
        first, total = offsets[queries[i]], 0.0
        for rank in range(shown.shape[1]):
            if shown[i, rank] >= 0:
                total += _gain(labels[unsigned(first + shown[i, rank])]) * discounts[rank]
        out[i] = total
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
def click_metrics(shown: Ints, clicks: Bools, discounts: Floats) -> Floats:
    """1 / rank of the first click, DCG of the clicks, and 1 for a pair, of each list (I, k): (I, 3).

    The first is 0 without a click. A pair is a clicked document and one that was not clicked.
    """
    k, out = clicks.shape[1], np.empty((clicks.shape[0], 3))
    for i in range(clicks.shape[0]):
        clicked, first, total = 0, 0.0, 0.0
        for rank in range(k):
            if clicks[i, rank]:
                if clicked == 0:
                    first = 1.0 / (rank + 1.0)
                total += discounts[rank]
                clicked += 1
        out[i, 0], out[i, 1] = first, total
        out[i, 2] = 0 < clicked < k and shown[i, clicked] >= 0  # more documents than clicks
    return out


@kernel
def values_by_client(values: Floats, paired: Bools, there: Bools, discount: float) -> tuple[Floats, float]:
    """Values of the lists that were played (C, B), and their mean in two steps over those with a pair.

    The values (I,) have the discount as a factor for each earlier list of their client. The mean over clients
    is that of their means over lists with a pair, 0 without one; NaN if nobody played.
    """
    discounted, i = np.empty(values.size), 0
    means, clients = 0.0, 0
    for client in range(there.shape[0]):
        weight, total, pairs, before = 1.0, 0.0, 0, i
        for step in range(there.shape[1]):
            if there[client, step]:
                discounted[i] = weight * values[i]
                weight *= discount
                if paired[i]:
                    total += values[i]
                    pairs += 1
                i += 1
        clients += i > before
        means += total / max(pairs, 1)
    return discounted, means / clients if clients > 0 else np.nan


# --- metrics of rankings with ties -----------------------------------------------------------------
# Means over all orders of documents with equal scores, in closed form. Source: McSherry & Najork 2008,
# "Computing information retrieval performance measures efficiently in the presence of tied scores".

_QUERIES = 128  # of one part


@inlined
def _add_unclicked(means: Floats, t: int, unclicked: float) -> None:
    """Add the t-th of some documents to means[j]: how likely none of j of them is clicked.

    A mean over all choices of j of t documents: the t-th is among them with probability j / t.
    """
    for j in range(min(t, means.size - 1), 0, -1):
        means[j] = (j * unclicked * means[j - 1] + (t - j) * means[j]) / t


@inlined
def _take_equals(
    labels: Ints, scores: Floats, click: Floats, by_position: bool, unclicked: Floats
) -> tuple[int, float, int]:
    """How many documents have the highest score, which is then -inf, their gains, and how many are relevant.

    With `by_position` only the first of them. Fills `unclicked` as `_add_unclicked` does.
    """
    top, tied, gain, relevant = scores[0], 0, 0.0, 0
    for i in range(1, scores.size):
        top = scores[i] if scores[i] > top else top
    unclicked[0] = 1.0
    for j in range(1, unclicked.size):
        unclicked[j] = 0.0
    for i in range(scores.size):
        if scores[i] == top:
            scores[i] = -np.inf
            tied += 1
            gain += _gain(labels[i])
            relevant += labels[i] > 0
            if click.size > 0:
                _add_unclicked(unclicked, tied, 1.0 - click[min(labels[i], click.size - 1)])
            if by_position:
                break
    return tied, gain, relevant


def tied_metrics(
    labels: Ints, offsets: Ints, scores: Floats, discounts: Floats, click: Floats, by_position: bool
) -> Floats:
    """DCG, reciprocal rank, summed precision and expected MaxRR of the first k of each query, (queries, 4).

    The precision at the rank of each relevant document is summed. MaxRR is under P(click | grade) `click`
    (grades,), whose last one holds for grades beyond it; NaN for an empty one. With `by_position` the upper
    of two documents with equal scores comes first, else all orders are equally likely.
    """
    given = (labels, offsets, scores, discounts, click, by_position)
    return filled(np.zeros((offsets.size - 1, 4)), _QUERIES, fill_tied_metrics, *given)


@kernel
def fill_tied_metrics(
    labels: Ints,
    offsets: Ints,
    scores: Floats,
    discounts: Floats,
    click: Floats,
    by_position: bool,
    out: Floats,
    begin: int,
    end: int,
) -> None:
    """Fill out[begin:end] of `tied_metrics`, which begins as 0."""
    k = discounts.size
    means = np.empty(k + 1)
    for query in range(begin, end):
        rows = slice(offsets[query], offsets[query + 1])
        left, own = scores[rows].copy(), labels[rows]
        rank, hits, irrelevant, skipped = 0, 0, 1.0, 1.0
        while rank < min(k, left.size):
            unclicked = means[: k - rank + 1]
            tied, gain, relevant = _take_equals(own, left, click, by_position, unclicked)
            another = (relevant - 1.0) / (tied - 1.0) if tied > 1 else 0.0
            for j in range(min(tied, k - rank)):
                out[query, 0] += gain / tied * discounts[rank + j]
                out[query, 1] += irrelevant * relevant / (tied - j) / (rank + j + 1.0)
                out[query, 2] += relevant / tied * (hits + 1.0 + j * another) / (rank + j + 1.0)
                out[query, 3] += skipped * (unclicked[j] - unclicked[j + 1]) / (rank + j + 1.0)
                irrelevant *= max(0, tied - relevant - j) / (tied - j)
            rank, hits, skipped = rank + tied, hits + relevant, skipped * unclicked[min(tied, k - rank)]
        if click.size == 0:
            out[query, 3] = np.nan


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
    given = (positive, tie, cluster, read_only(weights), allowed)
    return filled(np.zeros(allowed.shape, dtype=np.int64), _RESAMPLES, fill_hits, *given)


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
