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
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from foltr_audit.trace import validate
from tests.trace.test_refusals import two_rounds

Table = dict[str, NDArray[Any]]
Change = Callable[[Table], Table]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return two_rounds(tmp_path / "trace")


def forge(folder: Path, table: str, change: Change) -> None:
    """Change a table of part 0 and its marker, as a faulty writer of another system would."""
    name = f"{table}-00000.npz"
    with np.load(folder / name, allow_pickle=False) as stored:
        replaced(folder, name, saved(change(dict(stored))))


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
    (LISTS, widened("shown", 0), "is uint8 of shape (6, 5), expected whole numbers of shape (rows, 4)"),
    (LISTS, put("shown", [2, 2, 0, 0]), "round 0: a shown list holds a document twice"),
    (LISTS, put("part", 2), "round 0: part 2, expected one of 2"),
    (LISTS, put("slot", 2), "round 0: slot holds 2, expected less than the 2"),
    (LISTS, put("slot", 1), "round 0: interactions are not sorted by (slot, step)"),
    (MESSAGES, put("array-0", NAN), "messages hold a value that is not"),
    (ROUNDS, put("aggregate", NAN), "aggregate hold a value that is not finite"),
    (MESSAGES, made("count", np.zeros_like), "slot 0 counts 0 interactions, but 1 are recorded"),
    (CLICKS, put("step", 1), "rows differ from those of observed/interactions"),
    (
        CLICKS,
        put("clicks", [False, False, True, False]),
        "round 0: truth: a click where the shown list is padded",
    ),
    (CLICKS, widened("clicks", 0), "bool of shape (6, 5), expected bool of shape (rows, 4)"),
    (CLICKS, as_type("clicks", "u1"), "uint8 of shape (6, 4), expected bool of shape"),
    (CLIENTS, made("client", lambda x: -x.astype(np.int64)), "column client holds -4, expected 0 or more"),
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
    zeros = io.BytesIO()
    np.save(zeros, np.zeros(10**7, dtype=np.uint8))
    header = zeros.getvalue()[:128]
    cases = {
        b"": "is not a zip file",
        b"x" * 200: "is not a zip file",
        good[:-30]: "not a zip file",
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
