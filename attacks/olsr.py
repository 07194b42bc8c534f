"""OLSR: least squares of the update on the shown documents' features."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from foltr_audit.inference.linear_systems import (
    LeastSquaresFit,
    clicks_in_box,
    least_squares,
    name_by_weight,
    rounding_fit,
    roundings,
    with_model_column,
)
from foltr_audit.plugins import Attack, Inference, View


class OLSR(Attack):
    """Regresses the update on the feature rows of the shown documents; positive weight = clicked.

    A PDGD update is a sum of Jacobian rows (of a linear ranker: feature rows), with positive weights for
    clicked documents and negative ones for the others in pairs. With several interactions in a message
    all their documents are columns of one system. Documents outside the observed prefix have weight 0 up to
    rounding, so weights that rounding alone could explain name no document. With a client step, the columns
    are what a click on each document adds to its update, the unknowns are clicks between 0 and 1, and a
    document is named from half a click on.

    Sees: the message, the global model, features of the shown documents; the client step, if there is one.

    Source: Pham 2022, "Federated learning for online learning to rank", section 4.1.
    """

    name: ClassVar[str] = "olsr"
    takes_step: ClassVar[bool] = True
    observers: ClassVar[frozenset[str]] = frozenset({"individual", "aggregate"})

    tolerance: float | None = Field(
        None,
        ge=0,
        lt=1,
        description="weights up to this share of the largest count as 0; default: up to rounding",
    )

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        return name_by_weight(view, self._fit(view), self.tolerance)

    def _fit(self, view: View) -> LeastSquaresFit:
        if view.knowledge.client_step is not None:
            columns = with_model_column(view)
            return rounding_fit(view, columns, clicks_in_box(view, columns, absolute=False))
        return least_squares(view.columns, view.click_updates, roundings(view), view.feature_resolution)


class OLSRTheta(OLSR):
    """OLSR with the global model as one more column, which absorbs what an active clip adds.

    A clip scales the whole local model, and so adds a multiple of the global one to the update. Without
    noise and with every step clipped, OLSR misses a quarter of the documents for this reason; this attack
    finds them.

    Sees: the message, the global model, features of the shown documents.

    Source: Pham 2022, "Federated learning for online learning to rank", section 4.1, for OLSR.
    """

    name: ClassVar[str] = "olsr-theta"

    def _fit(self, view: View) -> LeastSquaresFit:
        columns = with_model_column(view)
        fit = least_squares(columns, view.click_updates, roundings(view), view.feature_resolution)
        return LeastSquaresFit(fit.weights[:, :-1], fit.errors[:, :-1], fit.noisy)
