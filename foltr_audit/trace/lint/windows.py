"""Counting small numbers: whether more of them lie in a window than noise of a law allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from foltr_audit.utils.arrays import Bools, Floats, Ints

SURE = 1e-9
"""A test refuses what chance does at most this often."""

_DEVIATIONS = 2.0  # standard deviations that a count may fall short by, where the power of a test is judged


@dataclass(frozen=True)
class NoiseWindow:
    """Noise lies less than `half` from 0, or from any other point, with at most this probability."""

    half: float
    probability: float


def inside(
    windows: Sequence[NoiseWindow],
    values: Floats,
    axis: int | None,
    margin: float | Floats = 0.0,
) -> Ints:
    """How many values lie inside each window, along an axis, (windows, size).

    Windows are narrower by `margin`, by which rounding may have moved a value; it broadcasts to the values.
    """
    size = np.abs(values) + margin
    counts = [np.count_nonzero(size < window.half, axis=axis) for window in windows]
    return np.array(counts, dtype=np.int64).reshape(len(windows), -1)


def too_many(windows: Sequence[NoiseWindow], hits: Ints, trials: ArrayLike, sure: float = SURE) -> Bools:
    """Where more trials lie in a window than chance explains, (windows, size) -> (size,)."""
    from scipy.special import bdtrc

    if not windows:
        return np.zeros(hits.shape[1:], dtype=np.bool_)
    most = np.array([window.probability for window in windows])[:, np.newaxis]
    whole = np.broadcast_to(np.asarray(trials, dtype=np.int64), hits.shape)
    # bdtrc(h - 1, n, p) is the chance of h hits or more. It keeps its digits far below 1e-9, where 1 - cdf
    # would be nothing but rounding.
    rare = np.where(hits > 0, bdtrc(np.maximum(hits - 1, 0), np.maximum(whole, 1), most), 1.0)
    return np.asarray((rare < sure).any(axis=0))


def enough_trials(windows: Sequence[NoiseWindow], trials: int, sure: float = SURE) -> bool:
    """Whether `trials` numbers that all lie inside the windows would be too many."""
    whole = np.full((len(windows), 1), trials, dtype=np.int64)
    return bool(trials > 0 and too_many(windows, whole, trials, sure).any())


class WindowCounter:
    """Counts numbers inside windows, and compares the counts with the most that the law allows.

    Each look adds trials that lie in a window with at most the window's probability, whatever the trials
    before were, so that their sum is at most binomial.
    """

    def __init__(self, windows: Sequence[NoiseWindow], size: int = 1) -> None:
        self.windows = tuple(windows)
        self.hits = np.zeros((len(self.windows), size), dtype=np.int64)
        self.trials = np.zeros(size, dtype=np.int64)

    def add(self, hits: Ints, trials: int) -> None:
        """Add hits (windows, size) of `trials` numbers each."""
        self.hits += hits
        self.trials += trials

    def pooled(self) -> WindowCounter:
        """The counts of all numbers together."""
        return self.part(np.ones(self.trials.size, dtype=np.bool_))

    def part(self, which: Bools) -> WindowCounter:
        """The counts of some of them (size,) together."""
        one = WindowCounter(self.windows)
        one.add(self.hits[:, which].sum(axis=1, keepdims=True), int(self.trials[which].sum()))
        return one

    @property
    def too_many(self) -> Bools:
        """Where some window holds more than chance explains, (size,)."""
        return too_many(self.windows, self.hits, self.trials)

    def would_detect(self, ratios: Floats) -> bool:
        """Whether a fault would have been found that puts `ratios` (windows,) as many numbers into windows.

        It takes the numbers seen, and a count a little below the expected one. True does not mean that there
        is no such fault: what clients learn can hide it.
        """
        trials = self.trials[np.newaxis].astype(np.float64)
        expected = np.minimum(self.hits * ratios[:, np.newaxis], trials)
        spread = np.sqrt(expected * (1.0 - expected / np.maximum(trials, 1.0)))
        short = np.maximum(expected - _DEVIATIONS * spread, 0.0)
        return bool(too_many(self.windows, short.astype(np.int64), self.trials).any())
