"""A round with its messages in another order: what a server sees that does not know who sent which.

A simulated cohort is in the order of its clients' ids, from which groups follow. An attack on a client's
identity or properties must not find the answer in the number of a row.
"""

from __future__ import annotations

import numpy as np

from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.judge.pieces import with_rows
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Features, Ints


def shuffled(record: RoundRecord, truth: RoundTruth, streams: Streams) -> tuple[RoundRecord, RoundTruth]:
    """The same round with its M messages in an order drawn for its number; rows of both still match."""
    order = streams.generator(f"judge/order/{record.round}").permutation(record.n_messages)
    return reordered(record, truth, order)


def reordered(record: RoundRecord, truth: RoundTruth, order: Ints) -> tuple[RoundRecord, RoundTruth]:
    """The round whose i-th message is message order[i] of a round; its interactions go with it."""
    # `argsort` of a permutation is its inverse. The stable sort below keeps the steps of a message in order.
    slot = order.argsort()[record.slot]
    rows = slot.argsort(kind="stable")
    moved = with_rows(
        record,
        (("survivors", "counts", "messages", "seeds", "senders", "sizes", "sent_at"), order),
        (("step", "part", "query", "shown", "features", "n_candidates"), rows),
        slot=slot[rows],
        candidates=_candidates(record, rows),
        buffers=tuple(values[order] for values in record.buffers),
        clear={name: values[order] for name, values in record.clear.items()},
    )
    per_list = (
        "clicks",
        "intents",
        "canaries",
        "coins",
        "known",
        *(("clipped",) if truth.knows_clips else ()),
    )
    return moved, with_rows(truth, (("clients", "updates"), order), (per_list, rows))


def _candidates(record: RoundRecord, rows: Ints) -> Features | None:
    """The candidates of the lists in the order of `rows`."""
    if record.candidates is None or record.n_candidates is None:
        return None
    parts = np.split(record.candidates, np.cumsum(record.n_candidates)[:-1])
    joined: Features = np.concatenate([record.candidates[:0], *(parts[row] for row in rows)])
    return joined
