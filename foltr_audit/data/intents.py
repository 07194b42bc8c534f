"""Balancing: the intents of each query change places at random, so that all become equally frequent.

TREC's first intents have more relevant documents than its last. Zhuang & Zuccon 2021, section 4.1, number
the intents of each query anew at random in each repetition; an intent then means nothing across queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.records import Collection, Dataset
from foltr_audit.rng import Streams, name_codes

PURPOSE = "intents/balance"


def new_order(query_ids: Sequence[str], intents: int, streams: Streams) -> NDArray[np.int64]:
    """Which old intent becomes the i-th of each query, int64 (queries, I), each row a permutation.

    The draws are named by the query's id: they depend neither on its place nor on other queries.
    """
    draws = streams.clients(PURPOSE, 0, name_codes(query_ids)).uniform(intents)
    return np.argsort(draws, axis=1, kind="stable")


def balanced(dataset: Dataset, streams: Streams) -> Dataset:
    """The same data with each query's intents in another order; as it is where there is but one."""
    if dataset.intents is None:
        return dataset
    order = new_order(dataset.query_ids, dataset.n_intents, streams)
    return dataset.with_intents(
        np.take_along_axis(dataset.intents, np.repeat(order, dataset.lengths, axis=0).T, axis=0)
    )


def balanced_collection(collection: Collection, streams: Streams) -> Collection:
    """The same fold with every part `balanced`; its fingerprint is still the one of the data as they are."""
    if collection.n_intents == 1:
        return collection
    train, vali, test = (balanced(collection.part(name), streams) for name in Collection.PARTS)
    return replace(collection, train=train, vali=vali, test=test)
