"""Columns that follow from other tables: left out only where they do, and put back as they were."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from foltr_audit.recorder.round_tables import (
    ListColumns,
    MessageColumns,
    RoundColumns,
    Tables,
    TruthColumns,
    join_tables,
    round_tables,
)
from foltr_audit.recorder.table_files import LEFT_OUT, with_implied, without_implied
from hypothesis import given
from hypothesis import strategies as st

from foltr_audit.trace import Trace, TraceWriter, validate
from tests.trace.test_forged_tables import Change, forge, made, store_all_columns
from tests.trace.test_refusals import BARE, small, two_rounds

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
            number=number,
            model=np.zeros(2),
            aggregate=None,
            messages=MessageColumns(arrays=sent, counts=count, survived=[True] * M),
            lists=ListColumns(slot=slots, step=steps, part=part, query=query, shown=shown),
        )
        truth = TruthColumns(clients=rng.integers(0, 9, M), clicks=rng.random((n, 3)) < 0.5)
        tables.append(round_tables(seen, truth))
    return join_tables(tables)


LISTS = st.one_of(
    st.integers(0, 3).map(lambda n: list(range(n))),  # as most systems record them
    st.lists(st.integers(0, 4), max_size=3, unique=True).map(sorted),
)


@given(
    rounds=st.lists(st.lists(LISTS, max_size=4), min_size=1, max_size=3),
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
