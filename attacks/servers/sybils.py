"""A server that fills the cohort with clients of its own."""

from __future__ import annotations

import math
from typing import ClassVar

from pydantic import Field

from foltr_audit.plugins import Broadcast, RoundContext, Server


class SybilServer(Server):
    """Runs a share of the clients of each round itself, and subtracts what they send from the sum.

    They send no change and add no noise. So what is left is the sum of the others with only the others'
    noise: with n clients of which all but one are the server's, a noise share of 1 / n protects that client.
    All clients receive the same model and their own documents, so no check of a client notices anything,
    and a minimum size of a cohort counts the server's clients too. Only noise that each client adds in
    full, or an authority that says who is a client, helps.

    Source: Boenisch et al. 2023, "Reconstructing individual data points in federated learning hardened with
    differential privacy and secure aggregation", section 4; named as in Douceur 2002, "The Sybil attack".
    """

    name: ClassVar[str] = "sybils"

    share: float = Field(
        gt=0, lt=1, description="share of a cohort that is the server's; one client never is"
    )

    def subtracts(self, cohort: int, *, reopens: bool) -> int:
        # .29 * 100 is 28.999999999999996 in floating point, which would lose a client.
        return min(math.floor(self.share * cohort + 1e-9), cohort - 1)

    def send(self, context: RoundContext) -> Broadcast:
        own = self.subtracts(context.clients.size, reopens=False)
        return Broadcast.with_own_clients(context, own)
