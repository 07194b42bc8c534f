"""Rankers that are trained and tuned, and the quality of their scores.

LambdaMART by LightGBM, tuned by Optuna; where these are not installed, regression trees of scikit-learn with
random settings. These are pointwise, but a tree is limited as in LambdaMART, and the nDCG@10 of validation
queries stops it. Over five equal settings, with 100 and 300 trees, their mean nDCG@10 is .495 where that of
LambdaMART is .500 on the five folds of MQ2008, and .471 against .465 on 400 queries of the synthetic
istella-s. The least Hessian of a leaf limits them less: they learn from fewer queries.

Sources: Burges 2010, "From RankNet to LambdaRank to LambdaMART: an overview"; Friedman 2001, "Greedy function
approximation: a gradient boosting machine"; the space of hyper-parameters and early stopping: "Learning to
rank for non independent and identically distributed datasets" (2024), section 5.1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

import numpy as np

from foltr_audit.core.ranking_metrics import OfflineValues, ideal_dcg, offline_values, relevant_documents
from foltr_audit.core.records import Dataset
from foltr_audit.errors import DataError
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Features, Floats
from foltr_audit.utils.optional_dependencies import package, quiet
from foltr_audit.utils.progress import NO_TICK, Tick

NDCG = "ndcg@10"
METRICS = {NDCG: "nDCG@10", "map@10": "MAP@10", "mrr@10": "MRR@10"}
"""Metrics by name, with their labels; all between 0 and 1, higher is better."""

LEARNING_RATES = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.3)
MOST_TREES = 3_000
PATIENCE = 100
"""Training stops after this many trees without a better nDCG@10 on the validation queries."""

_GRADES = 31  # LightGBM has gains 2^r - 1 for as many grades
_MOST_DOCUMENTS = 10_000  # LightGBM refuses longer queries


class RankingJudge:
    """Ranks queries by scores (documents,) and computes metrics of the first ten, as `offline_values` does.

    Queries without relevant documents count as 0.
    """

    def __init__(self, data: Dataset) -> None:
        self.data = data
        self.ideal, self.relevant = ideal_dcg(data), relevant_documents(data)

    def ndcg(self, scores: Floats) -> Floats:
        """NDCG@10 of each query, gain 2^r - 1; (queries,)."""
        return self._values(scores).ndcg

    def mean_ndcg(self, scores: Floats) -> float:
        return float(self.ndcg(scores).mean())

    def metrics(self, scores: Floats) -> dict[str, Floats]:
        """Each of `METRICS` of each query, (queries,)."""
        values = self._values(scores)
        return dict(
            zip(METRICS, (values.ndcg, values.average_precision, values.reciprocal_rank), strict=True)
        )

    def _values(self, scores: Floats) -> OfflineValues:
        return offline_values(self.data, np.asarray(scores, dtype=np.float64), self.ideal, self.relevant)


@dataclass(frozen=True, kw_only=True)
class TuningBudget:
    """How many settings are tried for a model, and its most trees; it does not depend on `threads`."""

    trials: int
    trees: int
    threads: int = 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Ranker(ABC):
    """A trained model; `validation` is the mean nDCG@10 on the queries that stopped and selected it."""

    parameters: Mapping[str, float]
    trees: int
    validation: float
    model: Any

    @abstractmethod
    def scores(self, features: Features) -> Floats:
        """The score of each row of features (documents, features), float64 (documents,)."""

    @abstractmethod
    def importances(self, kind: str) -> Floats:
        """The total `gain` of the splits of each feature, or their number, `split`; float64 (features,)."""


class Trainer(ABC):
    """Trains models on some queries and stops on others."""

    NAME: ClassVar[str]

    def __init__(self, train: Dataset, validation: Dataset, budget: TuningBudget) -> None:
        self.data, self.budget = train, budget
        self.judge = RankingJudge(validation)

    @abstractmethod
    def train(self, parameters: Mapping[str, float]) -> Ranker:
        """Train a model with hyper-parameters named as LightGBM's; the same ones give the same bytes."""

    @abstractmethod
    def study(self, rng: np.random.Generator) -> Any:
        """What asks for the next setting and is told how good it was, as a study of Optuna."""

    def tune(self, streams: Streams, name: str, tick: Tick = NO_TICK) -> Ranker:
        """The best of models by nDCG@10 on the validation queries; ties go to the first.

        `streams`: named random streams; the name of the model is part of that of the settings.
        """
        study = self.study(streams.generator(f"merge/tune/{name}"))
        best: list[Ranker] = []
        for _ in range(self.budget.trials):
            trial = study.ask()
            found = self.train(sample(trial))
            study.tell(trial, found.validation)
            # Only the best model is kept: each may have thousands of trees.
            if not best or found.validation > best[0].validation:
                best = [found]
            tick()
        return best[0]


def sample(trial: Any) -> dict[str, float]:
    """The setting of a trial of Optuna, in the space of the paper."""
    return {
        "learning_rate": trial.suggest_categorical("learning_rate", list(LEARNING_RATES)),
        "num_leaves": trial.suggest_int("num_leaves", 15, 255),
        "min_data_in_leaf": trial.suggest_int("min_data_in_leaf", 10, 500, step=5),
        "min_sum_hessian_in_leaf": trial.suggest_int("min_sum_hessian_in_leaf", 1, 100),
    }


