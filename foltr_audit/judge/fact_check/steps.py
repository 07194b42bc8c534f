"""The step of every click pattern of a list, and how many numbers of a message the best one reproduces."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from foltr_audit.core.records.view import View
from foltr_audit.inference.pattern_decoder import patterns_as_clicks
from foltr_audit.inference.replay import Replay
from foltr_audit.utils.arrays import Bools, Floats, Ints

RELATIVE = 1e-4  # of the usual size of an update: numbers closer than this count as equal
_MOVED = 8.0  # tolerances that a number must exceed to count as moved
_NUMBERS = 1 << 21  # numbers of the steps of one message at a time: 16 MB


class PatternSteps(NamedTuple):
    """Steps of some click patterns of one list.

    Attributes:
        gradients: PDGD's gradient of each pattern, (H, P).
        sizes: at most what rounding each number of it is relative to, (H, P).
        pairs: whether a pattern has a pair, (H,).
        clicked: the share of the list that it clicks, (H,).
    """

    gradients: Floats
    sizes: Floats
    pairs: Bools
    clicked: Floats


@lru_cache(maxsize=64)
def _patterns(length: int) -> tuple[Bools, Floats]:
    """Every click pattern of a list, (H, L), and the share of the list that it clicks, (H,)."""
    clicks = patterns_as_clicks(np.arange(1 << length), length)
    return clicks, clicks.sum(axis=1) / max(1, length)


def coefficients(weights: Floats, clicks: Bools, *, only_observed: bool) -> Floats:
    """What each document's Jacobian row is multiplied by, (H, L), of patterns (H, L) with weights (L, L)."""
    c = clicks.astype(np.float64)
    seen = np.ones(c.shape)
    if only_observed:
        place = np.arange(clicks.shape[1])
        last = np.where(clicks, place, -2).max(axis=1, initial=-2)[:, np.newaxis]
        seen = (place <= last + 1).astype(np.float64)
    return np.asarray(seen * (c * (seen @ weights) - (seen * c) @ weights))


