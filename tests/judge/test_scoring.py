"""Metrics of attacks against scikit-learn, plain loops and enumeration, and beside the best guess."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import combinations
from math import floor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn import metrics as sk
from sklearn.metrics import roc_auc_score

from foltr_audit.core.results import AttackRecord, Estimate
from foltr_audit.experiments.decide import LeakKind, find_leak
from foltr_audit.judge.bootstrap import QueryBootstrap
from foltr_audit.judge.click_evidence import ClickEvidence, ClickGuesses
from foltr_audit.judge.scoring import (
    FALSE_POSITIVES,
    KNOWS_GRADES,
    METRICS,
    RANDOM,
    AttackScorer,
    ScoreRanking,
    any_click_records,
    list_metrics,
)
from foltr_audit.kernels.metrics import weighted_hits
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Bools, Floats, Ints
from tests.fixtures.comparisons import setting
from tests.fixtures.evidence import evidence, influences, plain_ends, random_evidence
from tests.fixtures.reference import numba_threads
from tests.fixtures.there import there

Row = dict[str, float]
LIST_METRICS = METRICS[:6]


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


@pytest.mark.parametrize("seed", range(2))
def test_metrics_equal_scikit_learn_and_their_intervals_plain_loops(seed: int) -> None:
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
        value, ends = by_loop(values, judged.query)
        assert row.metrics[name].value == pytest.approx(value, rel=1e-12)
        assert interval(row, name) == pytest.approx(ends, rel=1e-6)
    here = judged.is_document
    area = sk.roc_auc_score(judged.clicks[here], judged.guessed["attack"].scores[here])
    assert row.metrics["auc"].value == pytest.approx(area, rel=1e-12)
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


def random_guess_means(judged: ClickEvidence, size: float) -> dict[str, float]:
    """Means of the metrics over all guesses of `size` documents; a fraction mixes two whole sizes."""
    names = (*LIST_METRICS, "accuracy_identifiable")

    def metrics(
        clicks: NDArray[np.bool_], guess: NDArray[np.bool_], known: NDArray[np.bool_]
    ) -> dict[str, float]:
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


# --- whether a list has any click -----------------------------------------------------------------


def any_click(judged: ClickEvidence) -> AttackRecord:
    (found,) = any_click_records(judged, QueryBootstrap(judged.query, Streams(1)), {})
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


DOCUMENTS = st.lists(st.tuples(st.integers(-3, 3), st.booleans(), st.integers(0, 3)), max_size=25)
WEIGHTS = st.lists(st.tuples(*[st.integers(0, 3)] * 4), min_size=1, max_size=4)


def prepared(documents: list[tuple[int, bool, int]]) -> tuple[Ints, Bools, Ints, Ints]:
    """Scores in rising order, truth, clusters, and numbers of the distinct scores."""
    documents = sorted(documents, key=lambda document: document[0])
    score, positive, cluster = np.array(documents, dtype=np.int64).reshape(-1, 3).T
    return score, positive == 1, cluster.copy(), np.unique(score, return_inverse=True)[1].astype(np.int64)


@settings(max_examples=60, derandomize=True)
@given(documents=DOCUMENTS)
def test_the_auc_and_the_influence_of_queries_equal_scikit_learn(
    documents: list[tuple[int, bool, int]],
) -> None:
    """The AUC of documents by weights of their queries, and its slope in each weight."""
    score, positive, cluster, _ = prepared(documents)
    found = ScoreRanking.of(score.astype(np.float64), positive, cluster).auc(queries_of(4))
    if positive.all() or not positive.any():
        assert np.isnan(found.value)
        assert found.ci95 is None
        return
    there = np.unique(cluster)
    number = np.searchsorted(there, cluster)
    values = influences(
        lambda weights: sk.roc_auc_score(positive, score, sample_weight=weights[number]), there.size
    )
    assert found.value == pytest.approx(sk.roc_auc_score(positive, score), rel=1e-12)
    assert found.values == pytest.approx(values, abs=1e-6)
    assert found.counted == min(np.unique(cluster[which]).size for which in (positive, ~positive))


@settings(max_examples=60, derandomize=True)
@given(documents=DOCUMENTS, weights=WEIGHTS, allowed=st.lists(st.integers(0, 9), min_size=1, max_size=3))
def test_weighted_hits_equal_the_best_of_all_thresholds(
    documents: list[tuple[int, bool, int]], weights: list[tuple[int, ...]], allowed: list[int]
) -> None:
    score, positive, cluster, tie = prepared(documents)
    limits = np.tile(np.array(allowed), (len(weights), 1))
    found = weighted_hits(positive, tie, cluster, np.array(weights), limits)
    for weight, row in zip(weights, found, strict=True):
        times = np.array(weight)[cluster]
        thresholds = [np.inf, *np.unique(score)]
        counts = [
            (int(times[(score >= t) & positive].sum()), int(times[(score >= t) & ~positive].sum()))
            for t in thresholds
        ]
        assert row.tolist() == [max(hits for hits, alarms in counts if alarms <= most) for most in allowed]


def highest(scores: Floats, positive: Bools, rate: float) -> float:
    """The largest TPR of scikit-learn's curve at a FPR of at most `rate`."""
    false, true, _ = sk.roc_curve(positive, scores, drop_intermediate=False)
    return float(true[false <= rate + 1e-12].max())


