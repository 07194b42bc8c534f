"""Synthetic ranking data shaped like real sets: the default where no data is named.

`profiles.toml` describes each set; `topics` generates Istella-S, which has topics.

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

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.records import Collection, Dataset
from foltr_audit.core.records.dataset import LazyNames
from foltr_audit.data.synthetic import topics
from foltr_audit.data.synthetic.columns import (
    CollectionProfile,
    column_codes,
    draw_queries,
    grades,
    grid,
    profiles,
)
from foltr_audit.data.synthetic.intents import synthetic_intents
from foltr_audit.errors import UsageError, suggest_name
from foltr_audit.utils.arrays import Ints, Singles

PROFILES = profiles()
_INTENTS = {"clueweb-intents": 4}  # likenesses that come with several label columns
LIKES = tuple(PROFILES)
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
    profile = PROFILES[like]
    number = profile.queries if queries is None else queries
    if not 5 <= number <= MOST_QUERIES:
        raise UsageError(f"synthetic: --queries {number}: expected 5 to {MOST_QUERIES}")
    generate = topics.generate if profile.mixtures else _generate
    offsets, features, labels = generate(profile, like, number, seed)
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


def _generate(profile: CollectionProfile, like: str, queries: int, seed: int) -> tuple[Ints, Singles, Ints]:
    from foltr_audit.kernels import synthetic

    drawn = draw_queries(like, ("queries", "documents"), queries, seed, profile.sizes)
    features, utility = synthetic.documents(
        drawn.offsets,
        drawn.abouts,
        grid(profile.merit),
        grid(profile.absence),
        *column_codes(profile.by_field, profile.by_document),
        profile.minmax,
        drawn.purposes[1],
        drawn.key,
    )
    return drawn.offsets, features, grades(utility, profile.shares)
