"""A server that silences all clients but one by a model so large that nothing can be learnt from a list."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from foltr_audit.plugins import Broadcast, RoundContext, Server


class SaturatingServer(Server):
    """Sends the global model to one client of each round, its target, and a very large model to all others.

    PDGD weighs a pair of documents by u / (1 + u)^2, where u is e to the difference of their scores. Under a
    large model differences are large, all weights vanish, and the others' updates are nearly 0. So the sum
    of the round is the update of the target plus the clients' noise, also under secure aggregation. The
    direction of the large model is drawn anew for each round.

    A check of the model's norm stops it, and so does secure aggregation whose masks depend on the received
    model (`secure-aggregation:bind=true`). Noise that clients add holds its promise if all of them answer: no
    model is so large that it is lost in rounding.

    Source: the idea is that of Pasquini, Francati & Ateniese 2022, "Eluding secure aggregation in federated
    learning via model inconsistency", section 4, who silence clients by dead activations.
    """

    name: ClassVar[str] = "saturate"

    norm: float = Field(
        10_000.0, gt=0, le=1e6, description="L2 norm of the model that all but the target receive"
    )

    def send(self, context: RoundContext) -> Broadcast:
        draws = context.server_stream("saturate", context.round).uniform(context.parameters.size)[0]
        direction = draws - 0.5
        length = float(np.sqrt((direction**2).sum()))
        return Broadcast.all_but_one(context, direction * (self.norm / length))
