"""Identical clients: everybody asks any training query, equally likely."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from foltr_audit.plugins import RoundContext, Scenario
from foltr_audit.records import Dataset


class Uniform(Scenario):
    """Each interaction asks a training query drawn uniformly with replacement.

    Source: Wang et al. 2021, "Effective and privacy-preserving federated online learning to rank",
    section 4.2 (B queries sampled randomly for each client).
    """

    name: ClassVar[str] = "uniform"

    def queries(self, data: Dataset, interactions: int, context: RoundContext) -> NDArray[np.int64]:
        """Indices of training queries, int64 (C, interactions)."""
        draws = context.streams("queries").uniform(interactions)
        return np.floor(draws * data.n_queries).astype(np.int64)
