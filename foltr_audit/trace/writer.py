"""The public way to write a trace, for foltr-audit and for any other system."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.records.interactions import Payload, RoundRecord, RoundTruth
from foltr_audit.errors import FoltrAuditError, TraceError, UsageError
from foltr_audit.recorder import atomic_files
from foltr_audit.recorder.array_layout import FLOATING, LayoutArray, widened
from foltr_audit.recorder.round_tables import OpenPart, Tables, round_tables
from foltr_audit.recorder.trace_files import (
    HEADER,
    PartRange,
    clean,
    commit_part,
    marker_indices,
    marker_name,
    part_files,
)
from foltr_audit.trace.facts import problems_of
from foltr_audit.trace.header import TraceHeader, read_header
from foltr_audit.trace.reader import Trace
from foltr_audit.trace.schema import contradictions, fact_problems, misfits, truth_misfits


class TraceWriter:
    """Writes rounds in order, and commits them in parts of `header.rounds_per_part` rounds.

    As a context manager it commits the rest at the end; after an exception, whole parts only.
    With `resume`, a last part with fewer rounds is dropped: it must be filled up so that the bytes
    are those of an undisturbed run. `next_round` says where to resume. One writer per folder.

    Raises:
        UsageError: the folder holds a trace already; with `resume`, one with another header.
        TraceError: a header with an unknown fact or value; with `resume`, a trace that is damaged.
        FoltrAuditError: the folder cannot be written, or the disk is full.
    """

    def __init__(self, folder: Path, header: TraceHeader, *, resume: bool = False) -> None:
        self.folder = Path(folder)
        self.header = header
        self.next_round = 0
        self._next_part = 0
        self._form: tuple[int, str] | None = None  # number and type of embedded features; None until known
        self._open = OpenPart(header)
        self._closed = False
        problems = problems_of(header.knowledge, ours=bool(header.spec_hash))
        if problems:
            raise TraceError(f"trace: header: {problems[0]}")
        with self._plain_errors():
            begun = (self.folder / HEADER).exists()
            if not resume and (begun or marker_indices(self.folder)):
                raise UsageError(f"trace: {self.folder}: holds a trace already")
            if not begun and marker_indices(self.folder):
                raise TraceError(f"trace: {self.folder}: has parts but no {HEADER}")
            self._trace_id = self._resume() if begun else header.trace_id
            clean(self.folder, self._next_part)
            for name in ("observed", "truth") if header.has_truth else ("observed",):
                (self.folder / name).mkdir(parents=True, exist_ok=True)
            if not begun:
                atomic_files.write_text(self.folder / HEADER, header.to_toml())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._open.clear()
            self._closed = True

    def write(self, record: RoundRecord, truth: RoundTruth | None = None) -> None:
        """Take one round; its arrays are copied.

        Raises:
            UsageError: not round `next_round`, or a round or truth that does not fit the header or itself.
            FoltrAuditError: the part cannot be written; what was committed stays valid.
        """
        if self._closed:
            raise UsageError(f"trace: {self.folder}: the writer is closed")
        if record.round != self.next_round:
            raise UsageError(f"trace: round {record.round} comes where round {self.next_round} was expected")
        if (truth is not None) != self.header.has_truth:
            given = "without truth" if truth is None else "with a truth"
            promised = "has_truth = true" if self.header.has_truth else "has_truth = false"
            raise UsageError(f"trace: round {record.round}: comes {given}, but the header says {promised}")
        for problem in chain(
            misfits(self.header, record),
            () if truth is None else truth_misfits(self.header, record, truth),
            self._other_form(record),
            fact_problems(self.header, record),
            contradictions(self.header, record),
        ):
            raise UsageError(f"trace: round {record.round}: {problem}")
        try:
            self._open.take(_encode(self.header, record, truth))
        except ValueError as error:
            raise UsageError(f"trace: round {record.round}: {error}") from None
        self.next_round += 1
        if len(self._open) >= self.header.rounds_per_part:
            self._commit()

    def close(self) -> None:
        """Commit what is left; a closed writer may be closed again.

        Raises:
            FoltrAuditError: the part cannot be written; what was committed stays valid.
        """
        if self._open:
            self._commit()
        self._closed = True

    def _commit(self) -> None:
        part = PartRange(
            trace=self._trace_id,
            index=self._next_part,
            first_round=self.next_round - len(self._open),
            last_round=self.next_round - 1,
        )
        try:
            with self._plain_errors():
                # The marker is written last. A kill before that leaves files without a marker: a reader does
                # not see them, and `clean` removes them.
                commit_part(self.folder, part_files(part, self._open.tables()))
        except BaseException:
            self._closed = True  # the open rounds are lost: nothing may follow a gap
            raise
        finally:
            self._open.clear()
        self._next_part += 1

    def _resume(self) -> str:
        """Continue where an earlier writer stopped; the trace id."""
        earlier, trace_id = read_header(self.folder)
        difference = earlier.first_difference(self.header)
        if difference is not None:
            name, *values = difference
            was, now = ("absent" if value is None else repr(value) for value in values)
            raise UsageError(f"trace: {self.folder}: cannot resume: {name} is {was} in the trace, {now} now")
        trace = Trace.open(self.folder)
        if trace.has_truth != self.header.has_truth and trace.parts:
            raise TraceError(f"trace: {self.folder}: cannot resume: its truth was removed")
        trace.check_files()
        stored = list(trace.parts)
        if stored and stored[-1].n_rounds < self.header.rounds_per_part:
            last = stored.pop()
            # The marker goes first, and its removal is flushed before any file of the part changes. After a
            # crash the part is then uncommitted, not damaged.
            (self.folder / marker_name(last.index)).unlink()
            atomic_files.sync_folders(self.folder)
        if stored:
            self.next_round, self._next_part = stored[-1].last_round + 1, stored[-1].index + 1
            if self.header.embeds_features:
                features = trace.columns(stored[-1], "observed/interactions")["features"]
                self._form = features.shape[-1], features.dtype.name
        return trace_id

    def _other_form(self, record: RoundRecord) -> Iterator[str]:
        if record.features is None:
            return
        width, dtype = found = record.features.shape[-1], record.features.dtype.name
        if not width:
            yield f"0 features a document, expected {self._form[0] if self._form else '1 or more'}"
        first = self._form = self._form or found
        if width != first[0]:
            yield f"{width} features a document, expected {first[0]}"
        if dtype != first[1]:
            yield f"features of type {dtype}, expected {first[1]} as before"

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = error.strerror or str(error)
            raise FoltrAuditError(f"trace: {self.folder}: cannot be written: {reason}") from error


def _encode(header: TraceHeader, record: RoundRecord, truth: RoundTruth | None) -> Tables:
    """The rows of one round in every table; no array of the record, which its owner may change, is kept.

    Raises:
        ValueError: arrays that the header does not allow.
    """
    arrays = [values.copy() for values in _split(header.arrays, record.messages, record.buffers)]
    return round_tables(header, record, arrays, truth)


def _split(
    layout: Sequence[LayoutArray], messages: Payload, buffers: Sequence[NDArray[np.generic]]
) -> Iterator[NDArray[np.generic]]:
    """The arrays of messages (M, P), each (M, *shape) in the type in which it is stored.

    Raises:
        ValueError: numbers that the type of their array does not hold, or other buffers than in the layout.
    """
    rows, at, left = len(messages), 0, list(buffers)
    for array in layout:
        if array.dtype not in FLOATING and messages.dtype != np.uint64:
            if not left:
                raise ValueError(f"no buffer {array.name!r:.60}, which the layout has")
            values = left.pop(0)
            if values.shape != (rows, *array.shape) or values.dtype != array.stored:
                raise ValueError(
                    f"buffer {array.name!r:.60} is {values.dtype} of shape {values.shape}, expected "
                    f"{array.dtype} of shape {(rows, *array.shape)}"
                )
            yield values
            continue
        numbers = messages[:, at : at + array.size]
        yield _narrowed(array, numbers).reshape(rows, *array.shape)
        at += array.size
    if left:
        raise ValueError(f"{len(left)} buffers more than the layout has")


def _narrowed(array: LayoutArray, numbers: Payload) -> NDArray[np.generic]:
    if numbers.dtype == array.stored:
        return numbers
    with np.errstate(over="ignore"):
        if array.dtype == "bfloat16":
            bits = np.ascontiguousarray(numbers, dtype=np.float32).view(np.uint32) >> np.uint32(16)
            stored: NDArray[np.generic] = bits.astype(np.uint16)
        else:
            stored = numbers.astype(array.stored)
    if not np.array_equal(widened(stored, array.dtype), numbers, equal_nan=True):
        raise ValueError(f"messages hold numbers in {array.name!r:.60} that {array.dtype} does not")
    return stored
