"""Clipping: keep every local model inside a ball."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from foltr_audit.plugins import Ball, RoundContext, StepDefense


class Clip(StepDefense):
    """Scales a local model back to an L2 ball after every local step.

    Guarantees: by itself none. It bounds the L2 norm of a client's local model by `norm` (replace-one
    client: two models differ by at most 2 norm in L2), which noise of another defense builds on. The
    bound holds after every step that it acts on; with `clip_without_pairs=false` a client without pairs
    keeps the global model as it came.

    Source: Wang et al. 2021, "Effective and privacy-preserving federated online learning to rank",
    algorithm 3.
    """

    name: ClassVar[str] = "clip"

    norm: float = Field(gt=0, description="radius R of the L2 ball")

    @property
    def ball(self) -> Ball:
        """The ball that models are kept in."""
        return Ball(norm=self.norm, ord=2)

    def apply(self, parameters: NDArray[np.float64], context: RoundContext) -> NDArray[np.float64]:
        """Local models scaled by min(1, norm / ||theta||_2), float64 (C, P)."""
        del context
        # Dividing by the largest coordinate first: squares of huge or tiny models stay finite.
        largest = np.max(np.abs(parameters), axis=1, keepdims=True, initial=0.0)
        largest[largest == 0.0] = 1.0
        scaled = parameters / largest
        length = largest * np.sqrt((scaled * scaled).sum(axis=1, keepdims=True))
        outside = length > self.norm
        factor = np.divide(self.norm, length, out=np.ones_like(length), where=outside)
        clipped = parameters * factor
        return np.where(outside, clipped, parameters)
