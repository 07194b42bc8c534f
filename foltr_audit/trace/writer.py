"""The public way to write a trace, for foltr-audit and for any other system."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.errors import FoltrAuditError, TraceError, UsageError
from foltr_audit.recorder import atomic_files
from foltr_audit.recorder.part_files import (
    HEADER,
    PartRange,
    clean,
    commit_part,
    marker_indices,
    marker_name,
    part_files,
)
from foltr_audit.recorder.round_tables import (
    Tables,
    TruthColumns,
    check_same_columns,
    first_rows,
    join_tables,
    round_tables,
)
from foltr_audit.trace.differences import PartDifferences
from foltr_audit.trace.facts import fact_problems, round_problem
from foltr_audit.trace.header import TraceHeader, read_header, split
from foltr_audit.trace.reader import Trace
from foltr_audit.trace.schema import FeatureFormat, contradiction, misfit, truth_misfit


class TraceWriter:
    """Writes rounds in order, and commits them in parts of `header.rounds_per_part` rounds.

    As a context manager it commits the rest at the end; after an exception, whole parts only.
    With `resume`, a last part with fewer rounds is dropped: it must be filled up so that the bytes
    are those of an undisturbed run. `next_round` says where to resume. One writer per folder.
    With `behind`, another thread puts a part on the disk while rounds of the next one are taken: what goes
    wrong there is raised when the next part is complete, or by `close`.

    Raises:
        UsageError: the folder holds a trace already; with `resume`, one with another header.
        TraceError: a header with an unknown fact or value; with `resume`, a trace that is damaged.
        FoltrAuditError: the folder cannot be written, or the disk is full.
    """

    def __init__(
        self, folder: Path, header: TraceHeader, *, resume: bool = False, behind: bool = False
    ) -> None:
        self.folder = Path(folder)
        self.header = header
        self.next_round = 0
        self._next_part = 0
        self._form: FeatureFormat | None = None  # of the embedded features; None until known
        # The rounds of the open part: their first rows, their tables without large arrays, and these.
        self._heads: list[Tables] = []
        self._open: list[Tables] = []
        self._differences = PartDifferences(header)
        self._closed = False
        # One thread: parts reach the disk in their order.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="trace-part") if behind else None
        self._part: Future[None] | None = None  # the part that is being put on the disk
        problems = fact_problems(header)
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
            self._forget()
            self._closed = True
            self._stop()

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
        problem = (
            misfit(self.header, record)
            or (None if truth is None else truth_misfit(self.header, record, truth))
            or self._other_form(record)
            or round_problem(self.header, record)
            or contradiction(self.header, record)
        )
        if problem is not None:
            raise UsageError(f"trace: {problem}")
        tables = _encode(self.header, record, truth)
        try:
            check_same_columns([*self._heads, tables])
        except ValueError as error:
            raise UsageError(f"trace: round {record.round}: {error}") from None
        self._heads.append(first_rows(tables))
        self._open.append(self._differences.take(tables))
        self.next_round += 1
        if len(self._open) >= self.header.rounds_per_part:
            self._commit()

    def close(self) -> None:
        """Commit what is left; a closed writer may be closed again.

        Raises:
            FoltrAuditError: the part cannot be written; what was committed stays valid.
        """
        try:
            if self._open:
                self._commit()
            with self._plain_errors():
                self._wait()
        finally:
            self._closed = True
            self._stop()

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
                tables = join_tables([self._differences.without_taken(each) for each in self._open])
                files = part_files(part, tables, self._differences.packed)
                if self._thread is None:
                    commit_part(self.folder, files)
                else:
                    self._wait()
                    self._part = self._thread.submit(commit_part, self.folder, files)
        except ValueError as error:
            raise UsageError(f"trace: rounds {part.first_round} to {part.last_round}: {error}") from None
        except BaseException:
            self._closed = True  # the open rounds are lost: nothing may follow a gap
            self._forget()
            raise
        self._forget()
        self._next_part += 1

    def _forget(self) -> None:
        self._heads.clear()
        self._open.clear()
        self._differences = PartDifferences(self.header)

    def _wait(self) -> None:
        """Wait for the part that is being put on the disk; what went wrong there is raised here."""
        part, self._part = self._part, None
        if part is not None:
            part.result()

    def _stop(self) -> None:
        if self._thread is not None:
            self._thread.shutdown(wait=True)

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
                lists = trace.columns(stored[-1], "observed/interactions")
                self._form = FeatureFormat.of(lists["features"])
        return trace_id

    def _other_form(self, record: RoundRecord) -> str | None:
        if record.features is None:
            return None
        found = FeatureFormat.of(record.features)
        if not found.width:
            wanted = self._form.width if self._form else "1 or more"
            return f"round {record.round}: 0 features a document, expected {wanted}"
        first = self._form = self._form or found
        if found.width != first.width:
            return f"round {record.round}: {found.width} features a document, expected {first.width}"
        if found.dtype != first.dtype:
            return f"round {record.round}: features of type {found.dtype}, expected {first.dtype} as before"
        return None

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = error.strerror or str(error)
            raise FoltrAuditError(f"trace: {self.folder}: cannot be written: {reason}") from error


def _encode(header: TraceHeader, record: RoundRecord, truth: RoundTruth | None) -> Tables:
    """The rows of one round in every table; only arrays of messages may be those of the record."""
    arrays = split(header.arrays, record.messages, record.buffers, f"trace: round {record.round}")
    try:
        rows = None if truth is None else _truth(header, truth)
        return round_tables(record, arrays, rows, masked=header.kind == "masked")
    except ValueError as error:
        raise UsageError(f"trace: round {record.round}: {error}") from None


def _truth(header: TraceHeader, truth: RoundTruth) -> TruthColumns:
    with np.errstate(over="ignore"):  # beyond float32 is infinity, as in the message itself
        rounded = truth.updates.astype(header.update_format)
    return TruthColumns(
        clients=truth.clients,
        clicks=truth.clicks,
        updates=None if np.isnan(rounded[:1]).all() and np.isnan(rounded).all() and len(rounded) else rounded,
        clipped=truth.clipped if truth.knows_clips else None,
        known=truth.known,
        intents=truth.intents,
        metrics=truth.metrics,
    )
