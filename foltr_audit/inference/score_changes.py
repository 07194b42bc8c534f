"""Changes of scores from the global model to the client's, by document or by position."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from foltr_audit.core.plugins import Attack, View
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
