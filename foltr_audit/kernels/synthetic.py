"""Documents of the synthetic data sets: bell-shaped features, and topics."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from foltr_audit.kernels.jit import Floats, Ints, inner, kernel
from foltr_audit.kernels.philox import philox

# --- bell-shaped variates and their documents ------------------------------------------------------
# The data must stay the same on every machine and with every version. So every number here is a multiple of
# 2^-12 of moderate size: every product and every sum is exact in float64, in any order and with or without
# fused multiply-adds; `grid` rounds a result back onto that lattice. Divisions are never part of a longer
# expression, and only functions that IEEE 754 defines are used.

# Places of a document's latent factors.
TOPIC, AUTHORITY, QUALITY, POPULARITY, DEPTH, LENGTH, NONE = range(7)
MATCH = 7  # five fields: body, anchor, title, url, whole document
FIELD_LENGTH = 12
FACTORS = 17
_FIELDS = 5
_TITLE, _WHOLE = 2, 4
_PRESENCE = FACTORS  # variates that say in which fields the query's words occur
JUDGEMENT = _PRESENCE + _FIELDS  # the assessor's own noise
COLUMN_NOISE = JUDGEMENT + 1

# What a column does with its weighted sum x of two factors and a noise.
LINEAR, POSITIVE, COUNT, HEAVY, SHARE, STEP, RARE, CONSTANT = range(8)
# Variates of the query alone, and what is derived from them.
EASE, TILT, TERMS, IDF, SIZE, WORDING = range(6)
QUERY_VARIATES = WORDING + _FIELDS


@inner
def grid(x: float) -> float:
    """The multiple of 2^-12 nearest to x."""
    return float(np.floor(x * 4096.0 + 0.5) / 4096.0)


@kernel
def _bell(a: np.uint64, b: np.uint64) -> float:
    # Four 16-bit numbers instead of an inverse normal function: whole numbers are exact. Their mean is
    # 131070; 7093 / 2^16, about 4096 / sqrt(4 * 2^32 / 12), scales the variance to 1.
    low, half = np.uint64(0xFFFF), np.uint64(16)
    total = np.int64((a >> half) + (a & low) + (b >> half) + (b & low))
    return np.float64(((total - 131070) * 7093) >> 16) / 4096.0


@inner
def fill_bells(out: Floats, client: int, round_: int, purpose: int, key: np.uint64) -> None:
    """Fill with sums of four uniform numbers: mean 0, variance 1, within 3.465, multiples of 2^-12."""
    for block in range((out.size + 1) // 2):
        a, b, c, d = philox(block, client, round_, purpose, key)
        out[2 * block] = _bell(a, b)
        if 2 * block + 1 < out.size:
            out[2 * block + 1] = _bell(c, d)


@kernel
def query_bells(queries: int, purpose: int, key: np.uint64) -> Floats:
    """The variates of each query, shape (queries, QUERY_VARIATES)."""
    out = np.empty((queries, QUERY_VARIATES))
    for query in range(queries):
        fill_bells(out[query], query, 0, purpose, key)
    return out


@inner
def factors(e: Floats, z: Floats) -> None:
    """Fill a document's factors z (FACTORS,) from its variates e (FACTORS or more,)."""
    z[TOPIC] = e[TOPIC]
    z[AUTHORITY] = e[AUTHORITY]
    z[QUALITY] = grid(0.5 * e[AUTHORITY] + 0.875 * e[QUALITY])
    z[POPULARITY] = grid(0.5 * e[AUTHORITY] + 0.375 * e[TOPIC] + 0.75 * e[POPULARITY])
    z[DEPTH] = grid(-0.375 * e[AUTHORITY] + 0.875 * e[DEPTH])
    z[LENGTH] = e[LENGTH]
    z[NONE] = 0.0
    for field in range(_FIELDS):
        z[MATCH + field] = grid(0.625 * e[TOPIC] + 0.78125 * e[MATCH + field])
        z[FIELD_LENGTH + field] = grid(0.625 * e[LENGTH] + 0.78125 * e[FIELD_LENGTH + field])
    body, whole = z[MATCH], e[MATCH + _WHOLE]
    z[MATCH + _WHOLE] = grid(0.875 * body + 0.25 * z[MATCH + _TITLE] + 0.375 * whole)


@inner
def merit(z: Floats, tilt: float, weights: Floats) -> float:
    """Utility before noise: additive, joint and weakest-link parts, and a usual length."""
    topic, authority, lean, both, weakest, length = weights[0:6]
    merit = (topic - lean * tilt) * z[TOPIC] + (authority + lean * tilt) * z[AUTHORITY]
    merit += both * grid(max(z[TOPIC], -1.0) * max(z[AUTHORITY], -1.0))
    merit += weakest * min(z[MATCH + _TITLE], z[QUALITY])
    return grid(merit - length * grid(z[LENGTH] * z[LENGTH]))


@kernel
def _shaped(x: float, shape: int) -> float:
    if shape == LINEAR:
        return x
    if shape == POSITIVE:
        return max(0.0, x + 1.5)
    if shape == COUNT:
        return grid(max(0.0, x + 1.5) * max(0.0, x + 1.5))
    if shape == HEAVY:
        y = grid(max(0.0, x + 1.0) * max(0.0, x + 1.0))
        return grid(y * y)
    if shape == SHARE:
        return grid(0.5 + 0.5 * (x / (1.0 + abs(x))))
    if shape == STEP:
        return 1.0 if x > 0.0 else 0.0
    if shape == RARE:
        return grid(max(0.0, x - 1.0) * max(0.0, x - 1.0))
    return 1.0


