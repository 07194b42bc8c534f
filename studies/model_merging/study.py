"""Runs the study of model merging: local models on topic splits, merged by weighting and by stacking.

Source: "Learning to rank for non independent and identically distributed datasets" (2024), section 5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from foltr_audit.studies.model_merging import published
from foltr_audit.studies.model_merging.lambdamart import (
    LambdaMARTRanker,
    LambdaMARTTrainer,
    RankingJudge,
    TuningBudget,
    best_weight,
    combine_scores,
    train_stacked,
    with_scores,
)
from foltr_audit.studies.model_merging.local_baselines import compared_rows, verdict_rows
from foltr_audit.studies.model_merging.report import DATASET, SECTIONS, MergeReport
from foltr_audit.studies.model_merging.spec import MergeSpec
from foltr_audit.studies.model_merging.splits import (
    QueryTopics,
    TopicSplit,
    category_rows,
    chosen_places,
    mixture_rows,
    split_statistics,
)

from foltr_audit.core.records import Collection, Dataset
from foltr_audit.core.settings.data import without_paths
from foltr_audit.data.load import load_collection
from foltr_audit.experiments.run import data_record
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Floats, Ints
from foltr_audit.utils.optional_dependencies import require
from foltr_audit.utils.progress import SILENT, Progress, Tick

SHOWN_FEATURES = 10
"""Number of features of a stacked model whose importance is reported: those with the largest gain."""


def run_merging(
    spec: MergeSpec,
    progress: Progress = SILENT,
    *,
    data: Collection | None = None,
    threads: int = 1,
) -> MergeReport:
    """Run a study; the same spec on the same data gives the same rows on any number of threads.

    Args:
        spec: the settings.
        progress: shows finished trials.
        data: the collection of the spec, not normalised, if it is loaded already.
        threads: number of threads of LightGBM.

    Raises:
        UsageError: the extra is not installed, or a column or category does not exist.
        DataError: the data are not ranking data or have no categories, or a client has no queries.
    """
    require("merge")
    feature = spec.data.feature
    collection = load_collection(spec.data.spec, spec.seed) if data is None else data
    streams = Streams(spec.seed)
    topics = QueryTopics.of(collection, feature, streams)
    places = chosen_places(topics, spec.categories)
    numbers = (*((0,) if spec.initial else ()), *spec.splits)
    splits = [TopicSplit.of(number, topics, places) for number in numbers]
    tuning = TuningBudget(trials=spec.trials, trees=spec.trees, threads=threads)
    with progress.task("models", _models(splits) * spec.trials) as tick:
        runner = _MergeRunner(collection, streams, tuning, tick)
        for split in splits:
            runner.run(split)
    rows = runner.rows | {
        "mixtures": mixture_rows(topics),
        "statistics": split_statistics(collection, topics, places),
        "histogram": category_rows(topics),
        "verdicts": verdict_rows(runner.rows["merged"]),
    }
    return MergeReport.of(
        rows,
        config=without_paths(spec.model_dump(mode="json")),
        dataset=DATASET.of(data_record(collection), category_feature=feature),
        categories=[topics.categories[place] for place in places],
        notes=[*(line for split in splits for line in split.shortage), *runner.constant],
    )


def _models(splits: Sequence[TopicSplit]) -> int:
    """The number of tuned models: the full one, each local one once, and two stacked ones for each split."""
    keys = {key for split in splits for key in (_first_key(split), _second_key(split))}
    return 1 + len(keys) + 2 * sum(split.merge is not None for split in splits)


def _first_key(split: TopicSplit) -> str:
    return f"M_1/{split.method}/{split.category}"


def _second_key(split: TopicSplit) -> str:
    """DS'_2 and so its model are the same for each method; the initial split trains on all of DS_2."""
    return f"M_2/{'rest' if split.number == 0 else 'without'}/{split.category}"


