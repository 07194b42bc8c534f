"""LAD: least absolute deviations, which are robust to sparse and heavy-tailed noise."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from foltr_audit.inference.linear_systems import (
    clicks_in_box,
    name_above_gap,
    rounding_fit,
    with_model_column,
)
from foltr_audit.plugins import Attack, Inference, View


class LeastAbsolute(Attack):
    """Regresses the update on the shown documents' Jacobian rows and the global model in the L1 norm.

    A client's share of the noise barely changes most numbers of a message and moves a few far away. Least
    squares spreads these few errors over all weights; least absolute deviations fit the other numbers. The
    column of the global model absorbs what an active clip adds. Positive weights below a gap of three orders
    of magnitude count as 0: small noise gives such weights to documents without a click. With a client step,
    the columns are what a click on each document adds to its update, the unknowns are clicks between 0 and 1,
    and a document is named from half a click on.

    Sees: the message, the global model, features of the shown documents; the client step, if there is one.

    Source: Bloomfield & Steiger 1983, "Least absolute deviations", chapter 6, for the regression; on updates
    of Pham 2022, "Federated learning for online learning to rank", section 4.1.
    """

    name: ClassVar[str] = "lad"
    takes_step: ClassVar[bool] = True
    observers: ClassVar[frozenset[str]] = frozenset({"individual", "aggregate"})

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        from foltr_audit.kernels.regression import least_absolute

        columns = with_model_column(view)
        if view.knowledge.client_step is None:
            weights = least_absolute(columns, view.updates)[:, :-1]
        else:
            weights = clicks_in_box(view, columns, absolute=True)
        return name_above_gap(view, rounding_fit(view, columns, weights))
