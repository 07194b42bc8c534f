"""A round with its messages in another order: what a server sees that does not know who sent which.

A simulated cohort is in the order of its clients' ids, from which groups follow. An attack on a client's
identity or properties must not find the answer in the number of a row.
"""

from __future__ import annotations

from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.judge.pieces import with_rows
from foltr_audit.judge.round_selection import with_messages
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Ints


def shuffled(record: RoundRecord, truth: RoundTruth, streams: Streams) -> tuple[RoundRecord, RoundTruth]:
    """The same round with its M messages in an order drawn for its number; rows of both still match."""
    order = streams.generator(f"judge/order/{record.round}").permutation(record.n_messages)
    return reordered(record, truth, order)


def reordered(record: RoundRecord, truth: RoundTruth, order: Ints) -> tuple[RoundRecord, RoundTruth]:
    """The round whose i-th message is message order[i] of a round; its interactions go with it."""
    moved, rows = with_messages(record, order)
    lists = ("clicks", "intents", "known")
    return moved, with_rows(
        truth,
        (("clients", "updates"), order),
        ((*lists, "clipped") if truth.knows_clips else lists, rows),
    )
