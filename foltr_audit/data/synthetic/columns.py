"""How a synthetic data set is described: the kinds of its columns, and weights of a document's utility.

All numbers are multiples of 2^-12, see `kernels.synthetic`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Floats, Ints

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
        merit: weights of a document's utility, in the order that `kernels.synthetic.documents` reads: topic,
            authority, how far queries differ in what they want of both, topic times authority, the worse of
            title match and quality, penalty of the squared distance from the usual length, noise of the
            assessor, how far queries differ in how many relevant documents they have, share of documents that
            repeat an earlier one of their query; with topics `merits` has those of each category.
        absence: how seldom the query's words occur in each field.
        minmax: whether features are brought to [0, 1] in each query.
        popularity: of the categories of topics, in percent.
        mixtures: share of the mixture, of main, second and any category in it, and what second and other
            ones lose.
    """

    queries: int
    shares: Sequence[int]
    sizes: tuple[int, int, float, float]
    by_field: Sequence[Sequence[ColumnKind]]
    by_document: Sequence[ColumnKind]
    merit: Sequence[float] = ()
    absence: tuple[float, ...] = (-2.2, 0.4, 0.2, 1.2, -2.2)
    minmax: bool = False
    popularity: Sequence[int] = ()
    mixtures: Sequence[tuple[float, Sequence[float], Sequence[float]]] = ()
    merits: Sequence[Sequence[float]] = ()


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


class QueryBatch(NamedTuple):
    """What the generators of synthetic data have in common.

    Attributes:
        key: of the counter-based random numbers.
        purposes: a code for each kind of draws.
        abouts: the hidden factors of each query, as `kernels.synthetic.query_bells` makes them.
        offsets: int64 (queries + 1,), from the numbers of documents.
    """

    key: np.uint64
    purposes: list[int]
    abouts: Floats
    offsets: Ints


def draw_queries(
    like: str, purposes: Sequence[str], queries: int, seed: int, sizes: tuple[int, int, float, float]
) -> QueryBatch:
    """Draw the hidden factors and the sizes of queries; the first purpose is that of the queries."""
    from foltr_audit.kernels import synthetic

    streams = Streams(seed)
    names = [f"synthetic/{like}/{purpose}" for purpose in purposes]
    codes = [streams.clients(name, 0, np.arange(queries)).purpose_code for name in names]
    key = np.uint64(streams.key)
    abouts = synthetic.query_bells(queries, codes[0], key)
    offsets = np.zeros(queries + 1, dtype=np.int64)
    np.cumsum(query_sizes(sizes, abouts[:, synthetic.SIZE]), out=offsets[1:])
    return QueryBatch(key, codes, abouts, offsets)


def query_sizes(sizes: tuple[int, int, float, float], bells: Floats) -> Ints:
    """Numbers of documents, with a tail to the right."""
    least, most, factor, spread = sizes
    # Back onto the lattice after each product, so that the next one is exact too.
    root = np.maximum(0.0, grid(1.0 + grid(spread) * bells))
    return np.minimum(least + np.floor(factor * grid(grid(root * root) * root)).astype(np.int64), most)


def grades(utility: Floats, shares: Sequence[int]) -> Ints:
    """Grades from thresholds on the utility that give each grade its share."""
    ordered = np.sort(utility)
    labels = np.zeros(utility.size, dtype=np.int64)
    below = 0
    for share in shares[:-1]:
        below += share
        labels += utility >= ordered[utility.size * below // sum(shares)]
    return labels


def column_codes(
    by_field: Sequence[Sequence[ColumnKind]], by_document: Sequence[ColumnKind]
) -> tuple[Ints, Floats, Ints]:
    """Codes (F, 6), loadings (F, 3) and scales (F, 2) as `kernels.synthetic.documents` reads them."""
    from foltr_audit.kernels import synthetic

    def code(name: str, field: int) -> int:
        return int(getattr(synthetic, name)) + (field if name in ("MATCH", "FIELD_LENGTH") else 0)

    kinds = [(kind, field) for group in by_field for field in range(len(_FIELD_SIZES)) for kind in group]
    kinds += [(kind, 0) for kind in by_document]
    codes, scales = [], []
    for kind, field in kinds:
        factors = code(kind.first, field), code(kind.second, field)
        codes.append((code(kind.shape, field), *factors, field, code(kind.times, field), int(kind.sparse)))
        step = 10**kind.decimals
        scales.append((round(kind.scale * step) * (_FIELD_SIZES[field] if kind.sized else 1), step))
    loadings = grid([kind.weights for kind, _ in kinds])
    return np.array(codes, dtype=np.int64), loadings, np.array(scales, dtype=np.int64)
