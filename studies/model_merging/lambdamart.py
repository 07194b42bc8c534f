"""LambdaMART by LightGBM, tuned by Optuna, and the quality of its scores.

Sources: Burges 2010, "From RankNet to LambdaRank to LambdaMART: an overview"; the space of hyper-parameters
and early stopping: "Learning to rank for non independent and identically distributed datasets" (2024),
section 5.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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


LEARNING_RATES = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.3)
LEAVES = (15, 255)
DOCUMENTS_IN_LEAF = (10, 500, 5)  # minimum, maximum, step
HESSIAN_IN_LEAF = (1, 100)

MOST_TREES = 3_000
PATIENCE = 100
"""Training stops after this many trees without a better nDCG@10 on the validation queries."""

_GRADES = 31  # LightGBM has gains 2^r - 1 for as many grades
_MOST_DOCUMENTS = 10_000  # LightGBM refuses longer queries


@dataclass(frozen=True, kw_only=True)
class TuningBudget:
    """How many settings are tried for a model, and its most trees; it does not depend on `threads`."""

    trials: int
    trees: int
    threads: int = 1


@dataclass(frozen=True, kw_only=True, eq=False)
class TunedRanker:
    """A trained model; `validation` is the mean nDCG@10 on the queries that stopped and selected it."""

    parameters: Mapping[str, float]
    trees: int
    validation: float
    model: Any


class LambdaMARTRanker(TunedRanker):
    """A booster of LightGBM."""

    def scores(self, features: Features) -> Floats:
        """The score of each row of features (documents, features), float64 (documents,)."""
        found = self.model.predict(features, num_iteration=self.trees)
        return np.asarray(found, dtype=np.float64)

    def importances(self, kind: str) -> Floats:
        """The total `gain` of the splits of each feature, or their number, `split`; float64 (features,)."""
        found = self.model.feature_importance(importance_type=kind, iteration=self.trees)
        return np.asarray(found, dtype=np.float64)


class LambdaMARTTrainer:
    """Trains models on some queries and stops on others; both parts are binned only once."""

    NAME: ClassVar[str] = "LightGBM's LambdaMART"

    def __init__(self, train: Dataset, validation: Dataset, tuning: TuningBudget) -> None:
        """Bin both parts, whose labels and queries LightGBM must support."""
        for part in (train, validation):
            _check(part)
        self.tuning = tuning
        self.judge = RankingJudge(validation)
        self._train = _bin(train, None)
        self._validation = _bin(validation, self._train)

    def train(self, parameters: Mapping[str, float]) -> LambdaMARTRanker:
        """Train a model with the given hyper-parameters; the same ones give the same bytes."""
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
                "num_threads": self.tuning.threads,
                # The filter drops features that cannot be split with the first `min_data_in_leaf`. The bins
                # serve all trials, and a later trial may have a smaller one.
                "feature_pre_filter": False,
                "verbosity": -1,
                **parameters,
            },
            self._train,
            num_boost_round=self.tuning.trees,
            valid_sets=[self._validation],
            feval=self._ndcg,
            callbacks=[lightgbm.early_stopping(PATIENCE, verbose=False)],
        )
        best = booster.best_score["valid_0"]["ndcg"]
        return LambdaMARTRanker(
            parameters=dict(parameters), trees=booster.best_iteration, validation=float(best), model=booster
        )

    def _ndcg(self, scores: Floats, _data: object) -> tuple[str, float, bool]:
        return "ndcg", self.judge.mean_ndcg(scores), True

    def tune(self, streams: Streams, name: str, tick: Tick = NO_TICK) -> LambdaMARTRanker:
        """The model of the best trial by nDCG@10 on the validation queries; ties go to the first.

        `streams`: named random streams; the name of the model is part of the sampler's stream.
        """
        optuna = package("optuna", "merge")
        seed = int(streams.generator(f"merge/tune/{name}").integers(2**31))
        best: list[LambdaMARTRanker] = []

        def evaluate(trial: Any) -> float:
            found = self.train(sample(trial))
            # Only the best model is kept: each may have thousands of trees.
            if not best or found.validation > best[0].validation:
                best[:] = [found]
            tick()
            return found.validation

        with quiet(optuna):
            study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
            study.optimize(evaluate, n_trials=self.tuning.trials)
        return best[0]


def sample(trial: Any) -> dict[str, float]:
    """The setting of a trial of Optuna, in the space of the paper."""
    least, most, step = DOCUMENTS_IN_LEAF
    return {
        "learning_rate": trial.suggest_categorical("learning_rate", list(LEARNING_RATES)),
        "num_leaves": trial.suggest_int("num_leaves", *LEAVES),
        "min_data_in_leaf": trial.suggest_int("min_data_in_leaf", least, most, step=step),
        "min_sum_hessian_in_leaf": trial.suggest_int("min_sum_hessian_in_leaf", *HESSIAN_IN_LEAF),
    }


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
