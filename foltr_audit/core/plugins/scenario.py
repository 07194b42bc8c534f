"""Scenario and click model plug-ins: who the clients are, what they want, and how users click."""

from __future__ import annotations

from foltr_audit.core.plugins.base import Plugin
from foltr_audit.core.records.population import Environment, Population, ScenarioContext
from foltr_audit.rng import ClientStreams
from foltr_audit.utils.arrays import Bools, Ints


class ClickModel(Plugin):
    """How a simulated user clicks on a shown list."""

    @property
    def purpose(self) -> str:
        """The purpose of its random numbers."""
        return f"clicks/{self.name}"

    def click(self, labels: Ints, largest_label: int, streams: ClientStreams, step: int) -> Bools:
        """Clicks on each client's list.

        Args:
            labels: grade of each shown document, (C, k), -1 at the padding.
            largest_label: highest grade of the whole collection: which published setting applies.
            streams: one random stream per client.
            step: number of the local step; draws of different steps must not overlap.

        Returns:
            bool (C, k), False at the padding.
        """
        raise NotImplementedError


class Scenario(Plugin):
    """Who the clients are, and how their intents change. Scenarios joined by `+` add up.

    The query of an interaction is drawn uniformly with replacement from the training queries that its client
    has documents for.
    """

    def population(self, before: Population, context: ScenarioContext) -> Population:
        """The clients as described so far, with what this scenario adds; by default nothing.

        Raises:
            UsageError: the data do not allow this scenario, e.g. for lack of intents.
        """
        return before

    def environment(self, context: ScenarioContext) -> Environment | None:
        """How likely each intent is over time; None if this scenario does not decide that.

        Raises:
            UsageError: as `population`.
        """
        return None

    @property
    def click_models(self) -> tuple[str, ...]:
        """Texts of the click models that it names; they are checked when a Spec is made."""
        return ()

    def twins(self, context: ScenarioContext) -> dict[str, str]:
        """Texts of the scenarios that this one is compared with, by name."""
        return {}
