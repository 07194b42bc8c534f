"""The clicks that the seed of a FOLtR-ES message reveals where it also drives the client."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from foltr_audit.inference.seeded_clients import SeededClients, why_not_seeded
from foltr_audit.plugins import Attack, Inference, View


class ESSeed(Attack):
    """Replays the client from the seed it sent: its queries and all its clicks.

    The published program of FOLtR-ES seeds the client's own generator with the seed of the message. So
    queries and clicks follow from the seed, the grades and the click model; the metric is not looked at, and
    its randomisation protects nothing. A list is read if it answers the query that the seed draws; the lists
    after one that does not are left unread, with scores of 0.

    Sees: the seed, the shown lists, all candidates, grades, the click model; the order, or else the global
    model and sigma, from which it follows. Expects the fact `perturbation=numpy-randomstate`.

    Source: Kharitonov 2019, "Federated online learning to rank with evolution strategies", section 4, for
    the message; `get_click_feedback` of the program that was published with it.
    """

    name: ClassVar[str] = "es-seed"
    strongest: ClassVar[bool] = True
    reads: ClassVar[frozenset[str]] = frozenset({"es"})
    needs: ClassVar[frozenset[str]] = frozenset({"shown", "candidates", "relevance", "click_model", "belief"})

    def why_not(self, view: View) -> str | None:
        known = view.knowledge
        reason = super().why_not(view) or why_not_seeded(view)
        if reason is None and not known.order and not (known.has("sigma") and known.lists == "deterministic"):
            return (
                "the observer does not know: order, nor sigma and deterministic lists, from which it follows"
            )
        return reason

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        """The score is 1 for a replayed click, else 0."""
        clicks, _ = SeededClients(view).replayed()
        return Inference(scores=clicks.astype(np.float64), guess=clicks)
