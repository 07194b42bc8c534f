"""Clients in the order of their queries: features that several of them need are then still in the cache."""

from __future__ import annotations

import numpy as np

from .jit import Ints, kernel, unsigned

_FEW = 16  # below one client in so many queries hardly any two ask the same: sorting would cost more


@kernel
def order_by_query(queries: Ints, step: int, n_queries: int, order: Ints, begin: int, end: int) -> None:
    """Sort the clients order[begin:end] by queries[:, step], which are below `n_queries` or -1.

    Clients of one query keep their order. Where hardly any two ask the same nothing is done.
    """
    if (end - begin) * _FEW < n_queries:
        return
    places, sorted_ = np.empty(n_queries + 2, dtype=np.int64), np.empty(end - begin, dtype=np.int64)
    places[:] = 0
    for i in range(begin, end):
        places[unsigned(queries[order[i], step] + 2)] += 1
    for query in range(n_queries + 1):
        places[unsigned(query + 1)] += places[unsigned(query)]
    for i in range(begin, end):
        place = unsigned(queries[order[i], step] + 1)
        sorted_[unsigned(places[place])] = order[i]
        places[place] += 1
    for i in range(begin, end):
        order[i] = sorted_[i - begin]
