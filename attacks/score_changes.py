"""Attacks on how scores and probabilities of documents changed within their list."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from foltr_audit.inference.pattern_decoder import shares
from foltr_audit.inference.score_changes import ScoreChangeAttack
from foltr_audit.plugins import Inference, View
from foltr_audit.utils.arrays import Floats


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


class ProbabilityGain(ScoreChangeAttack):
    """An attack on the gain in probability of documents or of positions, see `compare`."""

    def gains(self, view: View) -> Floats:
        """Softmax over the shown list after minus before, float64 (n, B, k), 0 at the padding."""
        before, after = (np.where(view.is_document, scores, -np.inf) for scores in self.scores(view))
        return shares(after) - shares(before)


class HigherProbability(ProbabilityGain):
    """Names every document that is more probable under the client's model.

    Sees: the message, the global model, features of the shown documents; with `compare=positions` also
    the order of the shown list.

    Source: Pham 2022, "Federated learning for online learning to rank", section 4.1; `compare=positions`
    repeats the program published with it, which is weaker (see `foltr_audit.inference.score_changes`).
    """

    name: ClassVar[str] = "higher-probability"

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        """The score is the gain in probability; the guess is where it is positive."""
        gains = self.gains(view)
        return Inference(scores=gains, guess=(gains > 0) & view.is_document)


class MaxGain(ProbabilityGain):
    """Names the one document of a list whose probability grew most, if any grew.

    Sees: the message, the global model, features of the shown documents; with `compare=positions` also
    the order of the shown list.

    Source: the program published with Pham 2022, "Federated learning for online learning to rank", which
    compares positions (`compare=positions`; weaker, see `foltr_audit.inference.score_changes`) and names a
    document even where no probability grew.
    """

    name: ClassVar[str] = "max-gain"

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        """The score is the gain in probability; of equal ones the higher position is named."""
        gains = self.gains(view)
        best = np.argmax(np.where(view.is_document, gains, -np.inf), axis=-1)
        position = np.arange(gains.shape[-1])
        guess = (position == best[..., np.newaxis]) & (gains > 0) & view.is_document
        return Inference(scores=gains, guess=guess)
