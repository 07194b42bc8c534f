"""Rows of queries told from others and of counts, against figures by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from foltr_audit.judge.counts import CountEvidence, rank_correlations
from foltr_audit.judge.protocol import TaskEvidence
from foltr_audit.judge.queries import QueryEvidence, TruthRanks
from tests.fixtures.evidence import asked_queries, counted_clicks
from tests.fixtures.result_rows import attacked_by, kinds, report_on

SETTING: dict[str, Any] = {
    "trained_on": "perfect",
    "eps_claimed": 1.2,
    "defense": "clip:norm=1",
    "pdgd": "pham-2022",
}
WHERE = {"click_model": "navigational", **SETTING}


def rows(inquiries: TaskEvidence) -> dict[str, list[dict[str, Any]]]:
    return kinds(report_on(attacked_by(inquiries, **SETTING)))


def test_query_rows_by_hand() -> None:
    queries = replace(asked_queries(), refused={"other": "it needs more"})
    found = rows(TaskEvidence(found={"query": queries}))
    assert found["counts"] == []
    (row,) = found["query_identification"]
    assert {name: row[name] for name in WHERE} == WHERE
    assert (row["method"], row["view"]) == ("query-id", "individual")
    assert (row["choices"], row["choices_asked"]) == (4, 10)
    assert (row["messages"], row["messages_with_pairs"], row["queries"]) == (4, 3, 3)
    assert row["accuracy"] == pytest.approx((1 + 0 + 1 / 2 + 1 / 4) / 4)
    assert row["accuracy_with_pairs"] == pytest.approx((1 + 0 + 1 / 2) / 3)
    last = (1 + 1 / 2 + 1 / 3 + 1 / 4) / 4
    assert row["mrr"] == pytest.approx((1 + 1 / 3 + 3 / 4 + last) / 4)
    assert row["rank_with_pairs"] == pytest.approx((1 + 3 + 1.5) / 3)
    assert row["probability"] == pytest.approx((0.9 + 0.2 + 0.5 + 0.25) / 4)
    assert (row["chance"], row["chance_mrr"]) == (0.25, pytest.approx(last))
    low, high = row["accuracy_ci95"]
    assert 0 <= low <= row["accuracy"] <= high <= 1
    (refused,) = found["refused"]
    assert (refused["method"], refused["view"], refused["reason"]) == ("other", "individual", "it needs more")


def test_count_rows_by_hand() -> None:
    found = rows(TaskEvidence(found={"counts": counted_clicks()}, view="aggregate"))
    constant, attack = found["counts"]
    assert [row["baseline"] for row in (constant, attack)] == [True, False]
    for row in (constant, attack):
        assert {name: row[name] for name in WHERE} == WHERE
        assert row["view"] == "aggregate"
        assert (row["lists"], row["queries"], row["documents"]) == (2, 2, 5)
        assert (row["clients_min"], row["clients_max"]) == (10, 20)
    errors = np.array([0.04, 0.1, 0.2, 0.0, 0.05])
    assert attack["error"] == pytest.approx(errors.mean())
    assert attack["rmse"] == pytest.approx(np.sqrt((errors**2).mean()))
    assert attack["exact"] == pytest.approx(2 / 5)
    assert attack["spearman"] == pytest.approx(1.0)
    assert constant["error"] == pytest.approx((0.0 + 0.5 + 0.5 + 0.5 + 0.3) / 5)
    assert constant["spearman"] is None
    assert constant["spearman_ci95"] is None
    assert attack["error_ci95"] is None, "two queries have no interval"
    (refused,) = found["refused"]
    assert refused["view"] == "aggregate"


def test_without_a_message_there_is_no_row_but_a_refusal() -> None:
    nothing = QueryEvidence(
        query=np.array([], dtype=np.str_),
        has_pairs=np.zeros(0, dtype=np.bool_),
        choices=np.zeros(0, dtype=np.int64),
        prior=np.zeros(0),
        asked=10,
        refused={"query-id": "several lists"},
    )
    found = rows(TaskEvidence(found={"query": nothing}))
    assert found["query_identification"] == []
    assert [row["reason"] for row in found["refused"]] == ["several lists"]


def test_messages_that_all_say_nothing_have_no_figures_of_their_own() -> None:
    silent = QueryEvidence(
        query=np.array(["a"]),
        has_pairs=np.array([False]),
        choices=np.array([2]),
        prior=np.array([0.5]),
        asked=2,
        placed={"x": TruthRanks(probability=np.array([0.5]), ahead=np.array([0]), tied=np.array([2]))},
    )
    (row,) = rows(TaskEvidence(found={"query": silent}))["query_identification"]
    assert (row["accuracy"], row["accuracy_ci95"]) == (0.5, None), "one query has no interval"
    assert row["accuracy_with_pairs"] is row["mrr_with_pairs"] is None


@settings(max_examples=40, derandomize=True)
@given(st.integers(0, 10**6))
def test_rank_correlations_are_spearmans(seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth, estimates = rng.integers(0, 5, size=(4, 6)), rng.integers(0, 9, size=(4, 6)) / 2
    here = np.arange(6) < np.array([6, 5, 2, 1])[:, np.newaxis]
    for i, found in enumerate(rank_correlations(estimates, truth, here)):
        a, b = estimates[i, here[i]], truth[i, here[i]]
        if np.ptp(a) == 0 or np.ptp(b) == 0:
            assert np.isnan(found)
        else:
            assert found == pytest.approx(spearmanr(a, b).statistic)


def test_hundredths_of_a_click_make_no_order() -> None:
    here = np.ones((1, 3), np.bool_)
    estimates = np.array([[0.001, 0.0, 5.0]])
    assert rank_correlations(estimates, np.array([[0, 0, 7]]), here)[0] == pytest.approx(1.0)


def test_repetitions_are_pooled() -> None:
    one = TaskEvidence(found={"query": replace(asked_queries(), refused={"other": "it needs more"})})
    both = TaskEvidence.combined([replace(one, not_here={"x": "why"}), one])
    assert set(both.found) == {"query"}
    pooled = both.found["query"]
    assert isinstance(pooled, QueryEvidence)
    assert pooled.query.size == 8
    assert both.refused == {"x": "why", "other": "it needs more"}
    sums = TaskEvidence.combined([TaskEvidence(found={"counts": counted_clicks()}, view="aggregate")] * 2)
    added = sums.found["counts"]
    assert isinstance(added, CountEvidence)
    assert added.counts.shape == (4, 3)
    assert TaskEvidence.combined([TaskEvidence()]).refused == {}
