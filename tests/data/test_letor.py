"""The LETOR reader and writer, and files of groups: what they accept and refuse, and that nothing is lost."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import ArrayLike

from foltr_audit.core.records import Collection, Dataset
from foltr_audit.data import letor
from foltr_audit.data.letor import LetorFile, _parse_entry, read_letor, write_letor
from foltr_audit.data.sources import folds_of, locate
from foltr_audit.errors import DataError
from tests.data.test_sources import lay
from tests.fixtures import reference
from tests.fixtures.data_cache import load_data
from tests.golden_files import GOLDEN, played

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
LARGEST = float(np.finfo(np.float32).max)


def read_text(folder: Path, text: str | bytes) -> LetorFile:
    path = folder / "train.txt"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_letor(path)


def dataset(features: ArrayLike, lengths: list[int], documents: tuple[str, ...] = ()) -> Dataset:
    """Queries of these lengths with any labels, and names of documents."""
    rows = sum(lengths)
    plain = reference.dataset(features, np.arange(rows) % 5, lengths)
    return replace(plain, document_ids=documents or plain.document_ids)


def assert_same(one: Dataset, other: Dataset) -> None:
    for name in ("features", "labels", "offsets"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert one.query_ids == other.query_ids
    assert one.document_ids == other.document_ids
    assert one.fingerprint == other.fingerprint


def test_reads_a_published_line(tmp_path: Path) -> None:
    part = read_text(
        tmp_path,
        "2 qid:10032 1:0.056537 2:-1.5e2 3:0 #docid = GX029-35-5894638 inc = 0.0119881192 prob = 0.139842\n"
        "0 qid:10032 1:0.1 2:7 3:1.000000 #docid = GX030-77-6315042 inc = 1 prob = 0.341364\n",
    )
    expected = np.array([[0.056537, -150, 0], [0.1, 7, 1]], dtype=np.float32)
    np.testing.assert_array_equal(part.dataset.features, expected)
    assert part.dense
    assert part.dataset.labels.tolist() == [2, 0]
    assert part.dataset.query_ids == ("10032",)
    assert part.dataset.document_ids == ("GX029-35-5894638", "GX030-77-6315042")


def test_rows_of_equal_count_are_not_dense_by_that_alone(tmp_path: Path) -> None:
    assert not read_text(tmp_path, "1 qid:a 1:2 2:3\n0 qid:a 1:4 3:5\n").dense
    assert not read_text(tmp_path, "1 qid:a 2:3\n0 qid:a 2:5\n").dense


def test_largest_feature_id(tmp_path: Path) -> None:
    part = read_text(tmp_path, "1 qid:a 65536:2 1:3\n")
    assert part.dataset.features.shape == (1, 65536)
    assert part.dataset.features[0, [0, 1, 65535]].tolist() == [3, 0, 2]


def test_text_becomes_float32_in_one_rounding(tmp_path: Path) -> None:
    # Just above the middle of 1 and the next float32; by way of float64 it would become 1.
    part = read_text(tmp_path, f"0 qid:a 1:1.00000005960464477539062501 2:1e-45 3:-1e-60 4:{LARGEST!r}\n")
    expected = np.array([1 + 2.0**-23, 2.0**-149, -0.0, LARGEST], dtype=np.float32)
    assert part.dataset.features[0].tobytes() == expected.tobytes()


values = st.one_of(
    st.floats(width=32, allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, 1.0, LARGEST, -LARGEST, 2.0**-149, float(np.float32(0.1))]),
)
names = st.text(
    st.characters(codec="utf-8", exclude_characters="#\0", exclude_categories=["Z", "Cc"]), min_size=1
)


@st.composite
def datasets(draw: st.DrawFn) -> Dataset:
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    rows, width = sum(lengths), draw(st.integers(1, 7))
    return Dataset(
        features=draw(arrays(np.float32, (rows, width), elements=values)),
        labels=draw(arrays(np.int64, rows, elements=st.integers(0, 31))),
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        query_ids=tuple(draw(st.lists(names, min_size=len(lengths), max_size=len(lengths), unique=True))),
        document_ids=tuple(draw(st.lists(st.one_of(st.just(""), names), min_size=rows, max_size=rows))),
    )


def render(data: Dataset, draws: random.Random, *, sparse: bool) -> str:
    """LETOR text of a data set, written as strangely as the format allows."""
    lines = []
    for query, name in enumerate(data.query_ids):
        for row in range(data.offsets[query], data.offsets[query + 1]):
            if draws.random() < 0.2:
                lines.append(draws.choice(["", "# 1 qid:7 1:2", " \t"]))
            given = [(j, float(x)) for j, x in enumerate(data.features[row], 1)]
            if sparse:
                given = [(j, x) for j, x in given if x or np.signbit(x)]
            draws.shuffle(given)
            label = (
                draws.choice(["", "", "+", "\t"]) + str(data.labels[row]) + draws.choice(["", ".", ".000"])
            )
            pairs = (
                f"{draws.choice(['', '0'])}{j}:{draws.choice(['', '+'][: 1 + (x > 0)])}{x!r}"
                for j, x in given
            )
            text = draws.choice([" ", "\t", "  "]).join([label, f"qid:{name}", *pairs])
            text += draws.choice(["", " ", "\t ", "#", " # no document"])
            document = data.document_ids[row]
            lines.append(f"{text.partition('#')[0]}#docid = {document} inc = 1" if document else text)
    return draws.choice(["", "\ufeff"]) + draws.choice(["\n", "\r\n"]).join(lines) + draws.choice(["", "\n"])


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=datasets(), seed=st.integers(0, 2**32), sparse=st.booleans(), packed=st.booleans())
def test_any_spelling_reads_as_the_same_data(
    tmp_path: Path, data: Dataset, seed: int, sparse: bool, packed: bool
) -> None:
    text = render(data, random.Random(seed), sparse=sparse).encode()  # noqa: S311
    if sparse and not np.any(data.features.view(np.uint32)):
        with pytest.raises(DataError, match="no row has a feature"):
            read_text(tmp_path, text)
        return
    part = read_text(tmp_path, gzip.compress(text) if packed else text)
    width = part.dataset.n_features  # trailing features that are zero everywhere leave no trace
    assert not np.any(data.features[:, width:])
    assert sparse or (part.dense and width == data.n_features)
    assert_same(part.dataset, data.with_features(data.features[:, :width]))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=datasets())
def test_writer_round_trip(tmp_path: Path, data: Dataset) -> None:
    write_letor(data, tmp_path / "part.txt")
    part = read_letor(tmp_path / "part.txt")
    assert part.dense
    assert_same(part.dataset, data)


def test_writer_survives_random_bit_patterns(tmp_path: Path) -> None:
    bits = np.random.default_rng(3).integers(0, 2**32, 60_000, dtype=np.uint32).view(np.float32)
    features = np.where(np.isfinite(bits), bits, np.float32(0)).reshape(2_000, 30)
    write_letor(dataset(features, [2_000]), tmp_path / "part.txt")
    assert read_letor(tmp_path / "part.txt").dataset.features.tobytes() == features.tobytes()


def test_batches_join_without_a_seam(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = dataset(np.random.default_rng(1).random((97, 5)), [40, 1, 56], tuple(f"d{i}" for i in range(97)))
    monkeypatch.setattr(letor, "_BATCH_VALUES", 50)
    write_letor(data, tmp_path / "part.txt")
    monkeypatch.setattr(letor, "_BATCH_BYTES", 300)
    assert_same(read_letor(tmp_path / "part.txt").dataset, data)
    # Batches of their own width, dense and sparse.
    text = "1 qid:a 1:1 2:2\n" * 40 + "\n" * 400 + "1 qid:a 3:3\n" * 40 + "1 qid:b 1:4\n" * 40
    part = read_text(tmp_path, text)
    assert part.dataset.features.tolist() == [[1, 2, 0]] * 40 + [[0, 0, 3]] * 40 + [[4, 0, 0]] * 40
    assert part.dataset.offsets.tolist() == [0, 80, 120]
    assert not part.dense


token = st.tuples(
    st.one_of(st.from_regex(r"\A[+-]?0{0,2}[0-9]{1,6}\Z"), st.text("0123456789+-.:ae_", max_size=4)),
    st.one_of(
        st.floats().map(repr),
        st.from_regex(r"\A[+-]?[0-9]{0,4}\.?[0-9]{0,3}([eE][+-]?[0-9]{1,2})?\Z"),
        st.text("0123456789+-.:eEnaif_", max_size=5),
        st.sampled_from(
            ["1.79769313486e+308", "-1.798E308", "1.796e308", "1.799e308", "1e999", "NULL", "nan"]
        ),
    ),
).map(lambda pair: f"{pair[0]}:{pair[1]}".encode())


@example(entries=[b"2:0.0", b"1:0:"], nan_is_missing=True)
@example(entries=[b"1:1.79769313486e+308", b"2:0.5", b"3:nan"], nan_is_missing=True)
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(entries=st.lists(token, min_size=1, max_size=4), nan_is_missing=st.booleans())
def test_entries_are_read_together_as_one_by_one(
    tmp_path: Path, entries: list[bytes], nan_is_missing: bool
) -> None:
    path = tmp_path / "train.txt"
    path.write_bytes(b"1 qid:1 " + b" ".join(entries))
    for dtype in ("float32", "float64"):
        read = partial(read_letor, path, dtype=dtype, nan_is_missing=nan_is_missing)
        try:
            each = [_parse_entry(entry, nan_is_missing=nan_is_missing) for entry in entries]
        except ValueError:
            with pytest.raises(DataError, match=r"letor: train\.txt:1: "):
                read()
            continue
        if len({feature for feature, _ in each}) < len(each):
            with pytest.raises(DataError, match=r"letor: train\.txt:1: feature \d+ given twice"):
                read()
            continue
        row = read().dataset.features[0]
        expected = np.zeros_like(row)
        for feature, value in each:
            expected[feature - 1] = value
        assert row.dtype == dtype
        np.testing.assert_array_equal(row, expected)


def svmlight(path: Path, n_features: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    datasets = pytest.importorskip("sklearn.datasets")
    features, labels, queries = datasets.load_svmlight_file(
        str(path), n_features=n_features, dtype=np.float32, query_id=True, zero_based=False
    )
    return features.toarray(), labels, queries


@pytest.mark.parametrize("name", ["train", "vali", "test"])
def test_mq2008_as_scikit_learn_reads_it(name: str) -> None:
    path = DATA / "mq2008" / f"{name}.txt"
    if not path.exists():
        pytest.skip("MQ2008 is not here")
    part = read_letor(path)
    features, labels, queries = svmlight(path, 46)
    assert part.dense
    np.testing.assert_array_equal(part.dataset.features, features)
    np.testing.assert_array_equal(part.dataset.labels, labels)
    read = np.repeat(np.array(part.dataset.query_ids, dtype=np.int64), part.dataset.lengths)
    np.testing.assert_array_equal(read, queries)
    marks = [line.split("#docid = ")[1].split()[0] for line in path.read_text().splitlines()]
    assert part.dataset.document_ids == tuple(marks)


@pytest.mark.parametrize("name", ["train", "test"])
def test_lightgbm_rank_as_scikit_learn_reads_it(name: str) -> None:
    path = DATA / "lightgbm-rank" / f"rank.{name}"
    groups = path.with_name(f"rank.{name}.query")
    if not path.exists():
        pytest.skip("lightgbm-rank is not here")
    part = read_letor(path, groups=groups)
    features, labels, _ = svmlight(path, part.dataset.n_features)
    assert not part.dense
    np.testing.assert_array_equal(part.dataset.features, features)
    np.testing.assert_array_equal(part.dataset.labels, labels)
    assert part.dataset.lengths.tolist() == [int(line) for line in groups.read_text().split()]


GOOD = b"1 qid:7 1:0.5 2:1 #docid = a\n"


def refusal(path: Path, groups: Path | None = None) -> str:
    with pytest.raises(DataError) as caught:
        read_letor(path, groups=groups)
    message = str(caught.value)
    assert message.isprintable(), "one line without control characters"
    assert message.startswith("letor: ")
    return message


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"\x1b[2J qid:7 1:1", "label '\\x1b[2J' is not a number; expected 0 to 31"),
        (b"1 qid:7 1:\0", "a NUL byte; expected a text file, plain or gzip"),
        (b"1 qid:7 1:2 # caf\xe9", "bytes that are not UTF-8; expected a text file, plain or gzip"),
    ],
)
@pytest.mark.parametrize("batch", [1, 2 << 20], ids=["line-by-line", "at-once"])
def test_malformed_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int, line: bytes, message: str
) -> None:
    monkeypatch.setattr(letor, "_BATCH_BYTES", batch)
    path = tmp_path / "train.txt"
    before = b"0 qid:6 1:1\n\n# comment\r\n" + GOOD * 2
    path.write_bytes(before + line + b"\n" + GOOD)
    assert refusal(path) == f"letor: train.txt:6: {message}"
    path.write_bytes(gzip.compress(before + line))
    assert refusal(path) == f"letor: train.txt:6: {message}"


def test_line_by_line_is_refused_what_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(letor, "_BATCH_BYTES", 1)
    monkeypatch.chdir(tmp_path)
    stored = (GOLDEN / "letor.console").read_text(encoding="utf-8")
    assert played(stored) == stored


@pytest.mark.parametrize("batch", [1, 2 << 20], ids=["line-by-line", "at-once"])
@pytest.mark.parametrize("second", [b"bad qid:7 1:1\n", b"1 qid:7 1:x\n", b"1 1:1\n"])
@pytest.mark.parametrize("first", [b"-1 qid:7 1:1\n", b"1 qid:7 1:1 1:1\n", b"1 qid: 1:1\n"])
def test_the_first_bad_line_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: bytes, second: bytes, batch: int
) -> None:
    monkeypatch.setattr(letor, "_BATCH_BYTES", batch)
    path = tmp_path / "train.txt"
    path.write_bytes(GOOD * 3 + first + GOOD + second)
    assert refusal(path).startswith("letor: train.txt:4: ")


def test_errors_name_the_fold(tmp_path: Path) -> None:
    path = tmp_path / "Fold3" / "train.txt"
    path.parent.mkdir()
    path.write_bytes(GOOD + b"x qid:7 1:1\n")
    assert refusal(path).startswith("letor: Fold3/train.txt:2: label 'x'")


def test_gzip_that_is_cut_short_or_changed(tmp_path: Path) -> None:
    packed = gzip.compress(GOOD * 1000)
    path = tmp_path / "train.txt.gz"
    changed = bytearray(packed)
    changed[-6] ^= 1  # the checksum
    garbled = packed[:20] + bytes(10) + packed[30:]
    for damaged in (packed[:-20], packed[:5], bytes(changed), garbled, packed + b"more"):
        path.write_bytes(damaged)
        assert refusal(path).startswith("letor: train.txt.gz: damaged gzip data (")


def test_files_that_are_none(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.txt") == f"letor: {tmp_path / 'none.txt'}: no such file"
    assert refusal(tmp_path) == f"letor: {tmp_path}: a folder, where a file is expected"
    (tmp_path / "train.txt").write_bytes(GOOD)
    below = tmp_path / "train.txt" / "part"
    assert refusal(below) == f"letor: {below}: cannot be read: Not a directory"
    (tmp_path / "loop").symlink_to("loop")
    assert "loop: cannot be read: " in refusal(tmp_path / "loop")


def test_a_file_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", forbidden)  # file modes do not stop root
    path = tmp_path / "train.txt"
    assert refusal(path) == f"letor: {path}: cannot be read: Permission denied"


def test_a_matrix_beyond_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("foltr_audit.data.letor.np.zeros", exhausted)
    path = tmp_path / "train.txt"
    path.write_bytes(GOOD)
    assert refusal(path) == "letor: train.txt: 1 rows of 2 features do not fit into memory"


def small() -> Dataset:
    return replace(reference.dataset([[1, 2], [3, 4]], [0, 1], [1, 1]), document_ids=("", "d"))


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_letor(small(), tmp_path / "out.txt")
    before = (tmp_path / "out.txt").read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("foltr_audit.recorder.atomic_files.os.fsync", full)
    with pytest.raises(DataError, match=r"out\.txt: cannot be written: No space left on device"):
        write_letor(replace(small(), labels=np.array([3, 3])), tmp_path / "out.txt")
    assert (tmp_path / "out.txt").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]


def test_writing_into_no_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot be written: No such file or directory"):
        write_letor(small(), tmp_path / "none" / "out.txt")


SIZES = (2, 3, 1, 2)
PARTS = ("train", "vali", "test")
LAYOUTS = {
    "text": [f"{part}.txt" for part in PARTS],
    "valid": [f"{part}.txt" for part in ("train", "valid", "test")],
    "yahoo": [f"set1.{part}.txt" for part in ("train", "valid", "test")],
    "name": [f"web.{part}" for part in ("train", "valid", "test")],
    "fold": [f"Fold1/{part}.txt" for part in PARTS],
    "name in a fold": [f"Fold1/web.{part}" for part in PARTS],
    "pieces": [f"S{number}.txt" for number in range(1, 6)],
    "one file": ["ranking.dat"],
}
# The name of the file with rows, and of its group file.
ENDS = [
    *[("", f"{end}{packed}") for end in (".query", ".group") for packed in ("", ".gz")],
    *[(".gz", f"{end}{packed}") for end in (".query", ".group") for packed in ("", ".gz")],
    *[(".gz", f".gz{end}{packed}") for end in (".query", ".group") for packed in ("", ".gz")],
]


def ungrouped(sizes: Sequence[int]) -> str:
    return "".join(f"{row % 2} 1:{query + 1} 2:{row}\n" for query, n in enumerate(sizes) for row in range(n))


def with_ids(sizes: Sequence[int]) -> str:
    return "".join(f"1 qid:q{query} 1:{row}\n" for query, n in enumerate(sizes) for row in range(n))


def groups(sizes: Sequence[int]) -> str:
    return "".join(f"{size}\r\n\n" for size in sizes)


@pytest.mark.parametrize("names", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize(("packed", "end"), ENDS)
def test_a_group_file_is_found_beside_every_file(
    tmp_path: Path, names: list[str], packed: str, end: str
) -> None:
    files = {name + packed: ungrouped(SIZES) for name in names}
    lay(tmp_path, files | {name + end: groups(SIZES) for name in names})
    source = str(tmp_path / next(iter(files)) if len(names) == 1 else tmp_path)
    data = load_data(source, normalise="none")
    parts = [data.part(name) for name in Collection.PARTS]
    found = {
        query: length
        for part in parts
        for query, length in zip(part.query_ids, part.lengths.tolist(), strict=True)
    }
    assert found == {f"{Path(name).name}:{query}": size for name in names for query, size in enumerate(SIZES)}
    if len(names) == 5:
        assert folds_of(source) == (1, 2, 3, 4, 5)
        assert {path.name for path in locate(source, 3).files} >= {name + end for name in names}


@pytest.mark.parametrize("rows", [ungrouped, with_ids])
@pytest.mark.parametrize("names", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("ends", [(".query", ".group"), (".query", ".query.gz"), (".group.gz", ".query.gz")])
def test_two_group_files_of_one_file_are_refused(
    tmp_path: Path, names: list[str], ends: tuple[str, str], rows: Callable[[Sequence[int]], str]
) -> None:
    lay(tmp_path, {name: rows(SIZES) for name in names} | {names[-1] + end: groups(SIZES) for end in ends})
    source = str(tmp_path / names[0] if len(names) == 1 else tmp_path)
    with pytest.raises(DataError) as caught:
        load_data(source)
    last = Path(names[-1]).name
    assert all(f"{last}{end}" in str(caught.value) for end in ends)


@pytest.mark.parametrize("name", ["train.txt", "web.train.gz"])
def test_rows_without_any_query_name_the_group_files_looked_for(tmp_path: Path, name: str) -> None:
    lay(tmp_path, {name: ungrouped(SIZES)})
    with pytest.raises(DataError) as caught:
        load_data(str(tmp_path))
    names = {name, name.removesuffix(".gz")}
    assert all(f"{each}{end}" in str(caught.value) for each in names for end in (".query", ".group"))


def test_query_ids_of_rows_stay_where_the_groups_are_the_same(tmp_path: Path) -> None:
    lay(tmp_path, {"train.txt": with_ids(SIZES), "train.txt.query": groups(SIZES)})
    part = read_letor(tmp_path / "train.txt", groups=tmp_path / "train.txt.query").dataset
    assert part.query_ids == tuple(f"q{query}" for query in range(len(SIZES)))
    assert tuple(part.lengths.tolist()) == SIZES
    alone = read_letor(tmp_path / "train.txt").dataset
    assert alone.fingerprint == part.fingerprint


@pytest.mark.parametrize(
    "sizes", [(8,), (1, 4, 1, 2), (2, 3, 3), (2, 3, 1, 1, 1), (2, 3, 1), (2, 3, 1, 2, 1)]
)
def test_groups_of_other_queries_are_refused_with_both_names(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    lay(tmp_path, {"train.txt": with_ids(SIZES), "train.txt.group": groups(sizes)})
    with pytest.raises(DataError) as caught:
        load_data(str(tmp_path))
    message = str(caught.value).replace("train.txt.group", "<groups>")
    assert "<groups>" in message
    assert "train.txt" in message


@pytest.mark.parametrize(
    ("text", "line"), [("1 1:1\n0 qid:a 1:2\n", 2), ("1 qid:a 1:1\n0 qid:a 1:2\n\n1 1:1\n", 4)]
)
def test_query_ids_in_some_rows_only_are_refused(tmp_path: Path, text: str, line: int) -> None:
    lay(tmp_path, {"train.txt": text, "train.txt.query": "1\n1\n"})
    with pytest.raises(DataError, match=rf"train\.txt:{line}: query id "):
        load_data(str(tmp_path))


def test_a_folder_named_like_a_group_file_is_passed_over(tmp_path: Path) -> None:
    lay(tmp_path, {"train.txt": with_ids(SIZES), "train.txt.query/notes": "x"})
    assert sum(load_data(str(tmp_path)).part(name).n_queries for name in Collection.PARTS) == len(SIZES)
