"""Synthetic ranking data shaped like real sets: the default where no data is named.

`profiles.toml` describes MQ2007, MSLR-WEB10k and ClueWeb09; `topics` Istella-S, which has topics.

A document has a few hidden factors (topic, authority, quality, length, one match per field); its
label comes from thresholds on a utility in which they interact, and its features are noisy views
of them. So a linear ranker learns something but not everything. The data is frozen: a test pins
its fingerprints, and `kernels.synthetic` says how it stays the same on every machine.

Sources of the shapes: Qin & Liu 2013, "Introducing LETOR 4.0 datasets" (MQ2007);
Microsoft Research 2010, "Microsoft learning to rank datasets", feature list (MSLR-WEB10k);
Zhuang & Zuccon 2021, "How do online learning to rank methods adapt to changes of intent?", section 4.1
(ClueWeb09 with four intents a query; here with about 150 documents a query instead of 512).
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.records import Collection, Dataset
from foltr_audit.core.records.dataset import LazyNames
from foltr_audit.data.synthetic import topics
from foltr_audit.data.synthetic.columns import (
    ColumnKind,
    column_codes,
    draw_queries,
    grades,
    grid,
)
from foltr_audit.data.synthetic.intents import synthetic_intents
from foltr_audit.errors import UsageError, suggest_name
from foltr_audit.utils.arrays import Ints, Singles


@dataclass(frozen=True, kw_only=True)
class _CollectionProfile:
    """The numbers of a real data set, and how to imitate them: an entry of `profiles.toml`.

    Attributes:
        queries: number of queries.
        shares: of the labels from 0, in any unit.
        sizes: least, most, factor and spread of the number of documents of a query.
        by_field: groups of kinds; a group repeats for each of the five fields.
        by_document: kinds that stand once.
        merit: weights of the utility.
        absence: how seldom the query's words occur in each field.
        minmax: whether features are brought to [0, 1] in each query.
    """

    queries: int
    shares: Sequence[int]
    sizes: tuple[int, int, float, float]
    by_field: Sequence[Sequence[ColumnKind]]
    by_document: Sequence[ColumnKind]
    merit: Sequence[float]
    absence: tuple[float, ...] = (-2.2, 0.4, 0.2, 1.2, -2.2)
    minmax: bool = False


_OF_FIELD = {"first": "MATCH", "second": "FIELD_LENGTH", "sparse": True}
_OF_DOCUMENT = {"second": "NONE", "decimals": 0}


def _profiles() -> dict[str, _CollectionProfile]:
    tables = tomllib.loads((Path(__file__).parent / "profiles.toml").read_text(encoding="utf-8"))
    for table in tables.values():
        table["by_field"] = [
            [ColumnKind(**_OF_FIELD | kind) for kind in group] for group in table["by_field"]
        ]
        table["by_document"] = [ColumnKind(**_OF_DOCUMENT | kind) for kind in table["by_document"]]
    return {like: _CollectionProfile(**table) for like, table in tables.items()}


_KNOWN = _profiles()
_INTENTS = {"clueweb-intents": 4}  # likenesses that come with several label columns
LIKES: tuple[str, ...] = (*_KNOWN, topics.LIKE)
MOST_QUERIES = 1_000_000


def synthesise(like: str, *, queries: int | None = None, seed: int = 1) -> Collection:
    """Generate a data set in the likeness of a real one, split 60/20/20 by query; nothing is normalised.

    Args:
        like: one of `LIKES`.
        queries: number of queries, at least 5; where None as many as the real set, with several intents
            as many in its training split, or 1,500 of istella-s.
        seed: of every draw.

    Raises:
        UsageError: an unknown `like`, fewer than 5 queries, or more than `MOST_QUERIES`.
    """
    if like not in LIKES:
        raise UsageError(f"synthetic: --like {like!r} is unknown; {suggest_name(like, LIKES)}")
    model = _KNOWN.get(like)
    usual = topics.QUERIES if model is None else model.queries
    number = usual if queries is None else queries
    if not 5 <= number <= MOST_QUERIES:
        raise UsageError(f"synthetic: --queries {number}: expected 5 to {MOST_QUERIES}")
    made = topics.generate(number, seed) if model is None else _generate(model, like, number, seed)
    offsets, features, labels = made
    bounds = pairwise([0, number * 60 // 100, number * 80 // 100, number])
    parts = [_part(first, last, offsets, features, labels) for first, last in bounds]
    if like in _INTENTS:
        parts = [synthetic_intents(part, _INTENTS[like]) for part in parts]
    return Collection.parsed(parts, source=f"synthetic:{like}", synthetic=True, fold=0)


def _part(
    first: int,
    last: int,
    offsets: NDArray[np.int64],
    features: NDArray[np.float32],
    labels: NDArray[np.int64],
) -> Dataset:
    """Queries first .. last-1, without a copy of their features."""
    start, stop = offsets[first], offsets[last]
    spans = enumerate(np.diff(offsets[first : last + 1]).tolist(), start=first + 1)
    names = (f"synthetic-{query}-{i}" for query, length in spans for i in range(1, length + 1))
    return Dataset(
        features=features[start:stop],
        labels=labels[start:stop],
        offsets=offsets[first : last + 1] - start,
        query_ids=tuple(str(query) for query in range(first + 1, last + 1)),
        document_ids=LazyNames.of(names),
    )


def _generate(model: _CollectionProfile, like: str, queries: int, seed: int) -> tuple[Ints, Singles, Ints]:
    from foltr_audit.kernels import synthetic

    drawn = draw_queries(like, ("queries", "documents"), queries, seed, model.sizes)
    features, utility = synthetic.documents(
        drawn.offsets,
        drawn.abouts,
        grid(model.merit),
        grid(model.absence),
        *column_codes(model.by_field, model.by_document),
        model.minmax,
        drawn.purposes[1],
        drawn.key,
    )
    return drawn.offsets, features, grades(utility, model.shares)
