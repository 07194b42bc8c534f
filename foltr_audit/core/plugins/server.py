"""Server plug-ins: what a server sends to each client of a training round."""

from __future__ import annotations

from foltr_audit.core.plugins.base import Plugin
from foltr_audit.core.records.broadcast import Broadcast
from foltr_audit.core.records.round_context import RoundContext


class Server(Plugin):
    """A server of a federation; by default an honest one, which sends the same model to all clients.

    A subclass overrides `send` if it treats clients differently. Randomness comes from
    `context.server_stream(purpose, round)` only.
    """

    @property
    def isolates(self) -> bool:
        """Whether it sends such things that the sum of a round is the update of one client, its target."""
        return type(self).send is not Server.send

    def send(self, context: RoundContext) -> Broadcast | None:
        """What each client of the cohort `context.clients` (C,) receives; None if all receive the model.

        The target must receive the global model, `context.parameters` (P,).
        """
        return None
