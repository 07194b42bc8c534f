"""Robust rules of the server for each coordinate on its own: the median and the trimmed mean."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from pydantic import Field

from foltr_audit.plugins import Defense, RoundContext
from foltr_audit.utils.arrays import Floats


class Median(Defense):
    """The server takes the median of the messages in each coordinate, in the place of their average.

    Of an even number it is the mean of the two in the middle. The numbers of interactions do not count.

    Guarantees: no privacy, for any relation, unit or view: each coordinate of the next global model is that
    of one or two clients. All bounds on sums are lost; noise that a client added to its own message still
    protects it. While fewer than half of the clients are malicious, each coordinate lies between two that
    honest clients sent.

    It needs single messages, so it is refused with `secure-aggregation`.

    Source: Yin, Chen, Ramchandran & Bartlett 2018, "Byzantine-robust distributed learning: towards optimal
    statistical rates", section 4, definition 1 and algorithm 1, option I.
    """

    name: ClassVar[str] = "median"

    def on_aggregate(
        self, aggregate: Floats, messages: Floats, weights: Floats, context: RoundContext
    ) -> Floats:
        """The median of each coordinate, float64 (P,); without any message, the average."""
        return np.asarray(np.median(messages, axis=0)) if len(messages) else aggregate.copy()


class TrimmedMean(Defense):
    """The server takes the mean of each coordinate without its largest and its smallest values.

    Of S messages, floor(share S) are dropped at each end. The numbers of interactions do not count.

    Guarantees: no privacy, for any relation, unit or view. All bounds on sums are lost; noise that a client
    added to its own message still protects it. While at most floor(share S) clients are malicious, each
    coordinate lies between two that honest clients sent.

    It needs single messages, so it is refused with `secure-aggregation`.

    Source: Yin, Chen, Ramchandran & Bartlett 2018, "Byzantine-robust distributed learning: towards optimal
    statistical rates", section 4, definition 2 and algorithm 1, option II.
    """

    name: ClassVar[str] = "trimmed-mean"

    share: float = Field(ge=0, lt=0.5, description="share of the messages dropped at each end, below 0.5")

    def on_aggregate(
        self, aggregate: Floats, messages: Floats, weights: Floats, context: RoundContext
    ) -> Floats:
        """The trimmed mean of each coordinate, float64 (P,); without any message, the average."""
        if not len(messages):
            return aggregate.copy()
        # 0.29 * 100 is less than 29 in floating point, but 29 are meant.
        dropped = min(math.floor(self.share * len(messages) + 1e-9), (len(messages) - 1) // 2)
        kept = np.sort(messages, axis=0)[dropped : len(messages) - dropped]
        return np.asarray(kept.mean(axis=0))
