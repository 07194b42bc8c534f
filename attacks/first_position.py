"""A baseline without any message: users click the first result."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from foltr_audit.plugins import Attack, Inference, View


class FirstPosition(Attack):
    """Names the first shown document of every list; a baseline that needs no message.

    Sees: the order of the shown list.
    """

    name: ClassVar[str] = "first-position"
    ranker_use: ClassVar[str] = "nothing"
    reads: ClassVar[frozenset[str]] = frozenset({"model", "update", "es", "clicks"})
    needs: ClassVar[frozenset[str]] = frozenset({"shown", "order"})
    baseline: ClassVar[bool] = True

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        """Higher positions score higher; the guess is position 1."""
        position = np.broadcast_to(np.arange(view.shown.shape[2]), view.shown.shape)
        return Inference(scores=-position.astype(np.float64), guess=(position == 0) & view.is_document)
