"""Synthetic ranking data shaped like MQ2007 and MSLR-WEB10k: the default where no data is named.

A document has a few hidden factors (topic, authority, quality, length, one match per field); its
label comes from thresholds on a utility in which they interact, and its features are noisy views
of them. So a linear ranker learns something but not everything. The data is frozen: a test pins
its fingerprints, and `kernels.bell` says how it stays the same on every machine.

Sources of the shapes: Qin & Liu 2013, "Introducing LETOR 4.0 datasets" (MQ2007);
Microsoft Research 2010, "Microsoft learning to rank datasets", feature list (MSLR-WEB10k).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foltr_audit.errors import UsageError, did_you_mean
from foltr_audit.records import Collection, Dataset
from foltr_audit.records.dataset import joint_fingerprint
from foltr_audit.records.names import StoredNames
from foltr_audit.rng import Streams


class _Kind(NamedTuple):
    """How a column, or one column per field, looks at the factors; the names are those of `kernels.bell`."""

    shape: str
    first: str
    second: str
    weights: tuple[float, float, float]  # of the two factors and of the column's own noise
    scale: float = 1.0
    decimals: int = 6
    sparse: bool = False  # 0 where the field lacks the query's words
    sized: bool = False  # larger in longer fields
    times: str = "NONE"  # a number of the query alone


class _Merit(NamedTuple):
    """Weights of a document's utility, in the order that `kernels.bell.documents` reads."""

    topic: float
    authority: float
    lean: float  # how far queries differ in what they want: topic or authority
    both: float  # topic times authority
    weakest: float  # the worse of title match and quality
    length: float  # penalty of the squared distance from the usual length
    judgement: float  # noise of the assessor
    ease: float  # how far queries differ in how many relevant documents they have
    copies: float  # share of documents that repeat an earlier one of their query


@dataclass(frozen=True, kw_only=True)
class _Like:
    """A real data set's numbers, and how to imitate them.

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
    by_field: tuple[tuple[_Kind, ...], ...]
    by_document: tuple[_Kind, ...]
    merit: _Merit
    absence: tuple[float, ...] = (-2.2, 0.4, 0.2, 1.2, -2.2)
    minmax: bool = False


_FIELD_SIZES = (40, 3, 1, 1, 44)  # body, anchor, title, url, whole document

# Functions of how well a field matches the query, and of the field's length.
_words = partial(_Kind, first="MATCH", second="FIELD_LENGTH", sparse=True)
_count = partial(_words, "COUNT")
_heavy = partial(_words, "HEAVY")
_LENGTH = _Kind("HEAVY", "NONE", "FIELD_LENGTH", (0, 0.9, 0.4), scale=3, decimals=0, sized=True)
_IDF = _Kind("CONSTANT", "NONE", "NONE", (0, 0, 0), times="IDF")
_EMPTY = _Kind("CONSTANT", "NONE", "NONE", (0, 0, 0))


def _alone(
    shape: str, factor: str, weight: float, noise: float, scale: float = 1, decimals: int = 0
) -> _Kind:
    return _Kind(shape, factor, "NONE", (weight, 0, noise), scale=scale, decimals=decimals)


_MQ2007 = _Like(
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
    merit=_Merit(0.3, -0.2, 0.2, 1.3, 0.2, 0.6, 1.0, 1.4, 0.015),
    minmax=True,
)


def _statistics(spread: _Kind, *others: _Kind) -> tuple[tuple[_Kind, ...], ...]:
    """Sum, min, max, mean and variance over the query's words, each a group of its own."""
    return tuple((kind,) for kind in (*others, spread))


_raw = partial(_count, sized=True, scale=0.5)
_relative = partial(_count, scale=0.01)

