"""Qrels per intent: what is read, what is refused, and which documents they judge."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr_audit.core.records import Dataset
from foltr_audit.data.intents import (
    Qrels,
    intent_files,
    join_qrels,
    qrels_file,
    qrels_files,
    read_qrels,
    write_qrels,
)
from foltr_audit.data.synthetic import synthesise
from foltr_audit.errors import DataError
from tests.data.test_sources import lay
from tests.fixtures.command import SHARED, answer, run
from tests.fixtures.data_cache import load_data
from tests.fixtures.reference import dataset

TREC = SHARED / "data" / "trec-web-intents"


def judged(qrels: Qrels) -> dict[tuple[str, str], list[int]]:
    return {names: qrels.grades[:, column].tolist() for names, column in qrels.rows.items()}


# --- reading --------------------------------------------------------------------------------------


@pytest.mark.skipif(not TREC.is_dir(), reason="the shared data are not here")
def test_trec_counts_are_the_published_ones() -> None:
    qrels = read_qrels(str(TREC))
    assert (qrels.grades > 0).sum(axis=1).tolist() == [14_191, 10_297, 8_324, 5_226]
    assert qrels.grades.shape == (4, 101_407)
    assert len(qrels.topics) == 198


def test_grades_by_topic_and_document(tmp_path: Path) -> None:
    files = {
        "1.txt": "7 1 a 1\n7 1 b -2\n8 1 a 0\n",
        "2.txt.gz": "8\t2  a\t3\n\n7 2 c 1\n7 2 a 0\n",
        "README": "not qrels",
    }
    qrels = read_qrels(lay(tmp_path, files))
    assert judged(qrels) == {("7", "a"): [1, 0], ("7", "b"): [0, 0], ("8", "a"): [0, 3], ("7", "c"): [0, 1]}
    assert (qrels.grades > 0).sum(axis=1).tolist() == [1, 2]
    assert qrels.topics == ("7", "8")


def test_files_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    lay(tmp_path, {f"{number}.txt": f"q {number} d 1" for number in range(1, 12)})
    assert [path.name for path in qrels_files(tmp_path)] == [f"{number}.txt" for number in range(1, 12)]


GOOD = "7 1 a 1\n"
REFUSED = {
    "no file": ({}, "no qrels; expected 1.txt, 2.txt and so on, or .txt.gz"),
    "a gap": ({"1.txt": GOOD, "3.txt": GOOD}, "3.txt, but no 2.txt; expected a file for every intent"),
    "no first": ({"2.txt": GOOD}, "2.txt, but no 1.txt"),
    "twice": ({"1.txt": GOOD, "1.txt.gz": GOOD}, "1.txt and 1.txt.gz; expected one of them"),
    "empty": ({"1.txt": "\n\n"}, "1.txt: empty; expected lines 'topic intent document label'"),
    "short": ({"1.txt": GOOD + "7 1 b\n"}, "1.txt:2: 3 fields; expected 'topic intent document label'"),
    "long": ({"1.txt": GOOD + "7 1 b 1 1\n"}, "1.txt:2: 5 fields; expected"),
    "intent": ({"1.txt": "7 2 a 1"}, "1.txt:1: intent '2'; expected 1, the number of the file"),
    "words": ({"1.txt": "\n7 1 a yes"}, "1.txt:2: label 'yes'; expected a whole number up to 31"),
    "fraction": ({"1.txt": "7 1 a 0.5"}, "1.txt:1: label '0.5'; expected"),
    "large": ({"1.txt": "7 1 a 32"}, "1.txt:1: label '32'; expected"),
    "repeated": ({"1.txt": GOOD + "8 1 a 0\n" + GOOD}, "1.txt:3: document 'a' of topic '7' occurs twice"),
    "topics": ({"1.txt": GOOD, "2.txt": "8 2 a 1"}, "topic '7' is in 1.txt, not in 2.txt; expected the same"),
    "more": ({"1.txt": GOOD, "2.txt": "7 2 a 1\n8 2 a 1"}, "topic '8' is in 2.txt, not in 1.txt; expected"),
    "binary": ({"1.txt": b"7 1 a\0 1"}, "1.txt:1: a NUL byte; expected a text file"),
    "encoding": ({"1.txt": GOOD.encode() + b"7 1 \xff 1"}, "1.txt:2: bytes that are not UTF-8; expected"),
}


def test_gzip_is_known_by_its_content_and_refused_if_damaged(tmp_path: Path) -> None:
    (tmp_path / "1.txt.gz").write_text(GOOD)
    assert read_qrels(str(tmp_path)).topics
    (tmp_path / "1.txt.gz").write_bytes(gzip.compress(GOOD.encode() * 100)[:-9])
    with pytest.raises(DataError, match=r"^qrels: 1.txt.gz: damaged gzip data"):
        read_qrels(str(tmp_path))


# --- one file of all subtopics --------------------------------------------------------------------


def test_places_of_qrels(tmp_path: Path) -> None:
    lay(tmp_path, {"qrels.diversity": GOOD, "folder:3": "no folder"})
    file = str(tmp_path / "qrels.diversity")
    assert qrels_file(file) == (Path(file), 4)
    assert qrels_file(str(tmp_path / "folder:3")) == (tmp_path / "folder:3", 4)
    assert qrels_file(str(tmp_path)) is qrels_file("none:3") is None
    assert intent_files(f"{file}:3") == (Path(file),)
    with pytest.raises(DataError, match=r"^qrels: .*none: cannot be read: No such file"):
        qrels_files(tmp_path / "none")


_lines = st.dictionaries(
    st.tuples(st.sampled_from("123"), st.integers(0, 6), st.sampled_from("abcd")), st.integers(-2, 4)
)


@given(_lines, st.integers(2, 5), st.booleans())
def test_any_file_line_by_line(lines: dict[tuple[str, int, str], int], first: int, packed: bool) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "qrels"
        text = "".join(f"{t} {i}  {d}\t{label}\n" for (t, i, d), label in lines.items()).encode()
        path.write_bytes(gzip.compress(text) if packed else text)
        numbers = {intent for _, intent, _ in lines}
        if not set(range(1, first + 1)) <= numbers:
            with pytest.raises(DataError, match=r"empty|no line of subtopic \d"):
                read_qrels(f"{path}:{first}")
            return
        found = judged(read_qrels(f"{path}:{first}"))
    assert set(found) == {(topic, document) for topic, _, document in lines}
    for (topic, document), grades in found.items():
        each = [lines.get((topic, intent, document), 0) for intent in range(1, first + 1)]
        assert grades == [label > 0 for label in each]


REFUSED_FILES = {
    "subtopic": ("7 1 a 1\n7 x a 1\n", "f:2: subtopic 'x'; expected a whole number from 0"),
    "negative": ("7 -1 a 1", "f:1: subtopic '-1'; expected"),
    "short": ("7 1 a", "f:1: 3 fields; expected 'topic intent document label'"),
    "commas": ("7,1,a,1", "f:1: 1 fields; expected"),
    "label": ("7 1 a 1\n\n7 2 a one", "f:3: label 'one'; expected a whole number up to 31"),
    "twice": ("7 1 a 1\n7 6 a 1\n7 6 a 0", "f:3: document 'a' of topic '7' occurs twice"),
    "adhoc": ("7 0 a 1\n", "no line of subtopic 1; expected subtopics 1 to 4, or "),
    "fewer": ("7 1 a 1\n7 2 a 1\n7 4 a 1", "no line of subtopic 3"),
    "empty": ("\n", "f: empty; expected lines 'topic intent document label'"),
}


@pytest.mark.parametrize(
    ("files", "line"),
    [*REFUSED.values(), *(({"f": text}, line) for text, line in REFUSED_FILES.values())],
    ids=[*REFUSED, *(f"file {name}" for name in REFUSED_FILES)],
)
def test_refused(tmp_path: Path, files: Mapping[str, str | bytes], line: str) -> None:
    lay(tmp_path, files)
    with pytest.raises(DataError) as caught:
        read_qrels(str(tmp_path / "f" if "f" in files else tmp_path))
    assert str(caught.value).startswith("qrels: ")
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("number", [0, 1, 11, 9999])
def test_refused_numbers_of_subtopics(tmp_path: Path, number: int) -> None:
    lay(tmp_path, {"f": GOOD})
    with pytest.raises(DataError, match=rf"f:{number}: expected from 2 to 10 subtopics$"):
        read_qrels(f"{tmp_path}/f:{number}")


@pytest.mark.skipif(not TREC.is_dir(), reason="the shared data are not here")
def test_one_file_of_the_published_intents_is_the_same_collection(tmp_path: Path) -> None:
    texts = [gzip.decompress(path.read_bytes()).splitlines() for path in qrels_files(TREC)]
    by_document = [line for lines in zip(*texts, strict=True) for line in lines]
    (tmp_path / "qrels").write_bytes(b"\n".join(by_document))
    asked = ("data info", SHARED / "data" / "clueweb09", "--intents")
    folder, file = answer(*asked, TREC), answer(*asked, tmp_path / "qrels")
    assert folder["fingerprint"] == file["fingerprint"]
    assert folder["parts"] == file["parts"]
    assert answer(*asked, f"{tmp_path / 'qrels'}:3")["intents"] == 3


# --- joining --------------------------------------------------------------------------------------


def part_of(documents: Mapping[str, list[str]]) -> Dataset:
    """Queries with named documents; the feature of a document is its number."""
    names = [name for row in documents.values() for name in row]
    numbers = np.arange(len(names))[:, np.newaxis]
    plain = dataset(numbers, np.full(len(names), 2), [*map(len, documents.values())])
    return replace(plain, query_ids=tuple(documents), document_ids=tuple(names))


_names = st.sampled_from("abcdef")
_parts = st.dictionaries(
    st.sampled_from("123"), st.lists(_names, min_size=1, max_size=5, unique=True), min_size=1
)
_judgements = st.dictionaries(
    st.tuples(st.sampled_from("234"), _names), st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=12
)


@given(_parts, _judgements)
def test_only_what_is_judged_stays(
    documents: dict[str, list[str]], judgements: dict[tuple[str, str], tuple[int, int]]
) -> None:
    part = part_of(documents)
    grades = np.array(list(judgements.values()), dtype=np.int64).reshape(-1, 2).T
    joined = join_qrels(part, Qrels({name: i for i, name in enumerate(judgements)}, grades), "train")
    rows = [(query, name) for query, row in documents.items() for name in row]
    kept = [i for i, names in enumerate(rows) if names in judgements]
    if joined is None:
        assert not kept
        return
    assert joined.features[:, 0].tolist() == kept
    assert joined.intents is not None
    assert joined.intents.T.tolist() == [list(judgements[rows[i]]) for i in kept]
    assert joined.labels.tolist() == [max(judgements[rows[i]]) for i in kept]
    owners = np.repeat(np.array(joined.query_ids), joined.lengths)
    assert list(zip(owners.tolist(), joined.document_ids, strict=True)) == [rows[i] for i in kept]


LETOR = "".join(
    f"{row % 2} qid:{query} 1:{query}{row} 2:{row} #docid = D{row}\n"
    for query in range(1, 11)
    for row in range(4)
)


def test_a_source_is_joined_before_it_is_split(tmp_path: Path) -> None:
    (tmp_path / "all.txt").write_text(LETOR)
    text = "".join(f"{query} I D{row} {row % 2}\n" for query in range(1, 6) for row in range(1, 4))
    qrels = lay(tmp_path / "qrels", {f"{i}.txt": text.replace("I", str(i)) for i in (1, 2)})
    collection = load_data(str(tmp_path / "all.txt"), normalise="none", intents=qrels)
    parts = [collection.part(name) for name in collection.PARTS]
    assert [part.n_queries for part in parts] == [3, 1, 1]
    assert {name for part in parts for name in part.query_ids} == set("12345")
    assert {part.lengths.tolist()[0] for part in parts} == {3}
    assert collection.n_intents == 2
    assert collection.intents_from == qrels
    assert not collection.synthetic
    assert collection.fingerprint != load_data(str(tmp_path / "all.txt"), normalise="none").fingerprint


# --- writing --------------------------------------------------------------------------------------


def test_what_is_written_reads_back(tmp_path: Path) -> None:
    made = synthesise("clueweb-intents", queries=6)
    write_qrels({name: made.part(name) for name in made.PARTS}, tmp_path / "qrels")
    qrels = read_qrels(str(tmp_path / "qrels"))
    grades = np.concatenate([made.part(name).grades for name in made.PARTS], axis=1)
    assert np.array_equal(qrels.grades, grades)
    out = tmp_path / "made"
    assert run("data synth --like clueweb-intents --queries 6 --out", out).code == 0
    facts = answer("data info", out, "--intents", out / "intents")
    assert facts["fingerprint"] == made.fingerprint


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("a file")
    made = synthesise("clueweb-intents", queries=5)
    with pytest.raises(DataError, match=r"^qrels: .*qrels: cannot be written: File exists"):
        write_qrels({"train": made.train}, tmp_path / "qrels")
