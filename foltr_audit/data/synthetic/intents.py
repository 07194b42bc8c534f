"""Synthetic intents for any ranking data: each query's relevant documents are divided among them.

Each intent of a query has a random direction of its own among the query's features, and prefers the
relevant documents that lie farthest along it. So an intent can be learnt from features, but what is
learnt for one intent of a query helps little with another. How many documents an intent has, how
many queries have none of it, and how far intents overlap follow the qrels that Zhuang & Zuccon 2021,
table 1, use. Like the synthetic data the result is frozen: all of it is whole numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.records import Dataset
from foltr_audit.core.settings.data import FEWEST_INTENTS, MOST_INTENTS
from foltr_audit.errors import DataError
from foltr_audit.rng import Streams, name_codes
from foltr_audit.utils.arrays import Bools, Features, Ints

_SEED = 1  # part of the data, so not of a Spec's seed
_STEPS = 4096  # uniform variates are rounded to this many whole numbers: sums are then exact everywhere


class _IntentFrequency(NamedTuple):
    """How often an intent occurs, in per cent."""

    queries: int  # queries with relevant documents
    documents: int  # upper end of its share of a query's relevant documents, which is uniform from 0


_PROFILES = (
    _IntentFrequency(94, 134),
    _IntentFrequency(95, 90),
    _IntentFrequency(90, 70),
    _IntentFrequency(66, 52),
)
_LEAST, _MOST = 50, 160  # per cent of these shares where a query's intents are not, or most, alike
_ALIKE = 16  # weight of the direction that intents share where they are most alike; of their own: I


def synthetic_intents(part: Dataset, intents: int) -> Dataset:
    """The same documents with synthetic grades, 0 or 1, under each of `intents` intents.

    A document is relevant to at least one intent where its own label is above 0, else to none. The
    draws are named by the query's id, so they do not depend on its neighbours.

    Raises:
        DataError: fewer than 2 intents, or more than 10.
    """
    if not FEWEST_INTENTS <= intents <= MOST_INTENTS:
        raise DataError(f"intents: {intents} synthetic intents; expected {FEWEST_INTENTS} to {MOST_INTENTS}")
    queries = name_codes(part.query_ids)
    alike = _whole("alike", 0, queries, 1)
    shares = _shares(intents, queries, alike)
    directions = _directions(intents, queries, alike, part.n_features)
    grades = np.zeros((intents, part.n_documents), dtype=np.int64)
    for query, start in enumerate(part.offsets[:-1].tolist()):
        rows = start + np.flatnonzero(part.labels[start : part.offsets[query + 1]])
        if rows.size:
            grades[:, rows] = _deal(_ranks(part.features[rows]) @ directions[query], shares[query])
    return part.with_intents(grades)


def _whole(purpose: str, intent: int, queries: Ints, size: int) -> Ints:
    """Random whole numbers from 0 below `_STEPS`, shape (queries, size)."""
    streams = Streams(_SEED).clients(f"synthetic-intents/{purpose}", intent, queries)
    return np.floor(streams.uniform(size) * _STEPS).astype(np.int64)


def _shares(intents: int, queries: Ints, alike: Ints) -> Ints:
    """Share of each intent in a query's relevant documents, in 100 `_STEPS`, (queries, I); -1: none at all.

    The last profile serves every further intent too.
    """
    whole = 100 * _STEPS
    factor = _LEAST * _STEPS + (_MOST - _LEAST) * alike[:, 0]
    shares = np.empty((queries.size, intents), dtype=np.int64)
    for intent in range(intents):
        profile = _PROFILES[min(intent, len(_PROFILES) - 1)]
        occurs, share = _whole("shares", intent, queries, 2).T
        there = occurs * 100 < profile.queries * _STEPS
        shares[:, intent] = np.where(
            there, np.minimum(share * profile.documents * factor // whole, whole), -1
        )
    # Every relevant document needs an intent: the first one takes the queries that no intent has.
    shares[shares.max(axis=1) < 0, 0] = whole
    return shares


def _directions(intents: int, queries: Ints, alike: Ints, features: int) -> Ints:
    """Weights of each feature for each intent of a query, shape (queries, F, I)."""
    half = _STEPS // 2
    own = np.stack(
        [_whole("directions", intent, queries, features) - half for intent in range(intents)], axis=-1
    )
    shared = (_whole("shared", 0, queries, features) - half) * (_ALIKE * alike * alike // _STEPS) // _STEPS
    # Less the mean over intents, times I to stay whole: `shared` alone says what intents have in common.
    weights: Ints = intents * own - own.sum(axis=-1, keepdims=True) + shared[:, :, np.newaxis]
    return weights


def _deal(merits: Ints, shares: Ints) -> Bools:
    """Which of a query's relevant documents go to which intent, (I, n), by their merits (n, I) for it."""
    n = len(merits)
    places = np.empty_like(merits)  # of each document in an intent's order, from 0
    order = np.argsort(-merits, axis=0, kind="stable")
    np.put_along_axis(places, order, np.arange(n)[:, np.newaxis], axis=0)
    wanted = np.maximum(1, (shares * n + 50 * _STEPS) // (100 * _STEPS))
    chosen = (places < wanted) & (shares >= 0)
    left = np.flatnonzero(~chosen.any(axis=1))
    excess = np.where(shares >= 0, places[left] * _STEPS // wanted, n * _STEPS)
    chosen[left, excess.argmin(axis=1)] = True  # nearest to what an intent wants
    return chosen.T


def _ranks(features: Features) -> Ints:
    """Documents below minus documents above each one in each column, shape (n, F)."""
    # Ranks and not values: sums of whole numbers are exact, and no feature counts more for its scale.
    order = np.argsort(features, axis=0, kind="stable")
    ordered: NDArray[np.floating[Any]] = np.take_along_axis(features, order, axis=0)
    n = len(features)
    place = np.arange(n)[:, np.newaxis]
    new = np.ones(features.shape, dtype=bool)
    new[1:] = ordered[1:] > ordered[:-1]
    first = np.maximum.accumulate(np.where(new, place, 0), axis=0)
    ends = np.ones_like(new)
    ends[:-1] = new[1:]
    last = np.minimum.accumulate(np.where(ends, place, n)[::-1], axis=0)[::-1]
    ranks = np.empty(features.shape, dtype=np.int64)
    np.put_along_axis(ranks, order, first + last - (n - 1), axis=0)
    return ranks
