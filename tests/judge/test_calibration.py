"""Calibration of probabilities against scikit-learn, closed forms and plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn import metrics as sk
from sklearn.calibration import calibration_curve

from foltr_audit.errors import PluginError
from foltr_audit.judge.bootstrap import QueryBootstrap
from foltr_audit.judge.calibration import ProbabilityCalibration, calibration, calibration_error, reliability
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.rng import Streams
from tests.fixtures.evidence import evidence


def honest(seed: int, lists: int = 80, k: int = 6, queries: int = 12) -> ClickEvidence:
    """Lists whose clicks are drawn from the probabilities that the attack gives."""
    rng = np.random.default_rng(seed)
    p = rng.beta(0.6, 1.2, size=(lists, k))
    clicks = rng.random((lists, k)) < p
    lengths = rng.integers(1, k + 1, size=lists)
    p[np.arange(k) >= lengths[:, np.newaxis]] = -np.inf  # the padding must not count
    names = [f"q{q}" for q in rng.integers(0, queries, size=lists)]
    return evidence(names, clicks, p > 0.5, lengths, p, probabilities=["attack"])


def calibrated(judged: ClickEvidence, resamples: int = 200) -> ProbabilityCalibration:
    return calibration(judged, "attack", QueryBootstrap(judged.query, Streams(1), resamples))


def documents(judged: ClickEvidence) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    here = judged.is_document
    return judged.guessed["attack"].scores[here], judged.clicks[here]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_scores_equal_scikit_learn_over_all_documents(seed: int) -> None:
    judged = honest(seed)
    assert not judged.has_click.all()
    p, clicked = documents(judged)
    found = calibrated(judged)
    assert found.documents == p.size
    always = np.full(p.size, clicked.mean())
    for said, brier, log_loss in (
        (p, found.brier, found.log_loss),
        (always, found.brier_base_rate, found.log_loss_base_rate),
    ):
        assert brier.value == pytest.approx(sk.brier_score_loss(clicked, said), rel=1e-12)
        assert log_loss.value == pytest.approx(sk.log_loss(clicked, said), rel=1e-12)
    assert found.brier.value < found.brier_base_rate.value


def test_the_reliability_table_equals_scikit_learn() -> None:
    judged = honest(4, lists=300)
    p, clicked = documents(judged)
    found = [row for row in calibrated(judged).reliability if row.documents]
    shares, means = calibration_curve(clicked, p, n_bins=10, strategy="uniform")
    assert [row.clicked for row in found] == pytest.approx(shares, rel=1e-12)
    assert [row.probability for row in found] == pytest.approx(means, rel=1e-12)


@settings(max_examples=60, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 1000), st.booleans()), max_size=40))
def test_bins_and_their_error_equal_plain_loops(pairs: list[tuple[int, bool]]) -> None:
    """Whole thousandths: 100, 200, ... belong to the bin that they begin, 1000 to the last."""
    p, clicked = np.array([t / 1000 for t, _ in pairs]), np.array([c for _, c in pairs], dtype=np.bool_)
    bins = reliability(p, clicked)
    total = 0.0
    for b, row in enumerate(bins):
        mine = [(t / 1000, c) for t, c in pairs if min(t // 100, 9) == b]
        assert (row.low, row.high, row.documents) == (b / 10, (b + 1) / 10, len(mine))
        if mine:
            mean, share = np.mean(mine, axis=0)
            assert (row.probability, row.clicked) == pytest.approx((mean, share), rel=1e-12)
            total += len(mine) * abs(mean - share)
        else:
            assert (row.probability, row.clicked) == (None, None)
    mean = total / len(pairs) if pairs else np.nan
    assert calibration_error(bins) == pytest.approx(mean, rel=1e-9, abs=1e-15, nan_ok=True)


def test_a_certain_mistake_costs_as_much_as_one_in_a_quadrillion() -> None:
    clicks = np.array([[True, False], [True, False]])
    both = (clicks * 1.0, ~clicks * 1.0)
    right, wrong = (calibrated(evidence(["a", "b"], clicks, p > 0, scores=p)) for p in both)
    assert right.brier.value == 0.0
    assert right.log_loss.value == pytest.approx(0.0, abs=2e-15)
    assert wrong.brier.value == 1.0
    assert wrong.log_loss.value == pytest.approx(15 * np.log(10), rel=1e-2)
    assert wrong.error == 1.0
    assert (right.brier_base_rate.value, right.brier_base_rate.ci95) == (0.25, (0.25, 0.25))


def test_constant_probabilities_cost_the_base_rate() -> None:
    """Brier: p (1 - p); log loss: the entropy of a coin; the error vanishes."""
    clicks = np.array([[True, False, False, False]] * 4)
    found = calibrated(evidence(list("abcd"), clicks, clicks, scores=np.full((4, 4), 0.25)))
    assert found.brier.value == found.brier_base_rate.value == 0.1875
    entropy = 0.75 * np.log(4 / 3) + 0.25 * np.log(4)
    assert found.log_loss.value == pytest.approx(entropy, rel=1e-12)
    assert found.log_loss_base_rate.value == pytest.approx(entropy, rel=1e-12)
    assert found.error == 0.0


@pytest.mark.parametrize("clicked", [True, False])
def test_where_all_or_nothing_was_clicked_the_base_rate_is_perfect(clicked: bool) -> None:
    scores = np.full((2, 3), 0.5)
    found = calibrated(evidence(["a", "b"], np.full((2, 3), clicked), scores > 1, scores=scores))
    assert found.brier_base_rate.value == 0.0
    assert found.log_loss_base_rate.value == pytest.approx(0.0, abs=2e-15)
    assert found.brier.value == 0.25


def test_no_list_and_one_query() -> None:
    nothing = calibrated(honest(6).at(np.zeros(80, dtype=np.bool_)))
    assert nothing.documents == 0
    assert np.isnan([nothing.brier.value, nothing.log_loss.value, nothing.error]).all()
    alone = calibrated(honest(6, queries=1))
    assert not np.isnan(alone.brier.value)
    assert alone.brier.ci95 is None


@pytest.mark.parametrize("score", [np.inf, -np.inf, -0.1, 1.001, np.nan])
def test_a_score_that_is_no_probability_is_refused(score: float) -> None:
    clicks = np.array([[True, False]])
    judged = evidence(["a"], clicks, clicks, scores=np.array([[0.5, score]]))
    with pytest.raises(PluginError, match=r"attack attack: score .*; expected probabilities"):
        calibrated(judged)


def test_rounding_beyond_one_is_no_error() -> None:
    clicks = np.array([[True, False]])
    scores = np.array([[np.nextafter(1.0, 2.0), -1e-17]])
    found = calibrated(evidence(["a"], clicks, clicks, scores=scores))
    assert found.brier.value == 0.0
    assert (found.reliability[9].documents, found.reliability[9].probability) == (1, 1.0)


def test_probabilities_that_are_what_they_say_have_a_small_error() -> None:
    """Of 100,000 documents each bin's share is within about 1/100 of its probability; halved ones are not."""
    rng = np.random.default_rng(0)
    p = rng.random(100_000)
    clicked = rng.random(p.size) < p
    assert calibration_error(reliability(p, clicked)) < 0.01
    assert calibration_error(reliability(p / 2, clicked)) > 0.2
