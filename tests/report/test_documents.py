"""Rows of documents: their JSON, their schema, and the same as comma-separated values."""

from __future__ import annotations

import csv
import io
import json
import math
from copy import copy
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from foltr_audit.core.results import UNKNOWN, Estimate, Interval
from foltr_audit.report.documents import Section, nested, one_of
from foltr_audit.report.notebook import csv_text
from foltr_audit.utils.formatting import json_text

BIN = Section("count:int share:num|null")
LEAK = Section(
    "method baseline:bool sees:str? auc:est ndcg@10:num shown:[int]? ...",
    one_of("verdict", Literal["good", "bad"]),
    nested("bins", BIN),
)

finite = st.floats(allow_nan=False, allow_infinity=False)
estimates = st.builds(Estimate, finite | st.just(math.nan), st.none() | st.tuples(finite, finite))
leaks = st.fixed_dictionaries(
    {
        "method": st.text(),
        "baseline": st.booleans(),
        "sees": st.none() | st.text(),
        "auc": estimates,
        "ndcg@10": st.floats(),
        "shown": st.lists(st.integers(), max_size=3).map(tuple),
        "verdict": st.sampled_from(["good", "bad"]),
        "bins": st.lists(
            st.fixed_dictionaries({"count": st.integers(), "share": st.none() | st.floats()}).map(BIN.row),
            max_size=2,
        ),
    }
)


@given(leaks)
def test_what_a_row_says_agrees_with_its_schema(values: dict[str, Any]) -> None:
    row = LEAK.row(values)
    document = json.loads(json_text(row.plain()))
    Draft202012Validator(LEAK.schema()).validate(document)
    assert ("sees" in document) == (values["sees"] is not None)
    assert ("shown" in document) == bool(values["shown"])
    auc: Estimate = values["auc"]
    assert document["auc"] == (auc.value if auc.known else None)
    assert document["auc_ci95"] == (None if auc.ci95 is None else list(auc.ci95))


@given(leaks, st.sampled_from(["method", "auc", "ndcg@10", "bins"]))
def test_a_wrong_row_does_not_agree(values: dict[str, Any], name: str) -> None:
    document = json.loads(json_text(LEAK.row(values).plain()))
    assert not Draft202012Validator(LEAK.schema()).is_valid(document | {name: {"odd": 1}})
    del document[name]
    assert not Draft202012Validator(LEAK.schema()).is_valid(document)


def test_columns_stand_in_the_order_of_the_values() -> None:
    row = Section("method auc:est ndcg@10:num ...").row(
        {"method": "a", "auc": Estimate(0.5, (0.25, 0.75)), "clients": 5, "ndcg@10": 0.5}
    )
    assert list(row.plain()) == ["method", "auc", "auc_ci95", "clients", "ndcg@10"]
    last = Section("auc:est f1:est", intervals_last="f1")
    assert list(last.row({"auc": UNKNOWN, "f1": UNKNOWN}).plain()) == ["auc", "f1", "auc_ci95", "f1_ci95"]
    assert list(last.schema()["properties"]) == ["auc", "f1", "auc_ci95", "f1_ci95"]  # type: ignore[arg-type]


def test_missing_and_unknown_columns_are_refused() -> None:
    with pytest.raises(KeyError, match="missing: \\['share'\\]"):
        BIN.row({"count": 1})
    with pytest.raises(KeyError, match="unknown: \\['odd'\\]"):
        BIN.row({"count": 1, "share": 0.5, "odd": 1})


def test_an_interval_is_computed_once_and_only_when_asked_for() -> None:
    asked: list[int] = []

    def ends(tail: float) -> Interval:
        asked.append(1)
        return (0.25, 0.75)

    estimate = Estimate(0.5, ends)
    row = Section("auc:est").row({"auc": estimate})
    assert row.estimate("auc").known
    assert not asked
    assert estimate == copy(estimate) == Estimate(0.5, (0.25, 0.75))
    assert estimate != Estimate(0.5)
    assert row.plain()["auc_ci95"] == [0.25, 0.75]
    assert len(asked) == 1


# --- comma-separated values -------------------------------------------------------------------------


def test_csv_has_one_line_per_row_and_two_columns_per_interval() -> None:
    section = Section("name auc:est eps:num|null names:[str]")
    rows = [
        section.row({"name": "a", "auc": Estimate(0.5, (0.4, 0.6)), "eps": math.inf, "names": ("x", "y")}),
        section.row({"name": "b", "auc": UNKNOWN, "eps": None, "names": ()}),
    ]
    first, second = csv.DictReader(io.StringIO(csv_text([row.plain() for row in rows])))
    ends = {"auc_ci95_low": "0.4", "auc_ci95_high": "0.6"}
    assert first == {"name": "a", "auc": "0.5", **ends, "eps": "inf", "names": "x; y"}
    assert set(second.values()) == {"b", ""}
    odd = csv_text([{"a": math.nan, "b": 'x,"y"\nz', "c_ci95": None}])
    head, line = csv.reader(io.StringIO(odd))
    assert (head, line) == (["a", "b", "c_ci95_low", "c_ci95_high"], ["", 'x,"y"\nz', "", ""])


@pytest.mark.parametrize("text", ["=1+1", "+1", "-a", "@sum(a)", "\t=1", "\r=1"])
def test_no_text_is_a_formula_to_a_spreadsheet(text: str) -> None:
    row: dict[str, Any] = {
        "text": text,
        "names": [text, "b"],
        "number": -1.5,
        "infinite": -math.inf,
        "later": "a=1",
    }
    (read,) = csv.DictReader(io.StringIO(csv_text([row]), newline=""))
    safe = "'" + text.replace("\r", "\n")
    assert list(read.values()) == [safe, f"{safe}; b", "-1.5", "-inf", "a=1"]
