"""Several intents per query: TREC qrels for each intent, what `--intents` means, and balancing.

`--intents` names a folder of qrels per intent, a file of TREC's diversity qrels, `FILE[:I]` for its first I
subtopics, or `synthetic[:I]` for synthetic ones.

Balancing: TREC's first intents have more relevant documents than its last. Zhuang & Zuccon 2021, section 4.1,
number the intents of each query again at random in each repetition, so that all become equally frequent; an
intent then means nothing across queries.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from foltr_audit.core.records import Collection, Dataset
from foltr_audit.core.settings.data import (
    FEWEST_INTENTS,
    MOST_INTENTS,
    USUAL_INTENTS,
    are_synthetic,
    synthetic_count,
)
from foltr_audit.data.letor import line_batches, shown
from foltr_audit.data.synthetic import synthetic_intents
from foltr_audit.data.values import MAX_LABEL
from foltr_audit.errors import DataError
from foltr_audit.recorder.atomic_files import whole_file
from foltr_audit.rng import Streams, name_codes
from foltr_audit.utils.arrays import Ints

# Lines are `topic intent document label`. A folder holds a file per intent, 1.txt to I.txt (or .txt.gz). The
# TREC Web Track publishes one file, where intents are numbered subtopics (Clarke, Craswell & Soboroff 2009).
# Any label above 0 is relevant there, as for TREC's `ndeval`. Lines of subtopic 0 only say that a document
# was judged: they name what is relevant to no subtopic in 2009, and everything in qrels of the ad hoc task.
# A document counts as judged if any line judges it, as Zhuang & Zuccon 2021, section 3.1, collate them. Their
# split has the documents of the ad hoc task, too, and their program takes a label of -2 (spam) as relevant.

_FILE = re.compile(r"([1-9]\d{0,3})\.txt(\.gz)?")
_FIRST = re.compile(r"(.+):(\d{1,4})")
_SUBTOPIC = re.compile(rb"\d{1,4}")
_LINE = "topic intent document label"
_LABEL = re.compile(rb"-?\d{1,9}")

_Names = tuple[bytes, bytes]  # topic and document


@dataclass(frozen=True, eq=False)
class Qrels:
    """Judgements of the same documents under several intents.

    `rows` has the column of each topic and document in `grades`, int64 (I, judged documents), in the order of
    the files. A grade is 0 where no line of an intent has the document.
    """

    rows: Mapping[tuple[str, str], int]
    grades: Ints

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(topic for topic, _ in self.rows))


def qrels_file(intents: str) -> tuple[Path, int] | None:
    """The file that `FILE[:I]` names, and how many of its subtopics; None for anything else, a folder.

    Raises:
        DataError: a number of subtopics that is not supported.
    """
    if os.path.isfile(intents):
        return Path(intents), USUAL_INTENTS
    named = _FIRST.fullmatch(intents)
    if named is None or os.path.isdir(intents) or not os.path.isfile(named[1]):
        return None
    if not FEWEST_INTENTS <= int(named[2]) <= MOST_INTENTS:
        raise DataError(f"qrels: {intents}: expected from {FEWEST_INTENTS} to {MOST_INTENTS} subtopics")
    return Path(named[1]), int(named[2])


def qrels_files(folder: Path) -> tuple[Path, ...]:
    """The files of a folder of qrels, by intent.

    Raises:
        DataError: no such folder, no file, one number twice, or a number left out.
    """
    try:
        names = sorted(path.name for path in folder.iterdir())
    except OSError as error:
        raise DataError(f"qrels: {folder}: cannot be read: {error.strerror or error}") from error
    found: dict[int, str] = {}
    for name in names:
        match = _FILE.fullmatch(name)
        if match is None:
            continue
        if int(match[1]) in found:
            raise DataError(f"qrels: {folder}: {found[int(match[1])]} and {name}; expected one of them")
        found[int(match[1])] = name
    if not found:
        raise DataError(f"qrels: {folder}: no qrels; expected 1.txt, 2.txt and so on, or .txt.gz")
    missing = next((number for number in range(1, max(found) + 1) if number not in found), None)
    if missing is not None:
        last = found[max(found)]
        raise DataError(f"qrels: {folder}: {last}, but no {missing}.txt; expected a file for every intent")
    return tuple(folder / found[number] for number in sorted(found))


def read_qrels(intents: str) -> Qrels:
    """Read `--intents`. A label below 0 (spam) is grade 0; others stay in a folder, and are 1 in a file.

    Raises:
        DataError: a file that is missing, damaged, empty or malformed, a document that is judged twice, files
            of different topics, or fewer subtopics than are read.
    """
    file = qrels_file(intents)
    paths = qrels_files(Path(intents)) if file is None else file[:1]
    places: dict[_Names, int] = {}
    columns: dict[int, dict[_Names, int]] = {}  # by intent or subtopic
    for expected, path in enumerate(paths, start=1):
        for line, (topic, number, document), grade in _graded_lines(path):
            where, names = f"qrels: {path.name}:{line}", (topic, document)
            if file is None and number != b"%d" % expected:
                raise DataError(
                    f"{where}: intent {shown(number)}; expected {expected}, the number of the file"
                )
            if not _SUBTOPIC.fullmatch(number):
                raise DataError(f"{where}: subtopic {shown(number)}; expected a whole number from 0")
            column = columns.setdefault(int(number), {})
            if names in column and int(number) > 0:
                raise DataError(
                    f"{where}: document {shown(document)} of topic {shown(topic)} occurs twice; "
                    f"expected one label each"
                )
            places.setdefault(names, len(places))
            column[names] = grade if file is None else min(grade, 1)
    found = [columns.get(intent, {}) for intent in range(1, (len(paths) if file is None else file[1]) + 1)]
    if file is None:
        _check_topics(Path(intents), paths, found)
    elif {} in found:
        raise DataError(
            f"qrels: {paths[0]}: no line of subtopic {found.index({}) + 1}; expected subtopics 1 to "
            f"{file[1]}, or {paths[0].name}:I for the first I"
        )
    grades = np.zeros((len(found), len(places)), dtype=np.int64)
    for row, column in zip(grades, found, strict=True):
        row[[places[names] for names in column]] = list(column.values())
    rows = {(topic.decode(), document.decode()): place for (topic, document), place in places.items()}
    return Qrels(rows, grades)


def _check_topics(folder: Path, paths: Sequence[Path], columns: Sequence[dict[_Names, int]]) -> None:
    topics = [{topic for topic, _ in column} for column in columns]
    for path, there in zip(paths, topics, strict=True):
        odd = min(there ^ topics[0], default=None)
        if odd is not None:
            has, lacks = (path, paths[0]) if odd in there else (paths[0], path)
            raise DataError(
                f"qrels: {folder}: topic {shown(odd)} is in {has.name}, not in {lacks.name}; "
                f"expected the same topics in every file"
            )


def _graded_lines(path: Path) -> Iterator[tuple[int, list[bytes], int]]:
    """Number, first three fields and grade of each line that is not empty.

    Raises:
        DataError: a file that cannot be read, or has no such line; a line that is malformed.
    """
    known: dict[bytes, int] = {}  # a label's text -> grade
    empty = True
    for first, lines in line_batches(path, "qrels"):
        for number, line in enumerate(lines, first):
            fields = line.split()
            if not fields:
                continue
            where, empty = f"qrels: {path.name}:{number}", False
            if len(fields) != 4:
                raise DataError(f"{where}: {len(fields)} fields; expected '{_LINE}'")
            label = fields.pop()
            if label not in known:
                known[label] = max(0, int(label)) if _LABEL.fullmatch(label) else MAX_LABEL + 1
            if known[label] > MAX_LABEL:
                raise DataError(f"{where}: label {shown(label)}; expected a whole number up to {MAX_LABEL}")
            yield number, fields, known[label]
    if empty:
        raise DataError(f"qrels: {path}: empty; expected lines '{_LINE}'")


def join_qrels(part: Dataset, qrels: Qrels, name: str) -> Dataset | None:
    """The documents of a part that are judged, with their grades; None where there is none.

    Documents that no file judges are left out, and queries that are no topic with them: nobody knows
    whether they are relevant. The labels of the part are not used.
    """
    topics = set(qrels.topics)
    kept: list[int] = []
    columns = []
    for query, topic in enumerate(part.query_ids):
        if topic not in topics:
            continue
        first = int(part.offsets[query])
        for row, document in enumerate(part.document_ids[first : int(part.offsets[query + 1])], first):
            if not document:
                raise DataError(
                    f"qrels: {name} part, query {topic}: a document has no id; "
                    f"expected '#docid = NAME' at the end of its line"
                )
            column = qrels.rows.get((topic, document))
            if column is not None:
                kept.append(row)
                columns.append(column)
    return part.of_rows(np.array(kept)).with_intents(qrels.grades[:, columns]) if kept else None


def write_qrels(parts: Mapping[str, Dataset], folder: Path) -> None:
    """Write the grades of some parts as a folder of qrels, a file per intent.

    Raises:
        DataError: a file cannot be written.
    """
    number = max(part.n_intents for part in parts.values())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            for intent in range(number):
                file = stack.enter_context(whole_file(folder / f"{intent + 1}.txt"))
                for part in parts.values():
                    file.writelines(_lines(part, intent))
    except OSError as error:
        raise DataError(f"qrels: {folder}: cannot be written: {error.strerror or error}") from error


def _lines(part: Dataset, intent: int) -> Iterator[bytes]:
    topics = (topic for topic, n in zip(part.query_ids, part.lengths, strict=True) for _ in range(n))
    for topic, document, grade in zip(topics, part.document_ids, part.grades[intent].tolist(), strict=True):
        yield f"{topic} {intent + 1} {document} {grade}\n".encode()


PURPOSE = "intents/balance"


def intent_files(intents: str | None) -> tuple[Path, ...]:
    """Every file that the intents are read from."""
    if intents is None or are_synthetic(intents):
        return ()
    file = qrels_file(intents)
    return qrels_files(Path(intents)) if file is None else file[:1]


def count_read(parts: Mapping[str, Dataset], intents: str) -> tuple[int, int] | None:
    """Rows and queries of parts before `with_intents`; None for synthetic intents, which judge all."""
    if are_synthetic(intents):
        return None
    every = parts.values()
    return sum(part.n_documents for part in every), sum(part.n_queries for part in every)


def with_intents(parts: Mapping[str, Dataset], intents: str, source: str) -> dict[str, Dataset]:
    """The parts with a grade under each intent, in place of their own labels.

    Raises:
        DataError: qrels that cannot be read, or that judge nothing in some part.
    """
    number = synthetic_count(intents)
    if number is not None:
        return {name: synthetic_intents(part, int(number)) for name, part in parts.items()}
    qrels, joined = read_qrels(intents), {}
    for name, part in parts.items():
        judged = join_qrels(part, qrels, name)
        if judged is None:
            raise DataError(
                f"intents: {intents} judges no document of the {name} part of {source}; "
                f"expected the same query and document ids"
            )
        joined[name] = judged
    return joined


def new_order(query_ids: Sequence[str], intents: int, streams: Streams) -> Ints:
    """Which old intent becomes the i-th of each query, int64 (queries, I), each row a permutation.

    The draws are named by the query's id: they depend neither on its place nor on other queries.
    """
    draws = streams.clients(PURPOSE, 0, name_codes(query_ids)).uniform(intents)
    return np.argsort(draws, axis=1, kind="stable")


def balance(dataset: Dataset, streams: Streams) -> Dataset:
    """The same data with each query's intents in another order; unchanged where there is only one."""
    if dataset.intents is None:
        return dataset
    order = np.repeat(new_order(dataset.query_ids, dataset.n_intents, streams), dataset.lengths, axis=0)
    return dataset.with_intents(np.take_along_axis(dataset.intents, order.T, axis=0))


def balance_collection(collection: Collection, streams: Streams) -> Collection:
    """The same fold with every part `balance`; its fingerprint stays that of the data as they were read."""
    if collection.n_intents == 1:
        return collection
    return collection.with_parts(balance(collection.part(name), streams) for name in Collection.PARTS)
