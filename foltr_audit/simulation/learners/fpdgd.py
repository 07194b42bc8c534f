"""FPDGD, whose clients take PDGD steps and send their model, and PDGD as it was published: on one server."""

from __future__ import annotations

import math
from typing import ClassVar

from pydantic import Field

from foltr_audit.core.pdgd import Normaliser, Pairs, PDGDSetting
from foltr_audit.core.plugins import CentralLearner, Defense, ModelLearner
from foltr_audit.core.plugins.learner import BatchedSteps, PDGDStep
from foltr_audit.core.plugins.registry import made_of
from foltr_audit.core.rankers import Ranker
from foltr_audit.core.records import Dataset
from foltr_audit.errors import UsageError
from foltr_audit.utils.arrays import Bools, Floats, Ints

PUBLISHED_SENSITIVITIES = {1.2: 3.0, 2.3: 3.0, 4.5: 5.0, 10.0: 5.0}
"""Sensitivity of FPDGD by epsilon.

Source: Wang et al. 2021, "Effective and privacy-preserving federated online learning to rank", section 4.2.
"""


class FPDGD(ModelLearner):
    """Federated PDGD: one gradient step per interaction, models averaged by their interactions.

    Source: Wang et al. 2021, "Effective and privacy-preserving federated online learning to rank",
    algorithm 2.
    """

    name: ClassVar[str] = "fpdgd"

    learning_rate: float = Field(0.1, gt=0, description="step size eta")
    pairs: Pairs = Field("last-click+1", description="unclicked documents that form pairs")
    normaliser: Normaliser = Field("candidates", description="what the Plackett-Luce normaliser sums over")

    @property
    def setting(self) -> PDGDSetting:
        return PDGDSetting(self.pairs, self.normaliser)

    @property
    def facts(self) -> dict[str, str | int | float | bool]:
        """Step size, PDGD setting, and when the step stage acts."""
        return self.model_dump(exclude={"interactions"}, exclude_none=True)

    def published_sensitivity(self, eps: float) -> float:
        """The sensitivity that the paper pairs with an epsilon, or with the next smaller one.

        >>> [FPDGD().published_sensitivity(eps) for eps in (0.5, 1.2, 4.4, 7.0)]
        [3.0, 3.0, 3.0, 5.0]
        """
        smaller = [known for known in PUBLISHED_SENSITIVITIES if known <= eps]
        return PUBLISHED_SENSITIVITIES[max(smaller, default=min(PUBLISHED_SENSITIVITIES))]

    def published_chain(self, eps: float, sensitivity: float | None) -> tuple[Defense, ...]:
        """A clip at Delta / 2 and Gamma shares of scale Delta / eps; if None, Delta is the published one.

        Source: Wang et al. 2021, "Effective and privacy-preserving federated online learning to rank",
        section 3.3.
        """
        delta = self.published_sensitivity(eps) if sensitivity is None else sensitivity
        if not eps > 0:
            raise UsageError(f"eps: {eps:g}; expected a number above 0, or inf for no defense")
        if not 0 < delta < math.inf:
            raise UsageError(f"sensitivity: {delta:g}; expected a finite number above 0")
        if math.isinf(eps):
            return ()
        noise = made_of(Defense, "gamma-laplace", eps=eps, sensitivity=delta)
        return made_of(Defense, "clip", norm=delta / 2), noise

    @property
    def compiled_step(self) -> PDGDStep:
        """The step that `local_step` takes."""
        return PDGDStep(self.learning_rate, self.setting)

    def local_step(
        self,
        parameters: Floats,
        data: Dataset,
        queries: Ints,
        scores: Floats,
        starts: Ints,
        shown: Ints,
        clicks: Bools,
        ranker: Ranker,
    ) -> tuple[Floats, Bools]:
        """`theta + eta g` for each client, (C, P), and which clients had a pair to learn from, (C,)."""
        from foltr_audit.kernels.jit import read_only
        from foltr_audit.kernels.pdgd import pdgd_coefficients

        coefficients, pairs = pdgd_coefficients(
            scores,
            starts,
            shown,
            read_only(clicks),
            self.normaliser == "candidates",
            self.pairs == "last-click+1",
        )
        gradient = ranker.gradient(parameters, data, queries, shown, coefficients)
        stepped = self.learning_rate * gradient
        stepped += parameters
        resting = pairs == 0
        stepped[resting] = parameters[resting]
        return stepped, ~resting


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
        return self.model_dump(exclude={"interactions"})

    @property
    def batched_steps(self) -> BatchedSteps:
        """The steps of a client that learns by federated PDGD."""
        steps = FPDGD(learning_rate=self.learning_rate, pairs=self.pairs, normaliser=self.normaliser)
        return BatchedSteps(steps, self.batch)
