"""What synthetic data sets are described by: the kinds of their columns, and weights of a document's utility.

All numbers are multiples of 2^-12, see `kernels.bell`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_FIELD_SIZES = (40, 3, 1, 1, 44)  # body, anchor, title, url, whole document


class ColumnKind(NamedTuple):
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


class UtilityWeights(NamedTuple):
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


def grid(values: object) -> NDArray[np.float64]:
    """The multiples of 2^-12 nearest to values: what `kernels.bell` reckons with."""
    return np.asarray(np.floor(np.asarray(values, dtype=np.float64) * 4096.0 + 0.5) / 4096.0)


def query_sizes(sizes: tuple[int, int, float, float], bells: NDArray[np.float64]) -> NDArray[np.int64]:
    """Numbers of documents, with a tail to the right."""
    least, most, factor, spread = sizes
    root = np.maximum(0.0, grid(1.0 + grid(spread) * bells))
    return np.minimum(least + np.floor(factor * grid(grid(root * root) * root)).astype(np.int64), most)


def grades(utility: NDArray[np.float64], shares: tuple[int, ...]) -> NDArray[np.int64]:
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
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """Codes (F, 6), loadings (F, 3) and scales (F, 2) as `kernels.bell.documents` reads them."""
    from foltr_audit.kernels import bell

    def code(name: str, field: int) -> int:
        return int(getattr(bell, name)) + (field if name in ("MATCH", "FIELD_LENGTH") else 0)

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
