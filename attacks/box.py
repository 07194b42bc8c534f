"""Decoders on PDGD's Laplacian form: clicks between 0 and 1 that explain an update best."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from foltr_audit.inference.relaxation import ClickRelaxation, Loss
from foltr_audit.inference.replay import NEEDS, why_no_replay
from foltr_audit.plugins import Attack, Inference, View


class BoxLeastSquares(Attack):
    """Least squares over clicks in [0, 1], where an update is linear in the clicks.

    `y ~ eta J^T L c`, with L the Laplacian of PDGD's pair weights. Unlike a regression on documents, this
    uses the weight of each click and bounds each click by 1. With several interactions in a message, the
    first solution assumes the global model for every list; later ones use the local models that follow from
    the clicks found so far. Where only documents down to one below the last click form pairs, a regression
    first estimates which they are.

    Sees: the message, the global model, features and order of the shown lists, PDGD's settings, the clip.

    Source: the gradient of Oosterhuis & de Rijke 2018, "Differentiable unbiased online learning to rank",
    eq. 5-8, collected by document; Stark & Parker 1995, "Bounded-variable least-squares", for the problem.
    """

    name: ClassVar[str] = "box-ls"
    needs: ClassVar[frozenset[str]] = NEEDS
    loss: ClassVar[Loss] = "least-squares"

    turns: int = Field(3, ge=0, le=100, description="how often the drift of the local model is recomputed")

    def why_not(self, view: View) -> str | None:
        return super().why_not(view) or why_no_replay(view)

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        """The score is the relaxed click; the guess is where it is above one half."""
        relaxed = ClickRelaxation(view)
        clicks = relaxed.settled(self.loss, self.turns)
        return Inference(scores=clicks, guess=(clicks > 0.5) & view.is_document)


class BoxLeastAbsolute(BoxLeastSquares):
    """Least absolute deviations over clicks in [0, 1], where an update is linear in the clicks.

    As `box-ls`, in the L1 norm, which is robust to sparse and heavy-tailed noise.

    Sees: the message, the global model, features and order of the shown lists, PDGD's settings, the clip.

    Source: the gradient of Oosterhuis & de Rijke 2018, "Differentiable unbiased online learning to rank",
    eq. 5-8, collected by document; Bloomfield & Steiger 1983, "Least absolute deviations", for the norm.
    """

    name: ClassVar[str] = "box-lad"
    loss: ClassVar[Loss] = "least-absolute"
