"""Synthetic ranking data shaped like real sets: the default where no data is named.

MQ2007, MSLR-WEB10k and ClueWeb09 are described here; Istella-S, which has topics, in `topics`.

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

from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.records import Collection, Dataset
from foltr_audit.core.records.dataset import LazyNames
from foltr_audit.data.synthetic import topics
from foltr_audit.data.synthetic.columns import (
    ColumnKind,
    UtilityWeights,
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
    """The numbers of a real data set, and how to imitate them.

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
    shares: tuple[int, ...]
    sizes: tuple[int, int, float, float]
    by_field: tuple[tuple[ColumnKind, ...], ...]
    by_document: tuple[ColumnKind, ...]
    merit: UtilityWeights
    absence: tuple[float, ...] = (-2.2, 0.4, 0.2, 1.2, -2.2)
    minmax: bool = False


# Functions of how well a field matches the query, and of the field's length.
_words = partial(ColumnKind, first="MATCH", second="FIELD_LENGTH", sparse=True)
_count = partial(_words, "COUNT")
_heavy = partial(_words, "HEAVY")
_LENGTH = ColumnKind("HEAVY", "NONE", "FIELD_LENGTH", (0, 0.9, 0.4), scale=3, decimals=0, sized=True)
_IDF = ColumnKind("CONSTANT", "NONE", "NONE", (0, 0, 0), times="IDF")
_EMPTY = ColumnKind("CONSTANT", "NONE", "NONE", (0, 0, 0))


def _alone(
    shape: str, factor: str, weight: float, noise: float, scale: float = 1, decimals: int = 0
) -> ColumnKind:
    return ColumnKind(shape, factor, "NONE", (weight, 0, noise), scale=scale, decimals=decimals)


_MQ2007 = _CollectionProfile(
    queries=1700,
    shares=(742, 203, 55),
    sizes=(6, 147, 25.5, 0.35),
    by_field=(
        (_count(weights=(0.6, 0.3, 0.7)),),  # term frequency
        (_IDF,),
        (_count(weights=(0.65, 0.25, 0.7)),),  # tf * idf
        (_LENGTH,),
        (
            _words("POSITIVE", weights=(0.7, -0.1, 0.7)),  # BM25
            _words("LINEAR", weights=(0.5, -0.3, 0.8)),  # language models: ABS, DIR, JM
            _words("LINEAR", weights=(0.6, -0.1, 0.75)),
            _words("LINEAR", weights=(0.6, -0.2, 0.75)),
        ),
    ),
    by_document=(
        _alone("HEAVY", "AUTHORITY", 0.8, 0.6),  # PageRank
        _alone("HEAVY", "AUTHORITY", 0.7, 0.7),  # inlinks
        _EMPTY,  # outlinks: 0 throughout the real set
        _alone("COUNT", "DEPTH", 0.9, 0.4),  # slashes in the URL
        _alone("COUNT", "DEPTH", 0.5, 0.8),  # length of the URL
        _alone("RARE", "QUALITY", 0.5, 0.8),  # child pages
    ),
    merit=UtilityWeights(0.3, -0.2, 0.2, 1.3, 0.2, 0.6, 1.0, 1.4, 0.015),
    minmax=True,
)


_raw = partial(_count, sized=True, scale=0.5)
_relative = partial(_count, scale=0.01)

