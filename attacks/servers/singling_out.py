"""Servers that leave one update alone in a sum: by what they send, whom they ask, or asking twice."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

import numpy as np
from pydantic import Field

from foltr_audit.plugins import Broadcast, RoundContext, Server
from foltr_audit.utils.arrays import Ints


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


class DifferencingServer(Server):
    """Repeats the cohort of every round with an even number in the next one, without one client in turn.

    If clients sent the same in both rounds, the difference of the two sums would be the message of the one
    who was left out. Clients that learn from clicks have new queries in each round, so the difference holds
    the updates of all others twice. What lasts over rounds is read by `participation-regression`, which
    knows who took part.

    All clients receive the same model, and each round is opened once, so that neither a check of what is
    received nor secure aggregation notices. A minimum number of clients in a round does not either. Clients
    can refuse to take part in two rounds in a row (`--separation`). A proof counts on no noise of others:
    such a server may ask as few clients as it likes.

    Source: Pasquini, Francati & Ateniese 2022, "Eluding secure aggregation in federated learning via model
    inconsistency", section 2, names the attack; So et al. 2023, "Securing secure aggregation: mitigating
    multi-round privacy leakage in federated learning", section 3, for rounds with cohorts of its own choice.
    """

    name: ClassVar[str] = "differencing"

    def cohort(self, round_: int, drawn: Callable[[int], Ints]) -> Ints:
        first = drawn(round_ - round_ % 2)
        if round_ % 2 == 0 or first.size == 1:
            return first
        return np.delete(first, round_ // 2 % first.size)
