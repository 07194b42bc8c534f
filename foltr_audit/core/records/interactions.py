"""One federated round: what the server sees, and the truth, which only the judge may use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from foltr_audit.errors import UsageError
from foltr_audit.recorder.messages import OUTCOMES
from foltr_audit.recorder.round_tables import CohortColumns, RoundColumns
from foltr_audit.utils.arrays import (
    Bools,
    Features,
    Floats,
    Ints,
    Weights,
    Words,
    read_only,
    read_only_features,
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Cohort(CohortColumns):
    """The nodes that a server asked in a round.

    Raises:
        UsageError: inconsistent lengths, or an unknown outcome.
    """

    node: Words
    outcome: tuple[str, ...]
    reason: tuple[str, ...]
    stage: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "node", read_only(self.node, np.uint64))
        for name in ("outcome", "reason", "stage"):
            texts = tuple(str(text) for text in getattr(self, name))
            object.__setattr__(self, name, texts)
            if len(texts) != self.node.size:
                raise UsageError(f"cohort: {len(texts)} entries in {name}, expected {self.node.size}")
        for text in self.outcome:
            if text not in OUTCOMES:
                raise UsageError(f"cohort: outcome is {text[:60]!r}, expected {' or '.join(OUTCOMES)}")

    def __len__(self) -> int:
        return int(self.node.size)


Payload = NDArray[np.float32] | Floats | NDArray[np.uint64]
"""Messages: plain, or encoded as integers modulo 2^b."""


class GlobalModel(NamedTuple):
    """What a server continues with in the next round.

    Attributes:
        parameters: the global model, float64 (P,).
        state: its other state, e.g. the moments of an optimiser, float64 (S,); None for a server that
            averages models.
    """

    parameters: Floats
    state: Floats | None = None


_PAYLOADS = (np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.uint64))


def _freeze(record: object, dtypes: Mapping[str, DTypeLike], who: str) -> None:
    for name, dtype in dtypes.items():
        given = getattr(record, name)
        try:
            with np.errstate(invalid="ignore"):  # NaN as a whole number: it is found to differ
                array: NDArray[np.generic] = read_only(given, dtype)
            cast = array.dtype.kind in "iub" and np.asarray(given).dtype != array.dtype
            changed = cast and array != np.asarray(given)
        except (ValueError, TypeError, OverflowError):
            changed = True
        if np.any(changed):
            kinds = {"i": "whole numbers", "u": "whole numbers from 0 on", "b": "true or false"}
            expected = kinds.get(np.dtype(dtype).kind, f"numbers of type {dtype}")
            told = _told(given if changed is True else np.asarray(given)[changed])
            raise UsageError(f"{who}: {name} hold {told}, expected {expected}")
        object.__setattr__(record, name, array)


def _type_of_counts(counts: ArrayLike) -> DTypeLike:
    """Type of the weights of messages: int64, or float64 where one is not whole."""
    given = np.asarray(counts)
    whole = given.dtype.kind != "f" or np.all(np.isfinite(given) & (given == np.rint(given)))
    return np.int64 if whole else np.float64


def _told(values: object) -> str:
    """The first value of an array without numbers, for an error."""
    array = np.asarray(values, dtype=object).reshape(-1)
    return repr(array[0])[:60] if array.size else repr(values)[:60]


def _expect(who: str, name: str, array: NDArray[np.generic], shape: tuple[int, ...]) -> None:
    if array.shape != shape:
        raise UsageError(f"{who}: {name} has shape {array.shape}, expected {shape}")


def _at_least(who: str, name: str, array: NDArray[np.number], least: int) -> None:
    if array.size and not (array.min() >= least and array.max() < np.inf):
        wrong = array.max() if array.min() >= least else array.min()
        raise UsageError(f"{who}: {name} holds {wrong}, expected {least} or more")


@dataclass(frozen=True, kw_only=True, eq=False)
class RoundRecord(RoundColumns):
    """What an honest-but-curious server sees of one round: M messages and I interactions, read-only.

    Attributes:
        messages: float32 or float64, or uint64 where encoded for secure aggregation, shape (M, P); (M, W)
            where they are encoded with more words, or are not models, in which case `state` is set. Of
            several arrays the floating ones, one after the other.
        buffers: arrays of messages that are no parameters, each (M, ...), in the order of the layout.

    Raises:
        UsageError: inconsistent shapes, indices out of range, rows out of order.
    """

    round: int
    parameters: Floats
    aggregate: Floats
    shares: int
    survivors: Bools
    counts: Weights
    messages: Payload
    slot: Ints
    step: Ints
    part: Ints
    query: Ints
    shown: Ints
    features: Features | None = None
    total: NDArray[np.uint64] | None = None
    aborted: str = ""
    seeds: Words | None = None
    state: Floats | None = None
    buffers: tuple[NDArray[np.generic], ...] = ()
    senders: Words | None = None
    sizes: Ints | None = None
    sent_at: Floats | None = None
    started: float | None = None
    ended: float | None = None
    clear: Mapping[str, Floats] = field(default_factory=dict)
    cohort: Cohort | None = None
    facts: Mapping[str, object] = field(default_factory=dict)
    candidates: Features | None = None
    n_candidates: Ints | None = None

    def __post_init__(self) -> None:
        who = f"round {self.round}"
        if self.round < 0 or self.shares < 0:
            raise UsageError(f"{who}: round and shares must not be negative; shares is {self.shares}")
        payload = np.asarray(self.messages).dtype
        if payload not in _PAYLOADS:
            raise UsageError(f"{who}: messages are {payload}, expected float32 or float64 (or masked uint64)")
        if payload != np.uint64 and (self.total is not None or self.aborted):
            raise UsageError(f"{who}: a secure sum of messages that are {payload}, expected uint64")
        whole: dict[str, DTypeLike] = dict.fromkeys(("slot", "step", "part", "query", "shown"), np.int64)
        whole["counts"] = _type_of_counts(self.counts)
        floats: dict[str, DTypeLike] = {
            "parameters": np.float64,
            "aggregate": np.float64,
            "messages": payload,
        }
        _freeze(self, {**whole, **floats, "survivors": np.bool_}, who)
        if self.features is not None:
            object.__setattr__(self, "features", read_only_features(self.features))
        given: dict[str, DTypeLike] = {
            **dict.fromkeys(("total", "seeds", "senders"), np.uint64),
            **dict.fromkeys(("sizes", "n_candidates"), np.int64),
            **dict.fromkeys(("state", "sent_at"), np.float64),
        }
        _freeze(self, {name: dtype for name, dtype in given.items() if getattr(self, name) is not None}, who)
        buffers: list[NDArray[np.generic]] = [
            read_only(values, np.asarray(values).dtype) for values in self.buffers
        ]
        clear: dict[str, Floats] = {
            name: read_only(values, np.float64) for name, values in self.clear.items()
        }
        object.__setattr__(self, "buffers", tuple(buffers))
        object.__setattr__(self, "clear", clear)
        object.__setattr__(self, "facts", dict(self.facts))
        self._check_shapes(who)
        self._check_values(who)
        self._check_candidates(who)

    def _check_shapes(self, who: str) -> None:
        if self.messages.ndim != 2 or self.shown.ndim != 2:
            raise UsageError(
                f"{who}: messages have shape {self.messages.shape} and shown lists {self.shown.shape}, "
                "expected (M, P) and (I, k)"
            )
        (M, W), (rows, k) = self.messages.shape, self.shown.shape
        other = self.state is not None or self.messages.dtype == np.uint64
        P = self.parameters.size if other else W
        if self.state is not None:
            _expect(who, "state", self.state, (self.state.size,))
        for name in ("parameters", "aggregate"):
            _expect(who, name, getattr(self, name), (P,))
        if self.total is not None:
            _expect(who, "total", self.total, (W,))
        self._check_columns(who, M)
        for name in ("slot", "step", "part", "query"):
            _expect(who, name, getattr(self, name), (rows,))
        if self.features is not None:
            _expect(who, "features", self.features, (rows, k, self.features.shape[-1]))

    def _check_columns(self, who: str, messages: int) -> None:
        """Refuse what a server notes of each message in another number than that of messages."""
        for name in ("survivors", "counts", "seeds", "senders", "sizes", "sent_at"):
            if (values := getattr(self, name)) is not None:
                _expect(who, name, values, (messages,))
        for name, values in self.clear.items():
            _expect(who, f"clear {name}", values, (messages,))
        for number, buffer in enumerate(self.buffers):
            _expect(who, f"buffer {number}", buffer, (messages, *buffer.shape[1:]))

    def _check_values(self, who: str) -> None:
        for name in ("counts", "slot", "step", "part", "query", "sizes"):
            if (values := getattr(self, name)) is not None:
                _at_least(who, name, values, 0)
        _at_least(who, "shown", self.shown, -1)
        if self.slot.size and self.slot.max() >= self.n_messages:
            raise UsageError(
                f"{who}: slot holds {self.slot.max()}, expected less than the {self.n_messages} messages"
            )
        ahead = np.diff(self.slot)
        if np.any((ahead < 0) | ((ahead == 0) & (np.diff(self.step) <= 0))):
            raise UsageError(f"{who}: interactions are not sorted by (slot, step)")
        padding = self.shown < 0
        # One row for all lists, in which comparing is ten times as fast; a new list may begin after padding.
        every = padding.reshape(-1)
        stops = every[:-1] > every[1:]
        stops[padding.shape[1] - 1 :: max(1, padding.shape[1])] = False
        if stops.any():
            raise UsageError(f"{who}: a shown list has a document after its padding")
        if self.features is not None and np.any(self.features[padding]):
            raise UsageError(f"{who}: features differ from 0 where a shown list is padded")

    def _check_candidates(self, who: str) -> None:
        if (self.candidates is None) != (self.n_candidates is None):
            raise UsageError(f"{who}: expected both candidates and n_candidates, or neither")
        if self.candidates is None or self.n_candidates is None:
            return
        object.__setattr__(self, "candidates", read_only_features(self.candidates))
        _expect(who, "n_candidates", self.n_candidates, self.slot.shape)
        _at_least(who, "n_candidates", self.n_candidates, 0)
        _expect(who, "candidates", self.candidates, (int(self.n_candidates.sum()), self.candidates.shape[-1]))
        if np.any(self.shown >= self.n_candidates[:, np.newaxis]):
            raise UsageError(f"{who}: a shown list has a document that is not among its candidates")

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


def _type_of_clients(clients: ArrayLike) -> DTypeLike:
    """Type of client numbers: int64, or uint64 where only that holds them."""
    given = np.asarray(clients)
    large = given.dtype == np.uint64 and given.size and int(given.max()) >= 2**63
    return np.uint64 if large else np.int64


@dataclass(frozen=True, kw_only=True, eq=False)
class RoundTruth:
    """The parts of a round that no observer sees; rows match those of its RoundRecord.

    Attributes:
        clients: int64, shape (M,); the real client behind each message; uint64 where numbers need it.
        updates: float64, shape (M, P); each client's update before any defense, a row of NaN where unknown;
            (M, 0), as without updates, where all are.
        clicks: bool, shape (I, k); False where the shown list is padded.
        clipped: bool, shape (I,); whether this local step was clipped; (0,), as without clipped, where
            unknown.
        metrics: utility of the round by name, e.g. `offline_ndcg@10`; NaN where undefined.
        intents: int64, shape (I,); the intent of each interaction, from 0; None for a single intent.
        known: bool, shape (I,); whether the clicks of an interaction are known; None where all are. Unknown
            ones are never scored.

    Raises:
        UsageError: inconsistent shapes, a negative client, or a metric named `round`.
    """

    clients: Ints
    updates: Floats = field(default_factory=lambda: np.empty((0, 0)))
    clicks: Bools
    clipped: Bools = field(default_factory=lambda: np.empty(0, dtype=np.bool_))
    metrics: Mapping[str, float] = field(default_factory=dict)
    intents: Ints | None = None
    known: Bools | None = None

    def __post_init__(self) -> None:
        given = {"known": np.bool_, "intents": np.int64}
        more = {name: kind for name, kind in given.items() if getattr(self, name) is not None}
        kinds = {"clients": _type_of_clients(self.clients), "updates": np.float64}
        kinds |= {"clicks": np.bool_, "clipped": np.bool_}
        _freeze(self, kinds | more, "truth")
        if self.updates.shape == (0, 0):
            object.__setattr__(self, "updates", np.empty((self.clients.size, 0)))
        metrics = {name: float(value) for name, value in self.metrics.items()}
        object.__setattr__(self, "metrics", metrics)
        if self.updates.ndim != 2 or self.clicks.ndim != 2:
            raise UsageError(
                f"truth: updates have shape {self.updates.shape} and clicks {self.clicks.shape}, "
                "expected (M, P) and (I, k)"
            )
        _expect("truth", "clients", self.clients, self.updates.shape[:1])
        if self.knows_clips:
            _expect("truth", "clipped", self.clipped, self.clicks.shape[:1])
        for name in ("known", "intents"):
            if (values := getattr(self, name)) is not None:
                _expect("truth", name, values, self.clicks.shape[:1])
        _at_least("truth", "clients", self.clients, 0)
        if self.intents is not None:
            _at_least("truth", "intents", self.intents, 0)
        if "round" in metrics:
            raise UsageError("truth: a metric must not be named 'round'")

    @property
    def knows_clips(self) -> bool:
        """Whether it is known which steps were clipped."""
        return self.clipped.shape != (0,) or not len(self.clicks)
