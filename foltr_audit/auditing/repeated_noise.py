"""Noise that repeats: outputs that are equal bit for bit although their trials had different generators."""

from __future__ import annotations

import numpy as np

from foltr_audit.auditing.function_outputs import RELOADED, FunctionOutputs, OutputTable
from foltr_audit.utils.arrays import Floats, Ints

_SHARE = 0.01  # of trials whose outputs repeat
_FEWEST = 3  # different outputs that repeat; fewer may be exceptional values of an intact mechanism
_CHANCE = 1e-9
_NEAR, _MOST_STEPS = 1e-3, 2.0**30


def repeated_noise(outputs: FunctionOutputs) -> str:
    """Why the noise of a function repeats, in words; empty if nothing says so.

    Discrete outputs repeat by their nature, and so do rounded ones and the ends of a clipped range. So
    outputs count only if they are numbers with a fractional part that the other input never gave, and:

    - every trial with an input gave the same output; or
    - outputs repeat in every trial, or at least three different ones in one trial of a hundred or more; they
      lie on no common grid, and have more digits than single precision.

    Besides, outputs of any kind repeat if a second copy of the function gave the same ones, and chance would
    not have done so but once in 10^9 times.

    A mechanism with an epsilon above the ceiling of these trials may do the same and be intact.
    """
    if outputs.reloaded_alike and _by_chance(outputs) < _CHANCE:
        return (
            "the function draws random numbers of its own, and a second copy of it drew the same ones: it "
            "sets a seed of its own"
        )
    if outputs.kind != "numbers":
        return ""
    both = np.concatenate([outputs.zero.numbers, outputs.one.numbers])
    if np.all(both == np.rint(both), where=np.isfinite(both)):
        return ""
    for which, (own, other) in enumerate(
        [(outputs.zero, outputs.one), (outputs.one, outputs.zero)],
    ):
        found = _repeated(own, other)
        if found.size == own.codes.size and np.unique(found).size == 1:
            return f"all {own.codes.size} trials with input {which} gave the same output, bit for bit"
        if (
            found.size >= _SHARE * own.codes.size
            and (np.unique(found).size >= _FEWEST or found.size == own.codes.size)
            and not _single(both)
            and not all(_on_grid(column) for column in both.T)
        ):
            return (
                f"{found.size} of {own.codes.size} trials with input {which} gave an output that another of "
                f"them gave bit for bit, and that input {1 - which} never gave"
            )
    return ""


def _by_chance(outputs: FunctionOutputs) -> float:
    """The probability of `RELOADED` pairs of equal outputs, by how often each output occurs."""
    shares = [
        np.bincount(side.codes).astype(np.float64) / side.codes.size for side in (outputs.zero, outputs.one)
    ]
    return float(max((share * share).sum() for share in shares) ** RELOADED)


def _repeated(own: OutputTable, other: OutputTable) -> Ints:
    """The outputs of trials that occur twice or more with their own input, and never with the other."""
    size = 1 + int(max(own.codes.max(), other.codes.max()))
    mine, theirs = (np.bincount(side.codes, minlength=size) for side in (own, other))
    return np.asarray(own.codes[((mine >= 2) & (theirs == 0))[own.codes]])


def _single(numbers: Floats) -> bool:
    """Whether all numbers are of single precision, in which continuous noise repeats by chance."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.array_equal(numbers.astype(np.float32).astype(np.float64), numbers, equal_nan=True))


def _on_grid(numbers: Floats) -> bool:
    """Whether all numbers (n,) are multiples of one step, apart from a common offset."""
    values = np.unique(numbers[np.isfinite(numbers)])
    if values.size < _FEWEST:
        return True
    steps = (values - values[0]) / np.diff(values).min()
    return bool(steps[-1] < _MOST_STEPS and np.abs(steps - np.rint(steps)).max() < _NEAR)
