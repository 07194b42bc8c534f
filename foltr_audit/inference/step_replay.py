"""What a message would be under a client step, for clicks that an attack supposes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from foltr_audit.core.records.step_effects import checked_updates
from foltr_audit.core.records.view import View
from foltr_audit.privacy.events import Ball
from foltr_audit.utils.arrays import Floats, Ints

if TYPE_CHECKING:
    from foltr_audit.core.plugins.client_step import ClientStep

_NUMBERS = 1 << 22  # numbers of the updates that are computed at once: 32 MB


WHOLE_UPDATE = (
    "fact update_clip_norm: the clip of a whole update can be replayed for messages of one list "
    "without a clip of the model only"
)
"""Why messages whose updates are clipped are not replayed."""


def why_no_step_replay(view: View) -> str | None:
    """Why messages of a view with a client step cannot be replayed, or None."""
    known = view.knowledge
    several = view.shown.shape[1] > 1 or known.clip is not None
    return WHOLE_UPDATE if known.update_clip is not None and several else None


@dataclass(frozen=True, eq=False)
class StepReplay:
    """The steps behind the messages of a view that has a client step.

    Of several lists in a message each step starts from the local model that the step before left.

    Attributes:
        view: the view.
    """

    view: View

    @property
    def step(self) -> ClientStep:
        """The client step.

        Raises:
            ValueError: the view has none.
        """
        step = self.view.knowledge.client_step
        if step is None:
            raise ValueError("a replay of a client step needs one")
        return step

    @cached_property
    def lengths(self) -> Ints:
        """Number of documents of each list, int64 (n, B)."""
        return np.asarray(self.view.is_document.sum(axis=2))

    def models(self, i: int, b: int, model: Floats, clicks: Floats) -> Floats:
        """Local models (H, P) after clicks (H, L) on list b of message i, from a local model (P,)."""
        rows = self.view.features[i, b, : clicks.shape[1]]
        return self.moved(model, checked_updates(self.step, model, rows, clicks))

    def moved(self, model: Floats, updates: Floats) -> Floats:
        """A local model (P,) after each of several updates (H, P), and the clips: (H, P)."""
        known = self.view.knowledge
        acts = np.asarray(known.clip_without_pairs | updates.any(axis=1))[:, np.newaxis]
        models = model + into_ball(updates, known.update_clip)
        return np.where(acts, into_ball(models, known.clip), models)

    def patterns(self, i: int, b: int, model: Floats) -> Iterator[tuple[int, Floats]]:
        """Local models after every click pattern of a list, some at a time: the first pattern and (H, P)."""
        L = int(self.lengths[i, b])
        each = max(1, _NUMBERS // max(1, model.size))
        for first in range(0, 1 << L, each):
            numbers = np.arange(first, min(first + each, 1 << L))
            clicks = (numbers[:, np.newaxis] >> np.arange(L)) & 1
            yield first, self.models(i, b, model, clicks.astype(np.float64))


def into_ball(vectors: Floats, ball: Ball | None) -> Floats:
    """Vectors (H, P), each scaled into a ball; the same without one."""
    return vectors if ball is None else ball.projected(np.ascontiguousarray(vectors))
