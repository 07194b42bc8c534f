"""Higher distance count: a clicked document moves away from most others of its list."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from foltr_audit.inference.score_changes import ScoreChangeAttack
from foltr_audit.plugins import Inference, View


class HigherDistance(ScoreChangeAttack):
    """Names a document whose lead grew over more than `more_than` others of its list.

    Counts `#{d' : f'(d) - f'(d') > f(d) - f(d')}`: the number of documents whose score rose by less.

    Sees: the message, the global model, features of the shown documents; with `compare=positions` also
    the order of the shown list.

    Source: Pham 2022, "Federated learning for online learning to rank", section 4.1. The text says
    more than 5 (the default); the published program takes 5 or more (`more_than=4`) and compares positions
    (`compare=positions`), which is weaker (see `foltr_audit.inference.score_changes`).
    """

    name: ClassVar[str] = "higher-distance"

    more_than: int = Field(5, ge=0, description="names a document if more than this many leads grow")

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        changes = self.changes(view)
        other = view.is_document[..., np.newaxis, :]
        counts = ((changes[..., :, np.newaxis] > changes[..., np.newaxis, :]) & other).sum(axis=-1)
        return Inference(scores=counts, guess=(counts > self.more_than) & view.is_document)
