"""What a function returns in many calls with two neighbouring inputs, and noise that repeats."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product
from typing import Literal, NamedTuple, TypeVar

import numpy as np

from foltr_audit.errors import UsageError, message_of, shorten_value
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Floats, Ints
from foltr_audit.utils.progress import Progress

T = TypeVar("T")

Mechanism = Callable[[T, np.random.Generator], object]
"""A function of an input and a random generator, which returns a number, an array, text or bytes."""

Kind = Literal["numbers", "text", "bytes"]

MOST_NUMBERS = 1 << 26
"""Numbers that the outputs of all trials may hold together: half a GiB, and four times that to score them."""

RELOADED = 256
"""Trials that a second copy of a function plays."""

_REPLAYS = 8  # trials with each input that are played again with the same generator
_PIECES = 100  # steps of the progress bar


@dataclass(frozen=True, eq=False)
class FunctionOutputs:
    """The outputs of N trials of a function with each of two inputs, of one kind.

    `numbers`, float64 (2, N, d), are those of each output, by its input; of text and bytes the length alone.
    `codes`, int64 (2, N), number them: equal numbers are equal outputs, bit for bit.

    It is `repeatable` if the same generator gave the same output again; else it draws random numbers of its
    own. Such a function is `reloaded_alike` if a second copy of it gave the same outputs in the first
    `RELOADED` trials, with other generators.
    """

    numbers: Floats
    codes: Ints
    kind: Kind
    repeatable: bool
    reloaded_alike: bool = False

    @classmethod
    def of_arrays(cls, zero: Floats, one: Floats) -> FunctionOutputs:
        """The outputs with each input as rows, float64 (N, d), of a function that is repeatable."""
        codes = np.unique(np.concatenate([zero, one]), axis=0, return_inverse=True)[1].reshape(2, -1)
        return cls(np.stack([zero, one]), codes.astype(np.int64), kind="numbers", repeatable=True)


class _Output(NamedTuple):
    """One output: its kind, its shape, its bits, and its numbers (d,)."""

    kind: Kind
    shape: tuple[int, ...]
    bits: bytes
    numbers: Floats

    def __str__(self) -> str:
        if self.kind != "numbers":
            return self.kind
        return f"an array of shape {self.shape}" if self.shape else "a number"


def call_function(
    mechanism: Mechanism[T],
    inputs: tuple[T, T],
    calls: int,
    streams: Streams,
    progress: Progress,
    reload: Callable[[], Mechanism[T]] | None = None,
) -> FunctionOutputs:
    """Call a function in `calls` trials with each of two inputs, in random order.

    Each trial has a random generator of its own, and a copy of the input, which the function may change.

    With `reload`, which makes a second copy of the function as a new process would have it, the outputs also
    say whether that gave the same ones.
    """
    mixed: list[int] = streams.generator("audit-function/order").permutation(2 * calls).tolist()
    order = [divmod(turn, calls) for turn in mixed]
    first = _call(mechanism, inputs, *order[0], streams)
    if 2 * calls * first.numbers.size > MOST_NUMBERS:
        raise UsageError(
            f"the function returns {first.numbers.size} numbers in each of {2 * calls} trials; expected "
            f"{MOST_NUMBERS} in all at most: fewer trials, or a part of the output"
        )
    known: dict[bytes, int] = {}
    codes, numbers = np.zeros((2, calls), dtype=np.int64), np.zeros((2, calls, first.numbers.size))
    step = max(1, len(order) // _PIECES)
    with progress.task("call the function", len(order) // step) as tick:
        for done, turn in enumerate(order, start=1):
            output = first if done == 1 else _call(mechanism, inputs, *turn, streams)
            if (output.kind, output.shape) != (first.kind, first.shape):
                raise UsageError(
                    f"the function returned {first}, and {output} in another trial; expected outputs of one "
                    "kind and shape"
                )
            numbers[turn], codes[turn] = output.numbers, known.setdefault(output.bits, len(known))
            if done % step == 0:
                tick()

    def again(function: Mechanism[T], turns: Iterable[tuple[int, int]], first: int = 0) -> bool:
        """Whether a function gives the outputs of some trials, with the generators from the first one on."""
        return all(
            known.get(_call(function, inputs, which, trial + first, streams).bits) == codes[which, trial]
            for which, trial in turns
        )

    repeatable = again(mechanism, product((0, 1), range(_REPLAYS)))
    alike = reload is not None and not repeatable and again(reload(), order[:RELOADED], first=calls)
    return FunctionOutputs(numbers, codes, first.kind, repeatable, alike)


def _call(mechanism: Mechanism[T], inputs: tuple[T, T], which: int, trial: int, streams: Streams) -> _Output:
    rng = streams.generator(f"audit-function/{which}/{trial}")
    try:
        output = mechanism(copy.deepcopy(inputs[which]), rng)
    except (Exception, SystemExit) as error:  # whatever the function raises is for its author
        raise UsageError(
            f"the function raised {type(error).__name__} with input {which}: {message_of(error)}"
        ) from error
    if isinstance(output, str):
        return _Output("text", (), output.encode("utf-8", "surrogatepass"), np.array([float(len(output))]))
    if isinstance(output, bytes | bytearray | memoryview):
        return _Output("bytes", (), bytes(output), np.array([float(len(bytes(output)))]))
    expected = "expected a number, an array of numbers, text or bytes"
    try:
        array = np.asarray(output)
    except (ValueError, TypeError) as error:
        raise UsageError(
            f"the function returned a {type(output).__name__}: {message_of(error)}; {expected}"
        ) from error
    if array.dtype.kind not in "biuf" or not array.size:
        what = "an empty array" if not array.size else f"a {type(output).__name__}: {shorten_value(output)}"
        raise UsageError(f"the function returned {what}; {expected}")
    bits = array.dtype.str.encode() + array.tobytes()
    return _Output("numbers", array.shape, bits, array.astype(np.float64).ravel())


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
    if outputs.reloaded_alike:
        # The probability of `RELOADED` pairs of equal outputs, by how often each output occurs.
        shares = [np.bincount(codes) / codes.size for codes in outputs.codes]
        if max(float((share * share).sum()) for share in shares) ** RELOADED < _CHANCE:
            return (
                "the function draws random numbers of its own, and a second copy of it drew the same ones: "
                "it sets a seed of its own"
            )
    if outputs.kind != "numbers":
        return ""
    width = outputs.numbers.shape[2]
    why = _repetition("output", outputs.codes, outputs.numbers.reshape(-1, width))
    for j in range(min(width, _MOST_COORDINATES) if width > 1 else 0):
        column = outputs.numbers[:, :, j].reshape(-1, 1)
        codes = np.unique(column, return_inverse=True)[1].reshape(2, -1)
        why = why or _repetition(f"number at place {j} of the output", codes, column)
    return why


def _repetition(name: str, codes: Ints, numbers: Floats) -> str:
    """Why the values that are codes (2, N), and all as numbers (2 N, d), repeat; or empty."""
    if np.all(numbers == np.rint(numbers), where=np.isfinite(numbers)):
        return ""
    for which, (own, other) in enumerate([codes, codes[::-1]]):
        # The values that occur twice or more with their own input, and never with the other.
        counts, others = (np.bincount(side, minlength=1 + int(codes.max())) for side in (own, other))
        repeated = own[((counts >= 2) & (others == 0))[own]]
        every, different = repeated.size == own.size, np.unique(repeated).size
        if every and different == 1:
            return f"all {own.size} trials with input {which} gave the same {name}, bit for bit"
        if (
            repeated.size >= _SHARE * own.size
            and (different >= _FEWEST or every)
            and not _single(numbers)
            and not all(_on_grid(column) for column in numbers.T)
        ):
            return (
                f"in {repeated.size} of {own.size} trials with input {which} the {name} is, bit for "
                f"bit, that of another such trial, and input {1 - which} never gave it"
            )
    return ""


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
