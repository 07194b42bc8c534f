"""Noise that repeats: outputs that are equal bit for bit although their trials had different generators."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from foltr_audit.auditing.function_outputs import RELOADED, FunctionOutputs
from foltr_audit.utils.arrays import Floats, Ints

_SHARE = 0.01  # of trials whose outputs repeat
_FEWEST = 3  # different outputs that repeat; fewer may be exceptional values of an intact mechanism
_CHANCE = 1e-9
_MOST_COORDINATES = 100  # that are looked at one by one
_NEAR, _MOST_STEPS = 1e-3, 2.0**30


def repeated_noise(outputs: FunctionOutputs) -> str:
    """Why the noise of a function repeats, in words; empty if nothing says so.

    Discrete outputs repeat by their nature, and so do rounded ones and the ends of a clipped range. So
    outputs, or one coordinate of them, count only if they are numbers with a fractional part that the other
    input never gave, and:

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
    zero, one = outputs.zero, outputs.one
    why = _repetition(_Sample("output", zero.codes, one.codes, np.concatenate([zero.numbers, one.numbers])))
    several = zero.numbers.shape[1] if zero.numbers.shape[1] > 1 else 0
    for j in range(min(several, _MOST_COORDINATES)):
        column = np.concatenate([zero.numbers[:, j], one.numbers[:, j]])
        first, second = np.unique(column, return_inverse=True)[1].reshape(2, -1)
        name = f"number at place {j} of the output"
        why = why or _repetition(_Sample(name, first, second, column[:, np.newaxis]))
    return why


class _Sample(NamedTuple):
    """What may repeat: its name, its values as codes (N,) with each input, and all as numbers (2 N, d)."""

    name: str
    zero: Ints
    one: Ints
    numbers: Floats


def _repetition(sample: _Sample) -> str:
    """Why something repeats, in words; empty if nothing says so."""
    numbers = sample.numbers
    if np.all(numbers == np.rint(numbers), where=np.isfinite(numbers)):
        return ""
    for which, (own, other) in enumerate([(sample.zero, sample.one), (sample.one, sample.zero)]):
        found = _repeated(own, other)
        every, different = found.size == own.size, np.unique(found).size
        if every and different == 1:
            return f"all {own.size} trials with input {which} gave the same {sample.name}, bit for bit"
        if (
            found.size >= _SHARE * own.size
            and (different >= _FEWEST or every)
            and not _single(numbers)
            and not all(_on_grid(column) for column in numbers.T)
        ):
            return (
                f"in {found.size} of {own.size} trials with input {which} the {sample.name} is, bit for bit, "
                f"that of another such trial, and input {1 - which} never gave it"
            )
    return ""


def _by_chance(outputs: FunctionOutputs) -> float:
    """The probability of `RELOADED` pairs of equal outputs, by how often each output occurs."""
    shares = [
        np.bincount(side.codes).astype(np.float64) / side.codes.size for side in (outputs.zero, outputs.one)
    ]
    return float(max((share * share).sum() for share in shares) ** RELOADED)


def _repeated(own: Ints, other: Ints) -> Ints:
    """The values of trials that occur twice or more with their own input, and never with the other."""
    size = 1 + int(max(own.max(), other.max()))
    mine, theirs = (np.bincount(side, minlength=size) for side in (own, other))
    return np.asarray(own[((mine >= 2) & (theirs == 0))[own]])


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
