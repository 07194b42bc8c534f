"""How many messages a client step explains, each by its best clicks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from foltr_audit.core.records.view import View
from foltr_audit.inference.replay import StepReplay
from foltr_audit.judge.fact_check.sample import RoundSample
from foltr_audit.judge.fact_check.search import ExplanationCount, ExplanationThreshold
from foltr_audit.utils.arrays import Bools, Floats, Ints

MOST_MESSAGES = 40
"""Messages that are compared: a step of the user's may take milliseconds for each click pattern."""

_ARITHMETIC = 2.0**-18
"""Error of a client's float32 arithmetic over one step, relative to an update's numbers."""


def explained_by_step(
    pieces: Sequence[RoundSample], bar: ExplanationThreshold, sign: int = 1
) -> ExplanationCount:
    """How many messages the client step of their views explains, times `sign`."""
    explained, messages, clicked = 0, 0, 0.0
    for piece in pieces:
        tolerance = bar.tolerance(piece.view)
        count, share = _best_patterns(piece.view, tolerance.near, tolerance.moved, sign)
        good, counts = bar.explained(count, tolerance)
        explained, messages = explained + int(good.sum()), messages + int(counts.sum())
        clicked += float(share[good].sum())
    return ExplanationCount(explained, messages, clicked / max(1, explained))


def _best_patterns(view: View, near: Floats, moved: Bools, sign: int) -> tuple[Ints, Floats]:
    """Moved numbers that the best click pattern of each message reproduces, and the share that it clicks."""
    replayed = StepReplay(view)
    found, clicked = np.zeros(len(view), dtype=np.int64), np.zeros(len(view))
    for i in range(len(view)):
        there, L = np.flatnonzero(moved[i]), int(replayed.lengths[i, 0])
        update = sign * view.updates[i, there]
        for first, local in replayed.patterns(i, 0, view.parameters[i]):
            steps = local[:, there] - view.parameters[i, there]
            close = np.abs(steps - update) <= near[i, there] + _ARITHMETIC * np.abs(steps)
            count = close.sum(axis=1)
            best = int(count.argmax())
            if count[best] > found[i]:
                found[i], clicked[i] = count[best], (first + best).bit_count() / max(1, L)
    return found, clicked
