"""Plug-ins for clients: who they are, how users click, and what malicious ones do."""

from __future__ import annotations

import math

import numpy as np
from pydantic import Field

from foltr_audit.core.plugins.base import Plugin
from foltr_audit.core.records.population import Environment, Population, ScenarioContext
from foltr_audit.core.records.round_context import RoundContext
from foltr_audit.rng import ClientStreams
from foltr_audit.utils.arrays import Bools, Floats, Ints


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

    @property
    def knows_others(self) -> bool:
        """Whether `on_updates` may make what a client sends from the messages of others.

        A sum then tells more of these than their own sum does: no proof counts on the noise of several.
        """
        return self.sends_otherwise

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


class ClickModel(Plugin):
    """How a simulated user clicks on a shown list."""

    @property
    def purpose(self) -> str:
        """The purpose that names its random streams."""
        return f"clicks/{self.name}"

    def click(self, labels: Ints, largest_label: int, streams: ClientStreams, step: int) -> Bools:
        """Clicks on each client's list.

        Args:
            labels: grade of each shown document, (C, k), -1 at the padding.
            largest_label: highest grade of the collection, which selects the published setting.
            streams: one random stream per client.
            step: number of the local step; different steps must not use the same draws.

        Returns:
            bool (C, k), False at the padding.
        """
        raise NotImplementedError


class Scenario(Plugin):
    """The clients, and how their intents change over time. The effects of scenarios joined by `+` add up.

    The query of an interaction is drawn uniformly with replacement from the training queries for which its
    client has documents.
    """

    def population(self, before: Population, context: ScenarioContext) -> Population:
        """The clients `before`, with the traits that this scenario adds; none by default.

        Raises:
            UsageError: the data do not support this scenario, e.g. they have only one intent.
        """
        return before

    def environment(self, context: ScenarioContext) -> Environment | None:
        """Probability of each intent over time; None if this scenario does not set it.

        Raises:
            UsageError: as `population`.
        """
        return None

    @property
    def click_models(self) -> tuple[str, ...]:
        """Texts of the click models that it uses; a new Spec checks them."""
        return ()

    def twins(self, context: ScenarioContext) -> dict[str, str]:
        """Texts of the scenarios that this one is compared with, by name."""
        return {}
