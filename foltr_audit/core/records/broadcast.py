"""What a server sends to the clients of a round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from foltr_audit.core.records.round_context import RoundContext
from foltr_audit.errors import UsageError
from foltr_audit.utils.arrays import Bools, Floats, Ints
from foltr_audit.utils.frozen_arrays import freeze

TARGET: Final = "target"
"""The fact of a round that holds the place of the client whose update its server isolates."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Delivery:
    """One global model, and documents, for some clients of a round.

    Attributes:
        rows: the clients' places in the cohort, rising, int64 (n,).
        parameters: the model that they receive, float64 (P,).
        contrast: whether documents have their own features; otherwise all documents have the same.
    """

    rows: Ints
    parameters: Floats
    contrast: bool = True

    def __post_init__(self) -> None:
        freeze(self, rows=np.int64, parameters=np.float64)


@dataclass(frozen=True, kw_only=True, eq=False)
class Broadcast:
    """What each client of a round receives from a server that sends different things to different clients.

    Attributes:
        deliveries: one for every group of clients; each client of the cohort is in exactly one.
        target: place in the cohort of the client whose update the server isolates.

    Raises:
        UsageError: a client without a delivery or with several, or a target outside of the cohort.
    """

    deliveries: tuple[Delivery, ...]
    target: int

    def __post_init__(self) -> None:
        places = np.sort(np.concatenate([one.rows for one in self.deliveries]))
        if not np.array_equal(places, np.arange(places.size)) or not 0 <= self.target < places.size:
            raise UsageError("broadcast: expected one delivery for each client, and a target among them")

    @classmethod
    def all_but_one(cls, context: RoundContext, parameters: Floats, *, contrast: bool = True) -> Broadcast:
        """The global model for a target that is drawn at random, and other things for all other clients.

        Args:
            context: the round, with its cohort (C,).
            parameters: the model that the others receive, (P,).
            contrast: whether the documents that they receive have their own features.
        """
        draw = float(context.server_stream("target", context.round).uniform(1)[0, 0])
        target = int(draw * context.clients.size)
        others = np.delete(np.arange(context.clients.size), target)
        return cls(
            deliveries=(
                Delivery(rows=np.array([target]), parameters=context.parameters),
                Delivery(rows=others, parameters=parameters, contrast=contrast),
            ),
            target=target,
        )

    @property
    def received(self) -> Floats:
        """The model that each client receives, float64 (C, P)."""
        size = sum(one.rows.size for one in self.deliveries)
        out = np.empty((size, self.deliveries[0].parameters.size))
        for one in self.deliveries:
            out[one.rows] = one.parameters
        return out

    @property
    def contrast(self) -> Bools:
        """Whether each client receives documents with their own features, bool (C,)."""
        out = np.empty(len(self.received), dtype=np.bool_)
        for one in self.deliveries:
            out[one.rows] = one.contrast
        return out
