"""Poisoning plug-ins: what malicious clients click or send to make the global model worse."""

from __future__ import annotations

import math

import numpy as np
from pydantic import Field

from foltr_audit.core.plugins.base import Plugin
from foltr_audit.core.records.round_context import RoundContext
from foltr_audit.utils.arrays import Bools, Floats


class Poisoning(Plugin):
    """An attack of malicious clients on the training. The same clients are malicious in all rounds.

    A subclass overrides `click_model` (data poisoning), `on_updates` (model poisoning) or both.
    """

    share: float = Field(gt=0, lt=1, description="share of the clients that are malicious, rounded down")

    def count(self, clients: int) -> int:
        """The number of malicious clients among so many."""
        # .29 * 100 is 28.999999999999996 in floating point, which would lose a client.
        return math.floor(self.share * clients + 1e-9)

    @property
    def click_model(self) -> str | None:
        """Text of the click model of malicious clients in training; None: they click as the others do."""
        return None

    @property
    def promoted(self) -> tuple[int, int] | None:
        """A query of the training split, and a document of it by position: both from 0; None for no document.

        Malicious clients ask this query alone. Their click model reads the highest grade on the document, and
        the lowest on all others.
        """
        return None

    @property
    def sends_otherwise(self) -> bool:
        """Whether malicious clients send other updates than their local steps give."""
        return type(self).on_updates is not Poisoning.on_updates

    def on_updates(self, updates: Floats, malicious: Bools, context: RoundContext) -> Floats:
        """What the clients of a round send: a new array in which the rows of malicious clients may differ.

        Args:
            updates: float64 (C, P). The rows of honest clients are after the message stage of the defenses,
                those of malicious clients before it: these skip it.
            malicious: which clients are, bool (C,); at least one.
            context: the round of these clients (C,), all of which have an interaction in it. Random numbers
                come from `context.streams(purpose)` only.

        Returns:
            float64 (C, P). The engine takes the rows of malicious clients, and ignores the others.
        """
        return updates

    @staticmethod
    def honest(updates: Floats, malicious: Bools) -> Floats:
        """The updates (N, P) of the honest clients of a round; where there are none, those of all clients."""
        return updates if malicious.all() else updates[~malicious]

    @staticmethod
    def replaced(updates: Floats, malicious: Bools, sent: Floats) -> Floats:
        """The updates (C, P) with what malicious clients send instead, (M, P), or (P,) for all of them."""
        changed = updates.copy()
        changed[np.flatnonzero(malicious)] = sent
        return changed
