"""Synthetic ranking data shaped like Istella-S, with the category of each document among its features.

A query has a main and a second category, and a mixture that says how many of its candidates are of them
and how much utility the others lose; what makes a document relevant differs between categories. So most
queries have relevant documents of several categories, some of one only, and a ranker that has seen a few
categories is weaker on the others. The data are frozen, the same on every machine: see `kernels.synthetic`.

Source of the shape: Lucchese et al. 2016, "Post-learning optimization of tree ensembles for efficient
ranking" (Istella-S: 220 features, labels 0 to 4); numbers of documents and relevant ones, and how pure
queries are, follow the paper on non-IID learning to rank (2024), section 5.2 and table 2. More queries than
there are of one category only (17 % of those for training; 10 %), and fewer have a relevant document of the
most frequent one (68 %; 93 %), so that every client has enough to learn from in a small data set.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from foltr_audit.data.synthetic.columns import (
    ColumnKind,
    UtilityWeights,
    column_codes,
    draw_queries,
    grades,
    grid,
)
from foltr_audit.utils.arrays import Ints, Singles

LIKE = "istella-s"
"""The name after `synthetic:`."""

QUERIES = 1_500
"""Queries by default. The real set has 33,018: with fewer, the study of model merging takes minutes."""

CATEGORY_FEATURE = 220
"""The column that holds the category of a document, from 1 as in LETOR files: a whole number, 1 to 8."""

_SHARES = (887, 22, 41, 33, 17)
_SIZES = (10, 400, 80.0, 0.28)
_ABSENCE = (-2.2, 0.4, 0.2, 1.2, -2.2)

_POPULARITY = (26, 20, 15, 12, 10, 8, 5, 4)  # of the categories, in percent

# Share of the mixture, of main, second and any category in it, and what second and other ones lose.
_MIXTURES = (
    (0.07, (0.64, 0.16, 0.20), (4.0, 4.0)),
    (0.12, (0.44, 0.46, 0.10), (0.0, 3.0)),
    (0.36, (0.48, 0.17, 0.35), (0.3, 0.6)),
    (0.45, (0.24, 0.20, 0.56), (0.0, 0.3)),
)

_merit = partial(UtilityWeights, judgement=0.6, ease=0.2, copies=0.01)
_MERITS = (
    _merit(topic=0.2, authority=1.2, lean=0.2, both=0.3, weakest=0.2, length=0.3),
    _merit(topic=1.3, authority=-0.4, lean=0.2, both=0.2, weakest=0.3, length=0.2),
    _merit(topic=0.3, authority=0.1, lean=0.2, both=1.3, weakest=0.2, length=0.6),
    _merit(topic=0.2, authority=-0.7, lean=0.2, both=0.2, weakest=1.6, length=0.1),
    _merit(topic=0.9, authority=0.8, lean=0.4, both=0.2, weakest=0.1, length=0.8),
    _merit(topic=0.6, authority=-0.9, lean=0.3, both=0.9, weakest=0.4, length=0.2),
    _merit(topic=0.1, authority=0.5, lean=0.2, both=0.4, weakest=1.2, length=0.9),
    _merit(topic=1.0, authority=0.2, lean=0.6, both=0.6, weakest=0.6, length=0.3),
)

_words = partial(ColumnKind, first="MATCH", second="FIELD_LENGTH", sparse=True)
_alone = partial(ColumnKind, second="NONE")


def _per_field() -> list[ColumnKind]:
    """41 kinds, one column for each of five fields: counts, statistics, models of retrieval, proximity."""
    found = [
        _words("COUNT", weights=(0.6, 0.1, 0.7), decimals=0),  # covered query terms
        _words("SHARE", weights=(0.6, 0.1, 0.7)),
        ColumnKind("HEAVY", "NONE", "FIELD_LENGTH", (0, 0.9, 0.4), scale=3, decimals=0, sized=True),
        ColumnKind("CONSTANT", "NONE", "NONE", (0, 0, 0), times="IDF"),
        _words("STEP", weights=(0.7, 0.1, 0.7), decimals=0),
    ]
    # Sum, minimum, maximum, mean and variance over the query's words: of frequencies and their products.
    for times, scale, length in (("NONE", 1.0, 0.35), ("NONE", 0.01, -0.5), ("IDF", 0.5, 0.35)):
        for shape, match, noise in (
            ("COUNT", 0.6, 0.7),
            ("COUNT", 0.45, 0.8),
            ("COUNT", 0.5, 0.75),
            ("COUNT", 0.65, 0.65),
            ("HEAVY", 0.45, 0.75),
        ):
            found.append(
                _words(shape, weights=(match, length, noise), scale=scale, times=times, sized=scale > 0.1)
            )
    # Models of retrieval, and the same within windows of the text: proximity.
    for window in range(7):
        blur = 0.05 * window
        found += [
            _words("POSITIVE", weights=(0.7 - blur, -0.05, 0.65 + blur), times="IDF"),
            _words("LINEAR", weights=(0.6 - blur, -0.2, 0.7 + blur), scale=3, sparse=window > 3),
            _words("SHARE", weights=(0.65 - blur, -0.1, 0.7 + blur)),
        ]
    return found


def _per_document() -> list[ColumnKind]:
    """14 kinds of document and query features."""
    return [
        _alone("COUNT", "DEPTH", weights=(0.9, 0, 0.4), decimals=0),  # slashes in the URL
        _alone("COUNT", "DEPTH", weights=(0.6, 0, 0.8), scale=20, decimals=0),
        _alone("HEAVY", "AUTHORITY", weights=(0.75, 0, 0.65), scale=30, decimals=0),  # inlinks
        _alone("HEAVY", "LENGTH", weights=(0.4, 0, 0.9), scale=3, decimals=0),  # outlinks
        _alone("HEAVY", "AUTHORITY", weights=(0.8, 0, 0.6), scale=400, decimals=0),  # PageRank
        _alone("LINEAR", "AUTHORITY", weights=(0.7, 0, 0.7)),
        _alone("COUNT", "QUALITY", weights=(0.7, 0, 0.7), scale=20, decimals=0),
        _alone("SHARE", "QUALITY", weights=(0.6, 0, 0.8)),
        _alone("LINEAR", "QUALITY", weights=(0.5, 0, 0.85)),
        _alone("RARE", "POPULARITY", weights=(0.5, 0, 0.85), scale=30, decimals=0),  # clicks
        _alone("RARE", "POPULARITY", weights=(0.4, 0, 0.9), scale=100, decimals=3),
        ColumnKind("CONSTANT", "NONE", "NONE", (0, 0, 0), times="TERMS", decimals=0),  # length of the query
        _alone("LINEAR", "TOPIC", weights=(0.35, 0, 0.95)),
        _alone("HEAVY", "LENGTH", weights=(0.9, 0, 0.4), scale=100, decimals=0),  # size of the page
    ]


def generate(queries: int, seed: int) -> tuple[Ints, Singles, Ints]:
    """Offsets (queries + 1,), features (documents, 220) and labels (documents,), from 0 to 4."""
    from foltr_audit.kernels import synthetic

    drawn = draw_queries(LIKE, ("queries", "topics", "documents"), queries, seed, _SIZES)
    _, topic, document = drawn.purposes
    popularity = _bounds(_POPULARITY)
    mixtures = _bounds([share for share, _, _ in _MIXTURES])
    topics = synthetic.query_topics(queries, popularity, mixtures, topic, drawn.key)
    codes, loadings, scales = column_codes([[kind] for kind in _per_field()], _per_document())
    features, utility = synthetic.topic_documents(
        drawn.offsets,
        drawn.abouts,
        topics,
        popularity,
        np.array([_bounds(blend) for _, blend, _ in _MIXTURES]),
        grid([penalties for _, _, penalties in _MIXTURES]),
        grid(_MERITS),
        grid(_ABSENCE),
        codes,
        loadings,
        np.concatenate([scales, [[1, 1]]]),
        document,
        drawn.key,
    )
    return drawn.offsets, features, grades(utility, _SHARES)


def _bounds(shares: Sequence[float]) -> Ints:
    """Cumulative shares, in any unit to a hundredth, as whole numbers of 2^32."""
    whole = np.array([round(100 * share) for share in shares], dtype=np.int64)
    return np.asarray(np.cumsum(whole) * 2**32 // whole.sum())
