"""Synthetic ranking data shaped like real sets: the default where no data is named.

`profiles.toml` describes each set.

A document has a few hidden factors (topic, authority, quality, length, one match per field); its
label comes from thresholds on a utility in which they interact, and its features are noisy views
of them. So a linear ranker learns something but not everything. The data are frozen: a test pins
its fingerprints, and `kernels.synthetic` says how it stays the same on every machine.

Sources of the shapes: Qin & Liu 2013, "Introducing LETOR 4.0 datasets" (MQ2007);
Microsoft Research 2010, "Microsoft learning to rank datasets", feature list (MSLR-WEB10k);
Zhuang & Zuccon 2021, "How do online learning to rank methods adapt to changes of intent?", section 4.1
(ClueWeb09 with four intents a query; here with about 150 documents a query instead of 512).
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from foltr_audit.core.records import Collection, Dataset
from foltr_audit.core.settings.data import FEWEST_INTENTS, MOST_INTENTS
from foltr_audit.data.document_order import in_content_order
from foltr_audit.errors import DataError, UsageError, suggest_name
from foltr_audit.rng import Streams, name_codes
from foltr_audit.utils.arrays import Bools, Features, Floats, Ints, Singles

# All numbers are multiples of 2^-12, see `kernels.synthetic`.

_FIELD_SIZES = (40, 3, 1, 1, 44)  # body, anchor, title, url, whole document


class ColumnKind(NamedTuple):
    """How a column, or one per field, depends on the factors; the names are those of `kernels.synthetic`."""

    shape: str
    first: str
    second: str
    weights: tuple[float, float, float]  # of the two factors and of the column's own noise
    scale: float = 1.0
    decimals: int = 6
    sparse: bool = False  # 0 where the field lacks the query's words
    sized: bool = False  # larger in longer fields
    times: str = "NONE"  # a number of the query alone


@dataclass(frozen=True, kw_only=True)
class CollectionProfile:
    """The numbers of a real data set, and how to imitate them: an entry of `profiles.toml`.

    Attributes:
        queries: number of queries.
        shares: of the labels from 0, in any unit.
        sizes: least, most, factor and spread of the number of documents of a query.
        by_field: groups of kinds; a group repeats for each of the five fields.
        by_document: kinds that stand once.
        merits: weights of a document's utility in each category, in the order that
            `kernels.synthetic.documents` reads: topic, authority, how far queries differ in what they want of
            both, topic times authority, the worse of title match and quality, penalty of the squared distance
            from the usual length, noise of the assessor, how far queries differ in how many relevant
            documents they have, share of documents that repeat an earlier one of their query.
        absence: how seldom the query's words occur in each field.
        minmax: whether features are brought to [0, 1] in each query.
        popularity: of the categories of topics, in any unit; with several, the last column tells them.
        mixtures: share of the mixture, of main, second and any category in it, and what second and other
            ones lose.
    """

    queries: int
    shares: Sequence[int]
    sizes: tuple[int, int, float, float]
    by_field: Sequence[Sequence[ColumnKind]]
    by_document: Sequence[ColumnKind]
    merits: Sequence[Sequence[float]]
    absence: tuple[float, ...] = (-2.2, 0.4, 0.2, 1.2, -2.2)
    minmax: bool = False
    popularity: Sequence[int] = (1,)
    mixtures: Sequence[tuple[float, Sequence[float], Sequence[float]]] = ((1.0, (1.0, 0.0, 0.0), (0.0, 0.0)),)


_OF_FIELD = {"first": "MATCH", "second": "FIELD_LENGTH", "sparse": True}
_OF_DOCUMENT = {"second": "NONE", "decimals": 0}


def profiles() -> dict[str, CollectionProfile]:
    """The profile of each likeness: the entries of `profiles.toml`."""
    tables = tomllib.loads((Path(__file__).parent / "profiles.toml").read_text(encoding="utf-8"))
    for table in tables.values():
        table["by_field"] = [
            [ColumnKind(**_OF_FIELD | kind) for kind in group] for group in table["by_field"]
        ]
        table["by_document"] = [ColumnKind(**_OF_DOCUMENT | kind) for kind in table["by_document"]]
    return {like: CollectionProfile(**table) for like, table in tables.items()}


def grid(values: object) -> Floats:
    """The multiples of 2^-12 nearest to values: the numbers of `kernels.synthetic`, whose sums are exact."""
    return np.asarray(np.floor(np.asarray(values, dtype=np.float64) * 4096.0 + 0.5) / 4096.0)


def query_sizes(sizes: tuple[int, int, float, float], bells: Floats) -> Ints:
    """Numbers of documents, with a tail to the right."""
    least, most, factor, spread = sizes
    # Back onto the lattice after each product, so that the next one is exact too.
    root = np.maximum(0.0, grid(1.0 + grid(spread) * bells))
    return np.minimum(least + np.floor(factor * grid(grid(root * root) * root)).astype(np.int64), most)


def grades(utility: Floats, shares: Sequence[int]) -> Ints:
    """Grades from thresholds on the utility that give each grade its share."""
    below = np.cumsum(shares[:-1])
    thresholds = np.sort(utility)[utility.size * below // sum(shares)]
    return np.searchsorted(thresholds, utility, side="right")


def column_codes(profile: CollectionProfile) -> tuple[Ints, Floats, Ints]:
    """Codes (F, 6), loadings (F, 3) and scales (F, 2) as `kernels.synthetic.documents` reads them."""
    from foltr_audit.kernels import synthetic

    def code(name: str, field: int) -> int:
        return int(getattr(synthetic, name)) + (field if name in ("MATCH", "FIELD_LENGTH") else 0)

    kinds = [
        (kind, field) for group in profile.by_field for field in range(len(_FIELD_SIZES)) for kind in group
    ]
    kinds += [(kind, 0) for kind in profile.by_document]
    codes, scales = [], []
    for kind, field in kinds:
        factors = code(kind.first, field), code(kind.second, field)
        codes.append((code(kind.shape, field), *factors, field, code(kind.times, field), int(kind.sparse)))
        step = 10**kind.decimals
        scales.append((round(kind.scale * step) * (_FIELD_SIZES[field] if kind.sized else 1), step))
    loadings = grid([kind.weights for kind, _ in kinds])
    return np.array(codes, dtype=np.int64), loadings, np.array(scales, dtype=np.int64)


# With topics a query has a main and a second category, and a mixture that says how many of its candidates are
# of them and how much utility the others lose; what makes a document relevant differs between categories. So
# most queries have relevant documents of several categories, some of one only, and a ranker that has seen a
# few categories is weaker on the others.
#
# Source of the shape: Lucchese et al. 2016, "Post-learning optimization of tree ensembles for efficient
# ranking" (Istella-S: 220 features, labels 0 to 4); numbers of documents and relevant ones, and how pure
# queries are, follow the paper on non-IID learning to rank (2024), section 5.2 and table 2. More queries than
# there are of one category only (17 % of those for training; 10 %), and fewer have a relevant document of the
# most frequent one (68 %; 93 %), so that every client has enough to learn from in a small data set.

ISTELLA = "istella-s"
"""The name after `synthetic:`."""

CATEGORY_FEATURE = 220
"""The column that holds the category of a document, from 1 as in LETOR files: a whole number, 1 to 8."""

PROFILES = profiles()
_INTENTS = {"clueweb-intents": 4}  # likenesses that come with several label columns
LIKES = tuple(PROFILES)
MOST_QUERIES = 1_000_000


def synthesise(like: str, *, queries: int | None = None, seed: int = 1) -> Collection:
    """Generate a data set in the likeness of a real one, see `synthetic_parts`; nothing is normalised."""
    parts = synthetic_parts(like, queries=queries, seed=seed)
    return Collection.parsed(parts.values(), source=f"synthetic:{like}", synthetic=True, fold=0)


def synthetic_parts(like: str, *, queries: int | None = None, seed: int = 1) -> dict[str, Dataset]:
    """The three parts of a data set in the likeness of a real one, split 60/20/20 by query.

    Without a number of queries, there are as many as in the real set, with several intents as many as in its
    training split, and 1,500 of istella-s.

    Raises:
        UsageError: an unknown `like`, fewer than 5 queries, or more than `MOST_QUERIES`.
    """
    if like not in LIKES:
        raise UsageError(f"synthetic:{like}: no such likeness; {suggest_name(like, LIKES)}")
    number = PROFILES[like].queries if queries is None else queries
    if not 5 <= number <= MOST_QUERIES:
        raise UsageError(f"synthetic:{like}:{number}: expected 5 to {MOST_QUERIES} queries")
    whole = _generate(like, number, seed)
    bounds = pairwise([0, number * 60 // 100, number * 80 // 100, number])
    parts = [_part(first, last, *whole) for first, last in bounds]
    if like in _INTENTS:
        parts = [synthetic_intents(part, _INTENTS[like]) for part in parts]
    return dict(zip(Collection.PARTS, parts, strict=True))


def _generate(like: str, queries: int, seed: int) -> tuple[Ints, Singles, Ints]:
    """Offsets (queries + 1,), features (documents, F) and labels (documents,)."""
    from foltr_audit.kernels import synthetic

    profile, streams = PROFILES[like], Streams(seed)
    key = np.uint64(streams.key)

    def purpose(name: str) -> int:
        return streams.clients(f"synthetic/{like}/{name}", 0, np.arange(queries)).purpose_code

    abouts = synthetic.query_bells(queries, purpose("queries"), key)
    sizes = query_sizes(profile.sizes, abouts[:, synthetic.SIZE])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    codes, loadings, scales = column_codes(profile)
    if len(profile.popularity) > 1:
        scales = np.concatenate([scales, [[1, 1]]])  # of the column that tells the category
    shares, blends, penalties = zip(*profile.mixtures, strict=True)
    popularity = _bounds(profile.popularity)
    features, utility = synthetic.documents(
        offsets,
        abouts,
        synthetic.query_topics(queries, popularity, _bounds(shares), purpose("topics"), key),
        popularity,
        np.array([_bounds(blend) for blend in blends]),
        grid(penalties),
        grid(profile.merits),
        grid(profile.absence),
        codes,
        loadings,
        scales,
        profile.minmax,
        purpose("documents"),
        key,
    )
    return offsets, features, grades(utility, profile.shares)


def _bounds(shares: Sequence[float]) -> Ints:
    """Cumulative shares, in any unit to a hundredth, as whole numbers of 2^32."""
    whole = np.array([round(100 * share) for share in shares], dtype=np.int64)
    return np.asarray(np.cumsum(whole) * 2**32 // whole.sum())


def _part(first: int, last: int, offsets: Ints, features: Singles, labels: Ints) -> Dataset:
    """Queries first .. last-1, without a copy of their features, which are sorted in their place."""
    start, stop = offsets[first], offsets[last]
    lengths = np.diff(offsets[first : last + 1])
    nameless = Dataset(
        features=features[start:stop],
        labels=labels[start:stop],
        offsets=offsets[first : last + 1] - start,
        query_ids=tuple(str(query) for query in range(first + 1, last + 1)),
        document_ids=("",) * int(stop - start),
    )
    data = in_content_order(nameless)
    places = np.arange(stop - start) - np.repeat(data.offsets[:-1], lengths)
    spans = enumerate(lengths.tolist(), start=first + 1)
    names = (f"synthetic-{query}-{i}" for query, length in spans for i in range(1, length + 1))
    return replace(data, document_ids=tuple(names), file_documents=places)


# Each intent of a query has a random direction of its own among the query's features, and prefers the
# relevant documents that lie farthest along it. So an intent can be learnt from features, but what is
# learnt for one intent of a query helps little with another. How many documents an intent has, how
# many queries have none of it, and how far intents overlap follow the qrels that Zhuang & Zuccon 2021,
# table 1, use. Like the synthetic data the result is frozen: all of it is whole numbers.

_SEED = 1  # part of the data, so not of a Spec's seed
_STEPS = 4096  # uniform variates are rounded to this many whole numbers: sums are then exact everywhere


# Of each intent: per cent of queries with documents relevant to it, and the upper end of its share of a
# query's relevant documents, which is uniform from 0; the last pair serves every further intent too.
_FREQUENCIES = ((94, 134), (95, 90), (90, 70), (66, 52))
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
    """Share of each intent in a query's relevant documents, in 100 `_STEPS`, (queries, I); -1: none."""
    whole = 100 * _STEPS
    factor = _LEAST * _STEPS + (_MOST - _LEAST) * alike[:, 0]
    shares = np.empty((queries.size, intents), dtype=np.int64)
    for intent in range(intents):
        often, largest = _FREQUENCIES[min(intent, len(_FREQUENCIES) - 1)]
        occurs, share = _whole("shares", intent, queries, 2).T
        there = occurs * 100 < often * _STEPS
        most = np.minimum(share * largest * factor // whole, whole)
        shares[:, intent] = np.where(there, most, -1)
    # Every relevant document needs an intent: the first one takes the queries that no intent has.
    shares[shares.max(axis=1) < 0, 0] = whole
    return shares


def _directions(intents: int, queries: Ints, alike: Ints, features: int) -> Ints:
    """Weights of each feature for each intent of a query, shape (queries, F, I)."""
    half = _STEPS // 2
    each = [_whole("directions", intent, queries, features) - half for intent in range(intents)]
    own = np.stack(each, axis=-1)
    shared = (_whole("shared", 0, queries, features) - half) * (_ALIKE * alike * alike // _STEPS) // _STEPS
    # Less the mean over intents, times I to stay whole: `shared` alone says what intents have in common.
    return np.asarray(intents * own - own.sum(axis=-1, keepdims=True) + shared[:, :, np.newaxis])


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
    from scipy.stats import rankdata

    # Ranks and not values: sums of whole numbers are exact, and no feature counts more for its scale.
    return (2 * rankdata(features, axis=0) - (len(features) + 1)).astype(np.int64)