_MSLR_WEB10K = _Like(
    queries=10_000,
    shares=(520, 320, 130, 17, 8),
    sizes=(1, 908, 94, 0.33),
    by_field=(
        (_count(weights=(0.6, 0.1, 0.7), decimals=0),),  # covered query terms
        (_words("SHARE", weights=(0.6, 0.1, 0.7)),),  # their share
        (_LENGTH,),
        (_IDF,),
        *_statistics(  # term frequency
            _heavy(weights=(0.5, 0.3, 0.8), sized=True, scale=0.5, decimals=3),
            _raw(weights=(0.6, 0.4, 0.7), scale=1, decimals=0, times="TERMS"),
            _raw(weights=(0.5, 0.3, 0.8), scale=1, decimals=0),
            _raw(weights=(0.6, 0.35, 0.7), scale=1, decimals=0),
            _raw(weights=(0.6, 0.35, 0.7), decimals=3),
        ),
        *_statistics(  # term frequency over length
            _heavy(weights=(0.4, -0.5, 0.7), scale=0.01),
            _relative(weights=(0.6, -0.5, 0.6), times="TERMS"),
            _relative(weights=(0.4, -0.5, 0.7)),
            _relative(weights=(0.5, -0.5, 0.7)),
            _relative(weights=(0.6, -0.5, 0.6)),
        ),
        *_statistics(  # tf * idf
            _heavy(weights=(0.5, 0.3, 0.8), sized=True, scale=0.5, decimals=3, times="IDF"),
            _raw(weights=(0.65, 0.4, 0.6), decimals=3, times="IDF"),
            _raw(weights=(0.5, 0.3, 0.8), decimals=3, times="IDF"),
            _raw(weights=(0.6, 0.35, 0.7), decimals=3, times="IDF"),
            _raw(weights=(0.6, 0.35, 0.7), decimals=3, times="IDF"),
        ),
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
    merit=_Merit(0.0, -0.3, 0.5, 1.6, 0.4, 0.9, 1.8, 1.6, 0.015),
)

_KNOWN = {"mq2007": _MQ2007, "mslr-web10k": _MSLR_WEB10K}
LIKES: tuple[str, ...] = tuple(_KNOWN)
MOST_QUERIES = 1_000_000


def synthesise(like: str, *, queries: int | None = None, seed: int = 1) -> Collection:
    """Generate a data set in the likeness of a real one, split 60/20/20 by query; nothing is normalised.

    Args:
        like: one of `LIKES`.
        queries: number of queries, at least 5; as many as the real set where None.
        seed: of every draw.

    Raises:
        UsageError: an unknown `like`, fewer than 5 queries, or more than `MOST_QUERIES`.
    """
    if like not in _KNOWN:
        raise UsageError(f"synthetic: --like {like!r} is unknown; {did_you_mean(like, LIKES)}")
    model = _KNOWN[like]
    number = model.queries if queries is None else queries
    if not 5 <= number <= MOST_QUERIES:
        raise UsageError(f"synthetic: --queries {number}: expected 5 to {MOST_QUERIES}")
    offsets, features, labels = _generate(model, like, number, seed)
    bounds = pairwise([0, number * 60 // 100, number * 80 // 100, number])
    parts = [_part(first, last, offsets, features, labels) for first, last in bounds]
    return Collection(
        train=parts[0],
        vali=parts[1],
        test=parts[2],
        source=f"synthetic:{like}",
        synthetic=True,
        fold=0,
        fingerprint=joint_fingerprint(parts),
    )


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
        document_ids=StoredNames.of(names),
    )


def _generate(
    model: _Like, like: str, queries: int, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]:
    from foltr_audit.kernels import bell

    streams = Streams(seed)
    purposes = [
        streams.clients(f"synthetic/{like}/{part}", 0, np.arange(queries)).purpose_code
        for part in ("queries", "documents")
    ]
    key = np.uint64(streams.key)
    abouts = bell.query_bells(queries, purposes[0], key)
    offsets = np.zeros(queries + 1, dtype=np.int64)
    np.cumsum(_sizes(model.sizes, abouts[:, bell.SIZE]), out=offsets[1:])
    codes, loadings, scales = _columns(model)
    features, utility = bell.documents(
        offsets,
        abouts,
        _grid(model.merit),
        _grid(model.absence),
        codes,
        loadings,
        scales,
        model.minmax,
        purposes[1],
        key,
    )
    return offsets, features, _labels(utility, model.shares)


def _grid(values: object) -> NDArray[np.float64]:
    """The multiples of 2^-12 nearest to values: what `kernels.bell` reckons with."""
    return np.asarray(np.floor(np.asarray(values, dtype=np.float64) * 4096.0 + 0.5) / 4096.0)


def _sizes(sizes: tuple[int, int, float, float], bells: NDArray[np.float64]) -> NDArray[np.int64]:
    """Numbers of documents, with a tail to the right."""
    least, most, factor, spread = sizes
    root = np.maximum(0.0, _grid(1.0 + _grid(spread) * bells))
    return np.minimum(least + np.floor(factor * _grid(_grid(root * root) * root)).astype(np.int64), most)


def _labels(utility: NDArray[np.float64], shares: tuple[int, ...]) -> NDArray[np.int64]:
    """Grades from thresholds on the utility that give each grade its share."""
    ordered = np.sort(utility)
    labels = np.zeros(utility.size, dtype=np.int64)
    below = 0
    for share in shares[:-1]:
        below += share
        labels += utility >= ordered[utility.size * below // sum(shares)]
    return labels


def _columns(model: _Like) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """Codes (F, 6), loadings (F, 3) and scales (F, 2) as `kernels.bell.documents` reads them."""
    from foltr_audit.kernels import bell

    def code(name: str, field: int) -> int:
        return int(getattr(bell, name)) + (field if name in ("MATCH", "FIELD_LENGTH") else 0)

    kinds = [
        (kind, field) for group in model.by_field for field in range(len(_FIELD_SIZES)) for kind in group
    ]
    kinds += [(kind, 0) for kind in model.by_document]
    codes, scales = [], []
    for kind, field in kinds:
        factors = code(kind.first, field), code(kind.second, field)
        codes.append((code(kind.shape, field), *factors, field, code(kind.times, field), int(kind.sparse)))
        step = 10**kind.decimals
        scales.append((round(kind.scale * step) * (_FIELD_SIZES[field] if kind.sized else 1), step))
    loadings = _grid([kind.weights for kind, _ in kinds])
    return np.array(codes, dtype=np.int64), loadings, np.array(scales, dtype=np.int64)
