"""The radius of a clip, from norms that many messages share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from foltr_audit.core.records.view import View
from foltr_audit.judge.fact_inference.estimate import FactEstimate, cannot_tell
from foltr_audit.utils.arrays import Floats

_ALIKE = 2e-6  # relative: norms that differ less are equal but for rounding
_FEWEST = 5  # norms that must be equal: by chance this happens less than once in a million
_SHARE = 0.02  # of the messages that must have it
_STILL = 1e-12  # relative size of an update that is none


class _Peak(NamedTuple):
    """The norm that most messages share: how many, its value, and what it is a norm of."""

    size: int
    norm: float
    of: str
    ord: int


def clip_estimates(views: Sequence[View]) -> list[FactEstimate]:
    """The facts `clip_norm` and `clip_ord` of local models, or `update_clip_norm` of updates.

    Clipped messages without noise have the norm of the ball, all of them; norms of others are all different.
    """
    models, updates = (
        np.concatenate([getattr(view, name) for view in views]) for name in ("models", "updates")
    )
    moved = np.abs(updates).max(axis=1) > _STILL * np.abs(models).max(axis=1)
    total = int(moved.sum())
    kinds = (("model", models[moved]), ("update", updates[moved]))
    peaks = [_peak(values, of, ord_) for of, values in kinds for ord_ in (1, 2)]
    best = max(peaks, key=lambda peak: peak.size)
    if best.size < max(_FEWEST, _SHARE * total):
        why = f"no two norms are alike in {total} messages that moved" if best.size < 2 else ""
        why = why or f"at most {best.size} of {total} messages have one norm"
        return [cannot_tell("clip_norm", f"{why}: no clip, one that never acts, or noise after it")]
    source = f"{best.size} of {total} messages have this L{best.ord} norm, of their {best.of}"
    if best.of == "update":
        name = "update_clip_norm" if best.ord == 2 else "update clip in L1"
        return [FactEstimate(name, "certain", source, best.norm)]
    return [
        FactEstimate("clip_norm", "certain", source, best.norm),
        FactEstimate("clip_ord", "certain", source, best.ord),
    ]


def _peak(values: Floats, of: str, ord_: int) -> _Peak:
    """The longest run of norms that are alike; equal messages count once."""
    if not len(values):
        return _Peak(0, 0.0, of, ord_)
    distinct = np.unique(values, axis=0)
    norms = np.sort(np.abs(distinct).sum(axis=1) if ord_ == 1 else np.linalg.norm(distinct, axis=1))
    last = np.searchsorted(norms, norms * (1.0 + _ALIKE), side="right")
    runs = last - np.arange(norms.size)
    first = int(runs.argmax())
    norm = float(np.median(norms[first : first + int(runs[first])]))
    return _Peak(int(runs[first]), _rounded(norm), of, ord_)


def _rounded(norm: float) -> float:
    """The shortest number that is alike."""
    for digits in range(1, 8):
        short = float(f"{norm:.{digits}g}")
        if abs(short - norm) <= _ALIKE * norm:
            return short
    return norm
