"""One federated round: what the server sees, and the truth, which only the judge may use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foltr_audit.errors import UsageError
from foltr_audit.recorder.round_tables import RoundColumns, TruthColumns
from foltr_audit.utils.arrays import Bools, Features, Floats, Ints, freeze, read_only

Payload = NDArray[np.float32] | Floats | NDArray[np.uint64]
"""Messages: plain, or encoded as integers modulo 2^b."""

_PAYLOADS = (np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.uint64))


_Chosen = Callable[[NDArray[Any]], str]


class _Column(NamedTuple):
    """An array of a record: its type, or what chooses it; a letter for each axis; the least of its values."""

    dtype: str | _Chosen
    axes: str
    least: int | None = None


def _double_or_single(given: NDArray[Any]) -> str:
    return "f8" if given.dtype == np.float64 else "f4"


def _whole_if_whole(given: NDArray[Any]) -> str:
    fractions = given.dtype.kind == "f" and not np.all(np.isfinite(given) & (given == np.rint(given)))
    return "f8" if fractions else "i8"


def _words_if_large(given: NDArray[Any]) -> str:
    large = given.dtype == np.uint64 and given.size and int(given.max()) >= 2**63
    return "u8" if large else "i8"


def _freeze(record: object, who: str, columns: Mapping[str, _Column], lengths: Mapping[str, int]) -> None:
    """Make arrays of a record read-only, checked as `_checked` does; what is None stays None."""
    for name, column in columns.items():
        if (given := getattr(record, name)) is not None:
            object.__setattr__(record, name, _checked(f"{who}: {name}", given, column, lengths))


def _checked(who: str, given: ArrayLike, column: _Column, lengths: Mapping[str, int]) -> NDArray[Any]:
    """A read-only array of the type of a column.

    Raises:
        UsageError: a type would change a value, a shape is not that of its axes, or a value is too small.
    """
    array = _exact(who, given, column.dtype)
    shape = tuple(lengths.get(axis, array.shape[-1] if array.ndim else 0) for axis in column.axes)
    if array.shape != shape:
        raise UsageError(f"{who} has shape {array.shape}, expected {shape}")
    least = column.least
    if least is not None and array.size and not (array.min() >= least and array.max() < np.inf):
        wrong = array.max() if array.min() >= least else array.min()
        raise UsageError(f"{who} holds {wrong}, expected {least} or more")
    return array


def _exact(who: str, given: ArrayLike, kind: str | _Chosen) -> NDArray[Any]:
    """A read-only array of a type, or an error where that would change a value."""
    dtype = np.dtype(kind if isinstance(kind, str) else kind(np.asarray(given)))
    try:
        values: NDArray[Any] = np.asarray(given)
        with np.errstate(invalid="ignore"):  # NaN as a whole number: it is found to differ
            array: NDArray[Any] = read_only(values, dtype)
        wrong = values[array != values] if dtype.kind in "iub" and values.dtype != dtype else values[:0]
    except (ValueError, TypeError, OverflowError):
        wrong = np.asarray(given, dtype=object).reshape(-1)
    if wrong.size:
        kinds = {"i": "whole numbers", "u": "whole numbers from 0 on", "b": "true or false"}
        expected = kinds.get(dtype.kind, f"numbers of type {dtype}")
        raise UsageError(f"{who} hold {repr(wrong.tolist()[0])[:60]}, expected {expected}")
    return array


class GlobalModel(NamedTuple):
    """What a server continues with in the next round.

    Attributes:
        parameters: the global model, float64 (P,).
        state: its other state, e.g. the moments of an optimiser, float64 (S,); None for a server that
            averages models.
    """

    parameters: Floats
    state: Floats | None = None


_OF_ROUND = {
    "parameters": _Column("f8", "P"),
    "aggregate": _Column("f8", "P"),
    "state": _Column("f8", "S"),
    "total": _Column("u8", "W"),
    "survivors": _Column("?", "M"),
    "counts": _Column(_whole_if_whole, "M", 0),
    "seeds": _Column("u8", "M"),
    "senders": _Column("u8", "M"),
    "sizes": _Column("i8", "M", 0),
    "sent_at": _Column("f8", "M"),
    **dict.fromkeys(("slot", "step", "part", "query"), _Column("i8", "I", 0)),
    "shown": _Column("i8", "Ik", -1),
    "features": _Column(_double_or_single, "Ikd"),
    "n_candidates": _Column("i8", "I", 0),
}
_CANDIDATES = {"candidates": _Column(_double_or_single, "Cd")}
_OF_TRUTH = {
    "clients": _Column(_words_if_large, "M", 0),
    "updates": _Column("f8", "MP"),
    "clicks": _Column("?", "Ik"),
    "clipped": _Column("?", "N"),
    "intents": _Column("i8", "I", 0),
    "known": _Column("?", "I"),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class RoundRecord(RoundColumns):
    """What an honest-but-curious server sees of one round: M messages and I interactions, read-only.

    It has the fields of `RoundColumns`, and the messages themselves.

    Attributes:
        messages: float32 or float64, or uint64 where encoded for secure aggregation, shape (M, P); (M, W)
            where they are encoded with more words, or are not models, in which case `state` is set. Of
            several arrays the floating ones, one after the other.
        buffers: arrays of messages that are no parameters, each (M, ...), in the order of the layout.

    Raises:
        UsageError: inconsistent shapes, indices out of range, rows out of order.
    """

    messages: Payload
    buffers: tuple[NDArray[np.generic], ...] = ()

    def __post_init__(self) -> None:
        who = f"round {self.round}"
        if self.round < 0 or self.shares < 0:
            raise UsageError(f"{who}: round and shares must not be negative; shares is {self.shares}")
        payload = np.asarray(self.messages).dtype
        if payload not in _PAYLOADS:
            raise UsageError(f"{who}: messages are {payload}, expected float32 or float64 (or masked uint64)")
        if payload != np.uint64 and (self.total is not None or self.aborted):
            raise UsageError(f"{who}: a secure sum of messages that are {payload}, expected uint64")
        if len(np.shape(self.messages)) != 2 or len(np.shape(self.shown)) != 2:
            raise UsageError(
                f"{who}: messages have shape {np.shape(self.messages)} and shown lists "
                f"{np.shape(self.shown)}, expected (M, P) and (I, k)"
            )
        (M, W), (rows, k) = np.shape(self.messages), np.shape(self.shown)
        other = self.state is not None or payload == np.uint64
        P = np.size(self.parameters) if other else W
        freeze(self, messages=payload)
        _freeze(self, who, _OF_ROUND, {"M": M, "W": W, "P": P, "I": rows, "k": k})
        column = _Column("f8", "M")
        clear = {
            name: _checked(f"{who}: clear {name}", values, column, {"M": M})
            for name, values in self.clear.items()
        }
        buffers: tuple[NDArray[Any], ...] = tuple(
            read_only(values, np.asarray(values).dtype) for values in self.buffers
        )
        for number, buffer in enumerate(buffers):
            if buffer.shape[:1] != (M,):
                raise UsageError(
                    f"{who}: buffer {number} has shape {buffer.shape}, expected {(M, *buffer.shape[1:])}"
                )
        object.__setattr__(self, "buffers", buffers)
        object.__setattr__(self, "clear", clear)
        object.__setattr__(self, "facts", dict(self.facts))
        object.__setattr__(self, "cohort", tuple(self.cohort))
        self._check_lists(who)
        if (self.candidates is None) != (self.n_candidates is None):
            raise UsageError(f"{who}: expected both candidates and n_candidates, or neither")
        if self.candidates is not None and self.n_candidates is not None:
            # Whole numbers of Python: those of a forged file may wrap round.
            _freeze(self, who, _CANDIDATES, {"C": sum(self.n_candidates.tolist())})
            if np.any(self.shown >= self.n_candidates[:, np.newaxis]):
                raise UsageError(f"{who}: a shown list has a document that is not among its candidates")

    def _check_lists(self, who: str) -> None:
        if self.slot.size and self.slot.max() >= self.n_messages:
            raise UsageError(
                f"{who}: slot holds {self.slot.max()}, expected less than the {self.n_messages} messages"
            )
        ahead = np.diff(self.slot)
        if np.any((ahead < 0) | ((ahead == 0) & (np.diff(self.step) <= 0))):
            raise UsageError(f"{who}: interactions are not sorted by (slot, step)")
        padding = self.shown < 0
        if np.any(padding[:, :-1] > padding[:, 1:]):
            raise UsageError(f"{who}: a shown list has a document after its padding")
        if self.features is not None and np.any(self.features[padding]):
            raise UsageError(f"{who}: features differ from 0 where a shown list is padded")

    def candidates_of(self, lists: Bools) -> Features | None:
        """Candidates of some lists, which are True in an array (I,); None where they are not embedded."""
        if self.candidates is None or self.n_candidates is None:
            return None
        rows: Features = self.candidates[np.repeat(lists, self.n_candidates)]
        return rows

    @property
    def after(self) -> GlobalModel:
        """The model and state for the next round."""
        return GlobalModel(self.aggregate, self.state)

    @property
    def n_messages(self) -> int:
        return int(self.messages.shape[0])

    @property
    def counts_interactions(self) -> bool:
        """Whether the counts are numbers of interactions: of weights one is not whole."""
        return self.counts.dtype.kind != "f"

    @property
    def n_interactions(self) -> int:
        return int(self.slot.size)

    @property
    def lengths(self) -> Ints:
        """Number of documents in each shown list, shape (I,)."""
        return np.asarray((self.shown >= 0).sum(axis=1), dtype=np.int64)


@dataclass(frozen=True, kw_only=True, eq=False)
class RoundTruth(TruthColumns):
    """The parts of a round that no observer sees, the fields of `TruthColumns`; rows match its RoundRecord.

    Raises:
        UsageError: inconsistent shapes, a negative client, or a metric named `round`.
    """

    clients: Ints
    updates: Floats = field(default_factory=lambda: np.empty((0, 0)))

    def __post_init__(self) -> None:
        if np.shape(self.updates) == (0, 0):
            object.__setattr__(self, "updates", np.empty((np.size(self.clients), 0)))
        if len(np.shape(self.updates)) != 2 or len(np.shape(self.clicks)) != 2:
            raise UsageError(
                f"truth: updates have shape {np.shape(self.updates)} and clicks {np.shape(self.clicks)}, "
                "expected (M, P) and (I, k)"
            )
        (M, P), (rows, k) = np.shape(self.updates), np.shape(self.clicks)
        clips = 0 if np.shape(self.clipped) == (0,) else rows
        _freeze(self, "truth", _OF_TRUTH, {"M": M, "P": P, "I": rows, "k": k, "N": clips})
        metrics = {name: float(value) for name, value in self.metrics.items()}
        object.__setattr__(self, "metrics", metrics)
        if "round" in metrics:
            raise UsageError("truth: a metric must not be named 'round'")
