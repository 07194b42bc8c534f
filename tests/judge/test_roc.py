"""The ROC curve against scikit-learn and brute force, under weights and at its low end."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn import metrics as sk

from foltr_audit.judge.bootstrap import QueryBootstrap
from foltr_audit.judge.scoring import FALSE_POSITIVES, ScoreRanking
from foltr_audit.kernels.metrics import weighted_hits
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Bools, Floats, Ints
from tests.fixtures.evidence import influences, plain_ends
from tests.fixtures.reference import numba_threads

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
    found = ScoreRanking.of(score.astype(np.float64), positive, cluster).auc(resamples_of(4))
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


def resamples_of(queries: int, seed: int = 1) -> QueryBootstrap:
    return QueryBootstrap(np.arange(queries).astype(str), Streams(seed))


@pytest.mark.parametrize(("seed", "size"), [(1, 60), (2, 400), (3, 3000)])
def test_true_positives_equal_scikit_learn_in_every_resample(seed: int, size: int) -> None:
    scores, positive, cluster = scored_documents(seed, size, 15)
    resamples = resamples_of(15)
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
        found = ranked.true_positives(resamples_of(1))
        assert found["tpr_at_1"].value == expected
        assert found["tpr_at_01"].value == 0.25
        assert found["tpr_at_1"].ci95 is None


def test_ties_are_not_split() -> None:
    """A clicked and an unclicked document of equal score are named together or not at all."""
    scores, positive = np.array([3.0, 2.0, 2.0, 0.0]), np.array([True, True, False, False])
    found = ScoreRanking.of(scores, positive, np.array([0, 1, 0, 1])).true_positives(resamples_of(2))
    assert found["tpr_at_1"].value == 0.5


@pytest.mark.parametrize(("size", "positive"), [(4, True), (4, False), (0, True)])
def test_one_class_or_nothing_to_rank_has_no_rates(size: int, positive: bool) -> None:
    ranked = ScoreRanking.of(np.arange(4.0)[:size], np.full(size, positive), np.array([0, 0, 1, 1])[:size])
    resamples = resamples_of(2 if size else 0)
    for score in (ranked.auc(resamples), *ranked.true_positives(resamples).values()):
        assert (np.isnan(score.value), score.ci95) == (True, None)


def test_resamples_without_one_class_do_not_count() -> None:
    """Queries 0 to 2 hold clicked documents: they are right wherever one was drawn, as three trials are."""
    scores = np.array([5.0, 5.0, 5.0, *[1.0] * 400])
    cluster = np.array([0, 1, 2, *[0] * 200, *[3] * 200])
    found = ScoreRanking.of(scores, scores > 1, cluster).true_positives(resamples_of(4))
    assert found["tpr_at_1"].ci95 == pytest.approx((0.025 ** (1 / 3), 1.0))
    assert found["tpr_at_01"].ci95 is None


@pytest.mark.parametrize(("unclicked", "known"), [(200, True), (199, False)])
def test_no_interval_where_too_few_false_positives_are_allowed(unclicked: int, known: bool) -> None:
    scores, positive, cluster = scored_documents(5, 1000, 20)
    rows = np.concatenate([np.flatnonzero(positive), np.flatnonzero(~positive)[:unclicked]])
    found = ScoreRanking.of(scores[rows], positive[rows], cluster[rows]).true_positives(resamples_of(20))
    assert (found["tpr_at_1"].ci95 is not None) == known
    assert found["tpr_at_01"].ci95 is None
    assert not np.isnan(found["tpr_at_01"].value)


def drawn(rng: np.random.Generator, queries: int, per_query: int) -> tuple[Floats, Bools, Ints]:
    """Documents whose clicks shift the score by 2, and by what their query makes of that."""
    cluster = np.repeat(np.arange(queries), per_query)
    effect = rng.normal(2.0, 0.5, size=queries)[cluster]
    positive = rng.random(cluster.size) < 0.3
    return rng.normal(size=cluster.size) + positive * effect, positive, cluster


@pytest.mark.slow
@pytest.mark.parametrize(("queries", "per_query"), [(20, 20), (100, 10), (100, 100)])
def test_intervals_hold_the_truth_in_the_long_run(queries: int, per_query: int) -> None:
    """Normal scores: the threshold and the TPR beyond it have closed forms."""
    for name, one_in in FALSE_POSITIVES.items():
        rng, held = np.random.default_rng(3), []
        truth = norm.sf((norm.isf(1 / one_in) - 2.0) / np.sqrt(1.0 + 0.5**2))
        for seed in range(500):
            ranked = ScoreRanking.of(*drawn(rng, queries, per_query))
            ends = ranked.true_positives(resamples_of(queries, seed))[name].ci95
            if ends is not None:
                held.append(ends[0] <= truth <= ends[1])
        if len(held) > 400:
            assert 0.9 < np.mean(held) < 0.98


def test_infinite_scores_rank_like_any_others() -> None:
    scores = np.array([np.inf, np.inf, 3.0, -np.inf, -np.inf])
    positive = np.array([True, True, False, True, False])
    cluster = np.array([0, 1, 0, 1, 0])
    both = (scores, np.clip(scores, -9, 9))
    infinite, finite = (ScoreRanking.of(values, positive, cluster) for values in both)
    assert infinite.true_positives(resamples_of(2)) == finite.true_positives(resamples_of(2))
    assert infinite.auc(resamples_of(2)) == finite.auc(resamples_of(2))
    assert infinite.true_positives(resamples_of(2))["tpr_at_01"].value == 2 / 3


def test_the_same_bytes_for_any_number_of_threads() -> None:
    rng = np.random.default_rng(0)
    tie, cluster = np.sort(rng.integers(0, 50, size=500)), rng.integers(0, 9, size=500)
    positive, weights = rng.random(500) < 0.3, rng.integers(0, 4, size=(64, 9))
    allowed = rng.integers(0, 200, size=(64, 2))
    with numba_threads(2):
        hits = weighted_hits(positive, tie, cluster, weights, allowed).tobytes()
    with numba_threads(1):
        assert weighted_hits(positive, tie, cluster, weights, allowed).tobytes() == hits
