"""Lists in score order, and which of several documents with equal scores comes first.

The order of a file says nothing about documents: equal ones are shown in a random order, drawn for each query
anew in every round, so that clients who ask the same query of the same model see the same list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from foltr_audit.core.ranking_metrics import LIST_LENGTH
from foltr_audit.core.records import Dataset
from foltr_audit.rng import ClientStreams
from foltr_audit.utils.arrays import Floats, Ints

if TYPE_CHECKING:
    from foltr_audit.kernels.ranking import TieStream

TIES = "ties"
"""The purpose of the streams that break ties."""


def tie_stream(data: Dataset, streams: ClientStreams) -> TieStream:
    """What breaks ties between documents of these data in the round of some streams, whatever their clients.

    Data in the order of their file rank the upper row first, as published programs do.
    """
    from foltr_audit.kernels.ranking import BY_POSITION, TieStream

    if data.file_documents is None:
        return BY_POSITION
    return TieStream(streams.round, streams.purpose_code, np.uint64(streams.key), True)


def lists_in_score_order(
    scores: Floats, starts: Ints, data: Dataset, queries: Ints, streams: ClientStreams
) -> Ints:
    """The ten best-scored documents for queries (C,), positions in them, int64 (C, 10), padded with -1.

    Query c owns scores[starts[c] : starts[c + 1]]; `streams` are those of `TIES` in a round.
    """
    from foltr_audit.kernels.ranking import top_lists

    return top_lists(scores, starts, LIST_LENGTH, np.ascontiguousarray(queries), tie_stream(data, streams))
