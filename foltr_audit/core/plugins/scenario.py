"""Plug-ins that make the world: who the clients are, what they want, and how users click."""

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
    """Who the clients are, and how what they want changes. Several are joined by `+`: each adds what it says.

    Every interaction asks a training query drawn uniformly with replacement from those that its client has
    documents for.
    """

    def population(self, before: Population, around: ScenarioContext) -> Population:
        """The clients with what this scenario says of them.

        Raises:
            UsageError: it cannot be here, e.g. for lack of intents.
        """
        return before

    def environment(self, around: ScenarioContext) -> Environment | None:
        """How likely each intent is over time; None where it says nothing of it.

        Raises:
            UsageError: as `population`.
        """
        return None

    @property
    def click_models(self) -> tuple[str, ...]:
        """Texts of click models that it names; an unknown one is refused wherever it is named."""
        return ()

    def twins(self, around: ScenarioContext) -> dict[str, str]:
        """Texts of the scenarios that this one is held against, by name."""
        return {}
