"""What servers of real systems know: layouts, senders, cohorts, facts by round, unknown truth."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from foltr_audit.recorder.array_layout import LayoutArray
from foltr_audit.recorder.messages import NodeOutcome

from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.errors import TraceError, UsageError
from foltr_audit.trace import Trace, TraceDataset, TraceHeader, TraceWriter, info, validate
from tests.fixtures.command import files
from tests.fixtures.rounds import round_of
from tests.fixtures.there import there
from tests.trace.test_forged_tables import Change, forge, made, put, without

LAYOUT = (
    LayoutArray("weight", (2, 3), "float16"),
    LayoutArray("seen", (), "int64"),
    LayoutArray("bias", (2,), "bfloat16"),
    LayoutArray("scale", (1,), "float32"),
    LayoutArray("mask", (3,), "bool"),
)
HEADER = TraceHeader(
    kind="model",
    dtype="float32",
    parameters=9,
    k=2,
    dataset=TraceDataset(source="live", fold=0, fingerprint="", normalised="none", parts=("live",)),
    has_truth=True,
    knowledge={"aggregate": "other", "learning_rate": 0.5},
    layout=LAYOUT,
    rounds_per_part=2,
)
NODES = np.array([2**64 - 1, 5], dtype=np.uint64)


def plain(number: int = 0) -> tuple[RoundRecord, RoundTruth]:
    """Two messages of halves, which every format holds; the second has two lists."""
    record = round_of(
        (np.arange(18).reshape(2, 9) / 2).astype(np.float32),
        np.array([[0, 1], [2, -1], [0, 2]]),
        round=number,
        aggregate=np.ones(9),
        shares=0,
        slot=np.array([0, 1, 1]),
        step=np.array([0, 0, 3]),
        query=np.array([4, 5, 5]),
        buffers=(np.array([7, 8]), np.array([[True, False, True]] * 2)),
    )
    clients: Any = NODES
    truth = RoundTruth(clients=clients, clicks=np.array([[True, False], [False, False], [True, True]]))
    return record, truth


def full(number: int = 0) -> tuple[RoundRecord, RoundTruth]:
    """The same with everything that may be known."""
    record, truth = plain(number)
    record = replace(
        record,
        senders=NODES,
        sizes=np.array([1000, 0]),
        sent_at=np.array([1.7e9, np.nan]),
        started=1.7e9 - 1,
        clear={"loss": np.array([0.5, np.nan]), "num-examples": np.array([3.0, 4.0])},
        cohort=(
            *(NodeOutcome(node=node, outcome="arrived") for node in NODES.tolist()),
            NodeOutcome(node=6, outcome="failed", reason="503 → out of memory", stage="evaluate"),
        ),
        facts={"learning_rate": 0.25, "defense": ["none"]},
        candidates=np.arange(16, dtype=np.float32).reshape(8, 2),
        n_candidates=np.array([2, 3, 3]),
    )
    updates = np.array([[np.nan] * 9, [0.5] * 9])
    clipped, known = np.array([True, False, False]), np.array([True, False, True])
    return record, replace(truth, updates=updates, clipped=clipped, known=known)


def write(folder: Path, rounds: list[tuple[RoundRecord, RoundTruth]], header: TraceHeader = HEADER) -> Trace:
    with TraceWriter(folder, header) as writer:
        for record, truth in rounds:
            writer.write(record, truth)
    assert validate(folder) == []
    return Trace.open(folder)


def same(made: object, found: object) -> None:
    """Every field is equal, with its type; records and arrays inside are compared likewise."""
    for item in fields(made):  # type: ignore[arg-type]
        mine, other = getattr(made, item.name), getattr(found, item.name)
        assert type(mine) is type(other), item.name
        pairs = [(mine, other)]
        if isinstance(mine, dict):
            assert set(mine) == set(other), item.name
            pairs = [(mine[name], other[name]) for name in mine]
        elif isinstance(mine, tuple):
            pairs = list(zip(mine, other, strict=True))
        for a, b in pairs:
            np.testing.assert_array_equal(a, b, item.name)
            assert getattr(a, "dtype", None) == getattr(b, "dtype", None), item.name


def test_everything_comes_back(tmp_path: Path) -> None:
    made = [full(0), full(1), full(2)]
    trace = write(tmp_path, made)
    for (record, truth), found, told in zip(made, trace.rounds(), trace.truths(), strict=True):
        same(record, found)
        same(truth, told)
    assert trace.header == HEADER
    assert info(tmp_path)["layout"] == [str(array) for array in LAYOUT]


def test_what_is_unknown_stays_unknown(tmp_path: Path) -> None:
    unknown = replace(plain()[0], aggregate=np.full(9, np.nan), senders=NODES)
    told = replace(plain()[1], clipped=np.zeros(3, dtype=np.bool_))
    trace = write(tmp_path, [(unknown, told), full(1)])
    record, later = trace.rounds()
    assert np.isnan(record.aggregate).all()
    assert (record.cohort, record.facts, record.clear, record.started) == ((), {}, {}, None)
    assert len(later.cohort) == 3
    truth, _ = trace.truths()
    assert truth.updates.shape == (2, 9)
    assert np.isnan(truth.updates).all()
    assert there(truth.known).all()
    assert there(record.sizes).tolist() == [0, 0]  # of a part in which others are known


def test_a_part_has_no_file_of_what_nobody_noted(tmp_path: Path) -> None:
    write(tmp_path / "plain", [plain()])
    write(tmp_path / "full", [full()])
    more = {name.partition("-0")[0] for name in files(tmp_path / "full").keys() - files(tmp_path / "plain")}
    assert more == {"observed/candidates", "observed/cohort", "observed/metrics"}


def test_arrays_are_stored_as_they_travelled(tmp_path: Path) -> None:
    write(tmp_path, [plain()])
    with np.load(tmp_path / "observed/messages-00000.npz", allow_pickle=False) as stored:
        kinds = [stored[f"array-{n}"].dtype.name for n in range(5)]
        assert kinds == ["float16", "int64", "uint16", "float32", "bool"]
        assert stored["array-0"].shape == (2, 2, 3)
        assert stored["array-0"][1, 0].tolist() == [4.5, 5.0, 5.5]
        # bfloat16 is the upper half of float32
        assert (stored["array-2"].astype(np.uint32) << 16).view(np.float32)[0].tolist() == [3.0, 3.5]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"messages": np.full((2, 9), 1 / 3, dtype=np.float32)}, "numbers in 'weight' that float16 does not"),
    ({"buffers": ()}, "no buffer 'seen', which the layout has"),
    ({"buffers": (np.array([7, 8]), np.zeros((2, 3)))}, "buffer 'mask' is float64 of shape (2, 3), expected"),
    ({"buffers": (*plain()[0].buffers, np.zeros(2))}, "1 buffers more than the layout has"),
    ({"senders": np.array([1])}, "senders has shape (1,), expected (2,)"),
    ({"clear": {"loss": np.zeros(3)}}, "clear loss has shape (3,), expected (2,)"),
    ({"sizes": np.array([-1, 0])}, "sizes holds -1, expected 0 or more"),
    ({"candidates": np.zeros((8, 2))}, "expected both candidates and n_candidates"),
    (
        {"candidates": np.zeros((8, 2)), "n_candidates": np.array([1, 4, 3])},
        "a shown list has a document that is not among its candidates",
    ),
    ({"candidates": np.zeros((7, 2)), "n_candidates": np.array([2, 3, 3])}, "candidates has shape (7, 2)"),
    ({"facts": {"learning_rate": -1.0}}, "knowledge.learning_rate is -1.0, expected a number above 0"),
    ({"facts": {"learningrate": 1.0}}, "unknown fact knowledge.learningrate"),
    ({"facts": {"width": 3}}, "knowledge.width of a round is 3, expected the header's"),
]


@pytest.mark.parametrize(("changes", "expected"), REFUSED, ids=[text for _, text in REFUSED])
def test_rounds_that_do_not_fit_are_refused(tmp_path: Path, changes: dict[str, Any], expected: str) -> None:
    record, truth = plain()
    refused = pytest.raises((UsageError, TraceError), match=re.escape(expected))
    with TraceWriter(tmp_path, HEADER) as writer, refused:
        writer.write(replace(record, **changes), truth)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"layout": LAYOUT[:1]}, "layout is 'of 6 numbers', expected 9 in arrays of floating numbers"),
        ({"layout": (*LAYOUT, LAYOUT[1])}, "layout has a name twice"),
        ({"layout": (replace(LAYOUT[0], dtype="float8"),)}, "'weight' is 'float8', expected float16"),
        ({"layout": (replace(LAYOUT[0], shape=(-1,)),)}, "'weight' has shape [-1], expected at most"),
        ({"dtype": "float64"}, "dtype is 'float64', expected bfloat16 or float16 or float32"),
    ],
)
def test_layouts_that_fit_no_message_are_refused(changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(TraceError, match=f"^trace: header: .*{re.escape(expected)}"):
        replace(HEADER, **changes)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("layout = 5", "layout is 5, expected a list of tables"),
        ('layout = [{name = "a"}]', "layout has {'name': 'a'}, expected a list of tables"),
        ('layout = [{name = "a", shape = 3, dtype = "float32"}]', "expected a list of tables"),
        ('layout = [{name = 1, shape = [9], dtype = "float32"}]', "layout: 1 is 'float32', expected"),
    ],
)
def test_a_broken_layout_is_one_line(tmp_path: Path, written: str, expected: str) -> None:
    text = HEADER.to_toml()
    [line] = [line for line in text.splitlines() if line.startswith("layout")]
    (tmp_path / "trace.toml").write_text(text.replace(line, written))
    [problem] = validate(tmp_path)
    assert expected in problem


def test_how_exact_numbers_are_follows_from_the_coarsest_array() -> None:
    assert HEADER.number_format == "bfloat16"
    assert HEADER.message_format == HEADER.update_format == "float32"
    halves = replace(HEADER, layout=LAYOUT[:1], parameters=6, dtype="float16")
    assert halves.number_format == "float16"
    double = (*LAYOUT[:1], LayoutArray("last", (3,), "float64"))
    assert replace(HEADER, layout=double, dtype="float64").message_format == "float64"


def test_rounds_that_no_part_holds_together_are_refused_one_by_one(tmp_path: Path) -> None:
    with TraceWriter(tmp_path, HEADER) as writer:
        writer.write(*plain())
        with pytest.raises(UsageError, match="round 1: observed/messages: column sender is missing in some"):
            writer.write(*full(1))
        writer.write(*plain(1))
    assert Trace.open(tmp_path).n_rounds == 2


@pytest.mark.parametrize(
    ("table", "change", "expected"),
    [
        ("observed/interactions", put("candidates", 9), "candidates has shape (8, 2), expected (15, 2)"),
        ("observed/interactions", made("candidates", np.zeros_like), "expected (0, 2)"),
        ("observed/interactions", without("candidates"), "expected both candidates and n_candidates"),
        (
            *("observed/interactions", made("candidates", lambda x: np.full(x.size, 2**63 - 1))),
            "expected (27670116110564327421, 2)",
        ),
        ("observed/cohort", made("outcome", lambda x: np.full(x.size, "lost")), "cohort: outcome is 'lost'"),
    ],
)
def test_forged_candidates_and_outcomes_are_one_line(
    tmp_path: Path, table: str, change: Change, expected: str
) -> None:
    write(tmp_path / "t", [full(0), full(1)])
    forge(tmp_path / "t", table, change)
    [problem] = validate(tmp_path / "t")
    assert expected in problem
