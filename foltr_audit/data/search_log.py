"""Search logs of users: who searched what when, and clicked on which document.

`metadata.csv` and the features of the lists, `letor.txt`, are linked by the query id, which names one search
of one user. A label of 1 marks the document that the user clicked. Parts follow each other in time.

Source: Gregoriadis, Kang & Pouwelse 2025, "A large-scale web search dataset for federated online learning to
rank"; the columns are those that their program `create_metadata.py` writes (github.com/mg98/aol4foltr).
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from foltr_audit.core.records import Collection, Dataset
from foltr_audit.core.settings.data import DataSpec
from foltr_audit.data.document_order import in_content_order, natural_key
from foltr_audit.data.letor import line_batches, name_in_messages, read_letor
from foltr_audit.data.sources import LOG_FILES, prepared
from foltr_audit.errors import DataError, UsageError
from foltr_audit.utils.arrays import Ints

SPLIT_SHARE = 0.2  # of the searches, for the validation split and for the test split
_QUERY, _USER, _CLICKED, _LIST = "qid", "user_id", "target_doc_id", "candidate_doc_ids"
_TIMES = ("timestamp", "time")
_EPOCH, _MICROSECOND = datetime(1970, 1, 1), timedelta(microseconds=1)
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
        part: 0 train, 1 vali, 2 test. Later parts are later in time.
        clicked: id of the clicked document.
        listed: number of documents in the list; 0 where the file does not say.
    """

    name: str
    lines: Ints
    query_ids: tuple[str, ...]
    users: Ints
    times: Ints
    part: Ints
    clicked: tuple[str, ...]
    listed: Ints

    def where(self, search: int) -> str:
        return f"data: {self.name}:{self.lines[search]}"


def read_search_log(path: Path) -> SearchLog:
    """Read a `metadata.csv`, plain or gzip. The text of queries is not kept, nor are the users' ids.

    Raises:
        DataError: a file that cannot be read, a missing column, or the first malformed row with its line.
    """
    name = name_in_messages(path)
    columns: dict[str, int] | None = None
    rows: list[tuple[int, int, int, str, int]] = []  # line, number of the user, time, clicked, listed
    searches: dict[str, int] = {}  # line of each query id
    numbers: dict[str, int] = {}  # of each user id, by first appearance
    for line, fields in _records(path, f"data: {name}"):
        where = f"data: {name}:{line}"
        if columns is None:
            columns, width = _columns(fields, where), len(fields)
        elif fields:
            if len(fields) != width:
                raise DataError(f"{where}: {len(fields)} columns; expected {width}, as in the header")
            query = _name(fields[columns[_QUERY]], "query id", where)
            user = _name(fields[columns[_USER]], "user", where)
            clicked = _name(fields[columns[_CLICKED]], "clicked document", where)
            if query in searches:
                raise DataError(
                    f"{where}: query id {query[:40]!r} is that of line {searches[query]} too; "
                    "expected different ones"
                )
            listed = _listed(fields[columns[_LIST]], clicked, where) if _LIST in columns else 0
            time = _microseconds(fields[columns["time"]], where)
            searches[query] = line
            rows.append((line, numbers.setdefault(user, len(numbers)), time, clicked, listed))
    if not rows:
        said = "empty; expected a header and a row" if columns is None else "no rows; expected one"
        raise DataError(f"data: {name}: {said} for each search")
    lines, users, times, documents, lengths = zip(*rows, strict=True)
    part = _parts_in_time(np.array(times, dtype=np.int64), name)
    # Users by their searches in the training split, most first.
    counts = np.bincount(np.array(users)[part == 0], minlength=len(numbers)).tolist()
    order = sorted(numbers, key=lambda user: (-counts[numbers[user]], natural_key(user)))
    return SearchLog(
        name=name,
        lines=np.array(lines),
        query_ids=tuple(searches),
        users=np.argsort([numbers[user] for user in order])[list(users)],
        times=np.array(times, dtype=np.int64),
        part=part,
        clicked=documents,
        listed=np.array(lengths),
    )


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


def _columns(header: Sequence[str], where: str) -> dict[str, int]:
    """The place of each column by its name, and that of the `time`; columns that are not read may be any."""
    places = {name.strip(): place for place, name in enumerate(header)}
    if len(places) < len(header):
        names = [name.strip() for name in header]
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"{where}: column {twice[:40]!r} is given twice; expected it once")
    for known in ((_QUERY,), (_USER,), _TIMES, (_CLICKED,)):
        found = [name for name in known if name in places]
        if len(found) != 1:
            what = "several columns" if found else "no column"
            raise DataError(f"{where}: {what} {' or '.join(known)}; expected one")
    return places | {"time": places[next(name for name in _TIMES if name in places)]}


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
    return passed // _MICROSECOND


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


class LogFiles(NamedTuple):
    """The two files of a search log."""

    metadata: Path
    letor: Path

    @classmethod
    def of(cls, source: str) -> LogFiles | None:
        """Those in a folder, plain or gzip; None where it holds no search log, or is none."""
        folder, found = Path(source), []
        for name in LOG_FILES:
            # `isfile` is False also of a name with a NUL, or one that is too long.
            there = [path for path in (name, f"{name}.gz") if os.path.isfile(folder / path)]
            if not there:
                return None
            if len(there) > 1:
                raise DataError(f"data: {folder}: {' and '.join(there)}; expected one of them")
            found.append(folder / there[0])
        return cls(*found)


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
    only, nan_is_missing = frozenset(log.query_ids), data.missing is not None
    letor = read_letor(files.letor, dtype=data.dtype, only=only, nan_is_missing=nan_is_missing)
    lists, name = letor.dataset, name_in_messages(files.letor)
    place = {query: search for search, query in enumerate(log.query_ids)}
    searches = np.array([place.pop(query) for query in lists.query_ids], dtype=np.int64)
    if place:
        query, search = next(iter(place.items()))
        raise DataError(
            f"{log.where(search)}: query id {query[:40]!r} has no rows in {name}; expected its list"
        )
    _check_lists(log, lists, searches, name)
    part, times = log.part[searches], log.times[searches]
    parts = _split(_with_clicks(log, lists, searches, name), part, times)
    if data.document_order == "content":
        whens = [np.sort(times[part == number]) for number in range(3)]
        parts = [
            in_content_order(one, times=when, overwrite=True) for one, when in zip(parts, whens, strict=True)
        ]
    named = dict(zip(Collection.PARTS, parts, strict=True))
    return prepared(named, data, synthetic=False, fold=0, left_out=letor.left_out)


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


def _with_clicks(log: SearchLog, lists: Dataset, searches: Ints, name: str) -> Dataset:
    """The lists with their users, and with the names of the clicked documents."""
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


def _split(lists: Dataset, part: Ints, times: Ints) -> list[Dataset]:
    """The parts with these numbers (queries,), each in order of time; of equal times in order of the file.

    Where the file is in order of time, parts share its memory: large data are not copied.
    """
    if np.any(np.diff(times) < 0):
        order = np.argsort(times, kind="stable")
        return [lists.select(order[part[order] == number]) for number in range(3)]
    ends = np.searchsorted(part, np.arange(4)).tolist()
    parts = []
    for first, end in pairwise(ends):
        rows = slice(int(lists.offsets[first]), int(lists.offsets[end]))
        parts.append(
            replace(
                lists,
                features=lists.features[rows],
                labels=lists.labels[rows],
                offsets=lists.offsets[first : end + 1] - rows.start,
                query_ids=lists.query_ids[first:end],
                document_ids=lists.document_ids[rows],
                users=None if lists.users is None else lists.users[first:end],
            )
        )
    return parts
