"""The context of a cohort in one round."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from foltr_audit.rng import ClientStreams, Streams
from foltr_audit.utils.arrays import Bools, Floats, Ints
from foltr_audit.utils.frozen_arrays import freeze


@dataclass(frozen=True, kw_only=True, eq=False)
class RoundContext:
    """The round in which a defense acts. Plug-ins must take n from `shares`, not from an array's length.

    Attributes:
        round: round number, from 0.
        shares: number n of clients whose noise shares are expected to arrive.
        clients: ids of the clients present, int64 (C,). For a single attacked client `shares` is still n.
        counts: interactions behind each client's message, int64 (C,).
        parameters: the global model at the start of the round, float64 (P,).
        source: the experiment's random streams.
        contrast: whether the documents that each client received differ in features, bool (C,); None: all do.
        received: the model that each client received, float64 (C, P); None if all received `parameters`.
        separation: rounds from one in which a client takes part to its next one, at least.
        prefix: `""` in training rounds, else the name of the simulation; part of the name of every stream.
    """

    round: int
    shares: int
    clients: Ints
    counts: Ints
    parameters: Floats
    source: Streams
    separation: int = 1
    prefix: str = ""
    received: Floats | None = None
    contrast: Bools | None = None

    def __post_init__(self) -> None:
        freeze(self, clients=np.int64, counts=np.int64, parameters=np.float64)
        if self.received is not None:
            freeze(self, received=np.float64)
        if self.contrast is not None:
            freeze(self, contrast=np.bool_)

    def at(self, rows: Ints) -> RoundContext:
        """The same round with only the clients in `rows`."""
        received = None if self.received is None else self.received[rows]
        contrast = None if self.contrast is None else self.contrast[rows]
        clients, counts = self.clients[rows], self.counts[rows]
        return replace(self, clients=clients, counts=counts, received=received, contrast=contrast)

    def streams(self, purpose: str) -> ClientStreams:
        """One random stream per client for a purpose, e.g. `"defense/gamma-laplace"`."""
        return self.source.clients(self.prefix + purpose, self.round, self.clients)

    def server_stream(self, purpose: str, round_: int) -> ClientStreams:
        """The one random stream of the server for a purpose, in this round or any other."""
        return self.source.clients(f"{self.prefix}server/{purpose}", round_, np.zeros(1, dtype=np.int64))
