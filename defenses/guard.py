"""What a client checks before it answers a server."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from foltr_audit.plugins import Defense, PrivacyEvent, RoundContext, WireMessages
from foltr_audit.utils.arrays import Bools, Floats


class Guard(Defense):
    """Clients send nothing if what they received cannot be meant for learning.

    Guarantees: no differential privacy, for any relation, unit or view. It limits what a server that does
    not follow the protocol can send: clients refuse a global model with an L2 norm above `max_norm` and,
    with `contrast`, documents that all have the same features, or other features than those by which the
    client ranked them. A client that refuses counts as dropped
    out, and under secure aggregation a round with too few answers opens nothing. In a plain sum shared noise
    proves nothing where a server does not send the same to all clients: its target may be the only one that
    answers. A server may still treat clients differently within the limits; only masks that depend on the
    received model rule that out.

    Put it before secure aggregation in the chain.

    Source: a check against models that silence clients is discussed by Pasquini, Francati & Ateniese 2022,
    "Eluding secure aggregation in federated learning via model inconsistency", section 6.
    """

    name: ClassVar[str] = "guard"

    max_norm: float = Field(10.0, gt=0, description="largest L2 norm of a model that clients accept")
    contrast: bool = Field(
        True, description="refuse lists whose documents all have the same features, or changed ones"
    )

    def accepted(self, context: RoundContext) -> Bools:
        """Whether each client of a round answers, bool (C,)."""
        received = context.parameters[np.newaxis] if context.received is None else context.received
        # Scaled first, since squares of very large numbers overflow.
        largest = np.abs(received).max(axis=1, keepdims=True, initial=0.0)
        unit = np.divide(received, largest, out=np.zeros_like(received), where=largest > 0)
        within = largest[:, 0] * np.sqrt((unit**2).sum(axis=1)) <= self.max_norm
        accepted = np.array(np.broadcast_to(within, context.clients.shape))
        if self.contrast and context.contrast is not None:
            accepted &= context.contrast
        if self.contrast and context.manipulated:
            accepted[:] = False
        return accepted

    def on_wire(self, messages: Floats, survivors: Bools, context: RoundContext) -> WireMessages:
        """The messages (C, P) of the clients that answer; the rows of others are 0."""
        there = survivors & self.accepted(context)
        return WireMessages(messages=np.where(there[:, np.newaxis], messages, 0.0), survivors=there)

    def arriving(self, messages: int, cohort: int, *, alike: bool) -> int:
        """All clients answer or none, where all received the same."""
        return messages if alike else 1

    def events(self, context: RoundContext) -> tuple[PrivacyEvent, ...]:
        """None: whether a client answers depends on what it received, not on its clicks."""
        return ()