@kernel
def _times(code: int, field: int, about: Floats) -> float:
    """The query's own factor of a column: 1, its number of terms, or a field's idf."""
    if code == TERMS:
        return float(1.0 + np.floor(max(0.0, 1.5 + 1.25 * about[TERMS])))
    if code == IDF:
        return max(0.5, grid(6.0 + 2.0 * about[IDF] + 0.5 * about[WORDING + field]))
    return 1.0


@inner
def columns(
    z: Floats, e: Floats, about: Floats, codes: Ints, loadings: Floats, absence: Floats, row: Floats
) -> None:
    """Fill a document's row (F,) from its factors, variates and query; the other arrays as `documents`."""
    for j in range(row.size):
        shape, first, second, field, times, sparse = codes[j]
        if sparse and z[MATCH + field] + e[_PRESENCE + field] + about[WORDING + field] < absence[field]:
            row[j] = 0.0
            continue
        x = loadings[j, 0] * z[first] + loadings[j, 1] * z[second] + loadings[j, 2] * e[COLUMN_NOISE + j]
        row[j] = grid(_shaped(grid(x), shape) * _times(times, field, about))


@kernel
def _store_raw(rows: Floats, scales: Ints, out: NDArray[np.float32]) -> None:
    """Fill out (n, F) with rows (n, F) times their steps, rounded to the last decimal."""
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            out[i, j] = np.floor(rows[i, j] * scales[j, 0] + 0.5) / scales[j, 1]


@kernel
def _store_minmax(rows: Floats, out: NDArray[np.float32]) -> None:
    for j in range(rows.shape[1]):
        low, high = rows[0, j], rows[0, j]
        for i in range(rows.shape[0]):
            low, high = min(low, rows[i, j]), max(high, rows[i, j])
        for i in range(rows.shape[0]):
            # The product comes before the division: it is exact, and the one operation that rounds is IEEE
            # 754's.
            share = (rows[i, j] - low) * 1000000.0 / (high - low) if high > low else 0.0
            out[i, j] = np.floor(share + 0.5) / 1000000.0


# --- categories and documents ----------------------------------------------------------------------
# All arithmetic is exact, as above; choices compare words of the generator with whole numbers. A data set
# without categories has one, which no column tells.

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
def documents(
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
    minmax: bool,
    purpose: int,
    key: np.uint64,
) -> tuple[NDArray[np.float32], Floats]:
    """Features (documents, C) and utilities (documents,); labels come from thresholds on the latter.

    Args:
        offsets: first row of each query, shape (queries + 1,).
        abouts: `query_bells`, shape (queries, QUERY_VARIATES).
        topics: `query_topics`, shape (queries, 3).
        popularity: cumulative shares of the categories, of 2^32, shape (categories,).
        blends: cumulative shares of main, second and any category in each mixture, shape (mixtures, 3).
        penalties: what a document of the second, or of another category loses, shape (mixtures, 2).
        weights: of topic, authority, lean, both, weakest, length, noise, ease and the share of copies in each
            category, shape (categories, 9); of the last three, those of the first category count.
        absence: how seldom the query's words occur in each field, shape (5,).
        codes: shape, first and second factor, field, query factor and sparsity, shape (F, 6).
        loadings: weights of the two factors and of the column's own noise, shape (F, 3).
        scales: steps of the last decimal in one unit of the column, and in 1, shape (C, 2): C is F, or F + 1
            if a last column tells the category, from 1.
        minmax: whether each query's columns are brought to [0, 1]; else `scales` apply.
        purpose: of the Philox stream.
        key: of the Philox stream.
    """
    width, told = codes.shape[0], scales.shape[0]
    features = np.empty((offsets[-1], told), dtype=np.float32)
    utility = np.empty(offsets[-1])
    e, z = np.empty(COLUMN_NOISE + width), np.empty(FACTORS)
    for query in range(offsets.size - 1):
        start, length = offsets[query], offsets[query + 1] - offsets[query]
        rows, merits = np.empty((length, told)), np.empty(length)
        about, mixture = abouts[query], topics[query, MIXTURE]
        for i in range(length):
            word, pick, place, other = philox(i, query, 0, purpose, key)
            # Round 0 of a query's stream says what a document is, round 1 + i holds its variates: no number
            # serves twice.
            fill_bells(e, query, 1 + i, purpose, key)
            if i > 0 and np.float64(word) < weights[0, 8] * 4294967296.0:
                source = np.int64((pick * np.uint64(i)) >> np.uint64(32))
                # Number by number: for whole rows numba compiles all that a message about their shapes needs.
                for j in range(told):
                    rows[i, j] = rows[source, j]
                merits[i] = merits[source]
            else:
                category = _category(place, other, topics[query], blends[mixture], popularity)
                factors(e, z)
                columns(z, e, about, codes, loadings, absence, rows[i, :width])
                if told > width:
                    rows[i, width] = category + 1
                merits[i] = merit(z, about[TILT], weights[category])
                if category != topics[query, MAIN]:
                    merits[i] -= penalties[mixture, 0 if category == topics[query, SECOND] else 1]
            # A copy is judged again: two assessors need not agree on one text.
            noise = weights[0, 6] * e[JUDGEMENT] + weights[0, 7] * about[EASE]
            utility[start + i] = grid(merits[i] + noise)
        if minmax:
            _store_minmax(rows, features[start : start + length])
        else:
            _store_raw(rows, scales, features[start : start + length])
    return features, utility
