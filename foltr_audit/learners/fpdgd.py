"""FPDGD: clients take local PDGD steps and send their model."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from foltr_audit.learners.pdgd import Normaliser, Pairs, PDGDSetting
from foltr_audit.plugins import Learner
from foltr_audit.rankers import Ranker
from foltr_audit.records import Dataset


class FPDGD(Learner):
    """Federated PDGD: one gradient step per interaction, models averaged by their interactions.

    Source: Wang et al. 2021, "Effective and privacy-preserving federated online learning to rank",
    algorithm 2.
    """

    name: ClassVar[str] = "fpdgd"

    interactions: int = Field(4, ge=1, le=10_000, description="interactions B of a client in a round")
    learning_rate: float = Field(0.1, gt=0, description="step size eta")
    pairs: Pairs = Field("last-click+1", description="unclicked documents that form pairs")
    normaliser: Normaliser = Field("candidates", description="what the Plackett-Luce normaliser sums over")
    clip_without_pairs: bool = Field(True, description="step defenses also act after a step without pairs")

    @property
    def setting(self) -> PDGDSetting:
        """The PDGD setting."""
        return PDGDSetting(self.pairs, self.normaliser)

    def local_step(
        self,
        parameters: NDArray[np.float64],
        data: Dataset,
        queries: NDArray[np.int64],
        scores: NDArray[np.float64],
        starts: NDArray[np.int64],
        shown: NDArray[np.int64],
        clicks: NDArray[np.bool_],
        ranker: Ranker,
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """`theta + eta g` for each client, (C, P), and which clients had a pair to learn from, (C,)."""
        from foltr_audit.kernels.pdgd import pdgd_coefficients

        coefficients, pairs = pdgd_coefficients(
            scores, starts, shown, clicks, self.normaliser == "candidates", self.pairs == "last-click+1"
        )
        gradient = ranker.gradient(parameters, data, queries, shown, coefficients)
        moved = pairs > 0
        return np.where(moved[:, np.newaxis], parameters + self.learning_rate * gradient, parameters), moved
