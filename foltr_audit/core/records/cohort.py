"""Whom a server asked in a round, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr_audit.errors import UsageError
from foltr_audit.recorder.messages import OUTCOMES
from foltr_audit.utils.arrays import Words
from foltr_audit.utils.frozen_arrays import read_only


@dataclass(frozen=True, kw_only=True, eq=False)
class Cohort:
    """The nodes that a server asked in a round, which may be asked several times.

    Attributes:
        node: number of each node, uint64 (N,).
        outcome: `arrived`, `failed` or `late`, of each (N).
        reason: why a node failed, as the server knows it (N); "" without a reason.
        stage: stage of the protocol (N); "" for the training step.

    Raises:
        UsageError: inconsistent lengths, or an unknown outcome.
    """

    node: Words
    outcome: tuple[str, ...]
    reason: tuple[str, ...]
    stage: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "node", read_only(self.node, np.uint64))
        for name in ("outcome", "reason", "stage"):
            texts = tuple(str(text) for text in getattr(self, name))
            object.__setattr__(self, name, texts)
            if len(texts) != self.node.size:
                raise UsageError(f"cohort: {len(texts)} entries in {name}, expected {self.node.size}")
        for text in self.outcome:
            if text not in OUTCOMES:
                raise UsageError(f"cohort: outcome is {text[:60]!r}, expected {' or '.join(OUTCOMES)}")

    def __len__(self) -> int:
        return int(self.node.size)
