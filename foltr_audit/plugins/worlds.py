"""Plug-ins that make the world: who the clients are, and how users click."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from foltr_audit.plugins.base import Plugin
from foltr_audit.records.context import RoundContext
from foltr_audit.rng import ClientStreams

if TYPE_CHECKING:
    from foltr_audit.records.dataset import Dataset


class ClickModel(Plugin):
    """How a simulated user clicks on a shown list."""

    @property
    def purpose(self) -> str:
        """The purpose of its random numbers."""
        return f"clicks/{self.name}"

    def click(
        self, labels: NDArray[np.int64], largest_label: int, streams: ClientStreams, step: int
    ) -> NDArray[np.bool_]:
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
    """Who the clients are: which client asks which query."""

    def queries(self, data: Dataset, interactions: int, context: RoundContext) -> NDArray[np.int64]:
        """Indices of the training queries each client asks this round, int64 (C, interactions)."""
        raise NotImplementedError
