"""PDGD as a client step, for what attacks do with client steps alone, such as clips of whole updates."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import AfterValidator, Field

from foltr_audit.core.plugins.client_step import ClientStep
from foltr_audit.core.rankers import Ranker, make_ranker, ranker_text
from foltr_audit.utils.arrays import Floats


class PairwiseStep(ClientStep):
    """One step of PDGD whose Plackett-Luce normaliser sums over the shown documents.

    Source: Oosterhuis & de Rijke 2018, "Differentiable unbiased online learning to rank", eq. 5-8.
    """

    name: ClassVar[str] = "pdgd"

    learning_rate: float = Field(0.1, gt=0, description="step size")
    pairs: Literal["all", "last-click+1"] = Field(
        "last-click+1", description="documents that form pairs: all, or those to one below the last click"
    )
    ranker: Annotated[str, AfterValidator(ranker_text)] = Field(
        "linear", description="linear or neural:hidden=H"
    )

    def updates(self, model: Floats, features: Floats, clicks: Floats) -> Floats:
        """See `ClientStep`; which documents are observed follows from clicks of one half or more."""
        from foltr_audit.kernels.pdgd import pair_weights

        L, ranker = len(features), self._ranker(features)
        scores = np.ascontiguousarray(ranker.score(model, features))
        W = pair_weights(scores, np.array([0, L]), np.arange(L)[np.newaxis], False)[0]
        seen = np.ones(clicks.shape)
        if self.pairs == "last-click+1":
            last = np.where(clicks >= 0.5, np.arange(L), -2).max(axis=1, initial=-2)
            seen = (np.arange(L) <= last[:, np.newaxis] + 1).astype(np.float64)
        coefficients = seen * (clicks * (seen @ W) - (seen * clicks) @ W)
        return np.asarray(self.learning_rate * coefficients @ ranker.jacobian(model, features))

    def scores(self, model: Floats, features: Floats) -> Floats:
        """See `ClientStep`."""
        return self._ranker(features).score(model, features)

    def why_not(self, parameters: int, features: int) -> str | None:
        """Also refuses models of another number of parameters."""
        expected = make_ranker(self.ranker, features).n_parameters
        if expected != parameters:
            return f"its ranker {self.ranker} has {expected} parameters, not {parameters}"
        return super().why_not(parameters, features)

    def _ranker(self, features: Floats) -> Ranker:
        return make_ranker(self.ranker, features.shape[1])
