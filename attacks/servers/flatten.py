"""A server that silences all clients but one by documents that cannot be told apart."""

from __future__ import annotations

from typing import ClassVar

from foltr_audit.plugins import Broadcast, RoundContext, Server


class FlatteningServer(Server):
    """Sends one client of each round, its target, documents as they are, and all others constant features.

    An update of PDGD is a sum over pairs of the difference of their gradients, which is 0 if all documents
    have the same features. So the sum of the round is the update of the target plus the clients' noise, also
    under secure aggregation. All clients receive the same model, so a check of the model does not help.

    Source: sending one client other data than the rest is the data-side form of Pasquini, Francati &
    Ateniese 2022, "Eluding secure aggregation in federated learning via model inconsistency", section 4.
    """

    name: ClassVar[str] = "flatten"

    def send(self, context: RoundContext) -> Broadcast:
        return Broadcast.all_but_one(context, context.parameters, contrast=False)
