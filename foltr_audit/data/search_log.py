"""Search logs of users: who searched what when, and clicked on which document."""

from __future__ import annotations

import csv
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np

from foltr_audit.core.records import Collection, Dataset
from foltr_audit.core.settings.data import DataSpec
from foltr_audit.data.document_order import in_content_order, natural_key
from foltr_audit.data.letor import line_batches, name_in_messages, read_letor
from foltr_audit.data.sources import LOG_FILES, normalise
from foltr_audit.data.values import fill_missing
from foltr_audit.errors import DataError, UsageError
from foltr_audit.utils.arrays import Bools, Ints

# Source: Gregoriadis, Kang & Pouwelse 2025, "A large-scale web search dataset for federated online learning
# to rank"; the columns are those that their program `create_metadata.py` writes (github.com/mg98/aol4foltr).

SPLIT_SHARE = 0.2  # of the searches, for the validation split and for the test split
_QUERY, _USER, _CLICKED, _LIST = "qid", "user_id", "target_doc_id", "candidate_doc_ids"
_TIMES = ("timestamp", "time")
_EPOCH = datetime(1970, 1, 1)
_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,6})?")
_NAME = re.compile(r"[^\s#\0]{1,200}")
_QUOTED = re.compile(r"""'([^']*)'|"([^"]*)\"""")


@dataclass(frozen=True, kw_only=True, eq=False)
class SearchLog:
    """The searches of users, in the order of the file: n of them, with different query ids.

    Attributes:
        users: number of the user; the user with the most searches before the validation split is 0, and of
            equals the one whose id comes first.
        times: microseconds since 1970.
        clicked: id of the clicked document.
        listed: number of documents in the list; 0 where the file does not say.
    """

    name: str
    lines: Ints
    query_ids: tuple[str, ...]
    users: Ints
    times: Ints
    clicked: tuple[str, ...]
    listed: Ints

    @cached_property
    def part(self) -> Ints:
        """Part of each search, int64 (n,): 0 train, 1 vali, 2 test. Later parts are later in time."""
        return _parts_in_time(self.times, self.name)

    def where(self, search: int) -> str:
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
        if not self.lines:
            raise DataError(f"data: {self.name}: no rows; expected one for each search")
        times = np.array(self.times, dtype=np.int64)
        training = _parts_in_time(times, self.name) == 0
        return SearchLog(
            name=self.name,
            lines=np.array(self.lines, dtype=np.int64),
            query_ids=tuple(self.searches),
            users=_by_activity(np.array(self.users, dtype=np.int64), list(self.numbers), training),
            times=times,
            clicked=tuple(self.clicked),
            listed=np.array(self.listed, dtype=np.int64),
        )


def _by_activity(users: Ints, names: list[str], training: Bools) -> Ints:
    """The same users numbered by their searches in the training split, most first, int64 (n,)."""
    counts = np.bincount(users[training], minlength=len(names)).tolist()
    order = sorted(range(len(names)), key=lambda user: (-counts[user], natural_key(names[user])))
    return np.argsort(order)[users]


