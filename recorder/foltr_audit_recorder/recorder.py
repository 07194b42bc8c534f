"""The recorder: a server gives it what it sees of each round, and it writes a trace."""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import math
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import atomic_files
from .array_layout import BUFFERS, LayoutArray, NamedArray, n_parameters, named_arrays
from .messages import NodeOutcome, ReceivedMessage
from .part_files import HEADER, PartRange, clean, commit_part, marker_indices, marker_name, part_files
from .received_rounds import (
    ListForm,
    are_whole,
    cohort_columns,
    is_mean,
    list_columns,
    message_arrays,
    message_columns,
    parameters_of,
    truth_columns,
    whole_words,
)
from .round_tables import RoundColumns, Tables, check_same_columns, join_tables, round_tables
from .toml_text import plain_facts, plain_text
from .trace_start import METRICS, TraceStart, model_layout, n_words

LOG = logging.getLogger("foltr_audit_recorder")


@dataclass(frozen=True, kw_only=True, eq=False)
class RoundInput:
    """What `Recorder.round` was given, under the same names."""

    model: object
    messages: Sequence[ReceivedMessage]
    aggregate: object = None
    asked: Sequence[int] | None = None
    failures: Mapping[int, str] = field(default_factory=dict)
    late: Sequence[int] | None = None
    outcomes: Sequence[NodeOutcome] = ()
    facts: Mapping[str, object] = field(default_factory=dict)
    shares: int = 0
    state: ArrayLike | None = None
    total: ArrayLike | None = None
    aborted: str = ""
    started: float = math.nan
    ended: float = math.nan
    metrics: Mapping[str, float] = field(default_factory=dict)

    def tables(self, start: TraceStart, number: int) -> Tables:
        """The rows of the round in every table.

        Raises:
            ValueError: what no trace of this start can hold.
        """
        entries = [*_train_outcomes(self), *self.outcomes]
        arrays = message_arrays(self.messages, start.layout, masked=start.words, bits=start.bits)
        sent = parameters_of(self.model, start.model, "model")
        if not np.all(np.isfinite(sent)):
            raise ValueError("model holds a number that is not finite")
        after = None if self.aggregate is None else parameters_of(self.aggregate, start.model, "aggregate")
        if after is not None and not np.all(np.isfinite(after)):
            after = None
        total = None
        if self.total is not None and start.words:
            total = whole_words(self.total, start.words, start.bits, "total")
        columns = RoundColumns(
            **message_columns(self.messages),
            **list_columns(
                self.messages,
                start.form,
                len(start.parts),
                counted=are_whole([message.count for message in self.messages]),
            ),
            round=number,
            parameters=sent,
            aggregate=after,
            shares=self.shares,
            state=np.empty(0) if self.state is None and start.kind == METRICS else self.state,
            total=total,
            aborted=self.aborted,
            facts=self._stated(start, arrays, sent, after),
            started=self.started,
            ended=self.ended,
            cohort=cohort_columns(entries),
        )
        truth = None
        if start.truth:
            truth = truth_columns(
                self.messages, start.form, start.layout, start.number_format, start.intents, self.metrics
            )
        return round_tables(columns, arrays, truth, masked=start.kind == "masked")

    def _stated(
        self,
        start: TraceStart,
        arrays: Sequence[NDArray[np.generic]],
        sent: NDArray[np.float64],
        after: NDArray[np.float64] | None,
    ) -> dict[str, object]:
        """The facts of the round; one of them says whether the aggregate is another than the mean."""
        stated = plain_facts(self.facts, of_round=True)
        if after is None or start.kind not in ("model", "update") or "aggregate" in {*stated, *start.facts}:
            return stated
        origin = np.zeros_like(sent) if start.kind == "model" and self.messages else sent
        if not is_mean(origin, self.messages, arrays, start.layout, after):
            stated["aggregate"] = "other"
        return stated

    def fitting(self, start: TraceStart, number: int) -> RoundInput:
        """The round without what the trace cannot hold, which the log and the cohort say.

        A message that does not fit is left out, and its sender is one of those that failed. Of a message that
        fits, lists or an update that do not are left out.
        """
        kept: list[ReceivedMessage] = []
        failures: dict[int, str] = {}
        why: list[str] = []
        for message in self.messages:
            try:
                message_arrays([message], start.layout, masked=start.words, bits=start.bits)
                message_columns([message])
            except Exception as error:
                why.append(f"a message is left out: {error}")
                if message.sender is not None:
                    failures[message.sender] = f"left out: {error}"
                continue
            kept.append(message)
        counted = are_whole([message.count for message in kept])
        for place, message in enumerate(kept):
            problem = _problem_of_told(message, start, counted=counted)
            if problem:
                why.append(f"lists and update of a message are left out: {problem}")
                kept[place] = replace(message, lists=(), update=None)
        if why:
            first = plain_text(why[0])
            LOG.warning("round %d, %d of %d messages: %s", number, len(why), len(self.messages), first)
        others = [each for each in self.outcomes if each.stage or each.node not in failures]
        added = [
            NodeOutcome(node=node, outcome="failed", reason=reason)
            for node, reason in failures.items()
            if 0 <= node < 2**64
        ]
        return replace(self, messages=kept, outcomes=[*others, *added])


