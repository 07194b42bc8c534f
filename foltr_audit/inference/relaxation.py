"""Clicks as numbers between 0 and 1: in the linear Laplacian form of PDGD, or by a client step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from foltr_audit.core.records.view import View, checked_slopes, checked_updates
from foltr_audit.inference.linear_systems import observed_lengths
from foltr_audit.inference.replay import Replay, StepReplay, into_ball
from foltr_audit.utils.arrays import Bools, Floats

Loss = Literal["least-squares", "least-absolute"]

_LEVELS = (0.5, 0.25, 0.75)  # thresholds that round relaxed clicks to starts of a search


@dataclass(frozen=True, eq=False)
class ClickRelaxation:
    """The update of a view's messages, which `why_no_replay` accepts, as a linear function of relaxed clicks.

    `y ~ sum_b eta J_b^T L_b c_b`, with L_b the Laplacian of PDGD's pair weights among the observed documents
    of list b at the local model before it. That model drifts with the clicks on the lists before.

    Source: the gradient of Oosterhuis & de Rijke 2018, "Differentiable unbiased online learning to rank",
    eq. 5-8, collected by document.
    """

    view: View

    @cached_property
    def replay(self) -> Replay:
        return Replay(self.view)

    @cached_property
    def observed(self) -> Bools:
        """Documents that take part in pairs according to a regression: bool (n, B, k)."""
        return np.arange(self.view.shown.shape[2]) < observed_lengths(self.view)[..., np.newaxis]

    @cached_property
    def at_start(self) -> Floats:
        """The global model as the local model before every list, (B, n, P)."""
        B = self.view.shown.shape[1]
        return np.broadcast_to(self.view.parameters, (B, *self.view.parameters.shape))

    @cached_property
    def _first_effect(self) -> Floats:
        return self._effect(self.view.parameters, 0)

    def effect(self, models: Floats, b: int) -> Floats:
        """`eta J^T L` of list b at local models (n, P): float64 (n, P, k). The first list's never changes."""
        return self._first_effect if b == 0 else self._effect(models, b)

    def _effect(self, models: Floats, b: int) -> Floats:
        every, here = np.arange(len(self.view)), self.observed[:, b]
        W = self.replay.weights(models, every, b) * (here[:, :, np.newaxis] & here[:, np.newaxis])
        L = W.sum(axis=2)[..., np.newaxis] * np.eye(W.shape[1]) - W
        rows = self.replay.jacobian(models, every, b)
        return np.asarray(self.replay.learning_rate * np.einsum("nkp,nkj->npj", rows, L))

    def path(self, clicks: Floats) -> Floats:
        """Local models before each interaction of relaxed clicks (n, B, k): (B, n, P)."""
        # A copy, since `at_start` is a read-only broadcast.
        path = np.array(self.at_start)
        if self.view.senders is not None:  # of a sum, each list is taken at the global model
            return path
        for b in range(len(path) - 1):
            path[b + 1] = self._stepped(path[b], self.effect(path[b], b), clicks, b)[1]
        return path

    def _stepped(self, models: Floats, effect: Floats, clicks: Floats, b: int) -> tuple[Floats, Floats]:
        """Local models (n, P) after the step of list b, before and after the step stage."""
        step = np.einsum("npk,nk->np", effect, clicks[:, b])
        acts = step.any(axis=1) | self.view.knowledge.clip_without_pairs
        acts &= self.replay.lengths[:, b] > 0
        free = models + step
        return free, np.where(acts[:, np.newaxis], into_ball(free, self.view.knowledge.clip), free)

    def gradient(self, clicks: Floats) -> Floats:
        """Gradient in the clicks of half the squared distance from message to replayed model, (n, B, k).

        Includes each list's direct effect on the model, but not its influence on the effect of later lists. A
        clip is treated as a constant factor.
        """
        model, effects, factor = self.view.parameters, [], np.ones((len(self.view), 1))
        for b in range(clicks.shape[1]):
            effects.append(self.effect(model, b))
            free, model = self._stepped(model, effects[b], clicks, b)
            size = np.linalg.norm(free, axis=1, keepdims=True)
            factor *= np.divide(
                np.linalg.norm(model, axis=1, keepdims=True), size, out=np.ones_like(size), where=size > 0
            )
        miss = factor * (model - self.view.models)
        slopes = [np.einsum("npk,np->nk", effect, miss) for effect in effects]
        return np.stack(slopes, axis=1) if slopes else np.zeros(clicks.shape)

    def solved(self, loss: Loss, models: Floats) -> Floats:
        """Relaxed clicks (n, B, k) that explain the updates best, given local models (B, n, P).

        The global model is one more column, since an active clip adds a multiple of it.
        """
        from foltr_audit.kernels.regression import box_least_absolute, box_least_squares

        n, B, k = self.view.shown.shape
        P = self.view.parameters.shape[1]
        design = np.empty((n, P, B * k + 1))
        for b in range(B):
            design[:, :, b * k : (b + 1) * k] = self.effect(models[b], b)
        design[:, :, -1] = -self.view.parameters
        upper = np.empty((n, B * k + 1))
        upper[:, :-1] = self.observed.reshape(n, B * k)
        # The last unknown is 1 minus the factor of the clip. Without a clip, its bound of 0 removes it.
        upper[:, -1] = self.view.knowledge.clip is not None
        solve = box_least_squares if loss == "least-squares" else box_least_absolute
        found = solve(design, self.view.updates, upper)
        kept = 1.0 - found[:, -1:]  # the factor of the clip, which scales the clicks' part too
        clicks = np.divide(found[:, :-1], kept, out=found[:, :-1].copy(), where=kept > 0)
        return np.minimum(clicks, upper[:, :-1]).reshape(n, B, k)

    def settled(self, loss: Loss, turns: int) -> Floats:
        """Relaxed clicks (n, B, k) after some turns of solving at the local models of the last solution."""
        clicks = self.solved(loss, self.at_start)
        for _ in range(turns if self.view.shown.shape[1] > 1 else 0):
            clicks = self.solved(loss, self.path(clicks))
        return clicks

    def starts(self, turns: int) -> Bools:
        """Starts of a search for clicks: relaxed solutions, rounded at several levels, (n, S, B, k)."""
        found = []
        for loss in ("least-absolute", "least-squares"):
            clicks = self.settled(loss, turns)
            found += [clicks > level for level in _LEVELS]
        return np.stack(found, axis=1) & self.view.is_document[:, np.newaxis]


@dataclass(frozen=True, eq=False)
class StepRelaxation:
    """The messages of a view as functions of clicks between 0 and 1, by its client step."""

    view: View

    @cached_property
    def replay(self) -> StepReplay:
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
                slopes[b] = checked_slopes(self.replay.client_step, model, rows, here)
                update = checked_updates(self.replay.client_step, model, rows, here[np.newaxis])
                size = float(np.linalg.norm(model + update[0]))
                model = self.replay.moved(model, update)[0]
                factor *= float(np.linalg.norm(model)) / size if size > 0 else 1.0
            miss = factor * (model - self.view.models[i])
            for b, effect in slopes.items():
                found[i, b, : len(effect)] = effect @ miss
        return found