def scored_documents(seed: int, size: int, queries: int) -> tuple[Floats, Bools, Ints]:
    """Scores with ties, better where clicked, of documents of some queries."""
    rng = np.random.default_rng(seed)
    positive = rng.random(size) < 0.3
    scores: Floats = np.round(rng.normal(size=size) + 2.0 * positive, 1).astype(np.float64)
    return scores, positive, rng.integers(0, queries, size=size)


def queries_of(queries: int, seed: int = 1) -> QueryBootstrap:
    return QueryBootstrap(np.arange(queries).astype(str), Streams(seed))


@pytest.mark.parametrize(("seed", "size"), [(1, 60), (2, 400), (3, 3000)])
def test_true_positives_equal_scikit_learn_in_every_resample(seed: int, size: int) -> None:
    scores, positive, cluster = scored_documents(seed, size, 15)
    resamples = queries_of(15)
    found = ScoreRanking.of(scores, positive, cluster).true_positives(resamples)
    area = ScoreRanking.of(scores, positive, cluster).auc(resamples)
    assert area.value == pytest.approx(sk.roc_auc_score(positive, scores), rel=1e-12)
    for name, rate in (("tpr_at_1", 0.01), ("tpr_at_01", 0.001)):
        assert found[name].value == pytest.approx(highest(scores, positive, rate), rel=1e-12)
        threshold = min(t for t in [*scores, np.inf] if (scores[~positive] >= t).mean() <= rate)
        hit = positive & (scores >= threshold)
        number = np.unique(cluster[positive], return_inverse=True)[1]

        def at_threshold(weights: Floats, hit: Bools = hit, number: Ints = number) -> float:
            return float((weights[number] * hit[positive]).sum() / weights[number].sum())

        repeated = [np.repeat(np.arange(size), weight[cluster]) for weight in resamples.weights[:50]]
        draws = ScoreRanking.of(scores, positive, cluster)._rates(resamples.weights)
        level = list(FALSE_POSITIVES).index(name)
        values = [highest(scores[rows], positive[rows], rate) for rows in repeated]
        assert draws[:50, level] == pytest.approx(values, rel=1e-12)
        fixed = plain_ends(influences(at_threshold, number.max() + 1))
        low, high = np.quantile(draws[:, level], [0.025, 0.975])
        enough = (~positive).sum() * rate >= 2
        ends = pytest.approx((min(low, fixed[0]), max(high, fixed[1])), rel=1e-5)
        assert found[name].ci95 == (ends if enough else None)


def test_a_false_positive_rate_may_reach_its_level_and_not_pass_it() -> None:
    """One of 100 unclicked documents is 1 %; one of 99 is more."""
    for unclicked, expected in ((100, 0.75), (99, 0.25)):
        scores = np.array([9.0, 8.0, 7.0, 7.0, *[1.0] * (unclicked - 1), 1.0])
        positive = np.array([True, False, True, True, *[False] * (unclicked - 1), True])
        ranked = ScoreRanking.of(scores, positive, np.zeros(scores.size, dtype=np.int64))
        found = ranked.true_positives(queries_of(1))
        assert found["tpr_at_1"].value == expected
        assert found["tpr_at_01"].value == 0.25
        assert found["tpr_at_1"].ci95 is None


@pytest.mark.parametrize(("size", "positive"), [(4, True), (4, False), (0, True)])
def test_one_class_or_nothing_to_rank_has_no_rates(size: int, positive: bool) -> None:
    ranked = ScoreRanking.of(np.arange(4.0)[:size], np.full(size, positive), np.array([0, 0, 1, 1])[:size])
    resamples = queries_of(2 if size else 0)
    for score in (ranked.auc(resamples), *ranked.true_positives(resamples).values()):
        assert (np.isnan(score.value), score.ci95) == (True, None)


