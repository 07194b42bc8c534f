"""What a function returns in many calls with two neighbouring inputs, and noise that repeats."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
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
class OutputTable:
    """The outputs of the trials with one input.

    `numbers`, float64 (N, d), are those of each output; of text and bytes the length alone. `codes`, int64
    (N,), number them: equal numbers, of both inputs, are equal outputs, bit for bit.
    """

    numbers: Floats
    codes: Ints


@dataclass(frozen=True, eq=False)
class FunctionOutputs:
    """The outputs of all trials of a function, of one kind, with input 0 and 1.

    It is `repeatable` if the same generator gave the same output again; else it draws random numbers of its
    own. Such a function is `reloaded_alike` if a second copy of it gave the same outputs in the first
    `RELOADED` trials, with other generators.
    """

    zero: OutputTable
    one: OutputTable
    kind: Kind
    repeatable: bool
    reloaded_alike: bool = False

    @classmethod
    def of_arrays(cls, zero: Floats, one: Floats) -> FunctionOutputs:
        """The outputs with each input as rows, float64 (N, d), of a function that is repeatable."""
        both = np.concatenate([zero, one])
        codes = np.unique(both, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
        tables = OutputTable(zero, codes[: len(zero)]), OutputTable(one, codes[len(zero) :])
        return cls(*tables, kind="numbers", repeatable=True)


class _Output(NamedTuple):
    """One output: its kind, its shape, its bits, and its numbers (d,)."""

    kind: Kind
    shape: tuple[int, ...]
    bits: bytes
    numbers: Floats


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
    outputs = _OutputCollector(calls)
    mixed: list[int] = streams.generator("audit-function/order").permutation(2 * calls).tolist()
    order = [divmod(turn, calls) for turn in mixed]
    step = max(1, len(order) // _PIECES)
    with progress.task("call the function", len(order) // step) as tick:
        for done, (which, trial) in enumerate(order, start=1):
            outputs.add(which, trial, _call(mechanism, inputs, which, trial, streams))
            if done % step == 0:
                tick()
    replayed = [(which, trial) for which in (0, 1) for trial in range(_REPLAYS)]
    repeatable = all(outputs.equals(*turn, _call(mechanism, inputs, *turn, streams)) for turn in replayed)
    alike = False
    if reload is not None and not repeatable:
        second = reload()
        alike = all(
            outputs.equals(which, trial, _call(second, inputs, which, trial + calls, streams))
            for which, trial in order[:RELOADED]
        )
    return outputs.result(repeatable=repeatable, reloaded_alike=alike)


def _call(mechanism: Mechanism[T], inputs: tuple[T, T], which: int, trial: int, streams: Streams) -> _Output:
    rng = streams.generator(f"audit-function/{which}/{trial}")
    try:
        given = copy.deepcopy(inputs[which])
        output = mechanism(given, rng)
    except (Exception, SystemExit) as error:  # whatever the function raises is for its author
        raise UsageError(
            f"the function raised {type(error).__name__} with input {which}: {message_of(error)}"
        ) from error
    return _read_output(output)


def _read_output(output: object) -> _Output:
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


class _OutputCollector:
    """Collects the outputs of trials, which must be alike in kind and shape."""

    def __init__(self, calls: int) -> None:
        self._calls = calls
        self._known: dict[bytes, int] = {}
        self._codes = np.zeros((2, calls), dtype=np.int64)
        self._numbers: Floats | None = None
        self._first: _Output | None = None

    def add(self, which: int, trial: int, output: _Output) -> None:
        """Keep the output of a trial, which must be like the others in kind and shape."""
        if self._first is None or self._numbers is None:
            self._first = output
            if 2 * self._calls * output.numbers.size > MOST_NUMBERS:
                raise UsageError(
                    f"the function returns {output.numbers.size} numbers in each of {2 * self._calls} "
                    f"trials; expected {MOST_NUMBERS} in all at most: fewer trials, or a part of the output"
                )
            self._numbers = np.zeros((2, self._calls, output.numbers.size))
        if (output.kind, output.shape) != (self._first.kind, self._first.shape):
            raise UsageError(
                f"the function returned {_described(self._first)}, and {_described(output)} in another "
                "trial; expected outputs of one kind and shape"
            )
        self._numbers[which, trial] = output.numbers
        self._codes[which, trial] = self._known.setdefault(output.bits, len(self._known))

    def equals(self, which: int, trial: int, output: _Output) -> bool:
        """Whether an output is that of a trial, bit for bit."""
        return self._known.get(output.bits) == int(self._codes[which, trial])

    def result(self, *, repeatable: bool, reloaded_alike: bool) -> FunctionOutputs:
        """The outputs of all trials, of which there must be one."""
        if self._first is None or self._numbers is None:
            raise UsageError("no trials; expected at least one")
        zero, one = (OutputTable(self._numbers[which], self._codes[which]) for which in (0, 1))
        return FunctionOutputs(zero, one, self._first.kind, repeatable, reloaded_alike)


def _described(output: _Output) -> str:
    if output.kind != "numbers":
        return output.kind
    return f"an array of shape {output.shape}" if output.shape else "a number"


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
    why = _repetition("output", zero.codes, one.codes, np.concatenate([zero.numbers, one.numbers]))
    columns = zero.numbers.shape[1] if zero.numbers.shape[1] > 1 else 0
    for j in range(min(columns, _MOST_COORDINATES)):
        column = np.concatenate([zero.numbers[:, j], one.numbers[:, j]])
        first, second = np.unique(column, return_inverse=True)[1].reshape(2, -1)
        name = f"number at place {j} of the output"
        why = why or _repetition(name, first, second, column[:, np.newaxis])
    return why


def _repetition(name: str, zero: Ints, one: Ints, numbers: Floats) -> str:
    """Why the values that are codes (N,) with each input, and all as numbers (2 N, d), repeat; or empty."""
    if np.all(numbers == np.rint(numbers), where=np.isfinite(numbers)):
        return ""
    for which, (own, other) in enumerate([(zero, one), (one, zero)]):
        repeated = _repeated(own, other)
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


def _by_chance(outputs: FunctionOutputs) -> float:
    """The probability of `RELOADED` pairs of equal outputs, by how often each output occurs."""
    shares = [
        np.bincount(side.codes).astype(np.float64) / side.codes.size for side in (outputs.zero, outputs.one)
    ]
    return float(max((share * share).sum() for share in shares) ** RELOADED)


def _repeated(own: Ints, other: Ints) -> Ints:
    """The values of trials that occur twice or more with their own input, and never with the other."""
    size = 1 + int(max(own.max(), other.max()))
    own_counts, other_counts = (np.bincount(side, minlength=size) for side in (own, other))
    return np.asarray(own[((own_counts >= 2) & (other_counts == 0))[own]])


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
