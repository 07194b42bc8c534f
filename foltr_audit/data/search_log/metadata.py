"""Reader for `metadata.csv` of AOL4FOLTR: a row for each search, with its user, its time and its click.

Source: Gregoriadis, Kang & Pouwelse 2025, "A large-scale web search dataset for federated online learning to
rank"; the columns are those that their program `create_metadata.py` writes (github.com/mg98/aol4foltr).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path

import numpy as np

from foltr_audit.data.letor.lines import line_batches, name_in_messages
from foltr_audit.errors import DataError
from foltr_audit.utils.arrays import Bools, Ints

SPLIT_SHARE = 0.2  # of the searches, for the validation split and for the test split
_QUERY, _USER, _CLICKED, _LIST = "qid", "user_id", "target_doc_id", "candidate_doc_ids"
_TIMES = ("timestamp", "time")
_EPOCH = datetime(1970, 1, 1)
_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,6})?")
_NAME = re.compile(r"[^\s#\0]{1,200}")
_QUOTED = re.compile(r"""'([^']*)'|"([^"]*)\"""")


@dataclass(frozen=True, kw_only=True, eq=False)
class SearchLog:
    """The searches of users, in the order of the file.

    Attributes:
        name: the file, for messages.
        lines: line of each search, int64 (n,).
        query_ids: id of each search; all different.
        users: number of the user, int64 (n,); the user with the most searches before the validation split
            is 0, and of equals the one that the file names first.
        times: microseconds since 1970, int64 (n,).
        clicked: id of the clicked document.
        listed: number of documents in the list, int64 (n,); 0 where the file does not say.
    """

    name: str
    lines: Ints
    query_ids: tuple[str, ...]
    users: Ints
    times: Ints
    clicked: tuple[str, ...]
    listed: Ints

    @property
    def n_clients(self) -> int:
        """Number of users with a search in the training split; they have the first numbers."""
        return int(self.users[self.part == 0].max()) + 1

    @cached_property
    def part(self) -> Ints:
        """Part of each search, int64 (n,): 0 train, 1 vali, 2 test. Later parts are later in time."""
        return _parts_in_time(self.times, self.name)

    def where(self, search: int) -> str:
        """File and line of a search, for messages."""
        return f"data: {self.name}:{self.lines[search]}"


def read_search_log(path: Path) -> SearchLog:
    """Read a `metadata.csv`, plain or gzip. The text of queries is not kept, nor are the users' ids.

    Raises:
        DataError: a file that cannot be read, a missing column, or the first malformed row with its line.
    """
    found = _Rows(name_in_messages(path))
    columns: _Columns | None = None
    for line, fields in _records(path, f"data: {found.name}"):
        if columns is None:
            columns = _Columns.of(fields, f"data: {found.name}:{line}")
        elif fields:
            found.take(columns, fields, line)
    if columns is None:
        raise DataError(f"data: {found.name}: empty; expected a header and a row for each search")
    return found.log()


def _records(path: Path, where: str) -> Iterator[tuple[int, list[str]]]:
    """Each record of a CSV file, and the number of its first line."""
    lines = (f"{line.decode()}\n" for _, batch in line_batches(path, "data") for line in batch)
    # Strict: a stray quote would otherwise glue rows together unseen.
    reader, first = csv.reader(lines, strict=True), 1
    try:
        for fields in reader:
            yield first, fields
            first = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{where}:{first}: {error}; expected comma-separated values") from error


@dataclass(frozen=True)
class _Columns:
    """Where the columns are that are read; the others may be anything."""

    width: int
    query: int
    user: int
    time: int
    clicked: int
    listed: int | None

    @classmethod
    def of(cls, header: Sequence[str], where: str) -> _Columns:
        names = [name.strip() for name in header]
        for name in names:
            if names.count(name) > 1:
                raise DataError(f"{where}: column {name[:40]!r} is given twice; expected it once")

        def place(*known: str) -> int:
            found = [names.index(name) for name in known if name in names]
            if len(found) != 1:
                what = "several columns" if found else "no column"
                raise DataError(f"{where}: {what} {' or '.join(known)}; expected one")
            return found[0]

        listed = names.index(_LIST) if _LIST in names else None
        return cls(len(names), place(_QUERY), place(_USER), place(*_TIMES), place(_CLICKED), listed)