def test_resamples_without_one_class_do_not_count() -> None:
    """Queries 0 to 2 hold clicked documents: they are right wherever one was drawn, as three trials are."""
    scores = np.array([5.0, 5.0, 5.0, *[1.0] * 400])
    cluster = np.array([0, 1, 2, *[0] * 200, *[3] * 200])
    found = ScoreRanking.of(scores, scores > 1, cluster).true_positives(queries_of(4))
    assert found["tpr_at_1"].ci95 == pytest.approx((0.025 ** (1 / 3), 1.0))
    assert found["tpr_at_01"].ci95 is None


@pytest.mark.parametrize(("unclicked", "known"), [(200, True), (199, False)])
def test_no_interval_where_too_few_false_positives_are_allowed(unclicked: int, known: bool) -> None:
    scores, positive, cluster = scored_documents(5, 1000, 20)
    rows = np.concatenate([np.flatnonzero(positive), np.flatnonzero(~positive)[:unclicked]])
    found = ScoreRanking.of(scores[rows], positive[rows], cluster[rows]).true_positives(queries_of(20))
    assert (found["tpr_at_1"].ci95 is not None) == known
    assert found["tpr_at_01"].ci95 is None
    assert not np.isnan(found["tpr_at_01"].value)


def drawn(rng: np.random.Generator, queries: int, per_query: int) -> tuple[Floats, Bools, Ints]:
    """Documents whose clicks shift the score by 2, and by what their query makes of that."""
    cluster = np.repeat(np.arange(queries), per_query)
    effect = rng.normal(2.0, 0.5, size=queries)[cluster]
    positive = rng.random(cluster.size) < 0.3
    return rng.normal(size=cluster.size) + positive * effect, positive, cluster


def test_infinite_scores_rank_like_any_others() -> None:
    scores = np.array([np.inf, np.inf, 3.0, -np.inf, -np.inf])
    positive = np.array([True, True, False, True, False])
    cluster = np.array([0, 1, 0, 1, 0])
    both = (scores, np.clip(scores, -9, 9))
    infinite, finite = (ScoreRanking.of(values, positive, cluster) for values in both)
    assert infinite.true_positives(queries_of(2)) == finite.true_positives(queries_of(2))
    assert infinite.auc(queries_of(2)) == finite.auc(queries_of(2))
    assert infinite.true_positives(queries_of(2))["tpr_at_01"].value == 2 / 3


def test_the_same_bytes_for_any_number_of_threads() -> None:
    rng = np.random.default_rng(0)
    tie, cluster = np.sort(rng.integers(0, 50, size=500)), rng.integers(0, 9, size=500)
    positive, weights = rng.random(500) < 0.3, rng.integers(0, 4, size=(64, 9))
    allowed = rng.integers(0, 200, size=(64, 2))
    with numba_threads(2):
        hits = weighted_hits(positive, tie, cluster, weights, allowed).tobytes()
    with numba_threads(1):
        assert weighted_hits(positive, tie, cluster, weights, allowed).tobytes() == hits


BY_POSITION = np.array([0.8, 0.5, 0.3, 0.15, 0.1])
"""How likely a click is at each position."""


def shown_lists(rng: np.random.Generator, queries: int, *, by_grade: float) -> tuple[Bools, Floats]:
    """Clicks of two lists a query, and how likely each was, both (L, 5); grades shift them by `by_grade`."""
    good = rng.random((2 * queries, 5)) < 0.5
    likely = np.clip(BY_POSITION + np.where(good, by_grade, -by_grade), 0.02, 0.98)
    return rng.random(likely.shape) < likely, likely


def judged(clicks: Bools, scores: dict[str, Floats], guesses: tuple[str, ...]) -> ClickEvidence:
    """Lists with the scores of attacks and guesses."""
    query = [f"q{number // 2:03d}" for number in range(len(clicks))]
    made = evidence(query, clicks, clicks)
    answers = {
        name: ClickGuesses(scores=each, guess=each > 0.5, any_click=each.max(axis=1))
        for name, each in scores.items()
    }
    return replace(made, guessed=answers, baselines=frozenset(guesses))


def records(clicks: Bools, scores: dict[str, Floats], guesses: tuple[str, ...]) -> dict[str, AttackRecord]:
    scorer = AttackScorer(judged(clicks, scores, guesses), Streams(1))
    return {each.method: each for each in scorer.records()}


def kind_of(record: AttackRecord, every: dict[str, AttackRecord]) -> LeakKind:
    """What one attack alone is shown to do."""
    guesses = [each for each in every.values() if each.role != "attack"]
    found = find_leak(setting("a", 1.2, attacks=(*guesses, record)))
    assert found is not None
    return found.kind


