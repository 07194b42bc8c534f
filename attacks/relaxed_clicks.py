"""Clicks between 0 and 1 that explain an update best: solved for in a box, or searched for by Adam."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from foltr_audit.inference.relaxation import ClickRelaxation, Loss, StepRelaxation
from foltr_audit.inference.replay import NEEDS, why_no_replay, why_no_step_replay
from foltr_audit.plugins import Attack, Inference, View
from foltr_audit.utils.arrays import Floats


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


_DECAY_MEAN, _DECAY_SQUARE, _TINY = 0.9, 0.999, 1e-12  # Adam's usual constants


class Raifle(Attack):
    """Reconstructs clicks as a server that follows the protocol and manipulates nothing that it sends.

    Clicks are sigmoids of free parameters. The attack replays the client's steps with them, including drift
    and clips. Adam minimises the squared distance of the replayed model to the message. The gradient ignores
    the drift that a click causes in later steps and treats a clip as a fixed factor. Where only documents
    down to one below the last click form pairs, a regression first estimates which they are. With a client
    step, its slopes at the relaxed clicks take the place of PDGD's.

    Sees: the message, the global model, features and order of the shown lists, PDGD's settings or the client
    step, the clip.

    Source: Pham et al. 2025, "RAIFLE: Reconstruction attacks on interaction-based federated learning with
    adversarial data manipulation", NDSS, section IV, without the manipulation; Kingma & Ba 2015, "Adam: a
    method for stochastic optimization", algorithm 1.
    """

    name: ClassVar[str] = "raifle"
    needs: ClassVar[frozenset[str]] = NEEDS
    takes_step: ClassVar[bool] = True

    steps: int = Field(200, ge=1, le=100_000, description="steps of Adam")
    rate: float = Field(0.2, gt=0, description="step size of Adam")

    def why_not(self, view: View) -> str | None:
        replay = why_no_step_replay(view) if view.knowledge.client_step else why_no_replay(view)
        return super().why_not(view) or replay

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        """The score is the relaxed click; the guess is where it is above one half."""
        relaxed = StepRelaxation(view) if view.knowledge.client_step else ClickRelaxation(view)
        free, mean, square = (np.zeros(view.shown.shape) for _ in range(3))
        for step in range(1, self.steps + 1) if view.shown.size else ():
            clicks = _sigmoid(free)
            slope = relaxed.gradient(clicks) * clicks * (1 - clicks)
            # Slopes are scaled to a largest size of 1: for a tiny update they would be far below `_TINY`,
            # and their squares could underflow.
            size = np.abs(slope).max(axis=(1, 2), keepdims=True, initial=0.0)
            slope = np.divide(slope, size, out=np.zeros_like(slope), where=size > 0)
            mean = _DECAY_MEAN * mean + (1 - _DECAY_MEAN) * slope
            square = _DECAY_SQUARE * square + (1 - _DECAY_SQUARE) * slope**2
            corrected = mean / (1 - _DECAY_MEAN**step)
            free -= self.rate * corrected / (np.sqrt(square / (1 - _DECAY_SQUARE**step)) + _TINY)
        clicks = np.where(relaxed.observed, _sigmoid(free), 0.0)
        return Inference(scores=clicks, guess=(clicks > 0.5) & view.is_document)


def _sigmoid(free: Floats) -> Floats:
    # The hyperbolic tangent does not overflow; the exponential of a large number does.
    return np.asarray(0.5 + 0.5 * np.tanh(0.5 * free))
