"""Client steps: what a client of any system computes from a shown list and the clicks on it."""

from __future__ import annotations

import numpy as np

from foltr_audit.core.plugins.base import Plugin
from foltr_audit.core.rankers import FirstLayer
from foltr_audit.errors import PluginError
from foltr_audit.utils.arrays import Floats

_SHIFT = 1e-5  # of a relaxed click, for differences


class ClientStep(Plugin):
    """What a client learns from one shown list, as a function of its clicks.

    Attacks by likelihood and regression go by it in place of PDGD's step. A subclass defines `updates`; the
    rest has defaults or is optional. L documents of d features, P parameters, H click patterns.
    """

    def updates(self, model: Floats, features: Floats, clicks: Floats) -> Floats:
        """The update of each of several click patterns: local model minus global model, float64 (H, P).

        Args:
            model: the global model, float64 (P,).
            features: rows of the documents in the order of the list, float64 (L, d).
            clicks: 1 where a document is clicked, else 0, float64 (H, L); numbers between for attacks that
                relax clicks.
        """
        raise NotImplementedError

    def drawn(self, seed: int) -> ClientStep:
        """The step of one client, where chance such as dropout differs between clients; else this step.

        `updates` is then the mean over clients.
        """
        return self

    def slopes(self, model: Floats, features: Floats, clicks: Floats) -> Floats:
        """Derivatives of the update by each relaxed click at clicks (L,): float64 (L, P).

        By default central differences of `updates`.
        """
        L = len(clicks)
        moves = _SHIFT * np.eye(L)
        both = self.updates(model, features, np.concatenate([clicks + moves, clicks - moves]))
        return np.asarray((both[:L] - both[L:]) / (2 * _SHIFT))

    def scores(self, model: Floats, features: Floats) -> Floats:
        """Scores of documents (L, d) under a model (P,), float64 (L,); optional, see `gives_scores`.

        Raises:
            PluginError: the step gives no scores.
        """
        raise PluginError(f"client step {self.text} gives no scores")

    @property
    def gives_scores(self) -> bool:
        """Whether `scores` is there."""
        return type(self).scores is not ClientStep.scores

    @property
    def first_layer(self) -> FirstLayer | None:
        """Where the first layer's weights lie in a model; None if unknown, or without one."""
        return None

    def why_not(self, parameters: int, features: int) -> str | None:
        """Why it is no step of models with P parameters on documents with d features, or None."""
        return None if self.first_layer is None else self.first_layer.problem(parameters, features)

    def __call__(self, model: Floats, features: Floats, clicks: Floats) -> Floats:
        """The update (P,) of one click pattern (L,)."""
        update: Floats = self.updates(model, features, np.asarray(clicks, dtype=np.float64)[np.newaxis])[0]
        return update
