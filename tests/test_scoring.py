"""Attack metrics against scikit-learn and brute force, and what the bootstrap intervals are worth."""

from __future__ import annotations

from itertools import combinations, product
from math import floor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn import metrics as sk

from foltr_audit.judge import Evidence, Guessed
from foltr_audit.kernels.auc import weighted_auc
from foltr_audit.rng import Streams
from foltr_audit.scoring import METRICS, Scored, Scorer, list_metrics
from tests.reference import numba_threads

LIST_METRICS = METRICS[:-1]


def evidence(
    query: list[str],
    clicks: NDArray[np.bool_],
    guess: NDArray[np.bool_],
    lengths: NDArray[np.int64] | None = None,
    scores: NDArray[np.float64] | None = None,
) -> Evidence:
    """Lists of one attack named `attack`; its scores are its guesses where none are given."""
    k = clicks.shape[1]
    here = np.arange(k) < (np.full(len(query), k) if lengths is None else lengths)[:, np.newaxis]
    values = guess.astype(np.float64) if scores is None else scores
    return Evidence(
        query=np.array(query),
        is_document=here,
        clicks=clicks & here,
        guessed={"attack": Guessed(scores=values, guess=guess)},
        baselines=frozenset(),
        skipped=0,
        steps=0,
        clipped=0,
    )


def random_evidence(seed: int, lists: int = 60, k: int = 6, queries: int = 12) -> Evidence:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, k + 1, size=lists)
    clicks = rng.random((lists, k)) < 0.5
    clicks[np.arange(lists), rng.integers(0, lengths)] = True
    scores = np.where(rng.random((lists, k)) < 0.5, clicks, rng.integers(0, 4, size=(lists, k))).astype(float)
    guess = scores > rng.integers(0, 4, size=(lists, 1))
    scores[np.arange(k) >= lengths[:, np.newaxis]] = 99.0  # the padding must not count
    return evidence([f"q{q}" for q in rng.integers(0, queries, size=lists)], clicks, guess, lengths, scores)


def scored(judged: Evidence, seed: int = 1, resamples: int = 200) -> dict[str, Scored]:
    return {row.method: row for row in Scorer(judged, Streams(seed), resamples).scores()}


def interval(row: Scored, metric: str) -> tuple[float, float]:
    found = row.metrics[metric].ci95
    assert found is not None
    return found


def sklearn_metrics(clicks: NDArray[np.bool_], guess: NDArray[np.bool_]) -> dict[str, float]:
    """The metrics of one list with a click."""
    recall = sk.recall_score(clicks, guess)
    specificity = recall if clicks.all() else sk.recall_score(~clicks, ~guess)
    return {
        "accuracy": sk.accuracy_score(clicks, guess),
        "balanced_accuracy": (recall + specificity) / 2,
        "precision": sk.precision_score(clicks, guess, zero_division=np.nan),
        "recall": recall,
        "f1": sk.f1_score(clicks, guess, zero_division=0.0),
        "exact": float(np.array_equal(clicks, guess)),
    }


def lists_of(judged: Evidence) -> list[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
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
    assert row.precision_undefined == sum(not guess.any() for _, guess in lists) > 0


def test_an_all_clicked_list_without_a_guess() -> None:
    """Precision is undefined there and leaves the mean; everything else counts 0."""
    clicks = np.ones((2, 3), dtype=np.bool_)
    row = scored(evidence(["a", "b"], clicks, np.array([[False] * 3, [True] * 3])))["attack"]
    assert row.precision_undefined == 1
    assert {name: row.metrics[name].value for name in LIST_METRICS} == {
        "accuracy": 0.5,
        "balanced_accuracy": 0.5,
        "precision": 1.0,
        "recall": 0.5,
        "f1": 0.5,
        "exact": 0.5,
    }
    silent = scored(evidence(["a", "b"], clicks, np.zeros((2, 3), dtype=np.bool_)))["attack"]
    assert np.isnan(silent.metrics["precision"].value)
    assert silent.metrics["precision"].ci95 is None
    assert np.isnan(silent.metrics["auc"].value)  # no unclicked document to compare with
    assert silent.metrics["auc"].ci95 is None


@pytest.mark.parametrize("seed", range(4))
def test_auc_equals_scikit_learn_over_pooled_documents(seed: int) -> None:
    judged = random_evidence(seed)
    here = judged.is_document
    expected = sk.roc_auc_score(judged.clicks[here], judged.guessed["attack"].scores[here])
    assert scored(judged)["attack"].metrics["auc"].value == pytest.approx(expected, rel=1e-12)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    documents=st.lists(st.tuples(st.integers(-3, 3), st.booleans(), st.integers(0, 3)), max_size=25),
    weights=st.lists(st.tuples(*[st.integers(0, 3)] * 4), min_size=1, max_size=4),
)
def test_weighted_auc_equals_scikit_learn_on_repeated_documents(
    documents: list[tuple[int, bool, int]], weights: list[tuple[int, ...]]
) -> None:
    documents.sort(key=lambda document: document[0])
    score = np.array([document[0] for document in documents], dtype=np.int64)
    positive = np.array([document[1] for document in documents], dtype=np.bool_)
    cluster = np.array([document[2] for document in documents], dtype=np.int64)
    tie = np.unique(score, return_inverse=True)[1].astype(np.int64)
    for weight, found in zip(weights, weighted_auc(positive, tie, cluster, np.array(weights)), strict=True):
        times = np.array(weight)[cluster]
        labels, values = np.repeat(positive, times), np.repeat(score, times)
        if labels.all() or not labels.any():
            assert np.isnan(found)
        else:
            assert found == pytest.approx(sk.roc_auc_score(labels, values), rel=1e-12)