def _parts_in_time(times: Ints, name: str) -> Ints:
    """Part of each search (n,): the first 60 % train, then 20 % vali and 20 % test; equal times together.

    Who is in which part so follows from the times alone, whatever the order of the rows.
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


# `metadata.csv` and the features of the lists, `letor.txt`, are linked by the query id, which names one
# search of one user. A label of 1 marks the document that the user clicked. Parts follow each other in time,
# as in the experiments of Gregoriadis et al. 2025.

_ENDS = ("", ".gz")


@dataclass(frozen=True)
class LogFiles:
    """The two files of a search log."""

    metadata: Path
    letor: Path

    @classmethod
    def of(cls, source: str) -> LogFiles | None:
        """Those in a folder, plain or gzip; None where it holds no search log, or is none."""
        folder, found = Path(source), []
        for name in LOG_FILES:
            there = [name + end for end in _ENDS if _is_file(folder / (name + end))]
            if not there:
                return None
            if len(there) > 1:
                raise DataError(f"data: {folder}: {' and '.join(there)}; expected one of them")
            found.append(folder / there[0])
        return cls(*found)


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError):  # such as a NUL in the name
        return False


def number_of_clients(source: str) -> int | None:
    """Number of users with a search in the training split; None where the source holds no search log.

    Raises:
        DataError: the log is malformed.
    """
    files = LogFiles.of(source)
    if files is None:
        return None
    facts = files.metadata.stat()
    return _count(os.path.abspath(files.metadata), (facts.st_size, facts.st_mtime_ns))


@lru_cache(maxsize=4)
def _count(path: str, stamp: tuple[int, int]) -> int:
    log = read_search_log(Path(path))
    return int(log.users[log.part == 0].max()) + 1  # they have the first numbers


def load_search_log(data: DataSpec, files: LogFiles) -> Collection:
    """The normalised collection of a search log: its users' queries in order of time.

    Raises:
        DataError: a malformed file, or files that do not fit each other.
        UsageError: a fold or intents.
    """
    if data.fold:
        raise UsageError(f"data: --fold {data.fold}: {data.source} is a search log, which has no folds")
    if data.intents is not None:
        raise UsageError(
            f"data: --intents: {data.source} is a search log, whose labels are real clicks; "
            "expected no other labels"
        )
    log = read_search_log(files.metadata)
    letor = read_letor(
        files.letor, dtype=data.dtype, only=frozenset(log.query_ids), nan_is_missing=data.missing is not None
    )
    name = name_in_messages(files.letor)
    searches = _searches(log, letor.dataset, name)
    part, times = log.part[searches], log.times[searches]
    parts = _split(_with_clicks(log, letor.dataset, searches, name), part, times)
    if data.document_order == "content":
        whens = [np.sort(times[part == number]) for number in range(3)]
        parts = [
            in_content_order(one, times=when, overwrite=True) for one, when in zip(parts, whens, strict=True)
        ]
    filled, n_missing = fill_missing(dict(zip(Collection.PARTS, parts, strict=True)), data.missing)
    collection = Collection.parsed(
        filled.values(),
        source=data.source,
        synthetic=False,
        fold=0,
        missing=data.missing,
        n_missing=n_missing,
        left_out=letor.left_out,
    )
    return normalise(collection, data.normalise, data.dtype, overwrite=True)


def _searches(log: SearchLog, lists: Dataset, name: str) -> Ints:
    """Which search of the log each list is of, int64 (lists,)."""
    place = {query: search for search, query in enumerate(log.query_ids)}
    searches = np.array([place[query] for query in lists.query_ids], dtype=np.int64)
    if searches.size < len(log.query_ids):
        first = int(np.setdiff1d(np.arange(len(log.query_ids)), searches)[0])
        query = log.query_ids[first][:40]
        raise DataError(f"{log.where(first)}: query id {query!r} has no rows in {name}; expected its list")
    return searches


def _with_clicks(log: SearchLog, lists: Dataset, searches: Ints, name: str) -> Dataset:
    """The lists with their users, and with the names of the clicked documents."""
    _check_lists(log, lists, searches, name)
    documents = list(lists.document_ids)
    clicked = np.flatnonzero(lists.labels)  # one of each list
    for row, search in zip(clicked.tolist(), searches.tolist(), strict=True):
        # Rows need not be in the order of the candidate documents: only the clicked one has a known name.
        if documents[row] not in ("", log.clicked[search]):
            raise DataError(
                f"{log.where(search)}: clicked document {log.clicked[search][:40]!r}, but {name} has a label "
                f"of 1 for {documents[row][:40]!r}; expected the same document"
            )
        documents[row] = log.clicked[search]
    return replace(lists, document_ids=tuple(documents), users=log.users[searches])


def _check_lists(log: SearchLog, lists: Dataset, searches: Ints, name: str) -> None:
    """Refuse a list without exactly one click, or of another length than the log says."""
    clicks = np.add.reduceat(lists.labels, lists.offsets[:-1])
    rows = np.add.reduceat(lists.labels > 0, lists.offsets[:-1])
    if (wrong := (clicks != 1) | (rows != 1)).any():
        first = int(np.argmax(wrong))
        said = f"{rows[first]} clicked rows" if rows[first] != 1 else f"a label of {clicks[first]}"
        raise DataError(
            f"{log.where(searches[first])}: query id {lists.query_ids[first][:40]!r} has {said} in {name}; "
            "expected a label of 1 for the clicked document and 0 for all others"
        )
    listed = log.listed[searches]
    if (wrong := (listed > 0) & (listed != lists.lengths)).any():
        first = int(np.argmax(wrong))
        raise DataError(
            f"{log.where(searches[first])}: {listed[first]} candidate documents, but "
            f"{lists.lengths[first]} rows of query id {lists.query_ids[first][:40]!r} in {name}"
        )


def _split(lists: Dataset, part: Ints, times: Ints) -> list[Dataset]:
    """The parts with these numbers (queries,), each in order of time; of equal times in order of the file.

    Where the file is in order of time, parts share its memory: large data are not copied.
    """
    if np.any(np.diff(times) < 0):
        order = np.argsort(times, kind="stable")
        return [lists.select(order[part[order] == number]) for number in range(3)]
    ends = np.searchsorted(part, np.arange(4))
    return [_between(lists, int(first), int(end)) for first, end in pairwise(ends)]


def _between(lists: Dataset, first: int, end: int) -> Dataset:
    rows = slice(int(lists.offsets[first]), int(lists.offsets[end]))
    return replace(
        lists,
        features=lists.features[rows],
        labels=lists.labels[rows],
        offsets=lists.offsets[first : end + 1] - rows.start,
        query_ids=lists.query_ids[first:end],
        document_ids=lists.document_ids[rows],
        users=None if lists.users is None else lists.users[first:end],
    )
