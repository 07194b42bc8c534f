"""How the server makes one model or update of the messages that arrived."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.plugins import WireMessages
from foltr_audit.utils.arrays import Floats, Ints

_CONVERTED = 4_000_000
"""Numbers of messages that are converted to float64 at once."""


@dataclass(frozen=True)
class AggregatedMessages:
    """What the server made of the messages of a round.

    Attributes:
        value: the aggregate, float64 (P,); NaN without any message.
        weights: weights of the messages in it, float64 (C,), which sum to 1; 0 for messages that were lost.
    """

    value: Floats
    weights: Floats


class ServerAggregator(Protocol):
    """A rule that aggregates messages."""

    def aggregate(self, wired: WireMessages, counts: Ints) -> AggregatedMessages:
        """The aggregate of messages (C, P) of clients with `counts` (C,) interactions each."""


class WeightedMean:
    """FedAvg: the mean of the messages that arrived, weighted by interactions.

    Encoded messages are averaged from their sum.

    Source: McMahan et al. 2017, "Communication-efficient learning of deep networks from decentralized data",
    algorithm 1.
    """

    def aggregate(self, wired: WireMessages, counts: Ints) -> AggregatedMessages:
        """The weighted mean; without any message it is NaN, and the caller keeps its model."""
        weights = np.where(wired.survivors, counts, 0).astype(np.float64)
        total = weights.sum()
        weights = weights / total if total > 0 else weights
        if not total > 0 or (wired.is_encoded and wired.sum is None):
            mean = np.full(wired.messages.shape[1], np.nan)
        elif wired.sum is not None:
            mean = np.asarray(wired.sum / total)
        else:
            mean = _weighted_sum(wired.messages, weights)
        return AggregatedMessages(mean, weights)


def _weighted_sum(messages: Floats | NDArray[np.float32] | NDArray[np.uint64], weights: Floats) -> Floats:
    """The weighted sum (P,) of messages (C, P), in float64.

    Each parameter is summed on its own, so that only some columns are converted at once.
    """
    from foltr_audit.kernels.averaging import weighted_sum

    C, P = messages.shape
    width = P if messages.dtype == np.float64 else max(1, _CONVERTED // max(1, C))
    parts = [
        weighted_sum(messages[:, first : first + width].astype(np.float64, copy=False), weights)
        for first in range(0, P, max(1, width))
    ]
    return np.concatenate([np.zeros(0), *parts])
