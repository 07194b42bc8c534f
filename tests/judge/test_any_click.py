"""Whether a list has any click: against scikit-learn and plain loops, on all lists."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn import metrics as sk

from foltr_audit.judge.bootstrap import QueryBootstrap
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.judge.scoring import any_click_scores
from foltr_audit.rng import Streams
from foltr_audit.utils.rows import Estimate
from tests.fixtures.evidence import evidence, random_evidence


def base_rate(judged: ClickEvidence, resamples: QueryBootstrap) -> Estimate:
    return resamples.share(judged.has_click.astype(np.float64))


def resamples_of(judged: ClickEvidence, seed: int = 1) -> QueryBootstrap:
    return QueryBootstrap(judged.query, Streams(seed), 200)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_silence_is_told_on_all_lists(seed: int) -> None:
    judged = random_evidence(seed, lists=100, silent=0.4)
    (found,) = any_click_scores(judged, resamples_of(judged))
    answer = judged.guessed["attack"]
    assert found.method == "attack"
    area = sk.roc_auc_score(judged.has_click, answer.any_click)
    assert found.auc.value == pytest.approx(area, rel=1e-12)
    right = []
    for i, here in enumerate(judged.is_document):
        right.append(answer.guess[i, here].any() == judged.clicks[i].any())
    assert 0 < np.mean(right) < 1
    assert found.accuracy.value == pytest.approx(np.mean(right), rel=1e-12)


def test_a_probability_predicts_a_click_where_it_is_likelier_than_none() -> None:
    """It names no document, each being less likely than not, and is right of the four lists with a click."""
    clicks = np.array([[True, False]] * 4 + [[False, False]])
    judged = evidence(
        list("abcde"),
        clicks,
        np.zeros((5, 2), dtype=np.bool_),
        scores=np.full((5, 2), 0.4),
        any_click=np.full(5, 0.6),
        probabilities=["attack"],
    )
    (found,) = any_click_scores(judged, resamples_of(judged))
    assert found.accuracy.value == 0.8
    (named,) = any_click_scores(replace(judged, probabilities=frozenset()), resamples_of(judged))
    assert named.accuracy.value == 0.2


@pytest.mark.parametrize("clicked", [True, False])
def test_where_all_or_no_lists_have_a_click_there_is_no_curve(clicked: bool) -> None:
    judged = evidence(["a", "b", "b"], np.full((3, 2), clicked), np.array([[True, False]] * 3))
    (found,) = any_click_scores(judged, resamples_of(judged))
    assert np.isnan(found.auc.value)
    assert found.auc.ci95 is None
    assert found.accuracy.value == float(clicked)
    assert base_rate(judged, resamples_of(judged)).value == float(clicked)


def test_a_guess_at_the_padding_does_not_count() -> None:
    clicks, guess = np.array([[False, False]]), np.array([[False, True]])
    judged = evidence(["a"], clicks, guess, lengths=np.array([1]))
    (found,) = any_click_scores(judged, resamples_of(judged))
    assert found.accuracy.value == 1.0


def test_infinite_certainty_and_no_list() -> None:
    clicks = np.array([[True], [False], [True], [False]])
    judged = evidence(["a", "b", "a", "b"], clicks, clicks, any_click=np.array([np.inf, -np.inf, 0.0, 0.0]))
    (found,) = any_click_scores(judged, resamples_of(judged))
    assert found.auc.value == 3.5 / 4
    nothing = judged.at(np.zeros(4, dtype=np.bool_))
    (empty,) = any_click_scores(nothing, resamples_of(nothing))
    assert np.isnan([empty.auc.value, empty.accuracy.value]).all()
    assert np.isnan(base_rate(nothing, resamples_of(nothing)).value)


def test_every_attack_in_its_order() -> None:
    judged = random_evidence(5, silent=0.3)
    answer = judged.guessed["attack"]
    both = replace(judged, guessed={"b": answer, "a": replace(answer, guess=~answer.guess)})
    assert [found.method for found in any_click_scores(both, resamples_of(both))] == ["b", "a"]