def test_auc_gives_the_same_bytes_for_any_number_of_threads() -> None:
    rng = np.random.default_rng(0)
    tie, cluster = np.sort(rng.integers(0, 50, size=500)), rng.integers(0, 9, size=500)
    positive, weights = rng.random(500) < 0.3, rng.integers(0, 4, size=(64, 9))
    with numba_threads(2):
        two = weighted_auc(positive, tie, cluster, weights).tobytes()
    with numba_threads(1):
        assert weighted_auc(positive, tie, cluster, weights).tobytes() == two


def random_guess_means(judged: Evidence, size: float) -> dict[str, float]:
    """Means of the metrics over all guesses of `size` documents; a fraction mixes two whole sizes."""

    def expected(clicks: NDArray[np.bool_], whole: int) -> dict[str, float]:
        every = list(combinations(range(clicks.size), min(whole, clicks.size)))
        rows = [sklearn_metrics(clicks, np.isin(np.arange(clicks.size), named)) for named in every]
        return {name: float(np.mean([row[name] for row in rows])) for name in LIST_METRICS}

    share = size - floor(size)
    means = []
    for clicks, _ in lists_of(judged):
        low, high = expected(clicks, floor(size)), expected(clicks, floor(size) + 1)
        means.append({name: (1 - share) * low[name] + share * high[name] for name in LIST_METRICS})
    return {name: float(np.mean([row[name] for row in means])) for name in LIST_METRICS}


def test_random_guessing_equals_the_mean_over_all_guesses() -> None:
    judged = random_evidence(5, lists=20)
    rows = scored(judged)
    mean_clicks = float(judged.clicks.sum(axis=1).mean())
    assert mean_clicks != floor(mean_clicks)
    for method, size in (("random:k=3", 3.0), ("random:k=4", 4.0), ("random:k=mean", mean_clicks)):
        for name, value in random_guess_means(judged, size).items():
            assert rows[method].metrics[name].value == pytest.approx(value, rel=1e-12), (method, name)
        assert rows[method].metrics["auc"].value == 0.5
        assert rows[method].precision_undefined == 0
    assert list(rows) == ["random:k=3", "random:k=4", "random:k=mean", "attack"]


def test_an_interval_is_the_distribution_over_resampled_queries() -> None:
    """Two queries: a quarter of the resamples holds the worse one only, a quarter the better one."""
    clicks = np.array([[True, False], [True, False], [True, False]])
    guess = np.array([[True, False], [True, True], [False, True]])
    judged = evidence(["good", "good", "bad"], clicks, guess)
    assert interval(scored(judged)["attack"], "accuracy") == (0.0, 0.75)
    # Three: each of the 27 resamples is as likely; 1/27 > .025 holds one query three times.
    means = {"a": 1.0, "b": 0.5, "c": 0.0}
    triples = [sum(means[q] for q in triple) / 3 for triple in product("abc", repeat=3)]
    judged = evidence(["a", "b", "c"], clicks, guess)
    low, high = interval(scored(judged, resamples=5000)["attack"], "accuracy")
    assert (low, high) == (min(triples), max(triples))


def test_same_seed_same_interval() -> None:
    judged = random_evidence(7)
    one, two, other = (scored(judged, seed)["attack"].metrics for seed in (1, 1, 2))
    assert one == two
    for name in METRICS:
        assert one[name].value == other[name].value
        assert one[name].ci95 != other[name].ci95
    order = np.random.default_rng(0).permutation(judged.query.size)
    guessed = judged.guessed["attack"]
    shuffled = Evidence(
        query=judged.query[order],
        is_document=judged.is_document[order],
        clicks=judged.clicks[order],
        guessed={"attack": Guessed(scores=guessed.scores[order], guess=guessed.guess[order])},
        baselines=frozenset(),
        skipped=0,
        steps=0,
        clipped=0,
    )
    moved = scored(shuffled)["attack"]
    for name in METRICS:
        assert interval(moved, name) == pytest.approx(one[name].ci95, rel=1e-12)


