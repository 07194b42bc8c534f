"""LAD: least absolute deviations, which sparse and heavy-tailed noise does not move."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from foltr_audit.inference.linear_systems import name_above_gap, rounding_fit, with_model_column
from foltr_audit.plugins import Attack, Inference, View


class LeastAbsolute(Attack):
    """Regresses the update on the shown documents' Jacobian rows and the global model in the L1 norm.

    A client's share of the noise leaves most numbers of a message as good as untouched and a few far off.
    Least squares smears those few over all weights; least absolute deviations pass through the others. The
    global model as a further column takes up what an active clip adds. Of the positive weights those below a
    gap of three orders of magnitude count as 0: that is what small noise makes of a document without a click.

    Sees: the message, the global model, features of the shown documents.

    Source: Bloomfield & Steiger 1983, "Least absolute deviations", chapter 6, for the regression; on updates
    of Pham 2022, "Federated learning for online learning to rank", section 4.1.
    """

    name: ClassVar[str] = "lad"

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        """The score is the regression weight."""
        from foltr_audit.kernels.lad import least_absolute

        columns = with_model_column(view)
        weights = least_absolute(columns, view.updates)[:, :-1]
        return name_above_gap(view, rounding_fit(view, columns, weights))