def _problem_of_told(message: ReceivedMessage, start: TraceStart, *, counted: bool) -> str:
    """Why a trace cannot hold what a client told beside its message; "" where it can."""
    try:
        list_columns([message], start.form, len(start.parts), counted=counted)
        if start.truth:
            truth_columns([message], start.form, start.layout, start.number_format, start.intents, {})
    except Exception as error:
        return str(error) or type(error).__name__
    return ""


def common_layout(
    messages: Sequence[ReceivedMessage], model: object = None
) -> tuple[LayoutArray, ...] | None:
    """The layout of most messages, so that no single client decides; None where no message has one.

    With a model only layouts that the model fits.
    """
    found: Counter[tuple[LayoutArray, ...]] = Counter()
    for message in messages:
        try:
            found[tuple(array.place for array in named_arrays(message.arrays))] += 1
        except Exception as error:
            LOG.debug("a message without layout: %r", error)
    return next((layout for layout, _ in found.most_common() if model is None or _fits(model, layout)), None)


def _fits(model: object, layout: Sequence[LayoutArray]) -> bool:
    try:
        parameters_of(model, layout, "model")
    except ValueError:
        return False
    return True


def _train_outcomes(round_: RoundInput) -> list[NodeOutcome]:
    """What became of the nodes in the training step: those that arrived, failed, and were late."""
    asked, failures, late = round_.asked, round_.failures, round_.late
    if asked is None and not failures and not late:
        return []
    told = {each.node for each in round_.outcomes if not each.stage}
    arrived = [message.sender for message in round_.messages if message.sender is not None]
    missing = [node for node in asked or () if node not in {*arrived, *failures, *told}]
    return [
        *(NodeOutcome(node=node, outcome="arrived") for node in arrived),
        *(NodeOutcome(node=node, outcome="failed", reason=reason) for node, reason in failures.items()),
        *(NodeOutcome(node=node, outcome="late") for node in dict.fromkeys([*(late or ()), *missing])),
    ]


KINDS = ("model", "update", "masked", "es")
MOST_HEADER_BYTES = 1 << 20
"""A longer header is neither written nor read."""

_MOST_WAITING = 10

MOST_BYTES = 1 << 34
"""Bytes that a trace has at most unless said otherwise: 16 GiB."""


