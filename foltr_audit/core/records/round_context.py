"""What travels with a cohort through one round."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from foltr_audit.rng import ClientStreams, Streams
from foltr_audit.utils.arrays import Floats, Ints
from foltr_audit.utils.frozen_arrays import freeze


@dataclass(frozen=True, kw_only=True, eq=False)
class RoundContext:
    """The round that a defense acts in. A plug-in takes n from here, never from an array's length.

    Attributes:
        round: round number, from 0.
        shares: number n of clients whose noise shares are reckoned to arrive.
        clients: ids of the clients present, int64 (C,). An attacked client alone still has `shares` = n.
        counts: interactions behind each client's message, int64 (C,).
        parameters: the global model that the round started from, float64 (P,).
        source: the experiment's random streams.
        prefix: `""` in training rounds, else the name of what is simulated; part of every stream's name.
    """

    round: int
    shares: int
    clients: Ints
    counts: Ints
    parameters: Floats
    source: Streams
    prefix: str = ""

    def __post_init__(self) -> None:
        freeze(self, clients=np.int64, counts=np.int64, parameters=np.float64)

    def at(self, rows: Ints) -> RoundContext:
        """The same round with some of the clients."""
        return replace(self, clients=self.clients[rows], counts=self.counts[rows])

    def streams(self, purpose: str) -> ClientStreams:
        """One random stream per client for a purpose, e.g. `"defense/gamma-laplace"`."""
        return self.source.clients(self.prefix + purpose, self.round, self.clients)
