"""The context of a cohort in one round."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from foltr_audit.rng import ClientStreams, Streams
from foltr_audit.utils.arrays import Bools, Floats, Ints
from foltr_audit.utils.frozen_arrays import freeze

_OF_RECEIPT: Final = {"received": np.float64, "contrast": np.bool_, "reopened": np.bool_}
"""What each client received, with its type; None of an honest server."""


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
        manipulated: whether clients train on other features than those they rank by.
        received: the model that each client received, float64 (C, P); None if all received `parameters`.
        reopened: the clients over whose messages the server asks for a second sum, bool (C,); None if it asks
            for one sum only.
        server_update: what the server learnt from labelled queries of its own, float64 (P,); None of a server
            without any, and before messages are aggregated.
        separation: rounds from one in which a client takes part to its next one, at least.
        message: what clients send, a model or an update of the global one.
        sums_only: whether nobody looks at single messages that the wire stage encodes; they may then be zero.
        prefix: `""` in training rounds, else the name of the simulation; part of the name of every stream.
    """

    round: int
    shares: int
    clients: Ints
    counts: Ints
    parameters: Floats
    source: Streams
    separation: int = 1
    message: Literal["model", "update"] = "model"
    sums_only: bool = False
    prefix: str = ""
    manipulated: bool = False
    received: Floats | None = None
    contrast: Bools | None = None
    reopened: Bools | None = None
    server_update: Floats | None = None

    def __post_init__(self) -> None:
        freeze(self, clients=np.int64, counts=np.int64, parameters=np.float64)
        if self.server_update is not None:
            freeze(self, server_update=np.float64)
        for name, kind in _OF_RECEIPT.items():
            if getattr(self, name) is not None:
                freeze(self, **{name: kind})

    def at(self, rows: Ints) -> RoundContext:
        """The same round with only the clients in `rows`."""
        given = {name: getattr(self, name) for name in _OF_RECEIPT}
        receipt = {name: values[rows] for name, values in given.items() if values is not None}
        return replace(self, clients=self.clients[rows], counts=self.counts[rows], **receipt)

    def streams(self, purpose: str) -> ClientStreams:
        """One random stream per client for a purpose, e.g. `"defense/gamma-laplace"`."""
        return self.source.clients(self.prefix + purpose, self.round, self.clients)

    def server_stream(self, purpose: str, round_: int) -> ClientStreams:
        """The one random stream of the server for a purpose, in this round or any other."""
        return self.source.clients(f"{self.prefix}server/{purpose}", round_, np.zeros(1, dtype=np.int64))
