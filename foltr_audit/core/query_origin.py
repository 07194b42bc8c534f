"""The origin of each query in a data set that combines others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr_audit.core.records import Dataset
from foltr_audit.utils.arrays import Ints


@dataclass(frozen=True, kw_only=True, eq=False)
class QueryOrigin:
    """The origin of each query of a data set.

    Attributes:
        part, query: the part that each query comes from, and its index in that part, int64 (queries,).
        document: position of each document in its original query, int64 (documents,); None if every query
            has all of its original documents.
    """

    part: Ints
    query: Ints
    document: Ints | None = None

    @classmethod
    def of_part(cls, part: int, data: Dataset) -> QueryOrigin:
        """The origin of the queries of one complete part."""
        return cls(part=np.full(data.n_queries, part), query=np.arange(data.n_queries))

    def shown(self, data: Dataset, queries: Ints, shown: Ints) -> Ints:
        """Lists (I, k) for queries (I,) of `data`, as positions in the original queries."""
        if self.document is None:
            return shown
        rows = data.offsets[queries][:, np.newaxis] + np.maximum(shown, 0)
        return np.where(shown >= 0, self.document[rows], -1)
