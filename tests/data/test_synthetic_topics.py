"""The embedded data with topics: shaped like Istella-S, with categories that matter."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from foltr_audit.studies.model_merging.categories import CategoryRule
from foltr_audit.studies.model_merging.splits import QueryTopics, mixture_rows
from foltr_audit.studies.model_merging.trainers import LambdaMARTTrainer, TuningBudget
from numpy.typing import NDArray

from foltr_audit.core.records import Collection
from foltr_audit.data.synthetic import CATEGORY_FEATURE, PROFILES, _bounds, synthesise
from foltr_audit.kernels.philox import philox
from foltr_audit.kernels.synthetic import query_topics
from foltr_audit.rng import Streams
from tests.data.test_synthetic import ndcg10


@cache
def data() -> Collection:
    return synthesise("istella-s", queries=500)


def joined(name: str) -> NDArray[Any]:
    return np.concatenate([getattr(data().part(part), name) for part in data().PARTS])


def test_numbers() -> None:
    assert PROFILES["istella-s"].queries == 1500
    assert data().n_features == 220
    lengths, labels = joined("lengths"), joined("labels")
    assert lengths.mean() == pytest.approx(106, rel=0.08)  # as in Istella-S
    assert lengths.min() >= 10
    shares = np.array([887, 22, 41, 33, 17]) / 1000
    np.testing.assert_allclose(np.bincount(labels) / labels.size, shares, atol=0.001)
    assert joined("has_relevant").mean() > 0.96
    features = joined("features")
    assert np.isfinite(features).all()
    assert (features.std(axis=0) > 0).all()


def test_one_column_is_the_category() -> None:
    categories, counts = np.unique(joined("features")[:, CATEGORY_FEATURE - 1], return_counts=True)
    assert categories.tolist() == list(range(1, 9))
    assert (np.diff(counts) < 0).all()  # of unequal frequency


def test_queries_are_mixed_as_in_the_paper() -> None:
    # Istella-S: 7 % of one category only, 12 % tied, 45 % with a small lead, 36 % with a clear one.
    row = mixture_rows(QueryTopics.of(data(), CategoryRule(feature=CATEGORY_FEATURE), Streams(1)))[0]
    assert 0.08 < row["exclusive"] < 0.22
    assert 0.06 < row["tie"] < 0.18
    assert 0.35 < row["lead_1_to_3"] < 0.55
    assert 0.30 < row["lead_over_3"] < 0.50


def test_what_makes_a_document_relevant_differs_by_category() -> None:
    from sklearn.linear_model import Ridge

    features = joined("features")
    spread = (features - features.mean(axis=0)) / features.std(axis=0)
    category, labels = features[:, CATEGORY_FEATURE - 1], joined("labels")
    where = {one: category == one for one in (1, 2)}
    others = spread[:, :219]
    weights = {one: Ridge(alpha=100.0).fit(others[here], labels[here]) for one, here in where.items()}
    for one, other in ((1, 2), (2, 1)):
        here = where[one]
        own, foreign = (
            np.corrcoef(weights[which].predict(others[here]), labels[here])[0, 1] for which in (one, other)
        )
        assert own > foreign + 0.1


def test_trees_learn_but_not_everything() -> None:
    setting = {"learning_rate": 0.3, "num_leaves": 15, "min_data_in_leaf": 40, "min_sum_hessian_in_leaf": 1}
    third = {name: data().part(name) for name in data().PARTS}
    third = {name: part.with_features(part.features[:, 1::3]) for name, part in third.items()}
    ranker = LambdaMARTTrainer(third["train"], third["vali"], TuningBudget(trials=1, trees=12)).train(setting)
    test = third["test"]
    trees = ndcg10(test, ranker.scores(test.features))
    order = ndcg10(test, -np.arange(test.n_documents, dtype=np.float64))
    assert trees > order + 0.2
    assert trees < test.has_relevant.mean() - 0.15


def test_topics_are_drawn_with_their_shares() -> None:
    popularity, mixtures = _bounds((26, 20, 15, 12, 10, 8, 5, 4)), _bounds((0.25, 0.75))
    found = query_topics(20_000, popularity, mixtures, 7, np.uint64(9))
    for column in (0, 1):
        shares = np.bincount(found[:, column], minlength=8) / 20_000
        # Five standard errors of the largest share.
        np.testing.assert_allclose(shares, np.array([26, 20, 15, 12, 10, 8, 5, 4]) / 100, atol=0.0156)
    assert found[:, 2].mean() == pytest.approx(0.75, abs=0.0154)
    word = int(philox(0, 3, 0, 7, np.uint64(9))[0])
    assert found[3, 0] == np.searchsorted(np.cumsum([26, 20, 15, 12, 10, 8, 5]) / 100, word / 2**32, "right")
