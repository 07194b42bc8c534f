"""Relaxed clicks under a client step: how the distance from a message to its replay changes with each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from foltr_audit.core.records.step_effects import checked_slopes, checked_updates
from foltr_audit.core.records.view import View
from foltr_audit.inference.step_replay import StepReplay
from foltr_audit.utils.arrays import Bools, Floats


@dataclass(frozen=True, eq=False)
class StepRelaxation:
    """The messages of a view as functions of clicks between 0 and 1, by its client step.

    Attributes:
        view: a view with a client step.
    """

    view: View

    @cached_property
    def replay(self) -> StepReplay:
        """The steps."""
        return StepReplay(self.view)

    @property
    def observed(self) -> Bools:
        """Documents that may have been clicked: bool (n, B, k)."""
        return self.view.is_document

    def gradient(self, clicks: Floats) -> Floats:
        """Gradient in the clicks of half the squared distance from message to replayed model, (n, B, k).

        As `ClickRelaxation.gradient`: without the influence of a click on later lists, and with a clip as a
        constant factor.
        """
        found = np.zeros(clicks.shape)
        for i in range(len(self.view)):
            model, factor = self.view.parameters[i], 1.0
            slopes: dict[int, Floats] = {}
            for b in np.flatnonzero(self.replay.lengths[i]).tolist():
                L = int(self.replay.lengths[i, b])
                rows, here = self.view.features[i, b, :L].astype(np.float64), clicks[i, b, :L]
                slopes[b] = checked_slopes(self.replay.step, model, rows, here)
                update = checked_updates(self.replay.step, model, rows, here[np.newaxis])
                size = float(np.linalg.norm(model + update[0]))
                model = self.replay.moved(model, update)[0]
                factor *= float(np.linalg.norm(model)) / size if size > 0 else 1.0
            miss = factor * (model - self.view.models[i])
            for b, effect in slopes.items():
                found[i, b, : len(effect)] = effect @ miss
        return found