class LambdaMARTRanker(Ranker):
    """A booster of LightGBM."""

    def scores(self, features: Features) -> Floats:
        return np.asarray(self.model.predict(features, num_iteration=self.trees), dtype=np.float64)

    def importances(self, kind: str) -> Floats:
        found = self.model.feature_importance(importance_type=kind, iteration=self.trees)
        return np.asarray(found, dtype=np.float64)


class LambdaMARTTrainer(Trainer):
    """LightGBM's LambdaMART; both parts are binned only once."""

    NAME = "LightGBM's LambdaMART"

    def __init__(self, train: Dataset, validation: Dataset, budget: TuningBudget) -> None:
        """Bin both parts, whose labels and queries LightGBM must support."""
        super().__init__(train, validation, budget)
        for part in (train, validation):
            _check(part)
        self._train = _bin(train, None)
        self._validation = _bin(validation, self._train)

    def train(self, parameters: Mapping[str, float]) -> LambdaMARTRanker:
        lightgbm = package("lightgbm", "merge")
        booster = lightgbm.train(
            {
                "objective": "lambdarank",
                # `feval` stops the training: the nDCG of the results, where a query without relevant
                # documents counts 0.
                "metric": "None",
                "label_gain": [2**grade - 1 for grade in range(_GRADES)],
                "deterministic": True,
                "force_row_wise": True,  # else LightGBM times both layouts and picks one: other bytes
                "num_threads": self.budget.threads,
                # The filter drops features that cannot be split with the first `min_data_in_leaf`. The bins
                # serve all trials, and a later trial may have a smaller one.
                "feature_pre_filter": False,
                "verbosity": -1,
                **parameters,
            },
            self._train,
            num_boost_round=self.budget.trees,
            valid_sets=[self._validation],
            feval=lambda scores, _data: ("ndcg", self.judge.mean_ndcg(scores), True),
            callbacks=[lightgbm.early_stopping(PATIENCE, verbose=False)],
        )
        best = float(booster.best_score["valid_0"]["ndcg"])
        return LambdaMARTRanker(
            parameters=dict(parameters), trees=booster.best_iteration, validation=best, model=booster
        )

    def study(self, rng: np.random.Generator) -> Any:
        optuna = package("optuna", "merge")
        with quiet(optuna):
            sampler = optuna.samplers.TPESampler(seed=int(rng.integers(2**31)))
            return optuna.create_study(direction="maximize", sampler=sampler)


def _check(part: Dataset) -> None:
    highest = int(part.labels.max())
    if highest >= _GRADES:
        raise DataError(
            f"merge: a label is {highest}; expected at most {_GRADES - 1}, LightGBM's highest grade"
        )
    longest = int(part.lengths.argmax())
    if part.lengths[longest] > _MOST_DOCUMENTS:
        raise DataError(
            f"merge: query {part.query_ids[longest]} has {part.lengths[longest]} documents; LightGBM ranks "
            f"at most {_MOST_DOCUMENTS}"
        )


def _bin(data: Dataset, reference: Any) -> Any:
    found = package("lightgbm", "merge").Dataset(
        data.features,
        label=data.labels,
        group=data.lengths,
        reference=reference,
        params={"feature_pre_filter": False, "verbosity": -1},
        free_raw_data=False,
    )
    return found.construct()


class RegressionRanker(Ranker):
    """Regression trees of scikit-learn."""

    def scores(self, features: Features) -> Floats:
        found = next(islice(self.model.staged_predict(features), self.trees - 1, None))
        return np.asarray(found, dtype=np.float64)

    def importances(self, kind: str) -> Floats:
        found = np.zeros(self.model.n_features_in_)
        for (tree,) in self.model._predictors[: self.trees]:
            nodes = tree.nodes[tree.nodes["is_leaf"] == 0]
            np.add.at(found, nodes["feature_idx"], nodes["gain"] if kind == "gain" else 1.0)
        return found


class RegressionTrainer(Trainer):
    """Scikit-learn's trees; the Hessian of the squared error is 1, so its sum is a number of documents."""

    NAME = "scikit-learn's gradient-boosted regression trees"

    def train(self, parameters: Mapping[str, float]) -> RegressionRanker:
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
            while len(found) < self.budget.trees and len(found) - best <= PATIENCE:
                model.set_params(max_iter=min(self.budget.trees, len(found) + PATIENCE))
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

    def study(self, rng: np.random.Generator) -> RandomStudy:
        return RandomStudy(rng)


@dataclass(frozen=True)
class RandomStudy:
    """Draws settings at random where Optuna is not installed: a study whose trials are itself."""

    rng: np.random.Generator

    def ask(self) -> RandomStudy:
        return self

    def tell(self, _trial: RandomStudy, _value: float) -> None:
        """Draws do not depend on what was found."""

    def suggest_categorical(self, _name: str, values: Sequence[float]) -> float:
        return float(self.rng.choice(values))

    def suggest_int(self, _name: str, least: int, most: int, step: int = 1) -> int:
        return least + step * int(self.rng.integers((most - least) // step + 1))
