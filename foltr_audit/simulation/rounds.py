"""The result of a round, and the records made from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.plugins import RoundContext
from foltr_audit.core.records.interactions import GlobalModel, Payload, RoundRecord, RoundTruth
from foltr_audit.core.records.population import QueryAssignment
from foltr_audit.core.records.round_context import Broadcast, WireMessages
from foltr_audit.simulation.client import CohortInteractions
from foltr_audit.simulation.client_data import ClientData
from foltr_audit.utils.arrays import Bools, Floats, Ints

T = TypeVar("T", bound=np.generic)


@dataclass(frozen=True, kw_only=True, eq=False)
class CohortMessages:
    """The messages of a cohort, before the server does anything with them.

    Attributes:
        messages: in the message kind and number format of the Spec, or encoded as integers, (C, W).
        wired: what the server receives.
        updates: what each client would send without any defense (the change of a model), float64 (C, W).
        interactions: what the clients did.
        broadcast: what the server sent to whom; None of an honest server.
        seeds: seed of each client's perturbation, uint64 (C,), if clients perturb models.
    """

    messages: Payload
    wired: WireMessages
    updates: Floats
    interactions: CohortInteractions
    broadcast: Broadcast | None = None
    seeds: NDArray[np.uint64] | None = None


class PlayedRows:
    """The interactions that were played, one after the other."""

    def __init__(self, played: Bools) -> None:
        """Of clients (C,) that each may have played fewer than B, (C, B)."""
        self._size = played.size
        # Where all were played, nothing is copied.
        self._at: slice | Ints = slice(None) if played.all() else np.flatnonzero(played)
        self.places: Ints = np.indices(played.shape).reshape(2, -1)[:, self._at]

    def of(self, values: NDArray[T]) -> NDArray[T]:
        """The values of the interactions, (I, ...), from those of all, (at least C, B, ...)."""
        clients = self._size // max(1, values.shape[1])
        return values[:clients].reshape(self._size, *values.shape[2:])[self._at]


@dataclass(frozen=True, kw_only=True, eq=False)
class RoundResult:
    """The result of one round; records are made from it only where they are stored.

    Attributes:
        context: the context that clients and defenses got.
        sent: what the cohort sent.
        after: the global model afterwards.
        metrics: utility of the round by name.
        asked: the queries of the clients.
        world: the data that they searched.
        embeds: whether the feature rows on which clients train are stored with the shown lists.
    """

    context: RoundContext
    sent: CohortMessages
    after: GlobalModel
    metrics: dict[str, float]
    asked: QueryAssignment
    world: ClientData
    embeds: bool

    @property
    def aggregate(self) -> Floats:
        return self.after.parameters

    def recorded(self, *, messages: bool = True) -> tuple[RoundRecord, RoundTruth]:
        """The observed record and the truth; without `messages` the global models and the utility only."""
        kept = slice(None if messages else 0)
        context, sent, done = self.context, self.sent, self.sent.interactions
        rows = PlayedRows(done.queries[kept] >= 0)
        slot, step = rows.places
        asked, shown = rows.of(done.queries), rows.of(done.shown)
        data, origin = self.world.data, self.world.origin
        record = RoundRecord(
            round=context.round,
            parameters=context.parameters,
            aggregate=self.aggregate,
            shares=context.shares,
            survivors=sent.wired.survivors[kept],
            counts=context.counts[kept],
            messages=sent.messages[kept],
            slot=slot,
            step=step,
            part=origin.part[asked],
            query=origin.query[asked],
            shown=origin.shown(data, asked, shown),
            features=self.world.trained_features(asked, shown, step) if self.embeds else None,
            total=sent.wired.total,
            aborted=sent.wired.aborted,
            seeds=None if sent.seeds is None else sent.seeds[kept],
            state=self.after.state,
            facts={} if sent.broadcast is None else sent.broadcast.facts(sent.wired),
        )
        truth = RoundTruth(
            clients=context.clients[kept],
            updates=sent.updates[kept],
            clicks=rows.of(done.clicks),
            clipped=rows.of(done.clipped),
            metrics=self.metrics,
            intents=rows.of(self.asked.intents) if self.world.intents > 1 else None,
        )
        return record, truth
