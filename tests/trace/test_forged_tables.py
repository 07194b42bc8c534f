"""Tables that another writer made wrongly: hashes are right, and one line says what is not."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from foltr_audit.recorder.round_tables import (
    RoundColumns,
    Tables,
    TruthColumns,
    join_tables,
    round_tables,
)
from foltr_audit.recorder.table_files import LEFT_OUT, unpack_columns, with_implied, without_implied
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from foltr_audit.trace import Trace, TraceWriter, validate
from tests.trace.test_refusals import BARE, small, two_rounds

Table = dict[str, NDArray[Any]]
Change = Callable[[Table], Table]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Two rounds, with every column in its file."""
    folder = two_rounds(tmp_path / "trace")
    store_all_columns(folder)
    return folder


def store_all_columns(folder: Path) -> None:
    """Put the columns that follow from other tables into the files of part 0, as other writers do."""
    trace = Trace.open(folder)
    [part] = trace.parts
    for table, columns in trace.whole_columns(part, trace.tables(part)).items():
        replaced(folder, f"{table}-00000.npz", saved({"round": columns["round"], **columns}))


def forge(folder: Path, table: str, change: Change) -> None:
    """Change a table of part 0 and its marker, as a faulty writer of another system would."""
    name = f"{table}-00000.npz"
    rows = json.loads((folder / "part-00000.json").read_text())["files"][name]["rows"]
    with np.load(folder / name, allow_pickle=False) as stored:
        columns = unpack_columns(dict(stored), rows)
    replaced(folder, name, saved(change(columns)))


def saved(columns: Table) -> bytes:
    """The table as NumPy itself writes it."""
    buffer = io.BytesIO()
    np.savez(buffer, **columns)  # type: ignore[arg-type]
    return buffer.getvalue()


