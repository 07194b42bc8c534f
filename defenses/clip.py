"""Clipping: keep every local model inside a ball."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from foltr_audit.plugins import Ball, StepDefense


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
        """The ball that models are scaled into, by min(1, norm / ||theta||_2)."""
        return Ball(norm=self.norm, ord=2)
