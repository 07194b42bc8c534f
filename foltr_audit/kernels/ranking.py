"""Scores of the linear ranker, lists in score order, and weighted sums of features, for a whole cohort.

A cohort asks one query a client. Scores of its candidates lie in one flat array; client c owns
`scores[starts[c] : starts[c + 1]]`. A shown list holds positions inside the query, padded with -1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foltr_audit.kernels.philox import uniform
from foltr_audit.kernels.sums import product_sum

from .jit import Floats, Ints, inlined, kernel, read_only, uncounted, unsigned
from .threads import filled, in_parts

Features = NDArray[np.float32] | Floats

_NUMBERS = 1 << 20  # features that one part reads: less work is done before a thread has started


@uncounted
def fill_products(
    features: Features, first: int, documents: int, models: Floats, row: int, out: Floats, to: int, begin: int
) -> None:
    """Fill out[to, begin : begin + documents] with `x . theta` of documents from `first` on, in float64."""
    model = models[row]
    for i in range(documents):
        out[to, unsigned(begin + i)] = product_sum(features[unsigned(first + i)], model)


def _queries_of_part(numbers: int, queries: int) -> int:
    """So many queries are worth a thread, if all of them together read so many features."""
    return max(1, _NUMBERS * queries // max(1, numbers))


def linear_scores(
    features: Features, offsets: Ints, queries: Ints, starts: Ints, parameters: Floats
) -> Floats:
    """Scores `x . theta` of every candidate, summed in float64.

    `parameters` has one row a client, or a single row that all share.
    """
    scores = np.empty(starts[-1], dtype=np.float64)
    given = (features, offsets, queries, starts, read_only(parameters), scores[np.newaxis])
    batch = _queries_of_part(int(starts[-1]) * features.shape[1], queries.size)
    in_parts(lambda begin, end: fill_linear_scores(*given, begin, end), queries.size, batch)
    return scores


@kernel
def fill_linear_scores(
    features: Features,
    offsets: Ints,
    queries: Ints,
    starts: Ints,
    parameters: Floats,
    scores: Floats,
    begin: int,
    end: int,
) -> None:
    """Fill scores (1, all) with those of the candidates of queries[begin:end]: see `linear_scores`."""
    for c in range(begin, end):
        model = min(c, parameters.shape[0] - 1)
        first = offsets[queries[c]]
        documents = starts[c + 1] - starts[c]
        fill_products(features, first, documents, parameters, model, scores, 0, starts[c])


class TieStream(NamedTuple):
    """Which of the documents with equal scores come first.

    Number i of the stream of a query is the place of document i among its equals. With `drawn` False the
    lower position comes first.
    """

    round: int
    purpose: int
    key: np.uint64
    drawn: bool


BY_POSITION = TieStream(0, 0, np.uint64(0), False)


@uncounted
def first_of_equals(scores: Floats, top: float, query: int, ties: TieStream) -> int:
    """Position of the first document with the score `top`, of which there is one at least, by drawn ties."""
    first, place = -1, 2.0
    for i in range(scores.size):
        if scores[i] == top:
            number = uniform(i, query, ties.round, ties.purpose, ties.key)
            first = i if number < place else first
            place = min(number, place)
    return first


@uncounted
def take_best(values: Floats, shown: Ints, query: int, ties: TieStream) -> None:
    """Fill `shown` with the positions of the largest values, which are overwritten."""
    for rank in range(min(shown.size, values.size)):
        best, equals = 0, 0
        for i in range(1, values.size):
            if values[i] > values[best]:
                best, equals = i, 0
            elif values[i] == values[best]:
                equals += 1
        if equals > 0 and ties.drawn:
            best = first_of_equals(values, values[best], query, ties)
        shown[rank] = best
        values[best] = -np.inf


@kernel
def top_lists(scores: Floats, starts: Ints, k: int, queries: Ints, ties: TieStream) -> Ints:
    """The k best-scored positions of the candidates of queries (C,); shape (C, k), padded with -1."""
    shown = np.empty((starts.size - 1, k), dtype=np.int64)
    shown[:] = -1
    for c in range(starts.size - 1):
        # A copy: taking a document overwrites its score.
        take_best(scores[starts[c] : starts[c + 1]].copy(), shown[c], queries[c], ties)
    return shown


@inlined
def add_documents(
    features: Features, first: int, shown: Ints, weights: Floats, row: int, out: Floats, to: int
) -> None:
    """Fill out[to] with `sum_i weights[row, i] x_i` over shown documents; their query begins at first."""
    for j in range(out.shape[1]):
        out[to, j] = 0.0
    for i in range(shown.shape[1]):
        weight = weights[row, i]
        if shown[row, i] >= 0 and weight != 0.0:
            document = first + shown[row, i]
            for j in range(out.shape[1]):
                out[to, j] += weight * features[document, j]


def weighted_features(
    features: Features, offsets: Ints, queries: Ints, shown: Ints, weights: Floats
) -> Floats:
    """`sum_i weights[c, i] x_i` over the shown documents, float64, shape (C, features)."""
    sums = np.empty((queries.size, features.shape[1]), dtype=np.float64)
    batch = _queries_of_part(shown.size * features.shape[1], queries.size)
    return filled(sums, batch, fill_weighted_features, features, offsets, queries, shown, weights)


@kernel
def fill_weighted_features(
    features: Features,
    offsets: Ints,
    queries: Ints,
    shown: Ints,
    weights: Floats,
    sums: Floats,
    begin: int,
    end: int,
) -> None:
    """Fill sums[begin:end] of `weighted_features`."""
    for c in range(begin, end):
        add_documents(features, offsets[queries[c]], shown, weights, c, sums, c)
