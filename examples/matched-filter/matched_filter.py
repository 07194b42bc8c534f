"""A working attack on clicks, to be changed into your own."""

from typing import ClassVar

import numpy as np
from foltr_audit.plugins import Attack, Inference, View
from pydantic import Field


class MatchedFilter(Attack):
    """Compares each shown document with the update: clicked ones point the same way.

    Sees: the message, the global model, features of the shown documents.
    """

    name: ClassVar[str] = "matched-filter"
    needs: ClassVar[frozenset[str]] = frozenset({"features", "shown"})  # see `foltr-audit list knowledge`

    threshold: float = Field(0.1, ge=0, le=1, description="similarity above which a document is named")

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        """The score of a document is the cosine between its column and the update."""
        # updates: (messages, parameters); columns: (messages, parameters, interactions x documents).
        updates, columns = _unit(view.updates, axis=1), _unit(view.columns, axis=1)
        cosine = np.sum(columns * updates[:, :, np.newaxis], axis=1).reshape(view.shown.shape)
        return Inference(scores=cosine, guess=(cosine > self.threshold) & view.is_document)


def _unit(values: np.ndarray, axis: int) -> np.ndarray:
    """Vectors of length 1; zeros stay zeros. Scaled first, so that the largest numbers do not overflow."""
    largest = np.max(np.abs(values), axis=axis, keepdims=True, initial=0.0)
    scaled = values / np.where(largest > 0, largest, 1.0)
    length = np.sqrt(np.sum(scaled * scaled, axis=axis, keepdims=True))
    return scaled / np.where(length > 0, length, 1.0)
