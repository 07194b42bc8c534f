"""The category of each document: a feature, its quantiles, or clusters of all features by k-means.

"Learning to rank for non independent and identically distributed datasets" (2024) reads a feature (section
3), and names other features, such as PageRank, for collections without categories (section 6).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

import numpy as np

from foltr_audit.core.records import Collection, Dataset
from foltr_audit.errors import DataError, UsageError
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Floats, Ints

MOST_CATEGORIES = 1_000
"""A column with more distinct values does not hold categories."""

MOST_CLUSTERED = 50_000
"""Clusters are those of at most so many training documents, drawn at random."""

_STARTS = 10  # of k-means, of which the best counts
_PLACES = 6  # decimals of features and centres: the last digits of a sum depend on the processor


@dataclass(frozen=True, kw_only=True)
class CategoryRule:
    """How documents get categories: from `feature`, from 1, or as one of `number` quantiles or clusters."""

    kind: str = "feature"
    number: int = 0
    feature: int | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """The rule of a text, as yet without its feature: `feature`, `quantiles:K` or `kmeans:K`.

        >>> CategoryRule.parse("kmeans:4").number
        4
        """
        found = re.fullmatch(r"feature|(quantiles|kmeans):(\d{1,4})", text)
        if found is None or (found[1] and not 2 <= int(found[2]) <= MOST_CATEGORIES):
            raise ValueError(
                f"{text!r}: expected feature, quantiles:K or kmeans:K, with K from 2 to {MOST_CATEGORIES}"
            )
        return cls(kind=found[1] or "feature", number=int(found[2] or 0))

    def columns(self, collection: Collection, streams: Streams) -> dict[str, Ints]:
        """The category of each document of each part, int64 (documents,); the data must not be normalised."""
        parts = {name: collection.part(name) for name in collection.PARTS}
        if self.feature is None:
            return _clusters(parts, self.number, collection.source, streams)
        if not 1 <= self.feature <= collection.n_features:
            raise UsageError(
                f"--category-feature: {self.feature}; expected 1 to {collection.n_features}, the features of "
                f"{collection.source}"
            )
        if self.kind == "quantiles":
            return _quantiles(parts, self.feature, self.number, collection.source)
        columns = {name: _whole(part, self.feature, collection.source) for name, part in parts.items()}
        distinct = np.unique(np.concatenate(list(columns.values()))).size
        if distinct > MOST_CATEGORIES:
            raise DataError(
                f"{collection.source}: feature {self.feature} has {distinct} distinct values; expected a "
                f"category, at most {MOST_CATEGORIES}"
            )
        return columns


def _whole(part: Dataset, feature: int, source: str) -> Ints:
    values = part.features[:, feature - 1]
    wrong = ~np.isfinite(values) | (np.floor(values) != values) | (np.abs(values) > 2**31)
    if wrong.any():
        row = int(np.argmax(wrong))
        query = part.query_ids[int(np.searchsorted(part.offsets, row, side="right")) - 1]
        raise DataError(
            f"{source}: feature {feature} of a document of query {query} is {values[row]:g}; expected a "
            "whole number, the category"
        )
    return values.astype(np.int64)


def _quantiles(parts: dict[str, Dataset], feature: int, number: int, source: str) -> dict[str, Ints]:
    """Categories 1 to `number`: each has as many training documents as the others, apart from equal values.

    The borders are values of training documents, and the lower category has them.
    """
    taught = parts["train"].features[:, feature - 1]
    borders = np.quantile(taught, np.arange(1, number) / number, method="inverted_cdf")
    if np.unique(borders).size < number - 1 or borders[-1] == taught.max():
        raise DataError(
            f"{source}: feature {feature} has too many equal values for {number} quantiles; expected fewer, "
            "or another --category-feature"
        )
    return {name: np.searchsorted(borders, part.features[:, feature - 1]) + 1 for name, part in parts.items()}


def _clusters(parts: dict[str, Dataset], number: int, source: str, streams: Streams) -> dict[str, Ints]:
    """Categories 1 to `number` by k-means on features with mean 0 and variance 1 in the training part.

    They are numbered in the order in which training documents have them: equally good starts find the same
    clusters in another order.
    """
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    taught = parts["train"].features.astype(np.float64)
    mean, deviation = taught.mean(axis=0), taught.std(axis=0)
    deviation[deviation == 0] = 1

    def standard(part: Dataset) -> Floats:
        return np.asarray(np.round((part.features - mean) / deviation, _PLACES))

    rng = streams.generator("merge/categories")
    rows = np.sort(rng.permutation(len(taught))[:MOST_CLUSTERED])
    sample = standard(parts["train"])[rows]
    if len(np.unique(sample, axis=0)) < number:
        raise DataError(
            f"{source}: fewer than {number} different documents; expected more, or fewer clusters"
        )
    # Strict convergence (tol=0) compares clusters, not sums whose last digits depend on the processor.
    model = KMeans(number, n_init=_STARTS, tol=0, random_state=int(rng.integers(2**31)))
    with threadpool_limits(limits=1):
        centres = np.round(model.fit(sample).cluster_centers_, _PLACES)
        nearest = {name: _nearest(standard(part), centres) for name, part in parts.items()}
    first_seen = [np.flatnonzero(nearest["train"] == cluster)[:1] for cluster in range(number)]
    order = np.argsort([rows[0] if rows.size else len(taught) for rows in first_seen], kind="stable")
    return {name: np.argsort(order)[found] + 1 for name, found in nearest.items()}


def _nearest(features: Floats, centres: Floats) -> Ints:
    """The nearest centre of each document, (documents,); the lower one of equally near ones."""
    # Without the squares of the features, which are the same for each centre.
    distances = (centres**2).sum(axis=1) - 2 * features @ centres.T
    return np.asarray(np.round(distances, _PLACES).argmin(axis=1))