GUESSES = ("first-position", "position-prior", KNOWS_GRADES)


def guessed(likely: Floats) -> dict[str, Floats]:
    """The scores of guesses."""
    prior = np.broadcast_to(BY_POSITION, likely.shape).copy()
    first = np.broadcast_to(-np.arange(5.0), likely.shape).copy()
    return {"first-position": first, "position-prior": prior, KNOWS_GRADES: likely}


def test_where_positions_explain_everything_only_messages_add_to_them() -> None:
    rng = np.random.default_rng(1)
    clicks, likely = shown_lists(rng, 60, by_grade=0.0)
    scores = {**guessed(likely), "echo": guessed(likely)["position-prior"], "noise": rng.random(clicks.shape)}
    found = records(clicks, {**scores, "reader": clicks.astype(float)}, GUESSES)
    echo, noise, reader = (found[name] for name in ("echo", "noise", "reader"))
    assert echo.metric("auc").value > 0.7
    assert echo.metric("above_guess").value == 0.0
    assert [kind_of(each, found) for each in (echo, noise, reader)] == ["guess", "guess", "reads"]
    assert noise.metric("above_guess").value < -0.15
    assert reader.metric("above_guess").value == pytest.approx(1 - echo.metric("auc").value)


def test_who_only_knows_grades_beats_positions_and_is_no_better_than_who_knows_them() -> None:
    clicks, likely = shown_lists(np.random.default_rng(2), 100, by_grade=0.3)
    found = records(clicks, {**guessed(likely), "grader": likely, "reader": clicks.astype(float)}, GUESSES)
    grader = found["grader"]
    assert grader.metric("above_grades").value == 0.0
    assert kind_of(grader, found) == "grades"
    assert kind_of(found["reader"], found) == "reads"
    assert (grader.more["grades"], grader.more["guess"]) == (KNOWS_GRADES, "first-position")


@pytest.mark.parametrize(
    ("backwards", "names", "best"),
    [
        (False, ("position-prior",), "position-prior"),
        (True, ("position-prior",), RANDOM),
        (True, (), RANDOM),
        (True, (KNOWS_GRADES,), RANDOM),
    ],
)
def test_the_excess_is_the_difference_to_the_best_guess(
    backwards: bool, names: tuple[str, ...], best: str
) -> None:
    """AUCs are scikit-learn's. A prior that orders backwards is no yardstick: a coin is better."""
    rng = np.random.default_rng(3)
    clicks, likely = shown_lists(rng, 40, by_grade=0.1)
    scores = guessed(-likely if backwards else likely) | {"attack": likely + rng.random(likely.shape)}
    scores["position-prior"] = scores["position-prior"] * (-1 if backwards else 1)
    record = records(clicks, {name: scores[name] for name in (*names, "attack")}, names)["attack"]
    kept = clicks.any(axis=1)
    aucs = {
        name: float(roc_auc_score(clicks[kept].ravel(), each[kept].ravel())) for name, each in scores.items()
    }
    aucs[RANDOM] = 0.5
    assert record.more["guess"] == best
    assert record.more["guess_auc"] == pytest.approx(aucs[best])
    assert record.metric("above_guess").value == pytest.approx(aucs["attack"] - aucs[best])
    knows = KNOWS_GRADES in names
    assert record.more["grades_auc"] == (pytest.approx(aucs[KNOWS_GRADES]) if knows else None)
    assert record.metric("above_grades").known is knows
    ends = record.metric("above_guess").ci95
    assert ends is not None
    assert ends[0] < record.metric("above_guess").value < ends[1]


def test_an_attack_must_beat_every_guess_not_only_the_one_that_was_luckiest() -> None:
    """Two guesses of nearly one AUC: the lower end is the least of those to each of them."""
    rng = np.random.default_rng(4)
    clicks, likely = shown_lists(rng, 40, by_grade=0.2)
    near = likely + 0.2 * rng.random(likely.shape)
    scores = {"first-position": near, "position-prior": guessed(likely)["position-prior"], "attack": likely}
    both = records(clicks, scores, ("first-position", "position-prior"))["attack"].metric("above_guess")
    lows = []
    for one in ("first-position", "position-prior"):
        alone = records(clicks, {one: scores[one], "attack": likely}, (one,))["attack"].metric("above_guess")
        assert alone.ci95 is not None
        lows.append(alone.ci95[0])
    assert both.ci95 is not None
    assert both.ci95[0] == min(lows)