class _MergeRunner:
    """Trains each model of one study once, and collects the rows."""

    def __init__(self, collection: Collection, streams: Streams, tuning: TuningBudget, tick: Tick) -> None:
        self.collection = collection
        self.streams = streams
        self.tuning = tuning
        self.tick = tick
        self.judge = RankingJudge(collection.test)
        self.rankers: dict[str, LambdaMARTRanker] = {}
        self.scores: dict[str, Floats] = {}  # of the test documents
        self.rows: dict[str, list[dict[str, Any]]] = {name: [] for name in SECTIONS}
        self.constant: list[str] = []

    def run(self, split: TopicSplit) -> None:
        """Train, merge and test the models of a split."""
        keys = self._train_local(split)
        self._test_local(split, keys)
        if split.merge is None:
            return
        metrics = {name: self.judge.metrics(self.scores[keys[name]]) for name in ("M_1", "M_2")}
        for client, queries in enumerate(split.merge.clients, start=1):
            metrics |= self._merge(split.number, client, self.collection.vali.select(queries), keys)
        self.rows["merged"] += compared_rows(split.number, metrics)

    def _train_local(self, split: TopicSplit) -> dict[str, str]:
        """Train the missing models, and return the key of each local model by its name."""
        train, vali = split.parts["train"], split.parts["vali"]
        keys = {"M_full": "M_full", "M_1": _first_key(split), "M_2": _second_key(split)}
        if split.number == 0:
            second = [np.union1d(part.second, part.remaining) for part in (train, vali)]
        else:
            second = [train.second, vali.second]
        self._train(keys["M_full"], None)
        self._train(keys["M_1"], (train.first, vali.first))
        self._train(keys["M_2"], (second[0], second[1]))
        for name, key in keys.items():
            if name == "M_full" and any(row["model"] == "M_full" for row in self.rows["hyperparameters"]):
                continue
            self._add_parameters(None if name == "M_full" else split.number, name, self.rankers[key])
        return keys

    def _train(self, key: str, queries: tuple[Ints, Ints] | None) -> None:
        if key in self.rankers:
            return
        train, vali = self.collection.train, self.collection.vali
        if queries is not None:
            train, vali = train.select(queries[0]), vali.select(queries[1])
        ranker = LambdaMARTTrainer(train, vali, self.tuning).tune(self.streams, key, self.tick)
        self.rankers[key] = ranker
        self.scores[key] = ranker.scores(self.collection.test.features)

    def _test_local(self, split: TopicSplit, keys: dict[str, str]) -> None:
        test = split.parts["test"]
        second = test.second if split.number else np.union1d(test.second, test.remaining)
        everything = np.arange(self.collection.test.n_queries)
        groups = dict(zip(published.GROUPS, (test.first, second, everything), strict=True))
        for model in published.MODELS:
            ndcg = self.judge.ndcg(self.scores[keys[model]])
            for group, queries in groups.items():
                row = {
                    "split": split.number,
                    "method": split.method,
                    "category": split.category,
                    "model": model,
                    "on": group if split.number or group != "DS'_2" else "DS_2",
                    "queries": int(queries.size),
                    "ndcg@10": float(ndcg[queries].mean()) if queries.size else math.nan,
                    "published": published.local_ndcg(split.method, split.rank, model, group),
                }
                self.rows["local"].append(row)

    def _merge(
        self, split: int, client: int, merge: Dataset, keys: dict[str, str]
    ) -> dict[str, dict[str, Floats]]:
        """Merge the models of a client in both ways on D_merge; the metrics of each test query."""
        ours = [self.rankers[keys[name]].scores(merge.features) for name in ("M_1", "M_2")]
        test = [self.scores[keys[name]] for name in ("M_1", "M_2")]
        weight = best_weight(RankingJudge(merge), ours[0], ours[1])
        row = {
            "split": split,
            "client": client,
            "queries": merge.n_queries,
            "alpha": weight.alpha,
            "ndcg@10_merge": weight.ndcg,
            "published_alpha": published.alpha(split, client),
        }
        self.rows["weights"].append(row)
        name = "M_12" if client == 1 else "M_21"
        stream = f"{name}S/split{split}"
        stack = train_stacked(merge, (ours[0], ours[1]), self.tuning, self.streams, stream, self.tick)
        self._add_parameters(split, f"{name}S", stack)
        self._add_importances(split, f"{name}S", stack)
        both = with_scores(self.collection.test, (test[0], test[1]))
        return {
            f"{name}a": self.judge.metrics(combine_scores(test[0], test[1], weight.alpha)),
            f"{name}S": self.judge.metrics(stack.scores(both.features)),
        }

    def _add_parameters(self, split: int | None, model: str, ranker: LambdaMARTRanker) -> None:
        if not ranker.importances("gain").any():
            where = "" if split is None else f"split {split}, "
            self.constant.append(f"{where}{model}: no tree could split, so all its scores are equal")
        row = {"split": split, "model": model, **ranker.parameters, "trees": ranker.trees}
        self.rows["hyperparameters"].append(row | {"ndcg@10_validation": ranker.validation})

    def _add_importances(self, split: int, model: str, ranker: LambdaMARTRanker) -> None:
        gain, count = ranker.importances("gain"), ranker.importances("split")
        total = float(gain.sum())
        order = np.argsort(-gain, kind="stable")[:SHOWN_FEATURES]
        self.rows["importances"] += [
            {
                "split": split,
                "model": model,
                "feature": int(place) + 1,
                "gain_share": float(gain[place]) / total if total > 0 else 0.0,
                "splits": int(count[place]),
            }
            for place in order
            if count[place] > 0
        ]
