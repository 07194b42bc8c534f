"""Regression trees of scikit-learn behind LambdaMART's interface: what stops them, and what they say."""

from __future__ import annotations

import numpy as np
import pytest
from foltr_audit.studies.model_merging import trainers
from foltr_audit.studies.model_merging.trainers import (
    LEARNING_RATES,
    RandomStudy,
    RegressionTrainer,
    TuningBudget,
    sample,
)

from foltr_audit.rng import Streams
from tests.data.test_synthetic import ndcg10
from tests.studies.test_merging_lambdamart import SETTING, TUNING, data


def trainer(trees: int) -> RegressionTrainer:
    return RegressionTrainer(data().train, data().vali, TuningBudget(trials=1, trees=trees))


@pytest.mark.parametrize("patience", [5, 100])
def test_the_best_trees_are_those_of_one_whole_fit(patience: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model grows in steps of the patience; scikit-learn fits it here at once."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    monkeypatch.setattr(trainers, "PATIENCE", patience)
    found = trainer(40).train({**SETTING, "min_sum_hessian_in_leaf": 25})
    train, vali = data().train, data().vali
    whole = HistGradientBoostingRegressor(
        max_iter=40, learning_rate=0.1, max_leaf_nodes=15, min_samples_leaf=25, early_stopping=False
    ).fit(train.features, train.labels)
    stages = list(whole.staged_predict(vali.features))
    ndcg = [ndcg10(vali, scores) for scores in stages]
    best = 0
    for trees, value in enumerate(ndcg):
        if value > ndcg[best]:
            best = trees
        if trees - best == patience:
            break
    assert found.trees == best + 1
    assert found.model.n_iter_ <= 40
    assert found.validation == pytest.approx(ndcg[best], abs=1e-12)
    np.testing.assert_allclose(found.scores(vali.features), stages[best])


def test_it_learns_and_repeats() -> None:
    test = data().test
    scores = trainer(12).train(SETTING).scores(test.features)
    assert ndcg10(test, scores) > ndcg10(test, np.zeros(test.n_documents)) + 0.1
    assert (trainer(12).train(SETTING).scores(test.features) == scores).all()


def test_importances_are_those_of_the_features_that_matter() -> None:
    part = data().train
    features = np.random.default_rng(2).normal(size=(part.n_documents, 4))
    features[:, 2] = part.labels
    known = part.with_features(features.astype(np.float32))
    found = RegressionTrainer(known, known, TuningBudget(trials=1, trees=5)).train(SETTING)
    assert int(found.importances("gain").argmax()) == 2
    assert found.importances("split").sum() >= found.trees
    nothing = known.with_features(np.zeros((part.n_documents, 4), dtype=np.float32))
    flat = RegressionTrainer(nothing, nothing, TuningBudget(trials=1, trees=5)).train(SETTING)
    assert not flat.importances("gain").any()


def test_tuning_keeps_the_best_of_its_random_settings() -> None:
    tuning = RegressionTrainer(data().train, data().vali, TUNING)
    found = tuning.tune(Streams(1), "M")
    rng = Streams(1).generator("merge/tune/M")
    tried = [tuning.train(sample(RandomStudy(rng))) for _ in range(TUNING.trials)]
    assert found.validation == max(each.validation for each in tried)
    assert found.parameters in [each.parameters for each in tried]


def test_random_settings_fill_the_space_of_lambdamart() -> None:
    rng = np.random.default_rng(1)
    drawn = [sample(RandomStudy(rng)) for _ in range(5000)]
    assert {one["learning_rate"] for one in drawn} == set(LEARNING_RATES)
    assert {one["num_leaves"] for one in drawn} == set(range(15, 256))
    assert {one["min_data_in_leaf"] for one in drawn} == set(range(10, 501, 5))
    assert {one["min_sum_hessian_in_leaf"] for one in drawn} == set(range(1, 101))