class Recorder:
    """Writes a trace of what a server sees, round by round.

    The folder is made with the first round. A part holds whole rounds, and is there as a whole or not at all:
    a server that is killed loses the rounds since the last part, with `rounds_per_part=1` the open one. As a
    context manager the recorder writes the rest at the end. Threads may share it.

    Args:
        folder: where the trace will be; it must hold none, unless `resume`.
        facts: what everybody may know of the system, such as `{"learning_rate": 0.1}`; docs/federation.md has
            their names.
        kind: what a message is: `model` (local parameters), `update` (their change), `masked` (the words of
            secure aggregation) or `es` (metrics, with seeds).
        list_length: number k of documents in the longest list; that of the first round if left out.
        features: number d of features; that of the first round if left out. Both are needed if the first
            round has no lists and later ones do.
        ranker: name of the ranker.
        source: what the clients searched, for reports.
        parts: names of the parts of the data; a list's `part` is an index into them.
        max_bytes: the trace stays below this: recording stops before, with one warning in the log.
        rounds_per_part: rounds that are written together.
        truth: whether what clients told of themselves (clicks, updates before any defense) is written too,
            into a folder of its own; if None, whether the first round has any, and not from Flower clients.
        strict: whether a round that cannot be written is an error. Else recording stops with one warning in
            the log, and the caller goes on.
        resume: whether to go on with a trace that is there.

    Attributes:
        folder: where the trace is.
        round_count: number of the next round.
        stopped: why recording stopped; "" while it goes on.

    Raises:
        ValueError: the folder holds a trace already, or with `resume` one that cannot be resumed; an unknown
            kind, or a number below 1.
    """

    def __init__(
        self,
        folder: str | Path,
        facts: Mapping[str, object] | None = None,
        *,
        kind: str = "model",
        list_length: int | None = None,
        features: int = 0,
        ranker: str = "linear",
        source: str = "recorded",
        parts: Sequence[str] = ("live",),
        max_bytes: int = MOST_BYTES,
        rounds_per_part: int = 1,
        truth: bool | None = None,
        strict: bool = True,
        resume: bool = False,
    ) -> None:
        if kind not in KINDS:
            raise ValueError(f"kind is {kind!r}; expected {', '.join(KINDS)}")
        if rounds_per_part < 1 or max_bytes < 1:
            raise ValueError(f"rounds_per_part {rounds_per_part}, max_bytes {max_bytes}; expected 1 or more")
        self.folder, self.round_count, self.stopped = Path(folder), 0, ""
        self._facts, self._kind, self._truth = plain_facts(facts or {}), kind, truth
        self._list_length, self._features = list_length, features
        self._ranker, self._source, self._parts = ranker, source, tuple(parts)
        self._max_bytes, self._rounds_per_part, self._strict = max_bytes, rounds_per_part, strict
        self._lock = threading.RLock()
        self._start: TraceStart | None = None
        self._trace_id, self._next_part, self._bytes = "", 0, 0
        self._open: list[Tables] = []
        self._waiting: list[RoundInput] = []
        if (self.folder / HEADER).exists() or marker_indices(self.folder):
            if not resume:
                raise ValueError(f"{self.folder}: holds a trace already; expected none, or resume=True")
            self._resume()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def begun(self) -> bool:
        """Whether a round has fixed what holds for the whole trace."""
        return self._start is not None

    @property
    def takes_truth(self) -> bool:
        """Whether it was asked to record what clients tell of themselves."""
        return self._truth is True if self._start is None else self._start.truth

    @property
    def facts(self) -> dict[str, object]:
        return dict(self._facts if self._start is None else self._start.facts)

    def declare(self, facts: Mapping[str, object], *, kind: str | None = None) -> None:
        """State what the first round shows of the system; facts that were given before stay.

        Raises:
            ValueError: a round is recorded already.
        """
        if self.begun:
            raise ValueError(f"{self.folder}: a round is recorded; expected facts of the trace before")
        self._facts, self._kind = {**plain_facts(facts), **self._facts}, kind or self._kind

    def round(
        self,
        model: object,
        messages: Sequence[ReceivedMessage],
        *,
        aggregate: object = None,
        asked: Sequence[int] | None = None,
        failures: Mapping[int, str] | None = None,
        late: Sequence[int] | None = None,
        outcomes: Sequence[NodeOutcome] = (),
        facts: Mapping[str, object] | None = None,
        shares: int = 0,
        state: ArrayLike | None = None,
        total: ArrayLike | None = None,
        aborted: str = "",
        started: float = math.nan,
        ended: float = math.nan,
        metrics: Mapping[str, float] | None = None,
    ) -> bool:
        """Record one round; all arrays are copied.

        Args:
            model: the model that was sent: one array, a mapping from names to arrays, a sequence of arrays,
                or one vector of the P parameters, as it must be for kind `es`.
            messages: the messages that arrived.
            aggregate: the model afterwards, in any of these forms; None where unknown. If it is not the mean
                of the messages weighted by their counts, the round gets the fact `aggregate = "other"`.
            asked: numbers of the nodes that were asked; those that neither answered nor failed are late.
            failures: why nodes failed, by their number.
            late: nodes that had not answered when the round ended.
            outcomes: what became of nodes in other stages of the protocol.
            facts: facts that hold in this round instead of those of the trace.
            shares: number of noise shares that the defenses assume; 0 where unknown.
            state: the server's state in addition to the model, of kinds without models.
            total: sum of the masked words modulo 2^bits, uint64 (W,); None where there is none.
            aborted: why there is none.
            started: when the round began, Unix seconds.
            ended: when it ended.
            metrics: utility of the round by name, for truth.

        Returns:
            Whether the round is recorded: False after recording has stopped.

        Raises:
            ValueError: a round that does not fit the trace or itself. Nothing of it is recorded.
            OSError: the part cannot be written. Recording stops; the parts before are whole.
        """
        given = RoundInput(
            model=model,
            messages=messages,
            aggregate=aggregate,
            asked=asked,
            failures=failures or {},
            late=late,
            outcomes=outcomes,
            facts=facts or {},
            shares=shares,
            state=state,
            total=total,
            aborted=aborted,
            started=started,
            ended=ended,
            metrics=metrics or {},
        )
        with self._lock:
            return not self.stopped and self._record(given)

    def _record(self, given: RoundInput) -> bool:
        try:
            return self._take(given)
        except Exception as error:
            if self._strict and isinstance(error, ValueError):
                raise ValueError(f"round {self.round_count}: {error}") from error
            if self._strict:
                raise
            why = str(error) or type(error).__name__
            if not self._open or self._commit():  # the rounds before this one are sound
                self.stop(why)
        return False

    def _take(self, given: RoundInput) -> bool:
        """Record a round; one without messages may wait until messages show what the whole trace holds."""
        shows_nothing = self._start is None and not given.messages
        if shows_nothing and not self._strict and len(self._waiting) < _MOST_WAITING:
            own = [NamedArray(array.place, array.values.copy()) for array in named_arrays(given.model)]
            self._waiting.append(replace(given, model=own))
            self.round_count += 1
            return True
        start = self._start or self._first(given)
        if not self._has_room(len(given.messages), start):
            return False
        tables = self._tables(given, start, self.round_count)
        first = self.round_count - len(self._waiting)
        early = [self._tables(each, start, first + place) for place, each in enumerate(self._waiting)]
        self._start = start
        self._waiting.clear()
        self.round_count = first
        for each in [*early, tables]:
            self._append(each)
        return not self.stopped

    def _has_room(self, messages: int, start: TraceStart) -> bool:
        """Whether the bound on the disk has room for messages, asked before memory holds them twice."""
        needed = messages * (
            8 * start.words or sum(place.size * place.stored.itemsize for place in start.layout)
        )
        if self._bytes + needed <= self._max_bytes:
            return True
        if not self._open or self._commit():
            self.stop(f"the messages of a round have {needed} bytes, and max_bytes is {self._max_bytes}")
        return False

    def _tables(self, given: RoundInput, start: TraceStart, number: int) -> Tables:
        try:
            tables = given.tables(start, number)
        except Exception:
            if self._strict:
                raise
            tables = given.fitting(start, number).tables(start, number)
        if self._open:  # refuses columns that no part can hold together
            check_same_columns([*self._open, tables])
        return tables

    def _append(self, tables: Tables) -> None:
        if self.stopped:
            return
        self._open.append(tables)
        self.round_count += 1
        if len(self._open) >= self._rounds_per_part:
            self._commit()

    def close(self) -> None:
        """Write the rest; a closed recorder may be closed again, and records no more.

        Raises:
            OSError: the part cannot be written, with `strict`.
        """
        with self._lock:
            if self._waiting and not self.stopped:
                waiting, self._waiting, self.round_count = self._waiting, [], 0
                self._start = self._first(waiting[0])
                for given in waiting:
                    self._append(self._tables(given, self._start, self.round_count))
            if self._open and not self.stopped:
                self._commit()
            self.stopped = self.stopped or "closed"

    def stop(self, why: str) -> None:
        """Record no more, and say why in the log, once; what is written stays."""
        if not self.stopped:
            self.stopped = why
            self._open.clear()
            self._waiting.clear()
            text = "recording to %s stops at round %d, the federation goes on: %s"
            LOG.warning(text, self.folder, self.round_count, why)

    def _first(self, given: RoundInput) -> TraceStart:
        """What the first round with messages says of the trace."""
        model, messages = given.model, given.messages
        layout = None
        if self._kind != "masked":
            layout = common_layout(messages[:1]) if self._strict else common_layout(messages, model)
        if layout is None:
            layout = tuple(array.place for array in named_arrays(model))
        if not n_parameters(layout):
            raise ValueError("the messages hold no floating numbers; expected a model or its change")
        if self._kind == "masked":  # what is masked is a mean's numbers, of buffers as well
            layout = tuple(
                replace(place, dtype="float64") if place.dtype in BUFFERS else place for place in layout
            )
        truth = self._truth
        if truth is None:
            truth = any(message.has_truth for message in messages)
        start = TraceStart(
            kind=self._kind,
            layout=layout,
            model=model_layout(self._kind, layout, n_parameters([a.place for a in named_arrays(model)])),
            form=ListForm.of(messages, self._list_length, self._features),
            truth=truth,
            facts=self._facts,
            words=n_words(self._kind, layout, self._facts),
            ranker=self._ranker,
            source=self._source,
            parts=self._parts,
            rounds_per_part=self._rounds_per_part,
        )
        if len(start.header.encode()) > MOST_HEADER_BYTES:
            raise ValueError(f"a header of {len(layout)} arrays is longer than {MOST_HEADER_BYTES} bytes")
        return start

    def _commit(self) -> bool:
        """Write the open rounds as a part; whether that was done."""
        first, begin = self.round_count - len(self._open), b""
        if not self._trace_id and self._start is not None:
            begin = self._start.header.encode("utf-8")
            self._trace_id = hashlib.sha256(begin).hexdigest()
        part = PartRange(self._trace_id, self._next_part, first, self.round_count - 1)
        files = part_files(part, join_tables(self._open))
        size = len(begin) + sum(len(piece) for pieces in files.values() for piece in pieces)
        if self._bytes + size > self._max_bytes:
            self.round_count = first
            self.stop(f"the trace would have {self._bytes + size} bytes, and max_bytes is {self._max_bytes}")
            return False
        try:
            for name in sorted({Path(name).parent for name in files}):
                (self.folder / name).mkdir(parents=True, exist_ok=True)
            if begin:
                if (self.folder / HEADER).exists():
                    raise FileExistsError(errno.EEXIST, "another recorder has begun a trace in it")
                atomic_files.write_bytes(self.folder / HEADER, begin)
            commit_part(self.folder, files)
        except OSError as error:
            self.round_count = first
            self.stop(f"{self.folder} cannot be written: {error.strerror or error}")
            if self._strict:
                raise
            return False
        self._open.clear()
        self._next_part += 1
        self._bytes += size
        return True

    def _resume(self) -> None:
        """Go on after the last whole part of the trace in the folder."""
        markers = marker_indices(self.folder)
        if not markers:  # killed before its first part was whole: nothing is lost
            clean(self.folder, 0)
            (self.folder / HEADER).unlink()
            return
        if markers != list(range(len(markers))):
            raise ValueError(f"{self.folder}: cannot be resumed: its parts are {markers}")
        start = TraceStart.read(self.folder, markers[-1])
        asked = {**start.facts, **json.loads(json.dumps(self._facts))}
        if start.kind != self._kind or asked != start.facts:
            raise ValueError(f"{self.folder}: cannot be resumed: its kind or facts are others")
        self._trace_id = hashlib.sha256((self.folder / HEADER).read_bytes()).hexdigest()
        last = json.loads((self.folder / marker_name(markers[-1])).read_bytes())
        if last["trace"] != self._trace_id:
            raise ValueError(f"{self.folder}: cannot be resumed: its parts are of another trace")
        self._start, self._next_part, self.round_count = start, len(markers), last["last_round"] + 1
        self._rounds_per_part = start.rounds_per_part
        clean(self.folder, self._next_part)
        self._bytes = sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())
