"""A server that asks the clients of a round again in the next one, all but one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from foltr_audit.plugins import Server
from foltr_audit.utils.arrays import Ints


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