class SingleListReplay:
    """Steps from the lists of a view whose messages have one list each, under what the view knows."""

    def __init__(self, view: View) -> None:
        self.view = view
        replay, every = Replay(view), np.arange(len(view))
        self.replay = replay
        self.weights = replay.weights(view.parameters, every, 0)
        self.rows = replay.jacobian(view.parameters, every, 0)
        self.lengths = replay.lengths[:, 0]

    def steps(self, i: int) -> Iterator[PatternSteps]:
        """Steps of every click pattern of a message's list, a bounded number at a time."""
        L, P = int(self.lengths[i]), self.rows.shape[2]
        (clicks, clicked), rows, weights = _patterns(L), self.rows[i, :L], self.weights[i, :L, :L]
        largest = np.abs(rows).max(axis=0, initial=0.0)
        each = max(1, _NUMBERS // max(1, P))
        for first in range(0, len(clicks), each):
            here = clicks[first : first + each]
            by_document = coefficients(weights, here, only_observed=self.replay.only_observed)
            size = np.abs(by_document).sum(axis=1)
            sizes = size[:, np.newaxis] * largest
            yield PatternSteps(by_document @ rows, sizes, size > 0, clicked[first : first + each])

    def predicted(self, i: int, steps: PatternSteps) -> Floats:
        """Updates of these patterns under the declared learning rate and clip, (H, P)."""
        start, known = self.view.parameters[i], self.view.knowledge
        if known.clip is None:
            return self.replay.sent(self.replay.learning_rate * steps.gradients)
        models = start + self.replay.learning_rate * steps.gradients
        acts = steps.pairs | known.clip_without_pairs
        return np.asarray(np.where(acts[:, np.newaxis], self.replay.clipped(models), models) - start)


class MatchTolerance(NamedTuple):
    """How near a number must come to count as reproduced.

    Attributes:
        near: tolerance of each number of a message, (n, P), without the part that depends on the step.
        step: that part, relative to the size of a step.
        moved: numbers that count, (n, P): those that are far enough from 0.
    """

    near: Floats
    step: float
    moved: Bools


def tolerance_of(view: View, size: float, noise: float = 0.0) -> MatchTolerance:
    """The tolerance for rounding, features' included, and for noise of some size.

    `size` is the usual one of an update's numbers in all messages.
    """
    known, updates = view.knowledge, np.abs(view.updates)
    resolution = max(known.resolution, view.feature_resolution)
    values = 4.0 * resolution * (np.abs(view.messages) + np.abs(view.parameters))
    near = RELATIVE * np.maximum(usual_size(view), 0.1 * size)[:, np.newaxis] + values + noise
    far = 4.0 * noise if noise else _MOVED * near
    return MatchTolerance(near, 8.0 * resolution, updates > far)


def usual_size(view: View) -> Floats:
    """The median size of each update's numbers that are not 0, (n,)."""
    sizes = np.abs(view.updates)
    known = np.where(sizes > 0, sizes, np.nan)
    known[~(sizes > 0).any(axis=1)] = 0.0
    return np.asarray(np.nanmedian(known, axis=1))


class PatternMatch(NamedTuple):
    """The best click pattern of each of n messages.

    Attributes:
        reproduced: how many moved numbers it reproduces, (n,).
        clicked: the share of the list that it clicks, (n,).
    """

    reproduced: Ints
    clicked: Floats


def best_patterns(replayed: SingleListReplay, tolerance: MatchTolerance, sign: int = 1) -> PatternMatch:
    """The click pattern of each message that reproduces most of its moved numbers."""
    view, rate = replayed.view, abs(replayed.replay.learning_rate)
    found, clicked = np.zeros(len(view), dtype=np.int64), np.zeros(len(view))
    for i in range(len(view)):
        moved = tolerance.moved[i]
        update, near = sign * view.updates[i, moved], tolerance.near[i, moved]
        for steps in replayed.steps(i):
            left = np.abs(replayed.predicted(i, steps)[:, moved] - update)
            close = left <= near + tolerance.step * rate * steps.sizes[:, moved]
            count = close.sum(axis=1)
            best = int(count.argmax())
            if count[best] > found[i]:
                found[i], clicked[i] = count[best], steps.clicked[best]
    return PatternMatch(found, clicked)


class MatchAtScale(NamedTuple):
    """The best pattern of each of n messages where the size of the step is not known.

    Attributes:
        reproduced: how many moved numbers it reproduces, (n,).
        factor: what it multiplies the step by, (n,).
    """

    reproduced: Ints
    factor: Floats


def rescaled(replayed: SingleListReplay, tolerance: MatchTolerance) -> MatchAtScale:
    """The best pattern times a factor of its own: the median quotient of update and gradient."""
    view = replayed.view
    found, factor = np.zeros(len(view), dtype=np.int64), np.zeros(len(view))
    for i in range(len(view)):
        moved = tolerance.moved[i]
        update, near = view.updates[i, moved], tolerance.near[i, moved]
        for steps in replayed.steps(i) if moved.any() else ():
            gradients = steps.gradients[steps.pairs][:, moved]
            if not len(gradients):
                continue
            own = median_quotient(update, gradients)
            slack = tolerance.step * np.abs(own)[:, np.newaxis] * steps.sizes[steps.pairs][:, moved]
            close = np.abs(own[:, np.newaxis] * gradients - update) <= near + slack
            count = close.sum(axis=1)
            best = int(count.argmax())
            if count[best] > found[i]:
                found[i], factor[i] = count[best], own[best]
    return MatchAtScale(found, factor)


def shrunk_models(replayed: SingleListReplay, tolerance: MatchTolerance) -> tuple[MatchAtScale, Floats]:
    """The best pattern whose model is scaled down by a factor, as a clip does; and its norms, (n, 2).

    The norms are L1 and L2 of the scaled model.
    """
    view, rate = replayed.view, replayed.replay.learning_rate
    found, factor, norms = np.zeros(len(view), np.int64), np.ones(len(view)), np.zeros((len(view), 2))
    for i in range(len(view)):
        moved, start = tolerance.moved[i], view.parameters[i]
        local, near = view.models[i], tolerance.near[i]
        for steps in replayed.steps(i) if moved.any() else ():
            models = start + rate * steps.gradients
            own = np.minimum(median_quotient(local[moved], models[:, moved]), 1.0)
            close = np.abs(own[:, np.newaxis] * models - local) <= near + tolerance.step * np.abs(local)
            count = (close & moved).sum(axis=1)
            best = int(count.argmax())
            if count[best] > found[i]:
                found[i], factor[i] = count[best], own[best]
                clipped = own[best] * models[best]
                norms[i] = np.abs(clipped).sum(), np.linalg.norm(clipped)
    return MatchAtScale(found, factor), norms


def clipped_steps(replayed: SingleListReplay, tolerance: MatchTolerance) -> MatchAtScale:
    """The best pattern whose model is scaled down, as by a clip, where the size of the step is not known.

    The message is fitted by `a (start + factor gradient)` in least squares, so the scale of the clip is free.
    """
    view = replayed.view
    found, factor = np.zeros(len(view), dtype=np.int64), np.zeros(len(view))
    for i in range(len(view)):
        moved, start, local = tolerance.moved[i], view.parameters[i], view.models[i]
        for steps in replayed.steps(i) if moved.any() and start.any() else ():
            gradients = steps.gradients[steps.pairs]
            if not len(gradients):
                continue
            kept, step = _two_columns(start, gradients, local)
            made = kept[:, np.newaxis] * start + step[:, np.newaxis] * gradients
            close = np.abs(made - local) <= tolerance.near[i] + tolerance.step * np.abs(local)
            count = (close & moved).sum(axis=1) * ((kept > 0) & (kept < 1))
            best = int(count.argmax())
            if count[best] > found[i]:
                found[i], factor[i] = count[best], step[best] / kept[best]
    return MatchAtScale(found, factor)


def _two_columns(start: Floats, gradients: Floats, local: Floats) -> tuple[Floats, Floats]:
    """Least-squares weights (H,) of a model (P,) and of each gradient (H, P) that make a local model (P,)."""
    size, sizes = start @ start, np.einsum("hp,hp->h", gradients, gradients)
    across, along, beside = gradients @ start, start @ local, gradients @ local
    determinant = size * sizes - across**2
    with np.errstate(all="ignore"):
        kept = (sizes * along - across * beside) / determinant
        step = (size * beside - across * along) / determinant
    return np.nan_to_num(kept), np.nan_to_num(step)


def median_quotient(values: Floats, rows: Floats) -> Floats:
    """The median of values / row over the numbers of each row (H, N) that are not 0: (H,)."""
    with np.errstate(all="ignore"):
        quotients = values / rows
    quotients[~np.isfinite(quotients)] = 0.0
    middle = quotients.shape[1] // 2
    return np.asarray(np.partition(quotients, middle, axis=1)[:, middle])
