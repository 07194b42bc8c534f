"""PDGD as it was published: one server that sees every click and steps after each interaction."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from foltr_audit.core.pdgd import Normaliser, Pairs
from foltr_audit.core.plugins import CentralLearner
from foltr_audit.core.plugins.learner import BatchedSteps
from foltr_audit.simulation.learners.fpdgd import FPDGD


class PDGD(CentralLearner):
    """Centralised PDGD: a gradient step after every `batch` interactions, from the sum of their gradients.

    With `batch=1` it steps after each interaction; the last batch of a round may be smaller. Compared
    with a federated run, `--clients` and `--interactions` of a round give the same number of interactions,
    `--clients 1 --interactions 1` the same number of updates.

    Source: Oosterhuis & de Rijke 2018, "Differentiable unbiased online learning to rank", algorithm 1; Wang
    et al. 2021, "Effective and privacy-preserving federated online learning to rank", section 4 (batches)
    and figure 2 (both comparisons).
    """

    name: ClassVar[str] = "pdgd"
    stages: ClassVar[frozenset[str]] = frozenset({"click"})

    learning_rate: float = Field(0.1, gt=0, description="step size eta")
    batch: int = Field(1, ge=1, description="interactions whose gradients are summed for one step")
    pairs: Pairs = Field("last-click+1", description="unclicked documents that form pairs")
    normaliser: Normaliser = Field("candidates", description="what the Plackett-Luce normaliser sums over")

    @property
    def facts(self) -> dict[str, str | int | float | bool]:
        """Step size, batch and PDGD setting."""
        return self.model_dump(exclude={"interactions"})

    @property
    def batched_steps(self) -> BatchedSteps:
        """The steps of a client that learns by federated PDGD."""
        steps = FPDGD(learning_rate=self.learning_rate, pairs=self.pairs, normaliser=self.normaliser)
        return BatchedSteps(steps, self.batch)
