"""Rounds to tables and tables to parts: every column, and what fills rows that lack one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from foltr_audit.recorder.round_tables import (
    ListColumns,
    MessageColumns,
    RoundColumns,
    TruthColumns,
    join_tables,
    round_tables,
)

WEIGHT = np.arange(12, dtype=np.float16).reshape(2, 3, 2)
BUFFER = np.array([[7], [8]], dtype=np.int32)
MESSAGES = MessageColumns(arrays=[WEIGHT, BUFFER], counts=[2, 1], survived=[True, False])
LISTS = ListColumns(
    slot=[0, 0, 1], step=[0, 1, 0], part=[0, 0, 0], query=[4, 300, 5], shown=[[1, 0], [2, -1], [-1, -1]]
)
ROUND = RoundColumns(number=0, model=np.zeros(6), aggregate=None, messages=MESSAGES, lists=LISTS)
TRUTH = TruthColumns(clients=[5, 6], clicks=[[1, 0], [0, 0], [0, 0]], metrics={"ndcg": 0.5, "mrr": 0.25})


def test_a_plain_round() -> None:
    found = join_tables([round_tables(ROUND, TRUTH)])
    assert list(found) == [
        *("observed/rounds", "observed/messages", "observed/interactions"),
        *("truth/rounds", "truth/messages", "truth/clicks"),
    ]
    assert list(found["observed/rounds"]) == ["round", "shares", "parameters", "aggregate"]
    assert np.isnan(found["observed/rounds"]["aggregate"]).all()
    messages = found["observed/messages"]
    assert messages["array-0"].dtype == np.float16
    assert messages["array-0"].shape == (2, 3, 2)
    assert np.array_equal(messages["array-1"], BUFFER)
    assert messages["slot"].tolist() == [0, 1]
    lists = found["observed/interactions"]
    assert lists["shown"].dtype == np.uint8
    assert lists["query"].dtype == np.uint16
    assert found["truth/rounds"]["name"].tolist() == ["ndcg", "mrr"]
    assert found["truth/clicks"]["clicks"].tolist() == [[0b1000_0000], [0], [0]]


def test_whole_numbers_of_two_types_stay_whole() -> None:
    large = replace(ROUND, number=1, messages=replace(MESSAGES, senders=np.array([2**64 - 1, 0], np.uint64)))
    small = replace(ROUND, messages=replace(MESSAGES, senders=[1, 2]))
    found = join_tables([round_tables(small), round_tables(large)])
    assert found["observed/messages"]["sender"].tolist() == [1, 2, 2**64 - 1, 0]


@pytest.mark.parametrize(
    ("most", "kind"), [(0, "u1"), (254, "u1"), (255, "u2"), (65534, "u2"), (65535, "u4"), (2**40, "u8")]
)
def test_the_largest_number_of_a_type_is_the_padding_of_a_list(most: int, kind: str) -> None:
    lists = replace(ListColumns.none(2), slot=[0], step=[0], part=[0], query=[0], shown=[[most, -1]])
    found = join_tables([round_tables(replace(ROUND, lists=lists))])["observed/interactions"]["shown"]
    assert found.dtype == np.dtype(kind)
    assert found.tolist() == [[most, np.iinfo(kind).max]]


def test_positions_that_no_list_has_are_kept_for_readers_to_refuse() -> None:
    lists = replace(ListColumns.none(2), slot=[0], step=[0], part=[0], query=[0], shown=[[3, -2]])
    found = join_tables([round_tables(replace(ROUND, lists=lists))])["observed/interactions"]["shown"]
    assert found.tolist() == [[3, -2]]


def test_rounds_that_do_not_go_together_are_refused() -> None:
    wide = replace(ROUND, messages=replace(MESSAGES, arrays=[WEIGHT.astype(np.float64), BUFFER]))
    with pytest.raises(ValueError, match="column array-0 has several types: float16, float64"):
        join_tables([round_tables(ROUND), round_tables(wide)])
    with pytest.raises(ValueError, match="expected whole numbers, got values of type float64"):
        join_tables([round_tables(replace(ROUND, messages=replace(MESSAGES, counts=[1.5, 1])))])
    with pytest.raises(ValueError, match="both candidates and n_candidates"):
        round_tables(replace(ROUND, lists=replace(LISTS, candidates=np.ones((1, 2)))))
