"""Where the queries of a data set come from that was put together from others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr_audit.core.records import Dataset
from foltr_audit.utils.arrays import Ints


@dataclass(frozen=True, kw_only=True, eq=False)
class QueryOrigin:
    """Where the queries of a data set come from.

    Attributes:
        part, query: their part and their index inside it, int64 (queries,).
        document: position of each document in the query that it comes from, int64 (documents,); None where
            every query has all of its documents.
    """

    part: Ints
    query: Ints
    document: Ints | None = None

    @classmethod
    def of_part(cls, part: int, data: Dataset) -> QueryOrigin:
        """Every query comes from one part, as it stands there."""
        return cls(part=np.full(data.n_queries, part), query=np.arange(data.n_queries))

    def shown(self, data: Dataset, queries: Ints, shown: Ints) -> Ints:
        """Lists (I, k) of queries (I,) of `data` as positions in the queries that these come from."""
        if self.document is None:
            return shown
        rows = data.offsets[queries][:, np.newaxis] + np.maximum(shown, 0)
        return np.where(shown >= 0, self.document[rows], -1)