def test_one_query_has_no_interval() -> None:
    judged = random_evidence(3, queries=1)
    row = scored(judged)["attack"]
    assert all(score.ci95 is None for score in row.metrics.values())
    assert not np.isnan([score.value for score in row.metrics.values()]).any()


def test_no_lists_at_all() -> None:
    nothing = np.zeros((0, 4), dtype=np.bool_)
    for row in scored(evidence([], nothing, nothing)).values():
        for name in LIST_METRICS:
            assert np.isnan(row.metrics[name].value)
            assert row.metrics[name].ci95 is None


def test_no_lists_no_auc_of_random_guessing() -> None:
    nothing = np.zeros((0, 4), dtype=np.bool_)
    for row in scored(evidence([], nothing, nothing)).values():
        assert np.isnan(row.metrics["auc"].value)
        assert row.metrics["auc"].ci95 is None


def test_no_interval_where_a_metric_is_defined_in_one_query_only() -> None:
    """The second query has no guess, so precision comes from the first alone."""
    clicks = np.array([[True, False, False], [True, False, False]])
    guess = np.array([[True, True, False], [False, False, False]])
    precision = scored(evidence(["a", "b"], clicks, guess))["attack"].metrics["precision"]
    assert precision.value == 0.5
    assert precision.ci95 is None


def test_infinite_scores_are_tied_like_any_others() -> None:
    clicks = np.array([[True, False, True, False], [False, True, False, True]])
    scores = np.array([[-np.inf, -np.inf, 1.0, 0.0], [-np.inf, np.inf, np.inf, 0.0]])
    judged = evidence(["a", "b"], clicks, scores > 0, scores=scores)
    expected = sk.roc_auc_score(clicks.ravel(), np.clip(scores, -9, 9).ravel())
    assert scored(judged)["attack"].metrics["auc"].value == pytest.approx(expected, rel=1e-12)


def clustered(rng: np.random.Generator, queries: int, per_query: int) -> Evidence:
    """Lists of ten with three clicks; each mark of a guess is wrong with its query's Beta(1, 3) chance.

    The expected accuracy and recall are both 3/4.
    """
    wrong = np.repeat(rng.beta(1, 3, size=queries), per_query)
    clicks = np.tile(np.arange(10) < 3, (queries * per_query, 1))
    flips = rng.random(clicks.shape) < wrong[:, np.newaxis]
    return evidence([f"q{i // per_query}" for i in range(wrong.size)], clicks, clicks ^ flips)


def unclustered(judged: Evidence) -> Evidence:
    """The same lists as if each were a query of its own."""
    guess = judged.guessed["attack"].guess
    return evidence([str(i) for i in range(judged.query.size)], judged.clicks, guess)


def coverage(simulations: int, queries: int) -> dict[str, float]:
    """How often 95 % intervals hold the true accuracy and recall, and naive ones the accuracy."""
    rng = np.random.default_rng(11)
    hits = {"accuracy": 0, "recall": 0, "naive": 0}

    def holds(judged: Evidence, metric: str, seed: int) -> bool:
        low, high = interval(scored(judged, seed, resamples=300)["attack"], metric)
        return low <= 0.75 <= high

    for seed in range(simulations):
        judged = clustered(rng, queries, per_query=6)
        hits["accuracy"] += holds(judged, "accuracy", seed)
        hits["recall"] += holds(judged, "recall", seed)
        hits["naive"] += holds(unclustered(judged), "accuracy", seed)
    return {name: count / simulations for name, count in hits.items()}


def test_intervals_hold_the_truth() -> None:
    found = coverage(100, queries=40)
    assert 0.85 < found["accuracy"] < 1
    assert 0.85 < found["recall"] < 1
    assert found["naive"] < 0.75


@pytest.mark.slow
@pytest.mark.parametrize(("queries", "nominal"), [(40, 0.93), (150, 0.945)])
def test_intervals_hold_the_truth_in_the_long_run(queries: int, nominal: float) -> None:
    """The percentile bootstrap falls short of 95 % with few queries, and comes closer with more."""
    found = coverage(1000, queries)
    slack = 3.3 * np.sqrt(0.05 * 0.95 / 1000)
    assert found["accuracy"] == pytest.approx(nominal, abs=slack)
    assert found["recall"] == pytest.approx(nominal, abs=slack)
    assert found["naive"] < 0.7


def test_intervals_are_wider_where_lists_of_a_query_are_alike() -> None:
    judged = clustered(np.random.default_rng(2), queries=40, per_query=6)

    def width(of: Evidence, metric: str) -> float:
        low, high = interval(scored(of, resamples=1000)["attack"], metric)
        return high - low

    for metric in ("accuracy", "recall", "f1", "auc"):
        assert width(judged, metric) > 1.5 * width(unclustered(judged), metric)
