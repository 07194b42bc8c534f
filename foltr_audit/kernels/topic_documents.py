"""Documents of the synthetic data set with topics: the category of a document says what makes it relevant.

All arithmetic is exact, as in `kernels.bell`; choices compare words of the generator with whole numbers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .bell import (
    COLUMN_NOISE,
    EASE,
    FACTORS,
    JUDGEMENT,
    TILT,
    columns,
    factors,
    fill_bells,
    grid,
    merit,
    store_raw,
)
from .jit import Floats, Ints, kernel
from .philox import philox

MAIN, SECOND, MIXTURE = range(3)


@kernel
def _chosen(word: np.uint64, bounds: Ints) -> int:
    """The first class whose bound, of 2^32, is above a word; the last one if none is."""
    choice = 0
    while choice < bounds.size - 1 and np.int64(word) >= bounds[choice]:
        choice += 1
    return choice


@kernel
def query_topics(queries: int, popularity: Ints, mixtures: Ints, purpose: int, key: np.uint64) -> Ints:
    """Main category, second category and mixture of each query, shape (queries, 3).

    `popularity` (categories,) and `mixtures` (mixtures,) are cumulative shares, of 2^32.
    """
    out = np.empty((queries, 3), dtype=np.int64)
    for query in range(queries):
        a, b, c, _ = philox(0, query, 0, purpose, key)
        out[query, MAIN] = _chosen(a, popularity)
        out[query, SECOND] = _chosen(b, popularity)
        out[query, MIXTURE] = _chosen(c, mixtures)
    return out


@kernel
def _category(word: np.uint64, other: np.uint64, topics: Ints, blend: Ints, popularity: Ints) -> int:
    place = _chosen(word, blend)  # main category, second category, or any
    return topics[place] if place < 2 else _chosen(other, popularity)


@kernel
def topic_documents(
    offsets: Ints,
    abouts: Floats,
    topics: Ints,
    popularity: Ints,
    blends: Ints,
    penalties: Floats,
    weights: Floats,
    absence: Floats,
    codes: Ints,
    loadings: Floats,
    scales: Ints,
    purpose: int,
    key: np.uint64,
) -> tuple[NDArray[np.float32], Floats]:
    """Features (documents, F + 1), the category last, and utilities (documents,).

    Args:
        offsets: first row of each query, shape (queries + 1,).
        abouts: `bell.query_bells`, shape (queries, QUERY_VARIATES).
        topics: `query_topics`, shape (queries, 3).
        popularity: cumulative shares of the categories, of 2^32, shape (categories,).
        blends: cumulative shares of main, second and any category in each mixture, shape (mixtures, 3).
        penalties: what a document of the second, or of another category loses, shape (mixtures, 2).
        weights: of the utility in each category, as `bell.documents` has them, shape (categories, 9).
        absence: how seldom the query's words occur in each field, shape (5,).
        codes: of the columns, as `bell.documents` has them, shape (F, 6).
        loadings: weights of the two factors and of the column's own noise, shape (F, 3).
        scales: steps of the last decimal in one unit of the column, and in 1, shape (F + 1, 2).
        purpose: of the Philox stream.
        key: of the Philox stream.
    """
    width = codes.shape[0]
    features = np.empty((offsets[-1], width + 1), dtype=np.float32)
    utility = np.empty(offsets[-1])
    e, z = np.empty(COLUMN_NOISE + width), np.empty(FACTORS)
    for query in range(offsets.size - 1):
        start, length = offsets[query], offsets[query + 1] - offsets[query]
        rows, merits = np.empty((length, width + 1)), np.empty(length)
        about, mixture = abouts[query], topics[query, MIXTURE]
        for i in range(length):
            word, pick, place, other = philox(i, query, 0, purpose, key)
            # Round 0 of a query's stream says what a document is, round 1 + i holds its variates: no number
            # serves twice.
            fill_bells(e, query, 1 + i, purpose, key)
            # Row 0 of the weights: whether a document is a copy is decided before it has a category, and the
            # share of copies is the same in all.
            if i > 0 and np.float64(word) < weights[0, 8] * 4294967296.0:
                source = np.int64((pick * np.uint64(i)) >> np.uint64(32))
                rows[i] = rows[source]
                merits[i] = merits[source]
            else:
                category = _category(place, other, topics[query], blends[mixture], popularity)
                factors(e, z)
                columns(z, e, about, codes, loadings, absence, rows[i, :width])
                rows[i, width] = category + 1
                merits[i] = merit(z, about[TILT], weights[category])
                if category != topics[query, MAIN]:
                    merits[i] -= penalties[mixture, 0 if category == topics[query, SECOND] else 1]
            noise = weights[0, 6] * e[JUDGEMENT] + weights[0, 7] * about[EASE]
            utility[start + i] = grid(merits[i] + noise)
        store_raw(rows, scales, features[start : start + length])
    return features, utility
