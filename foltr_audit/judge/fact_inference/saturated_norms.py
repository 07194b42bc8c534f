"""The radius of a clip, from norms that many messages share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from foltr_audit.core.records.view import View
from foltr_audit.judge.fact_inference.estimate import FactEstimate, Surety, cannot_tell
from foltr_audit.utils.arrays import Floats

_ALIKE = 2e-6  # relative: norms that differ less are equal but for rounding
_FEWEST = 5  # largest norms that must be equal: by chance this happens less than once in a million
_SHARE = 0.02  # of the messages that must have it
_STILL = 1e-12  # relative size of an update that is none


class _Peak(NamedTuple):
    """The largest norm: how many messages have it, of how many, its value, and what it is a norm of."""

    size: int
    total: int
    norm: float
    of: str
    ord: int


def clip_estimates(views: Sequence[View]) -> list[FactEstimate]:
    """The facts `clip_norm` and `clip_ord` of local models, or `update_clip_norm` of updates.

    Clipped messages without noise have the norm of the ball, and no message has a larger one. Where all
    messages have it, they may as well be scaled to it.
    """
    models, updates = (
        np.concatenate([getattr(view, name) for view in views]) for name in ("models", "updates")
    )
    moved = np.abs(updates).max(axis=1) > _STILL * np.abs(models).max(axis=1)
    total = int(moved.sum())
    if not total:
        return [cannot_tell("clip_norm", "no message changes the model")]
    if _are_signs(updates[moved]):
        return [
            cannot_tell("clip_norm", f"all numbers of an update have one size in {total} messages: signs")
        ]
    kinds = (("model", models[moved]), ("update", updates[moved]))
    peaks = [_peak(values, of, ord_) for of, values in kinds for ord_ in (1, 2)]
    best = max(peaks, key=lambda peak: peak.size)
    if best.size < max(_FEWEST, _SHARE * total):
        why = (
            f"no two of {total} messages that moved have the largest norm"
            if best.size < 2
            else f"only {best.size} of {total} messages have the largest norm"
        )
        return [cannot_tell("clip_norm", f"{why}: no clip, one that never acts, or noise after it")]
    norm = f"this L{best.ord} norm, of their {best.of}"
    sure: Surety = "certain"
    source = f"{best.size} of {total} messages have {norm}, and none has a larger one"
    if best.size == best.total:
        sure, source = "likely", f"all {total} messages have {norm}: clipped or scaled to it"
    if best.of == "update":
        name = "update_clip_norm" if best.ord == 2 else "update clip in L1"
        return [FactEstimate(name, sure, source, best.norm)]
    return [
        FactEstimate("clip_norm", sure, source, best.norm),
        FactEstimate("clip_ord", sure, source, best.ord),
    ]


def _are_signs(updates: Floats) -> bool:
    """Whether the numbers of each update (P,) that are not 0 have one size, in all of several (n, P)."""
    sizes = np.abs(updates)
    largest = sizes.max(axis=1, keepdims=True)
    return bool(np.all((sizes <= _STILL * largest) | (sizes >= largest * (1.0 - _ALIKE))))


def _peak(values: Floats, of: str, ord_: int) -> _Peak:
    """The largest norm, and the messages that have it; equal messages count once."""
    if not len(values):
        return _Peak(0, 0, 0.0, of, ord_)
    distinct = np.unique(values, axis=0)
    norms = np.abs(distinct).sum(axis=1) if ord_ == 1 else np.linalg.norm(distinct, axis=1)
    top = norms >= norms.max() * (1.0 - _ALIKE)
    return _Peak(int(top.sum()), len(norms), _rounded(float(np.median(norms[top]))), of, ord_)


def _rounded(norm: float) -> float:
    """The shortest number that is alike."""
    for digits in range(1, 8):
        short = float(f"{norm:.{digits}g}")
        if abs(short - norm) <= _ALIKE * norm:
            return short
    return norm