_MSLR_WEB10K = _CollectionProfile(
    queries=10_000,
    shares=(520, 320, 130, 17, 8),
    sizes=(1, 908, 94, 0.33),
    by_field=(
        (_count(weights=(0.6, 0.1, 0.7), decimals=0),),  # covered query terms
        (_words("SHARE", weights=(0.6, 0.1, 0.7)),),  # their share
        (_LENGTH,),
        (_IDF,),
        # term frequency: of the words the sum, minimum, maximum, mean and variance
        (_raw(weights=(0.6, 0.4, 0.7), scale=1, decimals=0, times="TERMS"),),
        (_raw(weights=(0.5, 0.3, 0.8), scale=1, decimals=0),),
        (_raw(weights=(0.6, 0.35, 0.7), scale=1, decimals=0),),
        (_raw(weights=(0.6, 0.35, 0.7), decimals=3),),
        (_heavy(weights=(0.5, 0.3, 0.8), sized=True, scale=0.5, decimals=3),),
        # term frequency over length: of the words the sum, minimum, maximum, mean and variance
        (_relative(weights=(0.6, -0.5, 0.6), times="TERMS"),),
        (_relative(weights=(0.4, -0.5, 0.7)),),
        (_relative(weights=(0.5, -0.5, 0.7)),),
        (_relative(weights=(0.6, -0.5, 0.6)),),
        (_heavy(weights=(0.4, -0.5, 0.7), scale=0.01),),
        # tf * idf: of the words the sum, minimum, maximum, mean and variance
        (_raw(weights=(0.65, 0.4, 0.6), decimals=3, times="IDF"),),
        (_raw(weights=(0.5, 0.3, 0.8), decimals=3, times="IDF"),),
        (_raw(weights=(0.6, 0.35, 0.7), decimals=3, times="IDF"),),
        (_raw(weights=(0.6, 0.35, 0.7), decimals=3, times="IDF"),),
        (_heavy(weights=(0.5, 0.3, 0.8), sized=True, scale=0.5, decimals=3, times="IDF"),),
        (_words("STEP", weights=(0.7, 0.1, 0.7), decimals=0),),  # Boolean model
        (_words("SHARE", weights=(0.6, -0.1, 0.75)),),  # vector space model
        (_words("POSITIVE", weights=(0.7, -0.05, 0.7), times="IDF"),),  # BM25
        (_words("LINEAR", weights=(0.5, -0.3, 0.8), scale=3, sparse=False),),  # language models: ABS, DIR, JM
        (_words("LINEAR", weights=(0.6, -0.1, 0.75), scale=3),),
        (_words("LINEAR", weights=(0.6, -0.2, 0.75), scale=3),),
    ),
    by_document=(
        _alone("COUNT", "DEPTH", 0.9, 0.4),  # slashes in the URL
        _alone("COUNT", "DEPTH", 0.6, 0.8, scale=20),  # length of the URL
        _alone("HEAVY", "AUTHORITY", 0.7, 0.7, scale=30),  # inlinks
        _alone("HEAVY", "LENGTH", 0.4, 0.9, scale=3),  # outlinks
        _alone("HEAVY", "AUTHORITY", 0.7, 0.7, scale=400),  # PageRank
        _alone("HEAVY", "AUTHORITY", 0.7, 0.7, scale=500),  # SiteRank
        _alone("COUNT", "QUALITY", 0.6, 0.8, scale=20),  # two quality scores
        _alone("SHARE", "QUALITY", 0.5, 0.85, decimals=6),
        _alone("RARE", "POPULARITY", 0.5, 0.85, scale=30),  # clicks on the URL for the query
        _alone("RARE", "POPULARITY", 0.5, 0.85, scale=200),  # clicks on the URL
        _alone("RARE", "POPULARITY", 0.4, 0.9, scale=100, decimals=3),  # time spent there
    ),
    merit=UtilityWeights(0.0, -0.3, 0.5, 1.6, 0.4, 0.9, 1.8, 1.6, 0.015),
)

_CLUEWEB_INTENTS = _CollectionProfile(
    queries=330,  # of which 198 are for training, as many as have qrels per intent
    shares=(772, 228),  # relevant to one intent at least
    sizes=(40, 1022, 100, 0.35),
    by_field=(
        (_words("SHARE", weights=(0.6, 0.1, 0.35)),),  # covered query terms
        (_LENGTH,),
        (_IDF,),
        # term frequency: of the words the sum, minimum, maximum, mean and variance
        (_raw(weights=(0.6, 0.4, 0.35), scale=1, decimals=0, times="TERMS"),),
        (_raw(weights=(0.5, 0.3, 0.4), scale=1, decimals=0),),
        (_raw(weights=(0.6, 0.35, 0.35), decimals=3),),
        (_heavy(weights=(0.5, 0.3, 0.4), sized=True, scale=0.5, decimals=3),),
        # term frequency over length: of the words the sum, minimum, maximum, mean and variance
        (_relative(weights=(0.6, -0.5, 0.3), times="TERMS"),),
        (_relative(weights=(0.4, -0.5, 0.35)),),
        (_relative(weights=(0.6, -0.5, 0.3)),),
        (_heavy(weights=(0.4, -0.5, 0.35), scale=0.01),),
        # tf * idf: of the words the sum, minimum, maximum, mean and variance
        (_raw(weights=(0.65, 0.4, 0.3), decimals=3, times="IDF"),),
        (_raw(weights=(0.6, 0.35, 0.35), decimals=3, times="IDF"),),
        (_heavy(weights=(0.5, 0.3, 0.4), sized=True, scale=0.5, decimals=3, times="IDF"),),
        (_words("SHARE", weights=(0.6, -0.1, 0.375)),),  # vector space model
        (_words("POSITIVE", weights=(0.7, -0.05, 0.35), times="IDF"),),  # BM25
        (_words("LINEAR", weights=(0.5, -0.3, 0.4), scale=3, sparse=False),),  # language models: ABS, DIR, JM
        (_words("LINEAR", weights=(0.6, -0.1, 0.375), scale=3),),
        (_words("LINEAR", weights=(0.6, -0.2, 0.375), scale=3),),
        (_words("STEP", weights=(0.7, 0.1, 0.35), decimals=0),),  # Boolean model
    ),
    by_document=(
        _alone("HEAVY", "AUTHORITY", 0.7, 0.35, scale=400),  # PageRank
        _alone("HEAVY", "AUTHORITY", 0.7, 0.35, scale=30),  # inlinks
        _alone("COUNT", "QUALITY", 0.6, 0.4, scale=20),  # spam score
        _alone("COUNT", "DEPTH", 0.9, 0.2),  # slashes in the URL
        _alone("COUNT", "DEPTH", 0.6, 0.4, scale=20),  # length of the URL
    ),
    merit=UtilityWeights(1.8, 0.2, 0.1, 1.2, 0.3, 0.6, 0.7, 1.4, 0.015),
)

_KNOWN = {"mq2007": _MQ2007, "mslr-web10k": _MSLR_WEB10K, "clueweb-intents": _CLUEWEB_INTENTS}
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
