"""Ranking metrics against golden values, scikit-learn, brute force and sums by hand."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations, product
from math import log2, prod
from random import Random
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foltr_audit.core.click_models import InformationalClickModel, NavigationalClickModel, PerfectClickModel
from foltr_audit.core.ranking_metrics import (
    LIST_LENGTH,
    OfflineValues,
    click_values,
    dcg,
    ideal_dcg,
    mean_over,
    ndcg,
    offline_values,
    online_sum,
    pham_ndcg,
    relevant_documents,
)
from foltr_audit.core.records import Dataset
from foltr_audit.utils.arrays import Floats, Ints
from tests.fixtures.reference import dataset, golden

ONE = np.array([0])
PLACES = np.arange(LIST_LENGTH)[np.newaxis]


def queries(*grades: list[int]) -> Dataset:
    """One query for each list of grades, without features that matter."""
    flat = np.concatenate([np.array(labels) for labels in grades])
    return dataset(np.zeros((flat.size, 1)), flat, [len(labels) for labels in grades])


def padded(positions: list[int], k: int = LIST_LENGTH) -> list[int]:
    return (positions + [-1] * k)[:k]


def ndcg_of(data: Dataset, queries: Ints, shown: Ints) -> Floats:
    return ndcg(dcg(data, queries, shown), ideal_dcg(data)[queries])


def valued(data: Dataset, scores: Floats, click: Floats | None = None) -> OfflineValues:
    return offline_values(data, scores, ideal_dcg(data), relevant_documents(data), click)


def ranked(data: Dataset, shown: Ints, click: Floats | None = None) -> OfflineValues:
    """Metrics of all queries by scores that lead to lists (queries, k); documents beyond them come last."""
    scores = np.arange(-100.0, -100.0 - data.n_documents, -1.0)
    for first, row in zip(data.offsets, shown, strict=False):
        for rank, document in enumerate(row[row >= 0]):
            scores[first + document] = -rank
    return valued(data, scores, click)


def plain_dcg(grades: list[int], k: int = 10) -> float:
    return sum((2.0**grade - 1) / log2(rank + 1) for rank, grade in enumerate(grades[:k], start=1))


@pytest.mark.parametrize("case", range(28))
def test_golden_metrics(case: int) -> None:
    """The golden columns have the settings of the grades 0-2, and click higher grades like grade 2."""
    vectors = {name: values[case] for name, values in golden("ranking-metrics.npz").items()}
    data = queries(vectors["relevance"][: int(vectors["n_docs"])].astype(int).tolist())
    shown = np.array([padded(vectors["ranking"][:LIST_LENGTH].tolist())])
    clicks = vectors["clicks"][np.newaxis] > 0  # -1 is padding
    found = ranked(data, shown)
    np.testing.assert_allclose(ndcg_of(data, ONE, shown), vectors["ndcg10"], rtol=1e-12, atol=0)
    np.testing.assert_allclose(found.ndcg, vectors["ndcg10"], rtol=1e-12, atol=0)
    np.testing.assert_allclose(found.reciprocal_rank, vectors["mrr10"], rtol=1e-15, atol=0)
    np.testing.assert_allclose(click_values(PLACES, clicks).max_rr, vectors["maxrr"], rtol=1e-15, atol=0)
    models = PerfectClickModel, NavigationalClickModel, InformationalClickModel
    expected = [ranked(data, shown, np.array(model.click_given_grade[1])).max_rr[0] for model in models]
    np.testing.assert_allclose(expected, vectors["expected_maxrr"], rtol=1e-12, atol=0)


@settings(max_examples=60, derandomize=True)
@given(st.lists(st.integers(0, 4), min_size=2, max_size=25).filter(any), st.randoms(use_true_random=False))
def test_ndcg_equals_scikit_learn(grades: list[int], random: Random) -> None:
    """On lists without tied scores; gains are handed over as 2^r - 1."""
    from sklearn.metrics import ndcg_score

    order = list(range(len(grades)))
    random.shuffle(order)
    scores = np.empty(len(grades))
    scores[order] = np.arange(len(grades), 0, -1)
    data = queries(grades)
    gains = 2.0 ** np.array(grades) - 1
    expected = ndcg_score(gains[np.newaxis], scores[np.newaxis], k=10)
    found = ndcg_of(data, ONE, np.array([padded(order)]))
    assert found[0] == pytest.approx(expected, rel=1e-12)


@settings(max_examples=50, derandomize=True)
@given(
    st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=6), min_size=1, max_size=4), st.integers(1, 4)
)
def test_the_ideal_is_the_best_of_all_orders(grades: list[list[int]], k: int) -> None:
    best = [max(plain_dcg(list(order), k) for order in permutations(labels)) for labels in grades]
    np.testing.assert_allclose(ideal_dcg(queries(*grades), k), best, rtol=1e-12)


def test_the_ideal_counts_documents_that_are_not_shown() -> None:
    data = queries([0] * 10 + [1, 1])
    assert ideal_dcg(data)[0] == pytest.approx(1 + 1 / log2(3))
    assert ndcg_of(data, ONE, PLACES).tolist() == [0.0]


@settings(max_examples=60, derandomize=True)
@given(
    st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=14), min_size=1, max_size=5),
    st.randoms(use_true_random=False),
)
def test_dcg_of_any_lists(grades: list[list[int]], random: Random) -> None:
    orders = [random.sample(range(len(labels)), len(labels)) for labels in grades]
    expected = [plain_dcg([labels[i] for i in order]) for labels, order in zip(grades, orders, strict=True)]
    shown = np.array([padded(order) for order in orders])
    found = dcg(queries(*grades), np.arange(len(grades)), shown)
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_labels_of_shown_documents() -> None:
    data = queries([2, 0, 1], [4], [0, 3])
    shown = np.array([[2, 0, -1], [0, -1, -1], [1, 0, -1], [-1, -1, -1]])
    found = data.shown_labels(np.array([0, 1, 2, 2]), shown).tolist()
    assert found == [[1, 2, -1], [4, -1, -1], [3, 0, -1], [-1, -1, -1]]


def test_queries_without_relevant_documents_count_zero_or_are_skipped() -> None:
    data = queries([1, 0], [0, 0], [0, 1])
    every, shown = np.arange(3), np.array([padded([0, 1])] * 3)
    second = 1 / log2(3)
    values, relevant = ndcg_of(data, every, shown), data.has_relevant
    np.testing.assert_allclose(values, [1, 0, second], rtol=1e-15)
    assert mean_over(values, relevant, "zero") == pytest.approx((1 + second) / 3)
    assert mean_over(values, relevant, "skip") == pytest.approx((1 + second) / 2)
    assert mean_over(values[1:2], relevant[1:2], "zero") == 0.0
    assert np.isnan(mean_over(values[1:2], relevant[1:2], "skip"))
    assert np.isnan(mean_over(values[:0], relevant[:0], "zero"))


@settings(max_examples=60, derandomize=True)
@given(
    st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=14), min_size=1, max_size=5),
    st.randoms(use_true_random=False),
)
def test_rank_and_precision_of_any_lists(grades: list[list[int]], random: Random) -> None:
    """By exact fractions, from the definitions."""
    orders = [random.sample(range(len(labels)), len(labels)) for labels in grades]
    data, shown = queries(*grades), np.array([padded(order) for order in orders])
    relevant = relevant_documents(data)
    assert relevant.tolist() == [sum(label > 0 for label in labels) for labels in grades]
    first, mean = ranked(data, shown).reciprocal_rank, ranked(data, shown).average_precision
    for query, (labels, order) in enumerate(zip(grades, orders, strict=True)):
        hits = [rank for rank, document in enumerate(order[:10], start=1) if labels[document] > 0]
        assert first[query] == (1 / hits[0] if hits else 0.0)
        precisions = [Fraction(number, rank) for number, rank in enumerate(hits, start=1)]
        exact = sum(precisions, Fraction(0)) / max(min(10, int(relevant[query])), 1)
        assert mean[query] == pytest.approx(float(exact), rel=1e-14, abs=0)


def brute_force_max_rr(grades: list[int], click: list[Fraction]) -> Fraction:
    """MaxRR over all patterns of what would be clicked if it were read."""
    total = Fraction(0)
    for pattern in product((False, True), repeat=len(grades)):
        read = zip(grades, pattern, strict=True)
        chance = prod(click[grade] if clicked else 1 - click[grade] for grade, clicked in read)
        total += chance * (Fraction(1, pattern.index(True) + 1) if any(pattern) else 0)
    return total


@settings(max_examples=40, derandomize=True)
@given(
    st.lists(st.integers(0, 2), min_size=1, max_size=7),
    st.lists(st.fractions(0, 1, max_denominator=20), min_size=3, max_size=3),
)
def test_expected_maxrr_over_all_clicks(grades: list[int], click: list[Fraction]) -> None:
    shown = np.array([padded(list(range(len(grades))))])
    found = ranked(queries(grades), shown, np.array([float(c) for c in click])).max_rr
    assert found[0] == pytest.approx(float(brute_force_max_rr(grades, click)), rel=1e-12, abs=1e-15)


_clicked = st.lists(st.booleans(), max_size=10)


@settings(max_examples=60, derandomize=True)
@given(st.lists(_clicked, min_size=1, max_size=6))
def test_values_of_any_clicks(lists: list[list[bool]]) -> None:
    clicks = np.array([(clicked + [False] * 10)[:10] for clicked in lists])
    found = click_values(np.array([padded(list(range(len(clicked)))) for clicked in lists]), clicks)
    for i, clicked in enumerate(lists):
        ranks = [rank for rank, click in enumerate(clicked, start=1) if click]
        assert found.max_rr[i] == (1 / min(ranks) if ranks else 0.0)
        assert found.dcg[i] == pytest.approx(sum(1 / log2(rank + 1) for rank in ranks), rel=1e-14)
        assert found.paired[i] == (len(set(clicked)) == 2)


_list = st.none() | st.tuples(st.floats(0, 1), st.booleans())  # its nDCG, and whether it has a pair


@settings(max_examples=80, derandomize=True)
@given(st.lists(st.tuples(_list, _list, _list), min_size=1, max_size=5))
def test_online_ndcg_of_pham_client_by_client(clients: list[tuple[tuple[float, bool] | None, ...]]) -> None:
    lists = [[each for each in own if each] for own in clients]
    there = np.array([[each is not None for each in own] for own in clients])
    values = np.array([value for own in lists for value, _ in own])
    paired = np.array([pair for own in lists for _, pair in own], dtype=np.bool_)
    discounted, of_pairs = pham_ndcg(values, paired, there)
    written = [value * 0.9995**place for own in lists for place, (value, _) in enumerate(own)]
    assert discounted.tolist() == pytest.approx(written, rel=1e-14)
    learnt = [[value for value, pair in own if pair] for own in lists if own]
    expected = fmean([fmean(own) if own else 0.0 for own in learnt]) if learnt else np.nan
    assert of_pairs == pytest.approx(expected, rel=1e-14, nan_ok=True)


def test_online_sum_by_hand() -> None:
    gamma = Fraction(9995, 10000)
    values = [Fraction(1, 2), Fraction(1, 4), Fraction(1), Fraction(1, 8)]
    exact = values[0] + values[1] * gamma + values[2] * gamma**2 + values[3] * gamma**3
    assert online_sum(np.array([0.5, 0.25, 1.0, 0.125])) == pytest.approx(float(exact), rel=1e-15)
    assert online_sum(np.array([])) == 0.0
    whole = (1 - gamma**1000) / (1 - gamma)  # a perfect run of 1,000 rounds
    assert online_sum(np.ones(1000)) == pytest.approx(float(whole), rel=1e-12)


def test_a_gain_beyond_all_numbers_is_infinite() -> None:
    data = queries([1023, 5], [1024, 5], [10**12, 5])
    shown = np.array([padded([1]), padded([1]), padded([0])])
    assert dcg(data, np.arange(3), shown).tolist() == [31.0, 31.0, np.inf]
    assert np.isfinite(ideal_dcg(data)).tolist() == [True, False, False]


def all_orders(scores: list[int]) -> list[list[int]]:
    """The rankings of documents by score with their equals in each order."""
    tied = [[i for i, score in enumerate(scores) if score == top] for top in sorted(set(scores))[::-1]]
    return [[i for part in parts for i in part] for parts in product(*map(permutations, tied))]


SIX = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=6)
NINE_FIRST = st.lists(st.integers(0, 2), min_size=13, max_size=13).map(
    lambda grades: [(grade, max(0, 9 - place)) for place, grade in enumerate(grades)]
)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(SIX | NINE_FIRST)
def test_metrics_with_equal_scores_are_means_over_all_orders(documents: list[tuple[int, int]]) -> None:
    """Each order by scores without ties; also where the last of the ten is one of several equals."""
    grades, scores = ([each[i] for each in documents] for i in (0, 1))
    data, click = queries(grades), np.array([0.05, 0.5, 0.95])
    orders = all_orders(scores)
    each = [ranked(data, np.array([order]), click) for order in orders]
    found = valued(data, np.array(scores, dtype=np.float64), click)
    for name, values in found._asdict().items():
        mean = sum(float(getattr(one, name)[0]) for one in each) / len(orders)
        assert values[0] == pytest.approx(mean, rel=1e-12, abs=1e-15), name


def test_in_the_order_of_the_file_the_upper_of_two_equals_comes_first() -> None:
    data, scores = queries([0, 1, 1, 0, 2]), np.array([1.0, 0.0, 1.0, 0.0, 0.0])
    given = data, scores, ideal_dcg(data), relevant_documents(data), np.array([0.0, 0.5, 1.0])
    by_row, by_score = offline_values(*given, by_position=True), ranked(data, np.array([[0, 2, 1, 3, 4]]))
    assert by_row.ndcg == by_score.ndcg
    assert by_row.max_rr[0] == pytest.approx(0.5 / 2 + 0.25 / 3 + 0.25 / 5)
    assert offline_values(*given).ndcg != by_row.ndcg
