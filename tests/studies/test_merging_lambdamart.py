"""Trained rankers: same seed, same bytes; stopped and chosen by nDCG@10 as foltr-audit has it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from foltr_audit.studies.model_merging.trainers import (
    LEARNING_RATES,
    LambdaMARTRanker,
    LambdaMARTTrainer,
    Ranker,
    RankingJudge,
    TuningBudget,
)
from numpy.typing import NDArray

from foltr_audit.core.records import Collection
from foltr_audit.data.synthetic import synthesise
from foltr_audit.errors import DataError
from foltr_audit.rng import Streams
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


def test_it_learns() -> None:
    test = data().test
    scores = trained().scores(test.features)
    assert ndcg10(test, scores) > ndcg10(test, np.zeros(test.n_documents)) + 0.1


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

    class Ticker:
        def __call__(self, metrics: object = None) -> None:
            ticks.append(metrics)

        def skip(self, done: int) -> None:
            raise NotImplementedError

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
