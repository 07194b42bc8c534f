"""Where the leading intent changes, as marks in a picture of learning curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from foltr_audit.experiments.runner import RunResult
from foltr_audit.utils.arrays import Floats, Ints

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NAMED = 6  # spans that have room for `intent 2`; more are `2`
_NUMBERED = 40  # spans that have room for `2`


class IntentSpan(NamedTuple):
    """A time in which one intent leads.

    Attributes:
        first, end: in rounds played.
        intent: the leading intent, from 1; None where none leads.
    """

    first: float
    end: float
    intent: int | None


def spans(cell: RunResult) -> tuple[IntentSpan, ...]:
    """The periods of a run; none where its leading intent does not change."""
    if cell.world.environment is None or not cell.world.environment.change_points:
        return ()
    periods, played, each = cell.world.environment.periods, len(cell.trained.rounds), cell.world.per_round
    ends = [*(period.end / each for period in periods[:-1]), float(played)]
    return tuple(
        IntentSpan(period.first / each, end, None if period.intent is None else period.intent + 1)
        for period, end in zip(periods, ends, strict=True)
    )


def mark_changes(axis: Axes, every: Sequence[tuple[IntentSpan, ...]]) -> None:
    """A vertical line at each change of each curve, and the intents on top where all curves agree on them."""
    different = list(dict.fromkeys(one for one in every if one))
    for x in sorted({span.first for one in different for span in one[1:]}):
        axis.axvline(x, color="#777777", linestyle=(0, (2, 2)), linewidth=0.9, zorder=1)
    if len(different) != 1 or len(different[0]) > _NUMBERED:
        return
    word = "intent " if len(different[0]) <= _NAMED else ""
    for span in different[0]:
        if span.intent is not None:
            axis.text(
                (span.first + span.end) / 2,
                1.0,
                f"{word}{span.intent}",
                transform=axis.get_xaxis_transform(),
                horizontalalignment="center",
                verticalalignment="bottom",
                fontsize=7.5,
                color="#555555",
            )
    axis.set_title(axis.get_title(), pad=16.0)


def insert_gaps(rounds: Ints, values: Floats, every: Sequence[IntentSpan]) -> tuple[Floats, Floats]:
    """A line (T,) with a gap, NaN, at each change."""
    changes = np.array([span.first for span in every[1:]])
    places = np.searchsorted(rounds, changes, side="right")
    return np.insert(rounds.astype(np.float64), places, changes), np.insert(values, places, np.nan)
