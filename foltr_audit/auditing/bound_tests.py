"""Tests whether the outputs of a link lie in the balls and on the grids that it declares."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from foltr_audit.auditing.law_tests import LawTestResult, upper_tail
from foltr_audit.core.plugins import PrivacyEvent
from foltr_audit.privacy.events import GridRounding, NoiseAddition, NormBound, NormScaling
from foltr_audit.utils.arrays import Floats

_SLACK = 1e-6  # relative: what rounding may add to a norm


def check_balls(
    events: Sequence[PrivacyEvent], after: Floats, parameters: Floats, copies: int
) -> Iterator[LawTestResult]:
    """Whether outputs lie in every declared ball, as far as later events of the link allow to tell.

    With noise after it that is symmetric around 0, at most half of the clients with the same model may lie
    beyond the ball in any direction, however large the noise.

    Args:
        events: what the link declares.
        after: its outputs, float64 (C, P), in groups of clients with equal inputs.
        parameters: the global model (P,).
        copies: size of a group.
    """
    for place, ball in enumerate(events):
        later = events[place + 1 :]
        if not (isinstance(ball, NormBound) and ball.always) or not _keep(later):
            continue
        inside = after if ball.of == "model" else after - parameters
        step = sum(event.step for event in later if isinstance(event, GridRounding))
        room = _SLACK * (ball.norm + float(np.abs(parameters).max())) + _norm(
            np.full((1, parameters.size), step), ball.ord
        )
        limit = ball.norm + float(np.max(room))
        if any(isinstance(event, NoiseAddition) for event in later):
            yield from _check_noisy(inside, ball, limit, copies)
        else:
            largest = float(_norm(inside, ball.ord).max())
            yield LawTestResult(0.0 if largest > limit else 1.0, _outside(ball, f"a norm of {largest:.4g}"))


def _keep(later: Sequence[PrivacyEvent]) -> bool:
    return all(isinstance(event, NormBound | GridRounding | NoiseAddition) for event in later)


def _outside(ball: NormBound, reached: str) -> str:
    return f"{ball.of}s reach {reached}, outside the declared ball of {ball.norm:.4g}"


def _check_noisy(inside: Floats, ball: NormBound, limit: float, copies: int) -> Iterator[LawTestResult]:
    """The first half of a group gives the direction, the second half is tested: so p-values stay exact."""
    half = copies // 2
    for group in inside.reshape(-1, copies, inside.shape[1]):
        middle = np.median(group[:half], axis=0)
        axis = np.sign(middle) * (np.arange(middle.size) == np.abs(middle).argmax())
        directions = [np.sign(middle), axis] if ball.ord == 1 else [middle if ball.ord == 2 else axis]
        for direction in directions:
            size = float(np.linalg.norm(direction, ord=_DUAL[ball.ord]))
            along = group[half:] @ direction
            reached = f"{float(np.median(along)) / max(size, 1e-300):.4g} in the median"
            beyond = int((along > limit * size).sum())
            yield LawTestResult(upper_tail(beyond, along.size, 0.5), _outside(ball, reached))


_DUAL = {1: math.inf, 2: 2, math.inf: 1}
"""The dual norm: its product with the radius bounds a ball's points in a direction."""


def check_grid(events: Sequence[PrivacyEvent], after: Floats) -> Iterator[LawTestResult]:
    """Whether outputs lie on the grid that a link declares last."""
    if events and isinstance(events[-1], GridRounding):
        steps = after / events[-1].step
        with np.errstate(invalid="ignore"):  # beyond 2^40 steps float64 cannot tell a thousandth of a step
            off = float(np.abs(steps - np.rint(steps))[np.abs(steps) < 2.0**40].max(initial=0.0))
        yield LawTestResult(
            0.0 if off > 1e-3 else 1.0, f"messages lie off the declared grid of {events[-1].step:g}"
        )


def check_scaling(
    events: Sequence[PrivacyEvent], before: Floats, after: Floats, parameters: Floats
) -> Iterator[LawTestResult]:
    """Whether no norm grows by more than a declared factor."""
    if len(events) != 1 or not isinstance(events[0], NormScaling):
        return
    event = events[0]
    middle = np.zeros_like(parameters) if event.of == "model" else parameters
    for order in (1, 2, math.inf):
        sizes = [_norm(models - middle, order) for models in (before, after)]
        grown = bool(np.any(sizes[1] > event.factor * sizes[0] * (1 + _SLACK) + _SLACK))
        yield LawTestResult(
            0.0 if grown else 1.0, f"a norm grows by more than the declared factor of {event.factor:g}"
        )


def _norm(models: Floats, order: float) -> Floats:
    return np.asarray(np.linalg.norm(models, ord=order, axis=1))
