"""Server plug-ins: what a server sends to each client of a training round."""

from __future__ import annotations

import numpy as np

from foltr_audit.core.plugins.base import Plugin
from foltr_audit.core.rankers.base import Ranker
from foltr_audit.core.records.broadcast import Broadcast, Delivery
from foltr_audit.core.records.round_context import RoundContext
from foltr_audit.utils.arrays import Floats


class Server(Plugin):
    """A server of a federation; by default an honest one, which sends the same model to all clients.

    A subclass overrides `send` if it treats clients differently. Randomness comes from
    `context.server_stream(purpose, round)` only.
    """

    @property
    def isolates(self) -> bool:
        """Whether it sends such things that the sum of a round is the update of one client, its target."""
        return type(self).send is not Server.send

    def send(self, context: RoundContext, ranker: Ranker) -> Broadcast | None:
        """What each client of the cohort `context.clients` (C,) receives; None if all receive the model.

        The target must receive the global model, `context.parameters` (P,).
        """
        return None


def target_of(context: RoundContext) -> int:
    """A place in the cohort, drawn at random for each round."""
    draw = float(context.server_stream("target", context.round).uniform(1)[0, 0])
    return int(draw * context.clients.size)


def all_but(context: RoundContext, target: int, parameters: Floats, *, contrast: bool = True) -> Broadcast:
    """The global model for a target, and other `parameters` (P,) or documents for all other clients."""
    others = np.delete(np.arange(context.clients.size), target)
    return Broadcast(
        deliveries=(
            Delivery(rows=np.array([target]), parameters=context.parameters),
            Delivery(rows=others, parameters=parameters, contrast=contrast),
        ),
        target=target,
    )
