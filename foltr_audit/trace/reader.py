"""Reading a trace, part by part, each file checked against its marker before use."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from stat import S_ISREG

from foltr_audit.core.records.interactions import GlobalModel, RoundRecord, RoundTruth
from foltr_audit.errors import TraceError, UsageError
from foltr_audit.recorder.part_files import marker_name
from foltr_audit.recorder.table_files import Columns
from foltr_audit.trace import decode
from foltr_audit.trace.header import TraceHeader, read_header
from foltr_audit.trace.marker import TracePart, read_markers
from foltr_audit.utils.reading import file_bytes


@dataclass(frozen=True, kw_only=True)
class Trace:
    """A recorded trace: its header at once, its rounds as a stream.

    Attributes:
        folder: the trace folder.
        header: the header.
        trace_id: SHA-256 (hex) of `trace.toml`.
        parts: the committed parts, in order.
        has_truth: whether the truth was recorded and its folder is still there.
        given: names of the header's facts that were given by hand, over those of rounds too.
    """

    folder: Path
    header: TraceHeader
    trace_id: str
    parts: tuple[TracePart, ...]
    has_truth: bool
    given: frozenset[str] = frozenset()

    @classmethod
    def open(cls, folder: Path) -> Trace:
        """The trace in a folder; reads the header and the markers, and looks at file sizes.

        Raises:
            UsageError: no such folder.
            TraceError: no trace, a newer schema, a part that is missing, cut or of another trace.
        """
        folder = Path(folder)
        if not folder.is_dir():
            raise UsageError(f"trace: {folder}: no such folder")
        header, trace_id = read_header(folder)
        parts, problems = read_markers(folder, header, trace_id)
        if problems:
            raise TraceError(problems[0])
        has_truth = header.has_truth and (folder / "truth").is_dir()
        trace = cls(folder=folder, header=header, trace_id=trace_id, parts=tuple(parts), has_truth=has_truth)
        # A look at sizes is cheap and finds a part that was cut. Hashes need all bytes, and wait until a part
        # is read.
        for part in parts:
            for table in part.observed:
                trace.check_size(part, table)
        return trace

    @property
    def n_rounds(self) -> int:
        return sum(part.n_rounds for part in self.parts)

    @property
    def n_messages(self) -> int:
        """Number of messages in all rounds."""
        return sum(part.files["observed/messages"].rows for part in self.parts)

    @property
    def n_interactions(self) -> int:
        """Number of recorded interactions in all rounds."""
        return sum(part.files["observed/interactions"].rows for part in self.parts)

    def tables(self, part: TracePart) -> tuple[str, ...]:
        """Names of the tables of a part that can be read."""
        return part.observed + part.truth if self.has_truth else part.observed

    def rounds(self) -> Iterator[RoundRecord]:
        """The rounds in order; memory holds one part at a time. Needs no truth.

        Raises:
            TraceError: a part that is damaged.
        """
        for part in self.parts:
            tables = self.whole_columns(part, part.observed)
            yield from map(self._without_given, decode.rounds(self.header, part, tables, self.folder))

    def _without_given(self, record: RoundRecord) -> RoundRecord:
        """A round without its own values of the facts that were given by hand."""
        if self.given.isdisjoint(record.facts):
            return record
        return replace(record, facts={name: record.facts[name] for name in record.facts.keys() - self.given})

    def truths(self) -> Iterator[RoundTruth]:
        """The truths of the rounds in order; `updates` are as exact as the payload's number format.

        Raises:
            UsageError: a trace without truth.
            TraceError: a part that is damaged, or clicks that are not those of its lists.
        """
        self._need_truth()
        return self._truths()

    def _truths(self) -> Iterator[RoundTruth]:
        for part in self.parts:
            tables = self.whole_columns(part, (*part.truth, "observed/interactions"))
            # Clicks of another list would be scored as an attack that failed.
            for problem in decode.row_problems(part, tables, self.folder):
                raise TraceError(problem)
            yield from decode.truths(self.header, part, tables, self.folder)

    def metrics(self) -> list[dict[str, float]]:
        """The recorded metrics of each round, with its number under `round`.

        Raises:
            UsageError: a trace without truth.
            TraceError: a part that is damaged.
        """
        self._need_truth()
        rows: list[dict[str, float]] = []
        for part in self.parts:
            found = decode.metrics(part, {"truth/rounds": self.columns(part, "truth/rounds")}, self.folder)
            rows += [{"round": part.first_round + i, **values} for i, values in enumerate(found)]
        return rows

    def last_model(self) -> GlobalModel:
        """What the server had after the last round.

        Raises:
            UsageError: a trace without rounds.
            TraceError: a last part that is damaged.
        """
        if not self.parts:
            raise UsageError(f"trace: {self.folder} has no round yet")
        part = self.parts[-1]
        tables = {"observed/rounds": self.columns(part, "observed/rounds")}
        return decode.last_model(self.header, part, tables, self.folder)

    def check_size(self, part: TracePart, table: str) -> None:
        """Refuse a file that is missing or of another size than its marker says.

        Raises:
            TraceError: it is.
        """
        path, expected = self.folder / part.file_name(table), part.files[table]
        try:
            found = path.stat()
        except OSError:
            raise TraceError(f"trace: {path}: missing, though {marker_name(part.index)} exists") from None
        if not S_ISREG(found.st_mode):  # a pipe would be waited for
            raise TraceError(f"trace: {path}: no regular file; expected one")
        size = found.st_size
        if size != expected.size:
            content = file_bytes(path, TraceError, size, "trace: ")
            origin = self._origin_of(part, table, hashlib.sha256(content).hexdigest())
            raise TraceError(f"trace: {path}: has {size} bytes, expected {expected.size}; {origin}")

    def content(self, part: TracePart, table: str) -> bytes:
        """The bytes of a file, checked against its marker.

        Raises:
            TraceError: missing, cut, altered, or another file under its name.
        """
        self.check_size(part, table)
        path = self.folder / part.file_name(table)
        # The caller parses these very bytes. A second read could find another file than the one that was
        # hashed.
        data = file_bytes(path, TraceError, part.files[table].size, "trace: ")
        digest = hashlib.sha256(data).hexdigest()
        if digest != part.files[table].sha256:
            origin = self._origin_of(part, table, digest)
            raise TraceError(f"trace: {path}: SHA-256 differs from {marker_name(part.index)}; {origin}")
        return data

    def whole_columns(self, part: TracePart, tables: Sequence[str]) -> decode.Tables:
        """Tables of a part with the columns that their files leave out, and those from which these follow.

        Raises:
            TraceError: as `columns`, or rows that other tables do not have.
        """
        found = {table: self.columns(part, table) for table in tables}
        while more := decode.sources(part, found, self.folder) - found.keys():
            found |= {table: self.columns(part, table) for table in sorted(more)}
        return decode.completed(self.header, part, found, self.folder)

    def columns(self, part: TracePart, table: str) -> Columns:
        """The columns of the file of a table of a part, read-only; some that follow from others are left out.

        Raises:
            TraceError: a file that is damaged, or has other columns or rows than it should.
        """
        path, rows = self.folder / part.file_name(table), part.files[table].rows
        return decode.load(self.content(part, table), self.header, table, path, rows)

    def check_files(self) -> None:
        """Compare every file with its marker.

        Raises:
            TraceError: the first that differs.
        """
        for part in self.parts:
            for table in self.tables(part):
                self.content(part, table)

    def _need_truth(self) -> None:
        if not self.has_truth:
            raise UsageError(
                f"trace: {self.folder} has no truth; scoring needs a trace that was recorded with it"
            )

    def _origin_of(self, part: TracePart, table: str, digest: str) -> str:
        for other in self.parts:
            for name, file in other.files.items():
                if file.sha256 == digest and (other.index, name) != (part.index, table):
                    return f"it is the file {other.file_name(name)}"
        return "it was cut, altered or taken from another trace"
