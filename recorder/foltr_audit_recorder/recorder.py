"""The recorder: a server gives it what it sees of each round, and it writes a trace."""

from __future__ import annotations

import errno
import json
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from . import atomic_files
from .array_layout import BUFFERS, LayoutArray, NamedArray, n_parameters, named_arrays
from .messages import ReceivedMessage
from .received_rounds import LOG, RoundInput, TraceStart, parameters_of
from .round_tables import OpenPart, Tables
from .trace_files import (
    HEADER,
    MOST_HEADER_BYTES,
    PartRange,
    clean,
    commit_part,
    marker_indices,
    marker_name,
    part_files,
)
from .trace_format import METRICS, WORDS, DatasetFields, HeaderFields, plain_facts


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


KINDS = ("model", "update", "masked", "es")
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
        self._list_length, self._features, self._ranker = list_length, features, ranker
        self._dataset = DatasetFields(source=source, parts=tuple(parts))
        self._max_bytes, self._rounds_per_part, self._strict = max_bytes, rounds_per_part, strict
        self._lock = threading.RLock()
        self._start: TraceStart | None = None
        self._next_part = self._bytes = 0
        self._open: OpenPart | None = None  # once a round has fixed the header
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
        return self._truth is True if self._start is None else self._start.header.has_truth

    @property
    def facts(self) -> dict[str, object]:
        return dict(self._facts if self._start is None else self._start.header.knowledge)

    def declare(self, facts: Mapping[str, object], *, kind: str | None = None) -> None:
        """State what the first round shows of the system; facts that were given before stay.

        Raises:
            ValueError: a round is recorded already.
        """
        if self.begun:
            raise ValueError(f"{self.folder}: a round is recorded; expected facts of the trace before")
        self._facts, self._kind = {**plain_facts(facts), **self._facts}, kind or self._kind

    def round(self, model: object, messages: Sequence[ReceivedMessage], **more: Any) -> bool:
        """Record one round, with the fields of `RoundInput`; all arrays are copied.

        Returns:
            Whether the round is recorded: False after recording has stopped.

        Raises:
            ValueError: a round that does not fit the trace or itself. Nothing of it is recorded.
            OSError: the part cannot be written. Recording stops; the parts before are whole.
        """
        given = RoundInput(model=model, messages=messages, **more)
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
        self._begin(start)
        self._waiting.clear()
        self.round_count = first
        for each in [*early, tables]:
            self._append(each)
        return not self.stopped

    def _begin(self, start: TraceStart) -> None:
        self._start, self._open = start, self._open or OpenPart(start.header)

    def _has_room(self, messages: int, start: TraceStart) -> bool:
        """Whether the bound on the disk has room for messages, asked before memory holds them twice."""
        needed = messages * sum(place.size * place.stored.itemsize for place in start.header.arrays)
        if self._bytes + needed <= self._max_bytes:
            return True
        if not self._open or self._commit():
            self.stop(f"the messages of a round have {needed} bytes, and max_bytes is {self._max_bytes}")
        return False

    def _tables(self, given: RoundInput, start: TraceStart, number: int) -> Tables:
        try:
            return given.tables(start, number)
        except Exception:
            if self._strict:
                raise
            return given.fitting(start, number).tables(start, number)

    def _append(self, tables: Tables) -> None:
        if self._open is not None and not self.stopped:
            self._open.take(tables)
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
                start = self._first(waiting[0])
                self._begin(start)
                for given in waiting:
                    self._append(self._tables(given, start, self.round_count))
            if self._open and not self.stopped:
                self._commit()
            self.stopped = self.stopped or "closed"

    def stop(self, why: str) -> None:
        """Record no more, and say why in the log, once; what is written stays."""
        if not self.stopped:
            self.stopped, self._open = why, None
            self._waiting.clear()
            text = "recording to %s stops at round %d, the federation goes on: %s"
            LOG.warning(text, self.folder, self.round_count, why)

    def _first(self, given: RoundInput) -> TraceStart:
        """What the first round with messages says of the trace."""
        model, messages, facts = given.model, given.messages, self._facts
        of_model = tuple(array.place for array in named_arrays(model))
        layout = None
        if self._kind != "masked":
            layout = common_layout(messages[:1]) if self._strict else common_layout(messages, model)
        layout = layout or of_model
        if not n_parameters(layout):
            raise ValueError("the messages hold no floating numbers; expected a model or its change")
        if self._kind == "masked":  # what is masked is a mean's numbers, of buffers as well
            layout = tuple(
                replace(place, dtype="float64") if place.dtype in BUFFERS else place for place in layout
            )
        if self._kind == METRICS:
            facts = {"width": n_parameters(layout), **facts}
        lists = [np.asarray(shown.features) for message in messages for shown in message.lists]
        candidates = [shown.candidates is not None for message in messages for shown in message.lists]
        width = lists[0].shape[1] if lists else self._features
        double = any(place.dtype == "float64" for place in layout)
        truth = any(message.has_truth for message in messages) if self._truth is None else self._truth
        header = HeaderFields(
            kind=self._kind,
            dtype=WORDS if self._kind == "masked" else "float64" if double else "float32",
            parameters=n_parameters(of_model if self._kind == METRICS else layout),
            k=self._list_length or max(map(len, lists), default=1),
            dataset=self._dataset,
            has_truth=truth,
            ranker=self._ranker,
            knowledge=facts,
            embeds_features=width > 0,
            rounds_per_part=self._rounds_per_part,
            layout=layout,
        )
        if len(header.to_toml().encode()) > MOST_HEADER_BYTES:
            raise ValueError(f"a header of {len(layout)} arrays is longer than {MOST_HEADER_BYTES} bytes")
        if not lists:
            return TraceStart(header=header, width=width)
        dtype = np.result_type(*{features.dtype for features in lists}).name
        return TraceStart(header=header, width=width, dtype=dtype, candidates=all(candidates))

    def _commit(self) -> bool:
        """Write the open rounds as a part; whether that was done."""
        if self._start is None or self._open is None:
            return False
        header, first = self._start.header, self.round_count - len(self._open)
        begin = b"" if self._next_part else header.to_toml().encode()
        part = PartRange(header.trace_id, self._next_part, first, self.round_count - 1)
        files = part_files(part, self._open.tables())
        size = len(begin) + sum(map(len, files.values()))
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
        facts = start.header.knowledge
        if start.header.kind != self._kind or facts != {**facts, **json.loads(json.dumps(self._facts))}:
            raise ValueError(f"{self.folder}: cannot be resumed: its kind or facts are others")
        last = json.loads((self.folder / marker_name(markers[-1])).read_bytes())
        if last["trace"] != start.header.trace_id:
            raise ValueError(f"{self.folder}: cannot be resumed: its parts are of another trace")
        self._begin(start)
        self._next_part, self.round_count = len(markers), last["last_round"] + 1
        self._rounds_per_part = start.header.rounds_per_part
        clean(self.folder, self._next_part)
        self._bytes = sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())
