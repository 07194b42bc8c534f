"""Tests of published tables, beside SciPy and statsmodels, with and without planted differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, ttest_rel
from statsmodels.stats.multitest import multipletests

from foltr_audit.experiments.periods import metrics_of_periods
from foltr_audit.experiments.presets import Publication
from foltr_audit.experiments.published import REPETITIONS, published_tests, repeated_metrics, trained_metrics
from foltr_audit.report.train import period_rows
from tests.fixtures.made_reports import FIRST, RUN, SECOND, abrupt, fixed
from tests.fixtures.result_rows import plain

Array = NDArray[np.float64]

TRIANGLES = [{"below": 0.05, "gain": "△", "loss": "▽"}, {"below": 0.01, "gain": "▲", "loss": "▼"}]
LEVELS = ((1.2, "rr:p=0.25"), (10.0, "rr:p=1"))
CLICKS = ("perfect", "navigational", "informational")


def of(values: Array, metric: str = "online_sum", **where: object) -> dict[str, Any]:
    """The row of a place with the values of its repetitions."""
    return {**where, REPETITIONS: {metric: {f"run {i}": float(value) for i, value in enumerate(values)}}}


def publication(marks: list[dict[str, object]] = TRIANGLES, **fields: object) -> Publication:
    """A publication that tests "ours" against "theirs" at each level and click model."""
    tested = {
        "cell": "ours",
        "against": ["theirs"],
        "metric": "online_sum",
        "beside": [({"eps": eps}, {"noise": noise}) for eps, noise in LEVELS],
        "marks": marks,
        **fields,
    }
    figures = [
        {"cell": "ours", "metric": tested["metric"], "value": 1, "where": {"clicks": clicks, "eps": eps}}
        for clicks in CLICKS
        for eps, _ in LEVELS
    ]
    return Publication.model_validate({"title": "t", "data": "d", "figures": figures, "tests": [tested]})


def cells(
    shift: Callable[[str, float], float], n: int = 25, seed: int = 0
) -> dict[str, list[dict[str, Any]]]:
    """Rows of both systems, which differ by a shift at each place and by noise of .1 in each pair."""
    rng = np.random.default_rng(seed)
    found: dict[str, list[dict[str, Any]]] = {"ours": [], "theirs": []}
    for clicks in CLICKS:
        for eps, noise in LEVELS:
            hard = rng.normal(300.0, 5.0, n)  # what is hard in a repetition is so for both
            found["theirs"].append(of(hard, clicks=clicks, noise=noise))
            found["ours"].append(
                of(hard + shift(clicks, eps) + rng.normal(0, 0.1, n), clicks=clicks, eps=eps)
            )
    return found


def values(row: dict[str, Any], metric: str = "online_sum") -> list[float]:
    return list(row[REPETITIONS][metric].values())


def test_every_number_is_that_of_scipy_and_statsmodels() -> None:
    found = cells(lambda clicks, eps: 0.02 * eps if clicks == "perfect" else -0.04)
    rows = list(published_tests(publication(), found))
    expected = [ttest_rel(values(a), values(b)) for a, b in zip(found["ours"], found["theirs"], strict=True)]
    corrected = multipletests([test.pvalue for test in expected], method="bonferroni")[1]
    assert [row["p"] for row in rows] == pytest.approx([test.pvalue for test in expected], rel=1e-9)
    assert [row["p_bonferroni"] for row in rows] == pytest.approx(corrected, rel=1e-9)
    assert len({row["p_bonferroni"] for row in rows}) > 3
    beside: dict[Any, str] = dict(LEVELS)
    for row, test, p in zip(rows, expected, corrected, strict=True):
        low, high = test.confidence_interval()
        assert row["difference"].ci95 == pytest.approx((low, high))
        better = test.statistic > 0
        mark = ("▲" if better else "▼") if p < 0.01 else ("△" if better else "▽") if p < 0.05 else ""
        assert row["mark"] == mark
        assert (row["comparisons"], row["pairs"], row["against"]) == (6, 25, "theirs")
        assert dict(row["where_other"]) == {
            "clicks": row["where"]["clicks"],
            "noise": beside[row["where"]["eps"]],
        }


def test_equal_systems_have_few_marks() -> None:
    """A table of equal systems has a mark with a probability of at most .05.

    Thresholds: the 1 - 1e-4 quantile of the binomial law.
    """
    marked = plain_marks = 0
    tables = 200
    for seed in range(tables):
        rows = list(published_tests(publication(), cells(lambda *_: 0.0, 6, seed)))
        marked += any(row["mark"] for row in rows)
        plain_marks += any(row["p"] is not None and row["p"] < 0.05 for row in rows)
    most = binom.isf(1e-4, tables, 0.05)
    assert 0 < marked <= most
    assert plain_marks > most, "without a correction it is caught"


@pytest.mark.parametrize(
    ("metric", "signs", "other", "expected"),
    [
        ("ndcg_drop@10", {"loss": "†"}, 0.0, "†"),  # a larger drop is a loss
        ("ndcg_drop@10", {"gain": "†"}, 0.0, ""),
        ("online_mean", {"gain": "†"}, 0.0, "†"),
        ("online_mean", {"loss": "†"}, 0.0, ""),
        ("online_mean", {"gain": "†"}, 0.3, ""),  # as good as one of the others
        ("online_mean", {"gain": "†"}, 0.6, ""),  # better than one, worse than the other
    ],
)
def test_a_dagger_needs_all_others_in_one_direction(
    metric: str, signs: dict[str, str], other: float, expected: str
) -> None:
    rng = np.random.default_rng(1)
    noise = rng.normal(0, 0.01, (3, 8))
    found = {
        name: [
            of(0.1 + level + row, metric, clicks=clicks, eps=eps) for clicks in CLICKS for eps, _ in LEVELS
        ]
        for name, level, row in zip(("ours", "weak", "other"), (0.3, 0.0, other), noise, strict=True)
    }
    declared = publication([{"below": 0.01, **signs}], metric=metric, against=["weak", "other"], beside=[])
    rows = list(published_tests(declared, found))
    assert {row["mark"] for row in rows} == {expected}
    assert [row["against"] for row in rows] == ["weak", "other"] * 6
    del found["weak"]
    assert {row["mark"] for row in published_tests(declared, found)} == {""}, "one is missing"


def test_pairs_are_the_repetitions_of_both_and_rows_of_a_place_are_averaged() -> None:
    rng = np.random.default_rng(2)
    ours, one, two = rng.uniform(size=(3, 6))
    at: dict[str, Any] = {"clicks": "perfect", "eps": 1.2}
    found = {"ours": [of(ours, **at)], "theirs": [of(one[:5], **at, number=1), of(two, **at, number=2)]}
    (row,) = published_tests(publication(beside=[]), found)
    assert row["pairs"] == 5
    assert row["p"] == pytest.approx(ttest_rel(ours[:5], (one[:5] + two[:5]) / 2).pvalue)
    single = {"ours": [of(ours[:1], **at)], "theirs": [of(one[:1], **at)]}
    (row,) = published_tests(publication(beside=[]), single)
    assert (row["pairs"], row["p"], row["p_bonferroni"], row["mark"], row["comparisons"]) == (
        1,
        None,
        None,
        "",
        0,
    )
    assert row["difference"].value == pytest.approx(ours[0] - one[0])
    assert list(published_tests(publication(beside=[]), {"ours": [of(ours, **at)]})) == []


def test_values_of_repetitions_are_those_whose_means_are_reported() -> None:
    worse = [[0.3, 0.2], [0.8, 0.0], [0.6, 0.0], [0.5, 0.0]]
    runs = [abrupt(0), abrupt(1, worse), abrupt(2, RUN)]
    every = [*runs, *(fixed(k + 1, (FIRST, SECOND)[k], i) for k in range(2) for i in range(3))]
    among = {run.spec: run for run in every}
    for row in plain(period_rows(runs, among)):
        number = row["period"] - 1
        of_runs = [metrics_of_periods(run, among) for run in runs]
        found: Any = repeated_metrics(
            runs, [{name: float(of[number]) for name, of in each.items()} for each in of_runs]
        )
        for metric in ("ndcg_drop@10", "ndcg_delta@10", "online_mean", "ndcg@10"):
            each = list(found[metric].values())
            assert len(each) == 3
            assert (None if np.isnan(each).all() else pytest.approx(np.mean(each))) == row[metric]
    whole: Any = repeated_metrics(runs, [trained_metrics(run) for run in runs])
    assert list(whole["ndcg@10"].values()) == [run.trained.ndcg for run in runs]
    assert list(whole["online_sum"].values()) == [run.trained.online_sum for run in runs]
