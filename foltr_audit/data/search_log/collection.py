"""A folder with the search log of users, `metadata.csv`, and the features of its lists, `letor.txt`.

Both are linked by the query id, which names one search of one user. A label of 1 marks the document that the
user clicked. Parts follow each other in time, as in the experiments of Gregoriadis et al. 2025.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np

from foltr_audit.core.records import Collection, Dataset
from foltr_audit.core.records.dataset import joint_fingerprint
from foltr_audit.core.settings.data import DataSpec
from foltr_audit.data.letor.lines import name_in_messages
from foltr_audit.data.letor.reader import read_letor
from foltr_audit.data.normalize import normalise
from foltr_audit.data.search_log.metadata import SearchLog, read_search_log
from foltr_audit.errors import DataError, UsageError
from foltr_audit.utils.arrays import Ints

LAYOUT = "metadata.csv with letor.txt"
_ENDS = ("", ".gz")


@dataclass(frozen=True)
class LogFiles:
    """The two files of a search log."""

    metadata: Path
    letor: Path

    @classmethod
    def of(cls, source: str) -> LogFiles | None:
        """Those in a folder, plain or gzip; None where it holds no search log, or is none.

        Raises:
            DataError: one of them exists twice.
        """
        folder, found = Path(source), []
        for name in LAYOUT.split(" with "):
            there = [name + end for end in _ENDS if _is_file(folder / (name + end))]
            if not there:
                return None
            if len(there) > 1:
                raise DataError(f"data: {folder}: {' and '.join(there)}; expected one of them")
            found.append(folder / there[0])
        return cls(*found)

    @property
    def files(self) -> tuple[Path, ...]:
        """Every file that is read."""
        return self.metadata, self.letor


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
    """As `number_of_clients`, of a file with this size and time of change."""
    return read_search_log(Path(path)).n_clients


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
    letor = read_letor(files.letor, dtype=data.dtype, only=frozenset(log.query_ids))
    name = name_in_messages(files.letor)
    searches = _searches(log, letor.dataset, name)
    parts = _split(_with_clicks(log, letor.dataset, searches, name), log.part[searches], log.times[searches])
    collection = Collection(
        train=parts[0],
        vali=parts[1],
        test=parts[2],
        source=data.source,
        synthetic=False,
        fold=0,
        fingerprint=joint_fingerprint(parts),
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
    """Queries first .. end-1, in the same memory."""
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
