"""Typed rows: what they become in JSON, and that reading them back gives the same row."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr_audit.core.results import UNKNOWN, Estimate, Interval
from foltr_audit.utils.formatting import json_text
from foltr_audit.utils.rows import ResultRow, column, schema_of


@dataclass(frozen=True, kw_only=True)
class _Place(ResultRow):
    learner: str
    sees: str | None = column(optional=True)
    more: Mapping[str, bool | int | float | str | None] = column(embedded=True, default=None)


@dataclass(frozen=True, kw_only=True)
class _Bin(ResultRow):
    count: int


@dataclass(frozen=True, kw_only=True)
class _Leak(ResultRow):
    method: str
    where: _Place = column(embedded=True)
    auc: Estimate
    ndcg: float = column("ndcg@10")
    bins: tuple[_Bin, ...] = ()
    best: _Bin | None = None
    names: list[str] = field(default_factory=list)


NAMES = st.from_regex(r"[a-z]+\.[a-z]+", fullmatch=True)
numbers = st.none() | st.floats(allow_nan=False, allow_infinity=False)
estimates = st.builds(
    Estimate,
    numbers.map(lambda number: math.nan if number is None else number),
    st.none() | st.tuples(*[st.floats(allow_nan=False, allow_infinity=False)] * 2),
)
leaks = st.builds(
    _Leak,
    method=st.text(),
    where=st.builds(
        _Place,
        learner=st.text(),
        sees=st.none() | st.text(),
        more=st.dictionaries(NAMES, st.integers() | st.text(), max_size=3),
    ),
    auc=estimates,
    ndcg=st.floats(allow_nan=False),
    bins=st.lists(st.builds(_Bin, count=st.integers()), max_size=3).map(tuple),
    best=st.none() | st.builds(_Bin, count=st.integers()),
    names=st.lists(st.text(), max_size=3),
)


@given(leaks)
def test_a_row_survives_json(row: _Leak) -> None:
    assert _Leak.of_plain(row.plain()) == row
    assert _Leak.of_plain(json.loads(json_text(row.plain()))) == row


def test_columns_stand_in_the_order_of_the_fields() -> None:
    where = _Place(learner="fpdgd", more={"population.clients": 5})
    row = _Leak(method="olsr", where=where, auc=Estimate(0.5, (0.25, 0.75)), ndcg=0.5, bins=(_Bin(count=2),))
    assert list(row.plain().items()) == [
        ("method", "olsr"),
        ("learner", "fpdgd"),
        ("population.clients", 5),
        ("auc", 0.5),
        ("auc_ci95", [0.25, 0.75]),
        ("ndcg@10", 0.5),
        ("bins", [{"count": 2}]),
        ("best", None),
        ("names", []),
    ]


def test_numbers_that_json_lacks_come_back() -> None:
    row = _Leak(method="", where=_Place(learner="", more={}), auc=UNKNOWN, ndcg=math.inf)
    assert _Leak.of_plain(json.loads(json_text(row.plain()))).ndcg == math.inf
    unknown = json.loads(json_text({**row.plain(), "ndcg@10": math.nan}))
    assert math.isnan(_Leak.of_plain(unknown).ndcg)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"count": "many"}, "column 'count': .* got 'many'"), ({"else": 1}, "unknown column 'else' in a _Bin")],
)
def test_wrong_columns_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _Bin.of_plain({"count": 1, **change})


def test_a_missing_column_is_refused() -> None:
    with pytest.raises(ValueError, match="no column 'count' for a _Bin"):
        _Bin.of_plain({})


def test_the_schema_names_every_column() -> None:
    schema = cast(dict[str, dict[str, object]], _Leak.schema())
    row = _Leak(method="", where=_Place(learner="", sees="x", more={}), auc=UNKNOWN, ndcg=0.0)
    assert list(schema["properties"]) == list(row.plain())
    assert "sees" not in schema["required"]
    assert schema["additionalProperties"]  # a place may have settings of any name
    columns = {"properties": {"count": {"type": "integer"}}, "required": ["count"]}
    assert _Bin.schema() == {"type": "object", "additionalProperties": False, **columns}


def test_the_schema_of_a_number_allows_what_json_text_writes() -> None:
    assert schema_of(float) == {"anyOf": [{"type": "number"}, {"enum": ["inf", "-inf"]}, {"type": "null"}]}


def test_an_interval_is_computed_once_and_only_when_asked_for() -> None:
    asked: list[int] = []

    def ends() -> Interval:
        asked.append(1)
        return (0.25, 0.75)

    found = Estimate(0.5, ends)
    assert found.known
    assert not asked
    assert found == copy(found) == Estimate(0.5, (0.25, 0.75))
    assert found != Estimate(0.5)
    assert len(asked) == 1
