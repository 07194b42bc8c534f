"""Identical clients: everybody asks any training query, equally likely."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from foltr_audit.plugins import Scenario
from foltr_audit.records import Dataset
from foltr_audit.rng import ClientStreams


class Uniform(Scenario):
    """Each interaction asks a training query drawn uniformly with replacement.

    Source: Wang et al. 2021, "Effective and privacy-preserving federated online learning to rank",
    section 4.2 (B queries sampled randomly for each client).
    """

    name: ClassVar[str] = "uniform"

    def queries(self, data: Dataset, interactions: int, streams: ClientStreams) -> NDArray[np.int64]:
        """Indices of training queries, int64 (C, interactions)."""
        return np.floor(streams.uniform(interactions) * data.n_queries).astype(np.int64)
