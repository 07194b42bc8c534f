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

import numpy as np

from foltr_audit.data.synthetic.columns import (
    CollectionProfile,
    column_codes,
    draw_queries,
    grades,
    grid,
)
from foltr_audit.utils.arrays import Ints, Singles

LIKE = "istella-s"
"""The name after `synthetic:`."""

CATEGORY_FEATURE = 220
"""The column that holds the category of a document, from 1 as in LETOR files: a whole number, 1 to 8."""


def generate(profile: CollectionProfile, like: str, queries: int, seed: int) -> tuple[Ints, Singles, Ints]:
    """Offsets (queries + 1,), features (documents, 220) and labels (documents,), from 0 to 4."""
    from foltr_audit.kernels import synthetic

    drawn = draw_queries(like, ("queries", "topics", "documents"), queries, seed, profile.sizes)
    _, topic, document = drawn.purposes
    popularity = _bounds(profile.popularity)
    mixtures = _bounds([share for share, _, _ in profile.mixtures])
    topics = synthetic.query_topics(queries, popularity, mixtures, topic, drawn.key)
    codes, loadings, scales = column_codes(profile.by_field, profile.by_document)
    features, utility = synthetic.topic_documents(
        drawn.offsets,
        drawn.abouts,
        topics,
        popularity,
        np.array([_bounds(blend) for _, blend, _ in profile.mixtures]),
        grid([penalties for _, _, penalties in profile.mixtures]),
        grid(profile.merits),
        grid(profile.absence),
        codes,
        loadings,
        np.concatenate([scales, [[1, 1]]]),
        document,
        drawn.key,
    )
    return drawn.offsets, features, grades(utility, profile.shares)


def _bounds(shares: Sequence[float]) -> Ints:
    """Cumulative shares, in any unit to a hundredth, as whole numbers of 2^32."""
    whole = np.array([round(100 * share) for share in shares], dtype=np.int64)
    return np.asarray(np.cumsum(whole) * 2**32 // whole.sum())
