"""Attacks on how the probability of a document within its list changed."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from foltr_audit.plugins import Attack, Inference, View


def probability_gains(view: View) -> NDArray[np.float64]:
    """Softmax over the shown list after minus before, float64 (n, B, k), 0 at the padding.

    The same document is compared under both models.
    """

    def softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
        masked = np.where(view.is_document, scores, -np.inf)
        top = np.max(masked, axis=-1, keepdims=True, initial=-np.inf)
        shares = np.exp(masked - np.where(np.isfinite(top), top, 0.0))
        total = shares.sum(axis=-1, keepdims=True)
        share: NDArray[np.float64] = np.divide(shares, total, out=np.zeros_like(shares), where=total > 0)
        return share

    return softmax(view.scores_before + view.score_changes) - softmax(view.scores_before)


class HigherProbability(Attack):
    """Names every document that is more probable under the client's model.

    Sees: the message, the global model, features of the shown documents.

    Source: Pham 2022, "Federated learning for online learning to rank", section 4.1.
    """

    name: ClassVar[str] = "higher-probability"

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        """The score is the gain in probability; the guess is where it is positive."""
        del rng
        gains = probability_gains(view)
        return Inference(scores=gains, guess=(gains > 0) & view.is_document)


class MaxGain(Attack):
    """Names the one document of a list whose probability grew most, if any grew.

    Sees: the message, the global model, features of the shown documents.

    Source: the program published with Pham 2022, "Federated learning for online learning to rank".
    """

    name: ClassVar[str] = "max-gain"

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        """The score is the gain in probability; of equal ones the higher position is named."""
        del rng
        gains = probability_gains(view)
        best = np.argmax(np.where(view.is_document, gains, -np.inf), axis=-1)
        position = np.arange(gains.shape[-1])
        guess = (position == best[..., np.newaxis]) & (gains > 0) & view.is_document
        return Inference(scores=gains, guess=guess)
