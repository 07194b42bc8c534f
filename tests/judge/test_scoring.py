"""Attack metrics against scikit-learn and brute force, and what the bootstrap intervals are worth."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import combinations
from math import floor
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn import metrics as sk

from foltr_audit.core.results import AttackRecord, Estimate
from foltr_audit.judge.bootstrap import QueryBootstrap
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.judge.scoring import (
    METRICS,
    AttackScorer,
    any_click_records,
    list_metrics,
)
from foltr_audit.rng import Streams
from tests.fixtures.evidence import evidence, influences, plain_ends, random_evidence
from tests.fixtures.there import there

Row = dict[str, float]
LIST_METRICS = METRICS[:6]
OF_LISTS = METRICS[:-1]
"""Metrics that every row has; the last is of messages with several lists."""


def scored(judged: ClickEvidence, seed: int = 1) -> dict[str, AttackRecord]:
    return {row.method: row for row in AttackScorer(judged, Streams(seed)).records()}


def interval(row: AttackRecord, metric: str) -> tuple[float, float]:
    return there(row.metrics[metric].ci95)


def sklearn_metrics(clicks: NDArray[np.bool_], guess: NDArray[np.bool_]) -> dict[str, float]:
    """The metrics of one list with a click; alike lists are asked for again and again."""
    return _metrics_of(clicks.tobytes(), guess.tobytes())


@cache
def _metrics_of(clicked: bytes, guessed: bytes) -> dict[str, float]:
    clicks, guess = (np.frombuffer(each, dtype=np.bool_) for each in (clicked, guessed))
    found = sk.precision_recall_fscore_support(clicks, guess, labels=[False, True], zero_division=np.nan)
    (_, precision), (specificity, recall), (_, f1), _ = found
    return {
        "accuracy": sk.accuracy_score(clicks, guess),
        "balanced_accuracy": (recall + (recall if clicks.all() else specificity)) / 2,
        "precision": precision,
        "recall": recall,
        "f1": f1,
        "exact": float(np.array_equal(clicks, guess)),
    }


def lists_of(judged: ClickEvidence) -> list[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    """Clicks and guesses of each list without its padding."""
    guess = judged.guessed["attack"].guess
    return [(judged.clicks[i, here], guess[i, here]) for i, here in enumerate(judged.is_document)]


def test_the_reference_agrees_with_scikit_learn_on_balanced_accuracy() -> None:
    clicks, guess = np.array([1, 0, 0, 1, 0], dtype=np.bool_), np.array([1, 1, 0, 0, 0], dtype=np.bool_)
    assert sklearn_metrics(clicks, guess)["balanced_accuracy"] == sk.balanced_accuracy_score(clicks, guess)


@pytest.mark.parametrize("seed", range(4))
def test_list_metrics_equal_scikit_learn(seed: int) -> None:
    judged = random_evidence(seed)
    lists = lists_of(judged)
    expected = [sklearn_metrics(clicks, guess) for clicks, guess in lists]
    counts = np.array([[(c & g).sum(), g.sum(), c.sum(), c.size] for c, g in lists], dtype=np.float64)
    exact = np.array([row["exact"] for row in expected])
    tp, guessed, clicked, length = counts.T
    found = list_metrics(tp, guessed, clicked, length, exact)
    assert tuple(found) == LIST_METRICS
    row = scored(judged)["attack"]
    for name in LIST_METRICS:
        values = np.array([one[name] for one in expected])
        np.testing.assert_allclose(found[name], values, rtol=1e-12)
        assert row.metrics[name].value == pytest.approx(np.nanmean(values), rel=1e-12)
    assert row.counts["precision_undefined"] == sum(not guess.any() for _, guess in lists) > 0


def test_an_all_clicked_list_without_a_guess() -> None:
    """Precision is undefined there and leaves the mean; everything else counts 0."""
    clicks = np.ones((2, 3), dtype=np.bool_)
    row = scored(evidence(["a", "b"], clicks, np.array([[False] * 3, [True] * 3])))["attack"]
    assert row.counts["precision_undefined"] == 1
    expected = {**dict.fromkeys(LIST_METRICS, 0.5), "precision": 1.0}
    assert {name: row.metrics[name].value for name in LIST_METRICS} == expected
    silent = scored(evidence(["a", "b"], clicks, np.zeros((2, 3), dtype=np.bool_)))["attack"]
    for name in ("precision", "auc"):  # nothing is named, and there is no unclicked document to compare with
        assert (np.isnan(silent.metrics[name].value), silent.metrics[name].ci95) == (True, None)


@pytest.mark.parametrize("seed", range(4))
def test_auc_equals_scikit_learn_over_pooled_documents(seed: int) -> None:
    judged = random_evidence(seed)
    here = judged.is_document
    expected = sk.roc_auc_score(judged.clicks[here], judged.guessed["attack"].scores[here])
    assert scored(judged)["attack"].metrics["auc"].value == pytest.approx(expected, rel=1e-12)


def random_guess_means(judged: ClickEvidence, size: float) -> dict[str, float]:
    """Means of the metrics over all guesses of `size` documents; a fraction mixes two whole sizes."""
    names = (*LIST_METRICS, "accuracy_identifiable")

    def metrics(clicks: NDArray[np.bool_], guess: NDArray[np.bool_], known: NDArray[np.bool_]) -> Row:
        right = (clicks == guess)[known]
        return {**sklearn_metrics(clicks, guess), names[-1]: right.mean() if right.size else np.nan}

    def expected(clicks: NDArray[np.bool_], known: NDArray[np.bool_], whole: int) -> Row:
        every = list(combinations(range(clicks.size), min(whole, clicks.size)))
        rows = [metrics(clicks, np.isin(np.arange(clicks.size), named), known) for named in every]
        return {name: float(np.mean([row[name] for row in rows])) for name in names}

    share = size - floor(size)
    means = []
    lists = zip(lists_of(judged), judged.identifiable, judged.is_document, strict=True)
    for (clicks, _), known, here in lists:
        low, high = (expected(clicks, known[here], floor(size) + more) for more in (0, 1))
        means.append({name: (1 - share) * low[name] + share * high[name] for name in names})
    return {name: float(np.nanmean([row[name] for row in means])) for name in names}


def test_random_guessing_equals_the_mean_over_all_guesses() -> None:
    judged = random_evidence(5, lists=20)
    rows = scored(judged)
    mean_clicks = float(judged.clicks.sum(axis=1).mean())
    assert mean_clicks != floor(mean_clicks)
    for method, size in (("random:k=3", 3.0), ("random:k=4", 4.0), ("random:k=mean", mean_clicks)):
        for name, value in random_guess_means(judged, size).items():
            assert rows[method].metrics[name].value == pytest.approx(value, rel=1e-12), (method, name)
        assert rows[method].metrics["auc"].value == 0.5
        assert rows[method].metrics["tpr_at_1"] == Estimate(0.01, (0.01, 0.01))
        assert rows[method].metrics["tpr_at_01"] == Estimate(0.001, (0.001, 0.001))
        assert rows[method].counts["precision_undefined"] == 0
    assert list(rows) == ["random:k=3", "random:k=4", "random:k=mean", "attack"]


def by_loop(values: NDArray[np.float64], query: NDArray[np.str_]) -> tuple[float, tuple[float, float] | None]:
    """Mean of shares that are defined, and its interval over queries by another route."""
    defined = ~np.isnan(values)
    names, number = np.unique(query[defined], return_inverse=True)
    own = values[defined]

    def mean(weights: NDArray[np.float64]) -> float:
        return float((weights[number] * own).sum() / weights[number].sum())

    return float(own.mean()), plain_ends(influences(mean, names.size))


def test_accuracy_on_identifiable_documents_leaves_out_ties_and_twins() -> None:
    judged = random_evidence(9)
    values = []
    for i, (clicks, guess) in enumerate(lists_of(judged)):
        known = judged.told[i, judged.is_document[i]]
        tie = clicks.all()
        right = [c == g for c, g, k in zip(clicks, guess, known, strict=True) if k and not tie]
        values.append(np.mean(right) if right else np.nan)
    assert np.isnan(values).any()
    found = scored(judged)["attack"].metrics["accuracy_identifiable"]
    value, ends = by_loop(np.array(values), judged.query)
    assert found.value == pytest.approx(value, rel=1e-12)
    assert found.ci95 == pytest.approx(ends, rel=1e-6)


def test_nothing_identifiable() -> None:
    clicks = np.ones((2, 3), dtype=np.bool_)
    row = scored(evidence(["a", "b"], clicks, clicks))
    for method in ("attack", "random:k=3"):
        score = row[method].metrics["accuracy_identifiable"]
        assert (np.isnan(score.value), score.ci95) == (True, None)


def test_a_message_is_exact_if_all_its_lists_are() -> None:
    """Four messages: right, right but for a list without a click, wrong, and without a click."""
    yes, no = [True, False], [False, False]
    clicks = np.array([yes, yes, yes, no, yes, no, no])
    guess = np.array([yes, yes, yes, yes, no, no, no])
    message = np.array([3, 3, 5, 5, 6, 6, 9])
    judged = evidence(["a", "b", "b", "c", "c", "a", "d"], clicks, guess, message=message)
    rows = scored(judged)
    assert rows["attack"].metrics["exact_message"].value == 1 / 3
    assert rows["attack"].metrics["exact"].value == 3 / 4
    assert not rows["random:k=3"].metrics["exact_message"].known
    alone = evidence(["a"] * 7, clicks, guess, message=np.arange(7))
    assert not scored(alone)["attack"].metrics["exact_message"].known


def test_messages_are_resampled_by_the_query_of_their_first_list() -> None:
    judged = random_evidence(10, lists=80, silent=0.3)
    judged = replace(judged, message=np.repeat(np.arange(40), 2))
    guess = judged.guessed["attack"].guess
    wrong = [((guess[i] & judged.is_document[i]) != judged.clicks[i]).any() for i in range(80)]
    counted = [m for m in range(40) if judged.has_click[2 * m] or judged.has_click[2 * m + 1]]
    exact = np.array([not (wrong[2 * m] or wrong[2 * m + 1]) for m in counted], dtype=np.float64)
    assert 0 < exact.mean() < 1
    found = scored(judged)["attack"].metrics["exact_message"]
    value, ends = by_loop(exact, judged.query[[2 * m for m in counted]])
    assert found.value == pytest.approx(value, rel=1e-12)
    assert found.ci95 == pytest.approx(ends, rel=1e-6)


def test_intervals_equal_those_of_plain_loops() -> None:
    judged = random_evidence(11)
    row = scored(judged)["attack"]
    lists = [sklearn_metrics(clicks, guess) for clicks, guess in lists_of(judged)]
    for name in LIST_METRICS:
        value, ends = by_loop(np.array([one[name] for one in lists]), judged.query)
        assert row.metrics[name].value == pytest.approx(value, rel=1e-12)
        assert interval(row, name) == pytest.approx(ends, rel=1e-6)


def test_same_seed_same_interval() -> None:
    judged = random_evidence(7, lists=150, queries=50)
    one, two, other = (scored(judged, seed)["attack"].metrics for seed in (1, 1, 2))
    assert one == two
    for name in OF_LISTS:
        assert one[name].value == other[name].value
    for name in (*LIST_METRICS, "auc", "accuracy_identifiable"):
        assert one[name].ci95 != other[name].ci95
    moved = scored(judged.at(np.random.default_rng(0).permutation(judged.query.size)))["attack"]
    for name in (*LIST_METRICS, "auc", "accuracy_identifiable"):
        assert interval(moved, name) == pytest.approx(one[name].ci95, rel=1e-12)


def test_one_query_has_no_interval() -> None:
    judged = random_evidence(3, queries=1)
    row = scored(judged)["attack"]
    assert all(score.ci95 is None for score in row.metrics.values())
    assert not np.isnan([row.metrics[name].value for name in OF_LISTS]).any()


@pytest.mark.parametrize("lists", [0, 3])
def test_lists_without_a_click_are_as_good_as_no_lists(lists: int) -> None:
    nothing = np.zeros((lists, 4), dtype=np.bool_)
    for row in scored(evidence(["a", "b", "c"][:lists], nothing, ~nothing)).values():
        assert tuple(row.metrics)[: len(METRICS)] == METRICS
        for score in row.metrics.values():
            assert (np.isnan(score.value), score.ci95) == (True, None)


def test_lists_without_a_click_change_no_metric_of_lists() -> None:
    judged = random_evidence(8, silent=0.4)
    assert 0.2 < judged.has_click.mean() < 0.8
    every, clicked = scored(judged), scored(judged.at(judged.has_click))
    assert {name: row.metrics for name, row in every.items()} == {
        name: row.metrics for name, row in clicked.items()
    }
    scorer = AttackScorer(judged, Streams(1))
    clicks = [clicks for clicks, _ in lists_of(judged) if clicks.any()]
    assert scorer.unclicked == sum(int((~row).sum()) for row in clicks)


def test_no_interval_where_a_metric_is_defined_in_one_query_only() -> None:
    """The second query has no guess, so precision comes from the first alone."""
    clicks = np.array([[True, False, False], [True, False, False]])
    guess = np.array([[True, True, False], [False, False, False]])
    precision = scored(evidence(["a", "b"], clicks, guess))["attack"].metrics["precision"]
    assert precision.value == 0.5
    assert precision.ci95 is None


def clustered(rng: np.random.Generator, queries: int, per_query: int) -> ClickEvidence:
    """Lists of ten with three clicks; each mark of a guess is wrong with its query's Beta(1, 3) chance.

    The expected accuracy and recall are both 3/4.
    """
    wrong = np.repeat(rng.beta(1, 3, size=queries), per_query)
    clicks = np.tile(np.arange(10) < 3, (queries * per_query, 1))
    flips = rng.random(clicks.shape) < wrong[:, np.newaxis]
    return evidence([f"q{i // per_query}" for i in range(wrong.size)], clicks, clicks ^ flips)


def unclustered(judged: ClickEvidence) -> ClickEvidence:
    """The same lists as if each were a query of its own."""
    guess = judged.guessed["attack"].guess
    return evidence([str(i) for i in range(judged.query.size)], judged.clicks, guess)


def test_intervals_are_wider_where_lists_of_a_query_are_alike() -> None:
    judged = clustered(np.random.default_rng(2), queries=40, per_query=6)

    def width(of: ClickEvidence, metric: str) -> float:
        low, high = interval(scored(of)["attack"], metric)
        return high - low

    for metric in ("accuracy", "recall", "f1", "auc"):
        assert width(judged, metric) > 1.5 * width(unclustered(judged), metric)


# --- whether a list has any click -----------------------------------------------------------------


def base_rate(judged: ClickEvidence) -> Estimate:
    return resamples_of(judged).share(judged.has_click.astype(np.float64))


def resamples_of(judged: ClickEvidence) -> QueryBootstrap:
    return QueryBootstrap(judged.query, Streams(1))


def any_click(judged: ClickEvidence) -> AttackRecord:
    (found,) = any_click_records(judged, resamples_of(judged), {})
    return found


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_silence_is_told_on_all_lists(seed: int) -> None:
    judged = random_evidence(seed, lists=100, silent=0.4)
    found = any_click(judged)
    answer = judged.guessed["attack"]
    assert found.method == "attack"
    area = sk.roc_auc_score(judged.has_click, answer.any_click)
    assert found.metrics["auc"].value == pytest.approx(area, rel=1e-12)
    rows = zip(answer.guess, judged.clicks, judged.is_document, strict=True)
    right = [guess[here].any() == clicks.any() for guess, clicks, here in rows]
    assert 0 < np.mean(right) < 1
    assert found.metrics["accuracy"].value == pytest.approx(np.mean(right), rel=1e-12)


def test_a_probability_predicts_a_click_where_it_is_likelier_than_none() -> None:
    """It names no document, each being less likely than not, and is right of the four lists with a click."""
    clicks = np.array([[True, False]] * 4 + [[False, False]])
    said: dict[str, Any] = {"scores": np.full((5, 2), 0.4), "any_click": np.full(5, 0.6)}
    judged = evidence(list("abcde"), clicks, clicks & False, probabilities=["attack"], **said)
    found = any_click(judged)
    assert found.metrics["accuracy"].value == 0.8
    assert any_click(replace(judged, probabilities=frozenset())).metrics["accuracy"].value == 0.2


@pytest.mark.parametrize("clicked", [True, False])
def test_where_all_or_no_lists_have_a_click_there_is_no_curve(clicked: bool) -> None:
    judged = evidence(["a", "b", "b"], np.full((3, 2), clicked), np.array([[True, False]] * 3))
    found = any_click(judged)
    assert np.isnan(found.metrics["auc"].value)
    assert found.metrics["auc"].ci95 is None
    assert found.metrics["accuracy"].value == float(clicked)
    assert base_rate(judged).value == float(clicked)


def test_a_guess_at_the_padding_does_not_count() -> None:
    clicks, guess = np.array([[False, False]]), np.array([[False, True]])
    judged = evidence(["a"], clicks, guess, lengths=np.array([1]))
    found = any_click(judged)
    assert found.metrics["accuracy"].value == 1.0


def test_infinite_certainty_and_no_list() -> None:
    clicks = np.array([[True], [False], [True], [False]])
    judged = evidence(["a", "b", "a", "b"], clicks, clicks, any_click=np.array([np.inf, -np.inf, 0.0, 0.0]))
    found = any_click(judged)
    assert found.metrics["auc"].value == 3.5 / 4
    nothing = judged.at(np.zeros(4, dtype=np.bool_))
    empty = any_click(nothing)
    assert np.isnan([score.value for score in empty.metrics.values()]).all()
