"""A round with some of its messages, in any order, and their lists."""

from __future__ import annotations

import numpy as np

from foltr_audit.core.records.interactions import RoundRecord
from foltr_audit.judge.pieces import with_rows
from foltr_audit.utils.arrays import Ints

_PER_MESSAGE = ("survivors", "counts", "messages", "seeds", "senders", "sizes", "sent_at")
_PER_LIST = ("step", "part", "query", "shown", "features", "n_candidates")


def with_messages(record: RoundRecord, chosen: Ints) -> tuple[RoundRecord, Ints]:
    """The round whose i-th message is message chosen[i] of a round, and the numbers of its lists there.

    Args:
        record: a round.
        chosen: numbers of different messages, int64 (m,).
    """
    place = np.full(record.n_messages, -1)
    place[chosen] = np.arange(chosen.size)
    slot = place[record.slot]
    # The stable sort keeps the steps of a message in order.
    rows = slot.argsort(kind="stable")
    rows = rows[slot[rows] >= 0]
    candidates = record.candidates
    if candidates is not None and record.n_candidates is not None:
        ends = np.cumsum(record.n_candidates)
        spans = [np.arange(ends[row] - record.n_candidates[row], ends[row]) for row in rows]
        candidates = candidates[np.concatenate(spans) if spans else np.empty(0, dtype=np.int64)]
    made = with_rows(
        record,
        (_PER_MESSAGE, chosen),
        (_PER_LIST, rows),
        slot=slot[rows],
        buffers=tuple(buffer[chosen] for buffer in record.buffers),
        clear={name: values[chosen] for name, values in record.clear.items()},
        candidates=candidates,
    )
    return made, rows
