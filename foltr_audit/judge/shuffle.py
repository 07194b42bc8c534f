"""A round whose messages stand in another order: what a server sees that cannot tell who sent which.

A simulated cohort stands in the order of its clients' ids, from which groups follow. An attack that is asked
who a client is, or what it is like, must not find the answer in the number of a row.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.rng import Streams


def shuffled(record: RoundRecord, truth: RoundTruth, streams: Streams) -> tuple[RoundRecord, RoundTruth]:
    """The same round with its M messages in an order drawn for its number; rows of both still match."""
    order = streams.generator(f"judge/order/{record.round}").permutation(record.n_messages)
    return reordered(record, truth, order)


def reordered(
    record: RoundRecord, truth: RoundTruth, order: NDArray[np.int64]
) -> tuple[RoundRecord, RoundTruth]:
    """The round whose i-th message is message order[i] of a round; its interactions go with it."""
    slot = np.argsort(order)[record.slot]
    rows = np.argsort(slot, kind="stable")
    moved = replace(
        record,
        survivors=record.survivors[order],
        counts=record.counts[order],
        messages=record.messages[order],
        slot=slot[rows],
        step=record.step[rows],
        part=record.part[rows],
        query=record.query[rows],
        shown=record.shown[rows],
        features=None if record.features is None else record.features[rows],
        seeds=None if record.seeds is None else record.seeds[order],
    )
    return moved, replace(
        truth,
        clients=truth.clients[order],
        updates=truth.updates[order],
        clicks=truth.clicks[rows],
        clipped=truth.clipped[rows],
        intents=None if truth.intents is None else truth.intents[rows],
    )
