"""Trained rankers: same seed, same bytes; stopped and chosen by nDCG@10 as foltr-audit has it.

LambdaMART by LightGBM, and regression trees of scikit-learn behind the same interface.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from foltr_audit.studies.model_merging import trainers
from foltr_audit.studies.model_merging.trainers import (
    LEARNING_RATES,
    LambdaMARTRanker,
    LambdaMARTTrainer,
    RandomStudy,
    Ranker,
    RankingJudge,
    RegressionTrainer,
    Trainer,
    TuningBudget,
    sample,
)
from numpy.typing import NDArray

from foltr_audit.core.records import Collection
from foltr_audit.data.synthetic import synthesise
from foltr_audit.errors import DataError
from foltr_audit.rng import Streams
from foltr_audit.utils.progress import Tick
from tests.data.test_synthetic import ndcg10
from tests.fixtures.reference import dataset

SETTING = {"learning_rate": 0.1, "num_leaves": 15, "min_data_in_leaf": 10, "min_sum_hessian_in_leaf": 1}
TUNING = TuningBudget(trials=3, trees=6)


@cache
def data() -> Collection:
    """Every tenth feature of the embedded data: quick to bin, and enough to learn from."""
    found = synthesise("istella-s", queries=100)
    parts = {name: found.part(name) for name in Collection.PARTS}
    few: dict[str, Any] = {name: part.with_features(part.features[:, 9::10]) for name, part in parts.items()}
    return replace(found, **few)


def trainer(trees: int = 12, threads: int = 1) -> LambdaMARTTrainer:
    budget = TuningBudget(trials=1, trees=trees, threads=threads)
    return LambdaMARTTrainer(data().train, data().vali, budget)


@cache
def trained(threads: int = 1, trees: int = 12) -> LambdaMARTRanker:
    return trainer(trees, threads).train(SETTING)


def test_the_same_setting_gives_the_same_bytes_on_any_number_of_threads() -> None:
    again = trainer().train(SETTING)
    assert text(again) == text(trained())
    assert _trees(text(trained(threads=2))) == _trees(text(trained()))
    other = trainer().train({**SETTING, "num_leaves": 16})
    assert _trees(text(other)) != _trees(text(trained()))


def text(model: Ranker) -> str:
    """The model in LightGBM's own text form."""
    return str(model.model.model_to_string(num_iteration=model.trees))


def _trees(model: str) -> str:
    """The model without LightGBM's record of its parameters, which holds the number of threads."""
    return model.partition("\nparameters:")[0]


both = pytest.mark.parametrize("trainer", [LambdaMARTTrainer, RegressionTrainer])


@both
def test_it_learns_and_repeats(trainer: type[Trainer]) -> None:
    test, budget = data().test, TuningBudget(trials=1, trees=12)
    first, again = (trainer(data().train, data().vali, budget).train(SETTING) for _ in "ab")
    scores = first.scores(test.features)
    assert ndcg10(test, scores) > ndcg10(test, np.zeros(test.n_documents)) + 0.1
    assert (again.scores(test.features) == scores).all()


@both
def test_importances_are_those_of_the_features_that_matter(trainer: type[Trainer]) -> None:
    part, budget = data().train, TuningBudget(trials=1, trees=5)
    features = np.random.default_rng(2).normal(size=(part.n_documents, 4))
    features[:, 2] = part.labels
    known = part.with_features(features.astype(np.float32))
    found = trainer(known, known, budget).train(SETTING)
    assert int(found.importances("gain").argmax()) == 2
    assert found.importances("split").sum() >= found.trees
    nothing = known.with_features(np.zeros((part.n_documents, 4), dtype=np.float32))
    assert not trainer(nothing, nothing, budget).train(SETTING).importances("gain").any()


def test_it_is_chosen_by_ndcg_over_all_validation_queries() -> None:
    vali = data().vali
    assert not vali.has_relevant.all() or not data().train.has_relevant.all()
    ranker = trained()
    assert ranker.validation == pytest.approx(ndcg10(vali, ranker.scores(vali.features)), abs=1e-12)
    first = [ranker.model.predict(vali.features, num_iteration=trees) for trees in range(1, 13)]
    prefixes = [ndcg10(vali, scores) for scores in first]
    assert ranker.trees == 1 + int(np.argmax(prefixes))


def test_judge_agrees_with_the_reference() -> None:
    scores = np.random.default_rng(3).normal(size=data().vali.n_documents)
    assert RankingJudge(data().vali).mean_ndcg(scores) == pytest.approx(ndcg10(data().vali, scores))


def test_training_stops_a_hundred_trees_after_the_best() -> None:
    few, vali = data().train.select(np.arange(20)), data().vali.select(np.arange(8))
    stopping = LambdaMARTTrainer(few, vali, TuningBudget(trials=1, trees=600))
    asked: list[float] = []

    class Counting(RankingJudge):
        def mean_ndcg(self, scores: NDArray[np.float64]) -> float:
            asked.append(super().mean_ndcg(scores))
            return asked[-1]

    stopping.judge = Counting(vali)
    ranker = stopping.train({**SETTING, "learning_rate": 0.3})
    assert len(asked) == ranker.trees + 100 < 600
    assert ranker.trees == 1 + int(np.argmax(asked))


def test_tuning_stays_in_the_space_and_repeats_with_its_seed(capfd: pytest.CaptureFixture[str]) -> None:
    import optuna

    before = optuna.logging.get_verbosity()
    tuning = LambdaMARTTrainer(data().train, data().vali, TUNING)
    ticks: list[object] = []

    class Ticker(Tick):
        def __call__(self, metrics: object = None, /) -> None:
            ticks.append(metrics)

    found = tuning.tune(Streams(1), "M", Ticker())
    assert len(ticks) == 3
    assert text(tuning.tune(Streams(1), "M")) == text(found)
    assert tuning.tune(Streams(1), "other").parameters != found.parameters
    assert found.parameters["learning_rate"] in LEARNING_RATES
    assert 15 <= found.parameters["num_leaves"] <= 255
    assert 10 <= found.parameters["min_data_in_leaf"] <= 500
    assert found.parameters["min_data_in_leaf"] % 5 == 0
    assert 1 <= found.parameters["min_sum_hessian_in_leaf"] <= 100
    assert optuna.logging.get_verbosity() == before
    assert capfd.readouterr() == ("", "")


def test_what_lightgbm_would_refuse_is_one_clear_line() -> None:
    part = data().vali
    labels = part.labels.copy()
    labels[-1] = 31
    graded = replace(part, labels=labels)
    said = "^merge: a label is 31; expected at most 30, LightGBM's highest grade$"
    with pytest.raises(DataError, match=said):
        LambdaMARTTrainer(graded, part, TUNING)
    long = dataset(np.zeros((10_001, 2)), np.ones(10_001), [10_001])
    said = "^merge: query q0 has 10001 documents; LightGBM ranks at most 10000$"
    with pytest.raises(DataError, match=said):
        LambdaMARTTrainer(long, long, TUNING)


@pytest.mark.parametrize("patience", [5, 100])
def test_the_best_trees_are_those_of_one_whole_fit(patience: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model grows in steps of the patience; scikit-learn fits it here at once."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    monkeypatch.setattr(trainers, "PATIENCE", patience)
    found = RegressionTrainer(data().train, data().vali, TuningBudget(trials=1, trees=40)).train(
        {**SETTING, "min_sum_hessian_in_leaf": 25}
    )
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
