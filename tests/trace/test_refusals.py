"""Records, headers, writers and `validate` refuse what cannot be meant, with one clear line."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.errors import TraceError, UsageError
from foltr_audit.trace import Trace, TraceDataset, TraceHeader, TraceWriter, validate
from tests.fixtures.rounds import round_of

DATASET = TraceDataset(source="letor", fold=0, fingerprint="00", normalised="none", parts=("train", "vali"))
HEADER = TraceHeader(
    kind="model", dtype="float32", parameters=3, k=4, dataset=DATASET, has_truth=True, spec_hash="00"
)
BARE = replace(HEADER, has_truth=False)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"kind": "post"}, "kind is 'post', expected model or update"),
        ({"dtype": "float8"}, "dtype is 'float8'"),
        ({"parameters": 0}, "parameters is 0, expected 1 to 2147483647"),
        ({"parameters": True}, "parameters is True, expected a whole number"),
        ({"k": 2.0}, "k is 2.0, expected a whole number"),
        ({"has_truth": 1}, "has_truth is 1, expected true or false"),
        ({"knowledge": {"x": float("nan")}}, "knowledge.x is nan"),
        ({"knowledge": {"x": {"y": 1}}}, "knowledge.x is {'y': 1}"),
        ({"spec_hash": "\udc80"}, "not valid Unicode"),
    ],
)
def test_header_refuses(changes: dict[str, object], expected: str) -> None:
    with pytest.raises(TraceError, match=f"^trace: header: .*{re.escape(expected)}"):
        replace(HEADER, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"round": 1}, "round 1 comes where round 0 was expected"),
        ({"messages": np.zeros((2, 3))}, "messages of type float64, expected float32"),
        ({"part": np.array([2])}, "part 2, expected one of 2"),
        ({"counts": np.array([0, 1])}, "slot 0 counts 0 interactions, but 1 are recorded"),
        ({"features": np.zeros((1, 4, 2), dtype=np.float32)}, "embedded features True, expected False"),
        ({"shown": np.array([[1, -1]])}, "shown lists of k 2, expected 4"),
    ],
)
def test_writer_refuses_what_does_not_fit(tmp_path: Path, changes: dict[str, object], expected: str) -> None:
    with TraceWriter(tmp_path, BARE) as writer:
        with pytest.raises(UsageError, match=re.escape(expected)):
            writer.write(replace(small(), **changes))  # type: ignore[arg-type]
        writer.write(small())  # a refused round leaves nothing behind
    assert Trace.open(tmp_path).n_rounds == 1
    assert validate(tmp_path) == []


def small(lists: int = 1, **fields: Any) -> RoundRecord:
    """Two messages, of which the first arrived and has a list; several lists are alike."""
    usual: dict[str, Any] = {
        "aggregate": np.ones(3),
        "survivors": np.array([True, False]),
        "slot": np.zeros(lists, dtype=np.int64),
        "part": np.ones(lists, dtype=np.int64),
        "query": np.full(lists, 7),
    }
    messages, shown = np.zeros((2, 3), dtype=np.float32), np.tile([5, 3, -1, -1], (lists, 1))
    return round_of(messages, shown, **{**usual, **fields})


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"aggregate": np.zeros(2)}, "aggregate has shape (2,), expected (3,)"),
        ({"survivors": np.array([True])}, "survivors has shape (1,), expected (2,)"),
        ({"messages": np.zeros(3)}, "messages have shape (3,)"),
        ({"messages": np.zeros((2, 3), dtype=np.int64)}, "messages are int64"),
        ({"slot": np.array([2])}, "slot holds 2, expected less than the 2 messages"),
        ({"slot": np.array([-1])}, "slot holds -1, expected 0 or more"),
        ({"shown": np.array([[5, -1, 3, -1]])}, "a document after its padding"),
        ({"shown": np.array([[5, -2, -2, -2]])}, "shown holds -2"),
        ({"features": np.ones((1, 4, 2))}, "features differ from 0 where a shown list is padded"),
        ({"shares": -1}, "shares is -1"),
    ],
)
def test_record_refuses(changes: dict[str, object], expected: str) -> None:
    with pytest.raises(UsageError, match=re.escape(expected)):
        replace(small(), **changes)  # type: ignore[arg-type]


def test_record_refuses_rows_out_of_order() -> None:
    for slot, step in (([1, 0], [0, 0]), ([0, 0], [1, 0]), ([0, 0], [0, 0])):
        with pytest.raises(UsageError, match="not sorted by"):
            small(2, slot=np.array(slot), step=np.array(step))


def test_writer_wants_truth_exactly_where_the_header_promises_it(tmp_path: Path) -> None:
    truth = RoundTruth(
        clients=np.array([4, 2]),
        updates=np.zeros((2, 3)),
        clicks=np.array([[True, False, False, False]]),
        clipped=np.array([False]),
        metrics={"maxrr": 1.0},
    )
    with TraceWriter(tmp_path / "a", HEADER) as writer:
        with pytest.raises(UsageError, match="comes without truth"):
            writer.write(small())
        with pytest.raises(UsageError, match="updates of shape"):
            writer.write(small(), replace(truth, updates=np.zeros((2, 1))))
        with pytest.raises(UsageError, match="a click where the shown list is padded"):
            writer.write(small(), replace(truth, clicks=np.ones((1, 4), dtype=bool)))
        writer.write(small(), truth)
    assert validate(tmp_path / "a") == []
    with pytest.raises(UsageError, match="comes with a truth"):
        TraceWriter(tmp_path / "b", BARE).write(small(), truth)
    for change in ({"metrics": {"round": 1.0}}, {"clients": np.array([-1, 0])}, {"clipped": np.zeros(2)}):
        with pytest.raises(UsageError, match=r"^truth: "):
            replace(truth, **change)


def test_embedded_features_keep_their_number(tmp_path: Path) -> None:
    header = replace(BARE, embeds_features=True, rounds_per_part=1)

    def round_(number: int, d: int) -> RoundRecord:
        return replace(small(), round=number, features=np.zeros((1, 4, d), dtype=np.float32))

    for resume in (False, True):
        with TraceWriter(tmp_path, header, resume=resume) as writer:
            writer.write(round_(writer.next_round, 5))
            with pytest.raises(UsageError, match="6 features a document, expected 5"):
                writer.write(round_(writer.next_round, 6))
    assert validate(tmp_path) == []
    with pytest.raises(UsageError, match="0 features a document, expected 1 or more"):
        TraceWriter(tmp_path / "other", header).write(round_(0, 0))


def two_rounds(folder: Path) -> Path:
    """Two rounds in one part: an interaction in slot 0, two in slot 1."""
    record = small(3, slot=np.array([0, 1, 1]), step=np.array([0, 0, 1]))
    truth = RoundTruth(
        clients=np.array([4, 2]), updates=np.zeros((2, 3)), clicks=record.shown == 3,
        clipped=np.zeros(3, dtype=bool), metrics={"a": 1.0},
    )  # fmt: skip
    with TraceWriter(folder, HEADER) as writer:
        writer.write(record, truth)
        writer.write(replace(record, round=1), truth)
    return folder


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return two_rounds(tmp_path / "trace")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("trace/1", "trace/2", "schema is 'foltr-audit/trace/2', expected foltr-audit/trace/1 (a newer"),
        ("foltr-audit/trace/1", "x", "schema is 'x', expected foltr-audit/trace/1"),
        ("kind =", "kind", "not TOML: Expected '=' after a key in a key/value pair (at line 2"),
        ("k = 4", "k = 4\nk = 5", "not TOML: Cannot overwrite a value (at line"),
        ("letor", "\udcff", "byte "),
        ('"model"', '"post"', "kind is 'post', expected model or update"),
        ("k = 4\n", "", "field k is missing"),
        ("fold = 0\n", "", "field dataset.fold is missing"),
        ("k = 4\n", "k = 4\nkk = 4\n", "unknown field kk"),
        ("fold = 0", "fold = -1", "dataset.fold is -1, expected 0 or more"),
        ("[dataset]", "[[dataset]]", "dataset is [{"),
    ],
)
def test_a_bad_header_is_one_line(trace: Path, old: str, new: str, expected: str) -> None:
    path = trace / "trace.toml"
    text = path.read_text()
    assert text.count(old) == 1
    path.write_bytes(text.replace(old, new).encode(errors="surrogateescape"))
    with pytest.raises(TraceError) as error:
        Trace.open(trace)
    assert str(error.value).startswith(f"trace: {path}: {expected}")
    assert error.value.exit_code == 3
    assert validate(trace) == [str(error.value)]
