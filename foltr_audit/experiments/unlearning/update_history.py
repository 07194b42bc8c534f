"""What a server may store of a training: the messages of its rounds, and the global models."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from foltr_audit.core.plugins import RoundContext, WireMessages
from foltr_audit.utils.arrays import Floats, Ints


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredRound:
    """One round as the server can store it.

    Attributes:
        context: the clients (C,) of the round, the interactions of each, and the global model (P,).
        wired: their messages, (C, P).
    """

    context: RoundContext
    wired: WireMessages

    @property
    def updates(self) -> Floats:
        """The change of the global model in each message, float64 (C, P)."""
        sent = self.wired.messages.astype(np.float64)
        return sent if self.context.message == "update" else sent - self.context.parameters

    def without(self, clients: Ints) -> StoredRound:
        """The same round without the messages of some clients."""
        return self.at(np.flatnonzero(~np.isin(self.context.clients, clients)))

    def at(self, rows: Ints) -> StoredRound:
        """The same round with the messages in `rows` only."""
        messages, survivors = self.wired.messages[rows], self.wired.survivors[rows]
        return StoredRound(
            context=self.context.at(rows), wired=replace(self.wired, messages=messages, survivors=survivors)
        )

    def with_updates(self, updates: Floats) -> StoredRound:
        """The same round with other updates (C, P)."""
        sent = updates if self.context.message == "update" else updates + self.context.parameters
        return replace(self, wired=replace(self.wired, messages=sent))


@dataclass(frozen=True, kw_only=True, eq=False)
class UpdateHistory:
    """All rounds of a training.

    Attributes:
        start: the first model, float64 (P,).
        rounds: the rounds in order.
        trained: the trained model, float64 (P,).
        dtype: number format of messages.
    """

    start: Floats
    rounds: tuple[StoredRound, ...]
    trained: Floats
    dtype: str

    def stored_bytes(self, rounds: slice) -> int:
        """Bytes of the messages of some rounds, and of the global model before each of them."""
        size = np.dtype(self.dtype).itemsize * self.start.size
        return sum(size * (one.context.clients.size + 1) for one in self.rounds[rounds])
