"""Several intents per query: what `--intents` means, and balancing.

`--intents` names a folder of qrels per intent, or `synthetic[:I]` for synthetic ones.

Balancing: TREC's first intents have more relevant documents than its last. Zhuang & Zuccon 2021, section 4.1,
number the intents of each query again at random in each repetition, so that all become equally frequent; an
intent then means nothing across queries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from foltr_audit.core.records import Collection, Dataset
from foltr_audit.core.settings.data import are_synthetic, synthetic_count
from foltr_audit.data.qrels import join_qrels, qrels_files, read_qrels
from foltr_audit.data.synthetic.intents import synthetic_intents
from foltr_audit.errors import DataError
from foltr_audit.rng import Streams, name_codes
from foltr_audit.utils.arrays import Ints

PURPOSE = "intents/balance"


def intent_files(intents: str | None) -> tuple[Path, ...]:
    """Every file that the intents are read from.

    Raises:
        DataError: a folder that holds no complete set of qrels.
    """
    return () if intents is None or are_synthetic(intents) else qrels_files(Path(intents))


def count_read(parts: Mapping[str, Dataset], intents: str) -> tuple[int, int] | None:
    """Rows and queries of parts before `with_intents`; None for synthetic intents, which judge all."""
    if are_synthetic(intents):
        return None
    every = parts.values()
    return sum(part.n_documents for part in every), sum(part.n_queries for part in every)


def with_intents(parts: Mapping[str, Dataset], intents: str, source: str) -> dict[str, Dataset]:
    """The parts with a grade under each intent, in place of their own labels.

    Raises:
        DataError: qrels that cannot be read, or that judge nothing in some part.
    """
    number = synthetic_count(intents)
    if number is not None:
        return {name: synthetic_intents(part, int(number)) for name, part in parts.items()}
    qrels, joined = read_qrels(Path(intents)), {}
    for name, part in parts.items():
        judged = join_qrels(part, qrels, name)
        if judged is None:
            raise DataError(
                f"intents: {intents} judges no document of the {name} part of {source}; "
                f"expected the same query and document ids"
            )
        joined[name] = judged
    return joined


def new_order(query_ids: Sequence[str], intents: int, streams: Streams) -> Ints:
    """Which old intent becomes the i-th of each query, int64 (queries, I), each row a permutation.

    The draws are named by the query's id: they depend neither on its place nor on other queries.
    """
    draws = streams.clients(PURPOSE, 0, name_codes(query_ids)).uniform(intents)
    return np.argsort(draws, axis=1, kind="stable")


def balance(dataset: Dataset, streams: Streams) -> Dataset:
    """The same data with each query's intents in another order; unchanged where there is only one."""
    if dataset.intents is None:
        return dataset
    order = np.repeat(new_order(dataset.query_ids, dataset.n_intents, streams), dataset.lengths, axis=0)
    return dataset.with_intents(np.take_along_axis(dataset.intents, order.T, axis=0))


def balance_collection(collection: Collection, streams: Streams) -> Collection:
    """The same fold with every part `balance`; its fingerprint stays that of the data as they were read."""
    if collection.n_intents == 1:
        return collection
    train, vali, test = (balance(collection.part(name), streams) for name in Collection.PARTS)
    return replace(collection, train=train, vali=vali, test=test)
