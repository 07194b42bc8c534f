"""Attacks on how scores and probabilities of documents changed within their list."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from foltr_audit.inference.pattern_decoder import shares
from foltr_audit.plugins import Attack, Inference, View
from foltr_audit.utils.arrays import Bools, Floats


class ScoreChangeAttack(Attack):
    """An attack on the change of scores within a list; subclasses turn it into an answer.

    `compare=documents` compares each document's score under the client's model with its score under the
    global one. `compare=positions` repeats the program published with Pham 2022: the shown documents are
    ranked under both models, and the score at rank i of the new ranking is compared with the score at rank i
    of the old one, as if both were of the same document. That is weaker: if a clicked document rises past
    others, its score is counted at its new rank, and the attack names another document.

    Source: the program published with Pham 2022, "Federated learning for online learning to rank".
    """

    ranker_use: ClassVar[str] = "scores"

    compare: Literal["documents", "positions"] = Field(
        "documents", description="compare scores of documents, or of positions as in the published program"
    )

    def why_not(self, view: View) -> str | None:
        reason = super().why_not(view)
        if reason is None and self.compare == "positions" and not view.knowledge.has("order"):
            return "the observer does not know: order (compare=positions needs it)"
        return reason

    def changes(self, view: View) -> Floats:
        """Score under the client's model minus that under the global one, float64 (n, B, k)."""
        if self.compare == "documents":
            return view.score_changes
        before, after = self.scores(view)
        return after - before

    def scores(self, view: View) -> tuple[Floats, Floats]:
        """Scores under the global and under the client's model, float64 (n, B, k) each, 0 at the padding."""
        before, after = view.scores_before, view.scores_before + view.score_changes
        if self.compare == "documents":
            return before, after
        return by_rank(before, view.is_document), by_rank(after, view.is_document)


def by_rank(scores: Floats, is_document: Bools) -> Floats:
    """The i-th largest score of a list (n, B, k) at its i-th shown document, 0 at the padding."""
    largest = -np.sort(np.where(is_document, -scores, np.inf), axis=-1)
    rank = np.maximum(is_document.cumsum(axis=-1) - 1, 0)
    return np.where(is_document, np.take_along_axis(largest, rank, axis=-1), 0.0)


class HigherScore(ScoreChangeAttack):
    """Names every document with `f'(d) > f(d)`.

    Sees: the message, the global model, features of the shown documents; with `compare=positions` also
    the order of the shown list.

    Source: Pham 2022, "Federated learning for online learning to rank", section 4.1; `compare=positions`
    repeats the program published with it, which is weaker (see `ScoreChangeAttack`).
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
    (`compare=positions`), which is weaker (see `ScoreChangeAttack`).
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
    repeats the program published with it, which is weaker (see `ScoreChangeAttack`).
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
    compares positions (`compare=positions`; weaker, see `ScoreChangeAttack`) and names a
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
