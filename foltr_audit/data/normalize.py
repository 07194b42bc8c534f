"""Feature scales: z-scores with statistics of the training split or of each part, or min-max per query.

Means and deviations are taken in float64, so values near the float32 limit neither overflow nor
lose their differences. A result beyond float32 is clipped to its largest value.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from foltr_audit.core.records import Collection, Dataset
from foltr_audit.errors import UsageError, suggest_name
from foltr_audit.utils.arrays import Features, Floats

NORMALISATIONS = ("none", "zscore", "zscore-parts", "query-minmax")
_BATCH_ROWS = 8_192  # float64 copies of this many rows at a time
_LARGEST = float(np.finfo(np.float32).max)


def check_normalisation(how: str) -> None:
    """Refuse a name that is no normalisation."""
    if how not in NORMALISATIONS:
        raise UsageError(f"normalise: no normalisation {how!r}; {suggest_name(how, NORMALISATIONS)}")


def normalise(
    collection: Collection, how: str, dtype: str = "float32", *, overwrite: bool = False
) -> Collection:
    """The same fold with other feature scales, float32 or float64; its fingerprint is still the parsed one.

    `zscore` takes mean and population standard deviation over all training documents; `zscore-parts`
    over each part's own documents, and the deviation of a sample (n - 1), as the program published with
    Pham 2022 does for the part that it attacks; `query-minmax` the range within each query (Qin et al.
    2010, "LETOR"). What is constant becomes 0. With `overwrite` float32 results replace the given
    features, which must not be used afterwards, so that large data need memory once; the parts must
    not share their features.

    Raises:
        UsageError: an unknown name, or data that are normalised already.
    """
    check_normalisation(how)
    if collection.normalised != "none":
        raise UsageError(
            f"normalise: {how!r} of data that are already normalised by {collection.normalised!r}"
        )
    if how == "none" and dtype == "float32":
        return collection
    parts = [collection.part(name) for name in Collection.PARTS]
    if how == "none":
        scaled = [part.with_features(part.features.astype(dtype, copy=False)) for part in parts]
    elif how == "zscore":
        scales = _statistics(collection.train)
        scaled = [_zscore(part, _room(part, dtype, overwrite), *scales) for part in parts]
    elif how == "zscore-parts":
        scaled = [
            _zscore(part, _room(part, dtype, overwrite), *_statistics(part, of_sample=True)) for part in parts
        ]
    else:
        scaled = [_query_minmax(part, _room(part, dtype, overwrite)) for part in parts]
    return collection.with_parts(scaled, normalised=how)


def _batches(rows: int) -> Iterator[slice]:
    return (slice(start, min(start + _BATCH_ROWS, rows)) for start in range(0, rows, _BATCH_ROWS))


def _statistics(part: Dataset, *, of_sample: bool = False) -> tuple[Floats, Floats]:
    """Mean and population (or sample) standard deviation of each feature, shape (features,).

    The deviation of a constant feature is exactly 0.
    """
    features, n = part.features, part.n_documents
    total, constant = np.zeros(part.n_features), np.ones(part.n_features, dtype=np.bool_)
    for rows in _batches(n):
        total += features[rows].sum(axis=0, dtype=np.float64)
        constant &= (features[rows] == features[0]).all(axis=0)
    # Constant features are found by comparison: the rounding of a mean would give them a tiny deviation, and
    # so large z-scores.
    mean = np.where(constant, features[0], total / n)
    squares = np.zeros(part.n_features)
    for rows in _batches(n):
        above = features[rows] - mean
        squares += np.square(above, out=above).sum(axis=0)
    return mean, np.sqrt(squares / (max(n - 1, 1) if of_sample else n))


def _room(part: Dataset, dtype: str, overwrite: bool) -> Features:
    """Where a part's scaled features go, (documents, features): its own memory, or new."""
    if not overwrite or part.features.dtype != dtype:
        return np.empty(part.features.shape, dtype)
    # Data sets hold read-only views of their features; the memory itself may be written.
    own = part.features.view()
    own.flags.writeable = True
    return own


def _zscore(part: Dataset, scaled: Features, mean: Floats, deviation: Floats) -> Dataset:
    for rows in _batches(part.n_documents):
        scaled[rows] = _ratio(part.features[rows] - mean, deviation)
    return part.with_features(scaled)


def _query_minmax(part: Dataset, scaled: Features) -> Dataset:
    low = np.minimum.reduceat(part.features, part.offsets[:-1], axis=0).astype(np.float64)
    high = np.maximum.reduceat(part.features, part.offsets[:-1], axis=0).astype(np.float64)
    query_of = np.repeat(np.arange(part.n_queries), part.lengths)
    for rows in _batches(part.n_documents):
        queries = query_of[rows]
        scaled[rows] = _ratio(part.features[rows] - low[queries], high[queries] - low[queries])
    return part.with_features(scaled)


def _ratio(above: Floats, scale: Floats) -> Floats:
    """Quotient within float32, in the memory of the first; 0 where the scale is 0."""
    varies = np.broadcast_to(scale > 0, above.shape)
    np.divide(above, scale, out=above, where=varies)
    np.copyto(above, 0.0, where=~varies)
    return np.clip(above, -_LARGEST, _LARGEST, out=above)
