"""The experiment of Pham 2022 on real data: OLSR stands where the paper says, and learning works."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fixtures.command import SHARED, answer

pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data are not here")

PUBLISHED = {
    "perfect": (0.88, 0.80, 0.93),
    "navigational": (0.84, 0.63, 0.94),
    "informational": (0.88, 0.77, 0.94),
}
"""Pham 2022, table 4, MQ2007 column: OLSR accuracy, precision, recall at eps 1.2, sensitivity 3."""


def _attack(norm: float) -> dict[str, Any]:
    asked = f"attack --repeats 30 --defense clip:norm={norm}+gamma-laplace:eps=1.2,sensitivity=3 --data"
    return dict(answer(asked, SHARED / "data" / "mq2008"))


def _row(report: dict[str, Any], method: str, click_model: str) -> dict[str, Any]:
    rows = [row for row in report["results"] if row["click_model"] == click_model]
    return next(row for row in rows if row["method"] == method)


@pytest.fixture(scope="module")
def published() -> dict[str, Any]:
    return _attack(3)


@pytest.mark.parametrize("click_model", PUBLISHED)
def test_olsr_lies_within_8_points_of_the_published_figures(
    published: dict[str, Any], click_model: str
) -> None:
    row = _row(published, "olsr", click_model)
    for name, expected in zip(("accuracy", "precision", "recall"), PUBLISHED[click_model], strict=True):
        assert row[name] == pytest.approx(expected, abs=0.08), name


def test_random_guessing_lies_within_8_points_of_the_published_figures(published: dict[str, Any]) -> None:
    row = _row(published, "random:k=3", "perfect")
    for name, expected in zip(("accuracy", "precision", "recall"), (0.57, 0.33, 0.30), strict=True):
        assert row[name] == pytest.approx(expected, abs=0.08), name


def test_training_lifts_ndcg_well_above_the_untrained_model(published: dict[str, Any]) -> None:
    row = published["utility"][0]
    assert row["ndcg@10"] > row["ndcg@10_untrained"] + 0.2
    assert row["ndcg@10"] < row["ndcg@10_ceiling"]


def test_a_tight_clip_acts_and_confuses_olsr(published: dict[str, Any]) -> None:
    tight = _attack(0.5)
    for click_model in PUBLISHED:
        before, after = _row(published, "olsr", click_model), _row(tight, "olsr", click_model)
        assert after["clipped"] > 0.3 > before["clipped"]
        assert after["exact"] < before["exact"]
        assert after["auc"] < before["auc"]