@dataclass
class _Rows:
    """What was read of the rows so far."""

    name: str
    lines: list[int] = field(default_factory=list)
    searches: dict[str, int] = field(default_factory=dict)  # line of each query id
    users: list[int] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)  # of each user id, by first appearance
    times: list[int] = field(default_factory=list)
    clicked: list[str] = field(default_factory=list)
    listed: list[int] = field(default_factory=list)

    def take(self, columns: _Columns, fields: list[str], line: int) -> None:
        """Note one row."""
        where = f"data: {self.name}:{line}"
        if len(fields) != columns.width:
            raise DataError(f"{where}: {len(fields)} columns; expected {columns.width}, as in the header")
        query = _name(fields[columns.query], "query id", where)
        user = _name(fields[columns.user], "user", where)
        clicked = _name(fields[columns.clicked], "clicked document", where)
        if query in self.searches:
            raise DataError(
                f"{where}: query id {query[:40]!r} is that of line {self.searches[query]} too; "
                "expected different ones"
            )
        listed = 0
        if columns.listed is not None:
            listed = _listed(fields[columns.listed], clicked, where)
        self.times.append(_microseconds(fields[columns.time], where))
        self.lines.append(line)
        self.searches[query] = line
        self.users.append(self.numbers.setdefault(user, len(self.numbers)))
        self.clicked.append(clicked)
        self.listed.append(listed)

    def log(self) -> SearchLog:
        """The log of all rows."""
        if not self.lines:
            raise DataError(f"data: {self.name}: no rows; expected one for each search")
        times = np.array(self.times, dtype=np.int64)
        training = _parts_in_time(times, self.name) == 0
        return SearchLog(
            name=self.name,
            lines=np.array(self.lines, dtype=np.int64),
            query_ids=tuple(self.searches),
            users=_by_activity(np.array(self.users, dtype=np.int64), training),
            times=times,
            clicked=tuple(self.clicked),
            listed=np.array(self.listed, dtype=np.int64),
        )


def _by_activity(users: Ints, training: Bools) -> Ints:
    """The same users numbered by their searches in the training split, most first, int64 (n,)."""
    counts = np.bincount(users[training], minlength=int(users.max()) + 1)
    rank = np.empty_like(counts)
    rank[np.argsort(-counts, kind="stable")] = np.arange(counts.size)
    return np.asarray(rank[users])


def _parts_in_time(times: Ints, name: str) -> Ints:
    """Part of each search (n,): the first 60 % train, then 20 % vali and 20 % test; equal times together.

    Who is in which part so follows from the times alone, whatever the order of the rows.

    Raises:
        DataError: too few different times.
    """
    size = max(1, round(SPLIT_SHARE * times.size))
    rising = np.sort(times)
    cuts = rising[[max(0, times.size - 2 * size), times.size - size]]
    part = np.searchsorted(cuts, times, side="right")
    if np.unique(part).size < 3:
        raise DataError(
            f"data: {name}: {times.size} searches at {np.unique(times).size} times cannot be split; "
            "expected earlier ones to train, later ones for validation and the last ones to test"
        )
    return np.asarray(part)


def _name(text: str, what: str, where: str) -> str:
    if not _NAME.fullmatch(text):
        said = f"{what} {text[:40]!r}" if text.strip() else f"no {what}"
        raise DataError(f"{where}: {said}; expected a name of at most 200 characters without spaces")
    return text


def _microseconds(text: str, where: str) -> int:
    try:
        if not _TIME.fullmatch(text):
            raise ValueError
        passed = datetime.fromisoformat(text) - _EPOCH
    except ValueError as error:
        raise DataError(f"{where}: time {text[:40]!r}; expected YYYY-MM-DD HH:MM:SS") from error
    return (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds


def _listed(text: str, clicked: str, where: str) -> int:
    """Number of documents in a list such as `{'a', 'b'}`; it is only searched for names, never evaluated."""
    names = {one or other for one, other in _QUOTED.findall(text)}
    if not names:
        raise DataError(f"{where}: no candidate documents; expected a list such as {{'ID', 'ID'}}")
    if clicked not in names:
        raise DataError(
            f"{where}: the clicked document {clicked[:40]!r} is none of the {len(names)} candidate documents"
        )
    return len(names)
