"""Scenario and click model plug-ins: clients and their intents, and how users click."""

from __future__ import annotations

from foltr_audit.core.plugins.base import Plugin
from foltr_audit.core.records.population import Environment, Population, ScenarioContext
from foltr_audit.rng import ClientStreams
from foltr_audit.utils.arrays import Bools, Ints


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