def replaced(folder: Path, name: str, data: bytes, rows: int | None = None) -> None:
    """Put other bytes in the place of a file of part 0, and its marker right."""
    (folder / name).write_bytes(data)
    marker = json.loads((folder / "part-00000.json").read_text())
    marker["files"][name] |= {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
    if rows is not None:
        marker["files"][name]["rows"] = rows
    (folder / "part-00000.json").write_text(json.dumps(marker))


def put(name: str, value: object) -> Change:
    """Replace the first entry of a column."""
    return made(name, lambda values: np.array([value, *values[1:]], dtype=values.dtype))


def made(name: str, make: Callable[[NDArray[Any]], Any]) -> Change:
    """Replace a column."""
    return lambda columns: {**columns, name: make(columns[name])}


def without(name: str) -> Change:
    return lambda columns: {each: values for each, values in columns.items() if each != name}


def as_type(name: str, kind: str) -> Change:
    return made(name, lambda values: values.astype(kind))


def rows(count: int, *names: str) -> Change:
    """Keep so many rows of some columns, or of all."""
    return lambda t: {name: x[:count] if name in names or not names else x for name, x in t.items()}


def widened(name: str, padding: int) -> Change:
    return made(name, lambda values: np.pad(values, ((0, 0), (0, 1)), constant_values=padding))


ROUNDS, MESSAGES, LISTS = "observed/rounds", "observed/messages", "observed/interactions"
METRICS, CLIENTS, CLICKS = "truth/rounds", "truth/messages", "truth/clicks"
NAN = [0.0, 1.0, float("nan")]
FORGERY: tuple[tuple[str, Change, str], ...] = (
    (MESSAGES, without("count"), "column count is missing, expected whole numbers"),
    (MESSAGES, lambda t: {**t, "secret": np.arange(4)}, "unknown column secret; expected round, slot, count"),
    (ROUNDS, as_type("shares", "f8"), "column shares is float64 of shape (2,), expected whole numbers"),
    (MESSAGES, as_type("array-0", "f8"), "is float64 of shape (4, 3), expected float32 of shape (rows, 3)"),
    (MESSAGES, made("array-0", lambda x: x[:, :2]), "of shape (4, 2), expected float32 of shape (rows, 3)"),
    (MESSAGES, made("count", np.sum), "column count is "),
    (MESSAGES, as_type("survived", "u1"), "column survived is uint8 of shape (4,), expected bool"),
    (METRICS, as_type("name", "S"), "damaged: an array of S1 with 1 axes; expected plain numbers or text"),
    (MESSAGES, as_type("count", "O"), "damaged: no header of a plain array"),
    (MESSAGES, as_type("array-0", "c8"), "damaged: an array of c8 with 2 axes"),
    (MESSAGES, rows(3), "column round has 3 rows, expected 4"),
    (MESSAGES, rows(3, "survived"), "column survived has 3 rows, expected 4"),
    (ROUNDS, put("round", 3), "expected the rounds 0 to 1, one row each"),
    (MESSAGES, put("round", 7), "rows must rise from round 0 to 1"),
    (
        *(MESSAGES, made("round", lambda x: x.astype(np.uint64) + np.uint64(2**63))),
        "column round holds 9223372036854775809, expected less than 2^63",
    ),
    (MESSAGES, put("slot", 1), "the slots of a round must be 0, 1, 2 and so on"),
    (LISTS, widened("shown", 255), "is uint8 of shape (6, 5), expected whole numbers of shape (rows, 4)"),
    (LISTS, put("shown", [1, 1, 255, 255]), "round 0: a shown list holds a document twice"),
    (LISTS, put("part", 2), "round 0: part 2, expected one of 2"),
    (LISTS, put("slot", 2), "round 0: slot holds 2, expected less than the 2"),
    (LISTS, put("slot", 1), "round 0: interactions are not sorted by (slot, step)"),
    (MESSAGES, put("array-0", NAN), "messages hold a value that is not"),
    (ROUNDS, put("aggregate", NAN), "aggregate hold a value that is not finite"),
    (MESSAGES, made("count", np.zeros_like), "slot 0 counts 0 interactions, but 1 are recorded"),
    (CLICKS, put("step", 1), "rows differ from those of observed/interactions"),
    (CLICKS, put("clicks", [0b0010_0000]), "round 0: truth: a click where the shown list is padded"),
    (CLICKS, widened("clicks", 0), "uint8 of shape (6, 2), expected bool or packed bits of shape (rows, 4)"),
    (CLICKS, as_type("clicks", "u2"), "uint16 of shape (6, 1), expected bool or packed bits of shape"),
    (CLIENTS, made("client", lambda x: -x.astype(np.int64)), "clients holds -4, expected 0 or more"),
    (METRICS, made("round", np.zeros_like), "a metric twice, or one named round"),
    (
        METRICS,
        made("name", lambda x: np.full(x.shape, "round")),
        "a metric twice, or one named round",
    ),
    (ROUNDS, lambda t: {**t, "facts": np.array(["[1]", ""])}, "facts of round 0: a list; expected a JSON"),
    (
        *(ROUNDS, lambda t: {**t, "facts": np.array(['{"pairs": {}}', ""])}),
        "round 0: knowledge.pairs is {}, expected text, a number",
    ),
)


def test_lists_and_clicks_of_earlier_writers_are_read_as_before(trace: Path) -> None:
    """Signed positions, padded with -1, and a byte for each click."""
    now = Trace.open(trace)
    lists, clicks = [r.shown for r in now.rounds()], [t.clicks for t in now.truths()]

    def signed(x: NDArray[Any]) -> NDArray[Any]:
        assert x.dtype == np.uint8
        return np.where(x == 255, -1, x.astype(np.int16))

    forge(trace, "observed/interactions", made("shown", signed))
    forge(trace, "truth/clicks", made("clicks", lambda x: np.unpackbits(x, axis=1, count=4).astype(np.bool_)))
    assert validate(trace) == []
    earlier = Trace.open(trace)
    for record, shown in zip(earlier.rounds(), lists, strict=True):
        np.testing.assert_array_equal(record.shown, shown)
    for truth, clicked in zip(earlier.truths(), clicks, strict=True):
        np.testing.assert_array_equal(truth.clicks, clicked)
    assert any((shown < 0).any() for shown in lists)
    assert any(clicked.any() for clicked in clicks)


@pytest.mark.parametrize(("table", "change", "expected"), FORGERY)
def test_validate_finds_what_hashes_cannot(trace: Path, table: str, change: Change, expected: str) -> None:
    forge(trace, table, change)
    [problem] = validate(trace)
    assert expected in problem


def archive(name: str, content: bytes, way: int = zipfile.ZIP_STORED) -> bytes:
    """A zip file with one member."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", way) as made:
        made.writestr(name, content)
    return buffer.getvalue()


def test_files_that_are_no_tables(trace: Path) -> None:
    name = "observed/messages-00000.npz"
    good = (trace / name).read_bytes()
    with np.load(trace / name) as stored:
        columns = dict(stored)
    packed = io.BytesIO()
    np.savez_compressed(packed, **columns)
    zeros = io.BytesIO()
    np.save(zeros, np.zeros(10**7, dtype=np.uint8))
    header = zeros.getvalue()[:128]
    cases = {
        b"": "is not a zip file",
        b"x" * 200: "is not a zip file",
        good[:-30]: "not a zip file",
        packed.getvalue(): "'round.npy': compressed; expected arrays as they are",
        archive("a.npy", zeros.getvalue(), zipfile.ZIP_DEFLATED): "'a.npy': compressed",
        archive("/a.npy", header): "'/a.npy': no array, or given twice",
        archive("a.txt", b"text"): "'a.txt': no array",
        archive("round.npy", header): "its header claims 10000128",
        archive("round.npy", b"\x80\x04K\x01."): "another beginning than that of NumPy's format",
    }
    for data, expected in cases.items():
        replaced(trace, name, data)
        [problem] = validate(trace)
        assert problem.startswith(f"trace: {trace / name}: damaged: ")
        assert expected in problem
    replaced(trace, name, saved({**columns, "../../a": columns["count"]}))
    assert "messages-00000.npz: unknown column ../../a; expected" in validate(trace)[0]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_a_flipped_bit_is_one_line(trace: Path, place: int, bit: int) -> None:
    """Whatever bit of a table differs, its hash tells; where the marker was put right, values are plain."""
    name = "observed/interactions-00000.npz"
    good, marker = (trace / name).read_bytes(), (trace / "part-00000.json").read_bytes()
    bad = bytearray(good)
    bad[place % len(good)] ^= 1 << bit
    (trace / name).write_bytes(bytes(bad))
    [problem] = validate(trace)
    assert "SHA-256 differs from part-00000.json" in problem
    replaced(trace, name, bytes(bad))
    assert all("\n" not in problem for problem in validate(trace))
    (trace / name).write_bytes(good)
    (trace / "part-00000.json").write_bytes(marker)


# --- columns that follow from other tables --------------------------------------------------------


KEYS = {
    "observed/messages": {"slot"},
    "observed/interactions": {"round", "slot", "step", "part"},
    "truth/messages": {"round", "slot"},
    "truth/clicks": {"round", "slot", "step"},
}


def part_of(rounds: list[list[list[int]]], counts: list[list[int]], parts: int, seed: int) -> Tables:
    """The tables of rounds whose messages have lists at these steps, and counts at least as large."""
    rng = np.random.default_rng(seed)
    tables = []
    for number, (messages, count) in enumerate(zip(rounds, counts, strict=True)):
        steps = [step for lists in messages for step in lists]
        slots = [slot for slot, lists in enumerate(messages) for _ in lists]
        n, M = len(steps), len(messages)
        sent = [rng.normal(size=(M, 2)).astype(np.float32)]
        part, query, shown = rng.integers(0, parts, n), rng.integers(0, 300, n), rng.integers(0, 300, (n, 3))
        seen = RoundColumns(
            round=number,
            parameters=np.zeros(2),
            aggregate=None,
            counts=count,
            survivors=[True] * M,
            slot=slots,
            step=steps,
            part=part,
            query=query,
            shown=shown,
        )
        truth = TruthColumns(clients=rng.integers(0, 9, M), clicks=rng.random((n, 3)) < 0.5)
        tables.append(round_tables(seen, sent, truth))
    return join_tables(tables)


STEPS = st.one_of(
    st.integers(0, 3).map(lambda n: list(range(n))),  # as most systems record them
    st.lists(st.integers(0, 4), max_size=3, unique=True).map(sorted),
)


@given(
    rounds=st.lists(st.lists(STEPS, max_size=4), min_size=1, max_size=3),
    more=st.sampled_from([0, 0, 1]),
    parts=st.integers(1, 2),
    seed=st.integers(0, 9),
)
def test_what_is_left_out_is_read_back_with_the_same_values(
    rounds: list[list[list[int]]], more: int, parts: int, seed: int
) -> None:
    counts = [[len(lists) + more for lists in messages] for messages in rounds]
    whole = part_of(rounds, counts, parts, seed)
    kept = without_implied(whole)
    again = with_implied(kept)
    assert {table: set(columns) for table, columns in again.items()} == {t: set(c) for t, c in whole.items()}
    for table, columns in whole.items():
        for name, values in columns.items():
            np.testing.assert_array_equal(again[table][name], values)
    plain = not more and all(lists == list(range(len(lists))) for messages in rounds for lists in messages)
    written = {table: whole[table].keys() - kept[table].keys() for table in KEYS}
    if plain and not whole["observed/interactions"]["part"].any():
        assert written == KEYS
    if not plain and any(lists for messages in rounds for lists in messages):
        assert not {"round", "slot", "step"} & written["observed/interactions"]
    assert {table for table in whole if set(whole[table]) != set(kept[table])} <= LEFT_OUT.keys()


def test_traces_of_earlier_writers_with_every_column_say_the_same(tmp_path: Path) -> None:
    folder = two_rounds(tmp_path / "trace")
    lists = folder / "observed/interactions-00000.npz"
    with np.load(lists) as stored:
        assert set(stored) == {"part", "query", "shown"}
    now: list[object] = [*Trace.open(folder).rounds(), *Trace.open(folder).truths()]
    store_all_columns(folder)
    with np.load(lists) as stored:
        assert set(stored) == {"round", "slot", "step", "part", "query", "shown"}
    assert validate(folder) == []
    earlier: list[object] = [*Trace.open(folder).rounds(), *Trace.open(folder).truths()]
    for ours, theirs in zip(now, earlier, strict=True):
        for name, value in vars(ours).items():
            np.testing.assert_array_equal(getattr(theirs, name), value)


def test_lists_of_which_some_are_not_recorded_keep_their_columns(tmp_path: Path) -> None:
    record = small(counts=np.array([1, 3]))
    with TraceWriter(tmp_path, BARE) as writer:
        writer.write(record)
    with np.load(tmp_path / "observed/interactions-00000.npz") as stored:
        assert {"round", "slot", "step"} <= set(stored)
    [found] = Trace.open(tmp_path).rounds()
    np.testing.assert_array_equal(found.slot, record.slot)


NOT_AS_MANY = "rows without round, slot and step, expected as many as the messages count"


@pytest.mark.parametrize(
    ("table", "change", "problem"),
    [
        ("messages", made("count", lambda x: x + 1), NOT_AS_MANY),
        ("messages", made("count", lambda x: x.astype(np.uint64) + np.uint64(2**63)), NOT_AS_MANY),
        (
            "interactions",
            lambda t: {**t, "slot": np.zeros(len(t["query"]), dtype=np.int64)},
            "column round is missing, but not all of round, slot, step",
        ),
    ],
)
def test_columns_that_are_lost_are_one_line(tmp_path: Path, table: str, change: Change, problem: str) -> None:
    folder = two_rounds(tmp_path / "trace")
    forge(folder, f"observed/{table}", change)
    assert any(problem in line and "observed/interactions-00000.npz" in line for line in validate(folder))
    with pytest.raises(Exception, match=rf"{problem}[^\n]*$"):
        list(Trace.open(folder).truths())
