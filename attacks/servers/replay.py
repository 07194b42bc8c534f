"""A server that opens the sum of a round twice, with one client more."""

from __future__ import annotations

from typing import ClassVar

from foltr_audit.plugins import Broadcast, RoundContext, Server


class ReplayingServer(Server):
    """Asks for the sum of a round with all clients, and again as if one of them, its target, had dropped out.

    The difference of the two sums is the message of the target: also the noise of all others cancels. All
    clients receive the same model, and masks may depend on it and on the round.

    Secure aggregation stops it if clients help to open the sum of a round only once, as the protocol says:
    no client tells the shares both of a mask seed and of a key of another. The simulated clients keep to
    that unless told otherwise (`secure-aggregation:once=false`).

    Source: Bonawitz et al. 2017, "Practical secure aggregation for privacy-preserving machine learning",
    section 4, on why a client must not answer twice.
    """

    name: ClassVar[str] = "replay"

    def subtracts(self, cohort: int, *, reopens: bool) -> int:
        """All messages but one, if clients answer the second request."""
        return cohort - 1 if reopens else 0

    def send(self, context: RoundContext) -> Broadcast:
        return Broadcast.opened_twice(context)
