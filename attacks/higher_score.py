"""Higher score: a document that the client's model scores higher than the global one was clicked."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from foltr_audit.inference.score_changes import ScoreChangeAttack
from foltr_audit.plugins import Inference, View


class HigherScore(ScoreChangeAttack):
    """Names every document with `f'(d) > f(d)`.

    Sees: the message, the global model, features of the shown documents; with `compare=positions` also
    the order of the shown list.

    Source: Pham 2022, "Federated learning for online learning to rank", section 4.1; `compare=positions`
    repeats the program published with it, which is weaker (see `foltr_audit.inference.score_changes`).
    """

    name: ClassVar[str] = "higher-score"

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        """The score is `f'(d) - f(d)`; the guess is where it is positive."""
        changes = self.changes(view)
        return Inference(scores=changes, guess=(changes > 0) & view.is_document)
