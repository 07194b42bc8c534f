"""Gradient-boosted regression of labels by scikit-learn: rankers where LightGBM or Optuna are not installed.

It is pointwise, but a tree is limited as in LambdaMART, and the nDCG@10 of validation queries stops it. Over
five equal settings, with 100 and 300 trees, its mean nDCG@10 is .495 where that of LambdaMART is .500 on the
five folds of MQ2008, and .471 against .465 on 400 queries of the synthetic istella-s. The least Hessian of a
leaf limits it less: it learns from fewer queries.

Source: Friedman 2001, "Greedy function approximation: a gradient boosting machine".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter
from typing import ClassVar

import numpy as np
from foltr_audit.studies.model_merging.lambdamart import (
    PATIENCE,
    RankingJudge,
    TunedRanker,
    TuningBudget,
    sample,
)

from foltr_audit.core.records import Dataset
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Features, Floats
from foltr_audit.utils.progress import NO_TICK, Tick


class RegressionRanker(TunedRanker):
    """Regression trees of scikit-learn."""

    def scores(self, features: Features) -> Floats:
        """The score of each row of features (documents, features), float64 (documents,)."""
        found = next(islice(self.model.staged_predict(features), self.trees - 1, None))
        return np.asarray(found, dtype=np.float64)

    def importances(self, kind: str) -> Floats:
        """The total `gain` of the splits of each feature, or their number, `split`; float64 (features,)."""
        found = np.zeros(self.model.n_features_in_)
        for (tree,) in self.model._predictors[: self.trees]:
            nodes = tree.nodes[tree.nodes["is_leaf"] == 0]
            np.add.at(found, nodes["feature_idx"], nodes["gain"] if kind == "gain" else 1.0)
        return found


class RegressionTrainer:
    """Trains models on some queries and stops on others, as `LambdaMARTTrainer` does."""

    NAME: ClassVar[str] = "scikit-learn's gradient-boosted regression trees"

    def __init__(self, train: Dataset, validation: Dataset, tuning: TuningBudget) -> None:
        self.tuning, self.data = tuning, train
        self.judge = RankingJudge(validation)

    def train(self, parameters: Mapping[str, float]) -> RegressionRanker:
        """Train a model with hyper-parameters named as LightGBM's; the same ones give the same bytes.

        The Hessian of the squared error is 1 for each document, and so its least sum is a number of these.
        """
        from sklearn.ensemble import HistGradientBoostingRegressor
        from threadpoolctl import threadpool_limits

        model = HistGradientBoostingRegressor(
            learning_rate=parameters["learning_rate"],
            max_leaf_nodes=int(parameters["num_leaves"]),
            min_samples_leaf=int(max(parameters["min_data_in_leaf"], parameters["min_sum_hessian_in_leaf"])),
            early_stopping=False,
            warm_start=True,
            random_state=0,
        )
        found: list[float] = []
        best = 0
        # One thread: sums of gradients depend on the number of threads.
        with threadpool_limits(limits=1):
            while len(found) < self.tuning.trees and len(found) - best <= PATIENCE:
                model.set_params(max_iter=min(self.tuning.trees, len(found) + PATIENCE))
                model.fit(self.data.features, self.data.labels.astype(np.float64))
                for scores in islice(model.staged_predict(self.judge.data.features), len(found), None):
                    found.append(self.judge.mean_ndcg(scores))
                    if found[-1] > found[best]:
                        best = len(found) - 1
                    if len(found) - 1 - best == PATIENCE:
                        break
        return RegressionRanker(
            parameters=dict(parameters), trees=best + 1, validation=found[best], model=model
        )

    def tune(self, streams: Streams, name: str, tick: Tick = NO_TICK) -> RegressionRanker:
        """The best of models with random settings by nDCG@10 on the validation queries; ties go to the first.

        `streams`: named random streams; the name of the model is part of that of the settings.
        """
        rng = streams.generator(f"merge/tune/{name}")

        def trials() -> Iterator[RegressionRanker]:
            for _ in range(self.tuning.trials):
                yield self.train(sample(_RandomTrial(rng)))
                tick()

        return max(trials(), key=attrgetter("validation"))


@dataclass(frozen=True)
class _RandomTrial:
    """Draws a setting where Optuna is not installed; named as a trial of it."""

    rng: np.random.Generator

    def suggest_categorical(self, _name: str, values: Sequence[float]) -> float:
        return float(self.rng.choice(values))

    def suggest_int(self, _name: str, least: int, most: int, step: int = 1) -> int:
        return least + step * int(self.rng.integers((most - least) // step + 1))
