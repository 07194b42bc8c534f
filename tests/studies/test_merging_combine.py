"""Merges of models: the best weights of a grid, and stacked models of scores."""

from __future__ import annotations

from itertools import product
from math import comb

import numpy as np
import pytest
from foltr_audit.studies.model_merging.combine import (
    Tuner,
    best_weights,
    combine_scores,
    grid_steps,
    held_out,
    weight_grid,
    with_scores,
)
from foltr_audit.studies.model_merging.trainers import (
    LambdaMARTTrainer,
    Ranker,
    RankingJudge,
    RegressionTrainer,
    Trainer,
    TuningBudget,
)
from numpy.typing import NDArray

from foltr_audit.errors import DataError
from foltr_audit.rng import Streams
from tests.data.test_synthetic import ndcg10
from tests.studies.test_merging_trainers import SETTING, TUNING, data

VALI = data().vali


def noisy(spread: float, seed: int) -> NDArray[np.float64]:
    return VALI.labels + spread * np.random.default_rng(seed).normal(size=VALI.n_documents)


@pytest.mark.parametrize(("models", "steps"), [(2, 100), (3, 50), (3, 4), (4, 5), (5, 3)])
def test_the_grid_has_every_weight_once(models: int, steps: int) -> None:
    found = list(weight_grid(models, steps))
    assert len(set(found)) == len(found) == comb(steps + models - 1, models - 1)
    assert all(sum(point) == steps and min(point) >= 0 for point in found)
    if models < 4:
        assert set(found) == {
            point for point in product(range(steps + 1), repeat=models) if sum(point) == steps
        }


@pytest.mark.parametrize("models", range(2, 10))
def test_a_grid_is_as_fine_as_it_may_be(models: int) -> None:
    steps = grid_steps(models)
    assert comb(steps + models - 1, models - 1) <= 2000
    assert grid_steps(2) == 100  # .01, as in the paper


@pytest.mark.parametrize("models", [2, 3])
def test_the_weights_are_the_best_of_the_grid(models: int) -> None:
    scores = [noisy(1, 5), noisy(2, 6), noisy(1.5, 7)][:models]
    alphas, ndcg = best_weights(RankingJudge(VALI), scores)
    steps = grid_steps(models)
    points = [point for point in product(range(steps + 1), repeat=models) if sum(point) == steps]
    grid = {point: ndcg10(VALI, np.einsum("m,md->d", np.array(point) / steps, scores)) for point in points}
    assert ndcg == pytest.approx(max(grid.values()))
    assert ndcg10(VALI, combine_scores(scores, alphas)) == pytest.approx(ndcg)
    assert sum(alphas) == pytest.approx(1)
    # Of two models the better weighs more, and neither end is what was found.
    assert models > 2 or (alphas[0] > 0.5 and ndcg > max(grid[0, steps], grid[steps, 0]))
    assert models == 2 or ndcg > best_weights(RankingJudge(VALI), scores[:2])[1]


def test_equally_good_weights_go_to_the_middle() -> None:
    same, zero = noisy(1, 1), np.zeros(VALI.n_documents)
    judge = RankingJudge(VALI)
    assert best_weights(judge, [same, same])[0] == (0.5, 0.5)
    assert best_weights(judge, [same, zero])[0] == (0.5, 0.5)
    # Thirds are not on the grid of .02: the first model gets the smaller rest.
    assert best_weights(judge, [zero] * 3)[0] == (0.34, 0.34, 0.32)
    assert (combine_scores([same, same + 1], (0.0, 1.0)) == same + 1).all()


def test_held_out_queries_teach_nothing() -> None:
    for queries in (2, 3, 4, 9, 40):
        taught, stopped = held_out(queries, Streams(1).generator("h"))
        assert sorted([*taught, *stopped]) == list(range(queries))
        assert stopped.size == max(1, queries // 4)
    with pytest.raises(DataError, match="D_merge has 1 query; stacking needs at least 2"):
        held_out(1, Streams(1).generator("h"))


def test_scores_are_the_last_features_and_a_stacked_model_uses_them() -> None:
    vali = VALI
    perfect, noise = vali.labels.astype(np.float64), np.random.default_rng(2).normal(size=vali.n_documents)
    whole = with_scores(vali, (perfect, noise))
    assert whole.n_features == 24
    np.testing.assert_array_equal(whole.features[:, :22], vali.features)
    np.testing.assert_array_equal(whole.features[:, 22], vali.labels)
    found = LambdaMARTTrainer(whole, whole, TuningBudget(trials=1, trees=5)).train(SETTING)
    assert int(found.importances("gain").argmax()) == 22
    assert found.importances("split").size == 24


@pytest.mark.parametrize("trainer", [LambdaMARTTrainer, RegressionTrainer])
def test_a_stacked_model_repeats_with_its_seed_and_has_not_learnt_from_held_out_queries(
    trainer: type[Trainer],
) -> None:
    merge, name = VALI, "M_12S"
    scores = merge.labels.astype(np.float64), np.zeros(merge.n_documents)

    def scored(model: Ranker) -> bytes:
        return model.scores(with_scores(merge, scores).features).tobytes()

    first = Tuner(trainer, TUNING, Streams(1)).stacked(merge, scores, name)
    assert scored(Tuner(trainer, TUNING, Streams(1)).stacked(merge, scores, name)) == scored(first)
    taught, stopped = held_out(merge.n_queries, Streams(1).generator(f"merge/held-out/{name}"))
    whole = with_scores(merge, scores)
    again = trainer(whole.select(taught), whole.select(stopped), TUNING).train(first.parameters)
    assert scored(again) == scored(first)
