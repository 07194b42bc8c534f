"""Whether a list has any click: against scikit-learn and plain loops, on all lists."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn import metrics as sk

from foltr_audit.judge.bootstrap import QueryBootstrap
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.judge.scoring import AnyClickScores, any_click_scores
from foltr_audit.rng import Streams
from foltr_audit.utils.rows import Estimate
from tests.fixtures.evidence import evidence, random_evidence


def base_rate(judged: ClickEvidence) -> Estimate:
    return resamples_of(judged).share(judged.has_click.astype(np.float64))


def resamples_of(judged: ClickEvidence) -> QueryBootstrap:
    return QueryBootstrap(judged.query, Streams(1), 200)


def scored(judged: ClickEvidence) -> AnyClickScores:
    (found,) = any_click_scores(judged, resamples_of(judged))
    return found


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_silence_is_told_on_all_lists(seed: int) -> None:
    judged = random_evidence(seed, lists=100, silent=0.4)
    found = scored(judged)
    answer = judged.guessed["attack"]
    assert found.method == "attack"
    area = sk.roc_auc_score(judged.has_click, answer.any_click)
    assert found.auc.value == pytest.approx(area, rel=1e-12)
    rows = zip(answer.guess, judged.clicks, judged.is_document, strict=True)
    right = [guess[here].any() == clicks.any() for guess, clicks, here in rows]
    assert 0 < np.mean(right) < 1
    assert found.accuracy.value == pytest.approx(np.mean(right), rel=1e-12)


def test_a_probability_predicts_a_click_where_it_is_likelier_than_none() -> None:
    """It names no document, each being less likely than not, and is right of the four lists with a click."""
    clicks = np.array([[True, False]] * 4 + [[False, False]])
    said: dict[str, Any] = {"scores": np.full((5, 2), 0.4), "any_click": np.full(5, 0.6)}
    judged = evidence(list("abcde"), clicks, clicks & False, probabilities=["attack"], **said)
    found = scored(judged)
    assert found.accuracy.value == 0.8
    assert scored(replace(judged, probabilities=frozenset())).accuracy.value == 0.2


@pytest.mark.parametrize("clicked", [True, False])
def test_where_all_or_no_lists_have_a_click_there_is_no_curve(clicked: bool) -> None:
    judged = evidence(["a", "b", "b"], np.full((3, 2), clicked), np.array([[True, False]] * 3))
    found = scored(judged)
    assert np.isnan(found.auc.value)
    assert found.auc.ci95 is None
    assert found.accuracy.value == float(clicked)
    assert base_rate(judged).value == float(clicked)


def test_a_guess_at_the_padding_does_not_count() -> None:
    clicks, guess = np.array([[False, False]]), np.array([[False, True]])
    judged = evidence(["a"], clicks, guess, lengths=np.array([1]))
    found = scored(judged)
    assert found.accuracy.value == 1.0


def test_infinite_certainty_and_no_list() -> None:
    clicks = np.array([[True], [False], [True], [False]])
    judged = evidence(["a", "b", "a", "b"], clicks, clicks, any_click=np.array([np.inf, -np.inf, 0.0, 0.0]))
    found = scored(judged)
    assert found.auc.value == 3.5 / 4
    nothing = judged.at(np.zeros(4, dtype=np.bool_))
    empty = scored(nothing)
    assert np.isnan([empty.auc.value, empty.accuracy.value, base_rate(nothing).value]).all()
