"""Rows of every kind from judged lists, against counts by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from foltr_audit.judge.bootstrap import QueryBootstrap
from foltr_audit.judge.calibration import calibration
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.report.attack import AttackReport
from foltr_audit.rng import Streams
from foltr_audit.utils.formatting import json_text
from tests.fixtures.evidence import evidence, random_evidence
from tests.fixtures.result_rows import KINDS, attacked_clicks, kinds, plain, report_on

SETTING: dict[str, Any] = {
    "trained_on": "perfect", "eps_claimed": 1.2, "defense": "clip:norm=1", "learner": "fpdgd",
    "pdgd": "pham-2022", "sees": "message and lists", "population.clients": 40,
}  # fmt: skip
WHERE = {"click_model": "navigational", **SETTING, "view": "individual"}


def four_lists() -> ClickEvidence:
    """Two messages of two lists; queries a, b; one list without a click, one with every document clicked."""
    clicks = [[1, 0, 0], [0, 0, 0], [1, 1, 1], [0, 1, 0]]
    guess = [[1, 0, 0], [1, 0, 0], [0, 0, 0], [1, 1, 1]]
    scores = [[0.75, 0.25, 0.0], [0.5, 0.25, 0.25], [0.25, 0.25, 0.25], [0.5, 1.0, 0.75]]
    told = [[1, 0, 0], [1, 1, 1], [1, 1, 1], [1, 1, 1]]
    observed = [[1, 1, 0], [0, 0, 0], [0, 0, 0], [1, 1, 1]]
    judged = evidence(
        ["a", "b", "b", "a"],
        np.array(clicks, dtype=np.bool_),
        np.array(guess, dtype=np.bool_),
        np.array([3, 2, 3, 3]),
        np.array(scores),
        message=np.array([4, 4, 7, 7]),
        told=np.array(told, dtype=np.bool_),
        observed=np.array(observed, dtype=np.bool_),
        probabilities=["attack"],
        refused={"map": "the observer does not know: order"},
    )
    weighed = replace(judged.guessed["attack"], surprisal=np.array([1.0, 0.5, 2.0, 1.5]))
    return replace(judged, guessed={"attack": weighed}, surprisal=np.array([2.0, 1.5, 3.0, 1.5]))


def report_of(judged: ClickEvidence, queries: tuple[str, ...] = ()) -> AttackReport:
    return report_on(attacked_clicks(judged, queries=queries, **SETTING), config={})


def rows_of(judged: ClickEvidence, queries: tuple[str, ...] = ()) -> dict[str, list[dict[str, Any]]]:
    return kinds(report_of(judged, queries))


OF_CLICKS = set(KINDS) - {
    *(
        "facts", "counts", "intent_inference", "linkage", "proven", "published", "query_identification",
        "tasks",
    )
}  # fmt: skip
"""The kinds that judged lists have rows of."""


def test_every_row_of_every_kind_names_its_setting() -> None:
    judged = replace(four_lists(), group=np.array([0, 1, 1, 0]), groups=("even", "odd"))
    rows = rows_of(judged, ("a", "none such"))
    assert {kind for kind in KINDS if rows[kind]} >= OF_CLICKS - {"places", "promises"}
    for kind in OF_CLICKS:
        for row in rows[kind]:
            assert {name: row[name] for name in WHERE} == WHERE
    assert json_text(rows["results"]) == json_text(rows_of(four_lists())["results"])


def test_results_count_their_lists() -> None:
    rows = rows_of(four_lists())["results"]
    assert [row["method"] for row in rows] == ["random:k=3", "random:k=4", "random:k=mean", "attack"]
    assert [row["baseline"] for row in rows] == [True, True, True, False]
    for row in rows:
        assert (row["lists"], row["skipped"], row["all_clicked"], row["queries"]) == (3, 1, 1, 2)
        assert (row["unclicked_documents"], row["finest_fpr"]) == (4, 0.25)
    attack = rows[-1]
    assert attack["accuracy"] == pytest.approx((1 + 0 + 1 / 3) / 3)
    assert attack["accuracy_identifiable"] == pytest.approx((1 + 1 / 3) / 2)
    assert attack["exact"] == pytest.approx(1 / 3)
    assert attack["exact_message"] == 0.0
    assert attack["tpr_at_1"] == attack["tpr_at_01"] == 1 / 5  # at .75 an unclicked document ties
    assert rows[0]["exact_message"] is None
    assert rows[0]["exact_message_ci95"] is None


def test_any_click_rows_are_over_all_lists() -> None:
    (row,) = rows_of(four_lists())["any_click"]
    assert (row["method"], row["baseline"]) == ("attack", False)
    assert (row["lists"], row["lists_with_click"], row["queries"]) == (4, 3, 2)
    assert row["base_rate"] == 0.75
    assert row["accuracy"] == 0.75  # .25 is below one half, and that list has a click
    assert row["auc"] == pytest.approx(2 / 3)  # .75 and 1.0 are above .5; .25 is below
    assert row["auc_ci95"] is None, "one query alone has a list without a click"
    for name in ("accuracy", "base_rate"):
        assert row[f"{name}_ci95"] is None, "two queries have no interval"


def test_calibration_rows_are_of_attacks_with_probabilities() -> None:
    judged = four_lists()
    (row,) = rows_of(judged)["calibration"]
    found = calibration(judged, "attack", QueryBootstrap(judged.query, Streams(1)))
    assert (row["method"], row["lists"], row["documents"]) == ("attack", 4, 11)
    assert row["brier"] == found.metric("brier").value
    assert row["brier_ci95"] is found.metric("brier").ci95 is None
    assert row["brier_base_rate"] == pytest.approx(5 / 11 * 6 / 11)
    assert [bin_["documents"] for bin_ in row["reliability"]] == [1, 0, 5, 0, 0, 2, 0, 2, 0, 1]
    assert rows_of(replace(judged, probabilities=frozenset()))["calibration"] == []


def test_identifiability_counts_documents_and_messages() -> None:
    """Two messages: 5 documents of which 3 are told, and 6 that all are."""
    (row,) = rows_of(four_lists())["identifiability"]
    facts = {name: value for name, value in row.items() if name not in WHERE}
    assert facts == {
        "lists": 4,
        "all_clicked": 1,
        "without_click": 1,
        "documents": 11,
        "not_observed": pytest.approx(6 / 11),
        "not_told": pytest.approx(2 / 11),
        "identifiable": pytest.approx(4 / 11),
        "messages": 2,
        "rank_mean": 4.5,
        "rank_min": 3,
        "unknowns_mean": 5.5,
        "full_rank": 0.5,
    }


def test_named_queries_are_told_list_by_list() -> None:
    rows = rows_of(four_lists(), ("b", "none such"))["queries"]
    told = [{name: value for name, value in row.items() if name not in WHERE} for row in rows]
    assert told == [
        {
            "query": "b", "method": "attack", "baseline": False, "list": 1, "message": 4, "shown": [10, 11],
            "clicked": [False, False], "guessed": [True, False], "scores": [0.5, 0.25], "exact": False,
        },
        {
            "query": "b", "method": "attack", "baseline": False, "list": 2, "message": 7,
            "shown": [10, 11, 12], "clicked": [True] * 3, "guessed": [False] * 3, "scores": [0.25] * 3,
            "exact": False,
        },
        {
            "query": "none such", "method": None, "baseline": False, "list": None, "message": None,
            "shown": [], "clicked": [], "guessed": [], "scores": [], "exact": None,
        },
    ]  # fmt: skip
    assert rows_of(four_lists(), ("a",))["queries"][0]["exact"] is True
    assert rows_of(four_lists())["queries"] == []


def test_refused_attacks_say_why() -> None:
    (row,) = rows_of(four_lists())["refused"]
    assert row == {"method": "map", **WHERE, "reason": "the observer does not know: order"}


@pytest.mark.parametrize("rows", [np.zeros(4, np.bool_), np.array([0, 1, 0, 0], np.bool_)])
def test_without_a_list_or_a_click_nothing_is_a_number(rows: Any) -> None:
    found = rows_of(four_lists().at(rows))
    (any_click,) = found["any_click"]
    assert any_click["auc"] is None
    assert any_click["auc_ci95"] is None
    (facts,) = found["identifiability"]
    assert facts["without_click"] == facts["lists"] == rows.sum()
    (calibrated,) = found["calibration"]
    if not rows.any():
        assert any_click["accuracy"] is any_click["base_rate"] is None
        assert facts["identifiable"] is facts["rank_mean"] is facts["rank_min"] is None
        assert calibrated["brier"] is calibrated["calibration_error"] is None
    for row in found["results"]:
        assert (row["lists"], row["finest_fpr"], row["unclicked_documents"]) == (0, None, 0)
        assert row["accuracy"] is row["tpr_at_1"] is None


def test_the_report_is_json_and_its_frame_holds_the_results() -> None:
    judged = random_evidence(3, silent=0.3)
    guessed = judged.guessed["attack"]
    infinite = replace(guessed, scores=np.where(guessed.scores == 0, -np.inf, guessed.scores))
    judged = replace(judged, guessed={"attack": infinite}, refused={"map": "no"})
    report = report_of(judged, ("q0", "q1"))

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    told = json.loads(report.json(), parse_constant=refuse)
    fields = {"schema", "config", "dataset", "utility", "warnings", *KINDS}
    nothing = {"groups", "places", "facts", "promises", "published", "tasks"}
    assert set(told) == fields - nothing, "clients do not differ, one list a message"
    assert told["schema"] == "foltr-audit/attack/1"
    assert len(told["queries"]) == len(report.queries) > 2
    assert "-inf" in [score for row in told["queries"] for score in row["scores"]]
    frame = report.to_frame()
    assert frame["method"].to_list() == [row["method"] for row in report.results]
    assert frame.columns[:3] == ["method", "baseline", "click_model"]
    pytest.importorskip("pandas")
    assert list(report.to_pandas().columns) == frame.columns
    assert report.to_pandas()["method"].to_list() == frame["method"].to_list()


def test_rows_of_several_settings_stand_one_after_the_other() -> None:
    pools = [attacked_clicks(judged, **SETTING) for judged in (four_lists(), random_evidence(1))]
    one, two = map(report_on, pools)
    both = report_on(*pools)
    for kind in KINDS:
        assert plain(getattr(both, kind)) == plain((*getattr(one, kind), *getattr(two, kind)))
    assert not any(kinds(report_on()).values())


def test_baselines_are_marked_in_every_kind() -> None:
    judged = replace(four_lists(), baselines=frozenset({"attack"}))
    rows = rows_of(judged, ("a",))
    for kind in ("any_click", "calibration", "queries"):
        assert all(row["baseline"] for row in rows[kind])
    assert rows["results"][-1]["baseline"]
