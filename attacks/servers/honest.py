"""The server that follows the protocol, and is only curious."""

from __future__ import annotations

from typing import ClassVar

from foltr_audit.plugins import Broadcast, RoundContext, Server


class HonestServer(Server):
    """Sends the global model to all clients of a round, as federated averaging says.

    It may still be curious: attacks run on what it receives.

    Source: McMahan et al. 2017, "Communication-efficient learning of deep networks from decentralized data",
    algorithm 1.
    """

    name: ClassVar[str] = "honest"

    @property
    def isolates(self) -> bool:
        return False

    def send(self, context: RoundContext) -> Broadcast | None:
        """None: every client receives the global model, and documents as they are."""
        return None
