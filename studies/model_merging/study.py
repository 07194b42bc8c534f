"""Runs the study of model merging: local models on topic splits, merged by weighting and by stacking.

Source: "Learning to rank for non independent and identically distributed datasets" (2024), section 5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from foltr_audit.studies.model_merging.combine import (
    Tuner,
    best_weights,
    combine_scores,
    with_scores,
)
from foltr_audit.studies.model_merging.local_baselines import (
    METHODS,
    compared_rows,
    figure,
    local_names,
    merged_name,
    verdict_rows,
)
from foltr_audit.studies.model_merging.report import DATASET, SECTIONS, MergeReport
from foltr_audit.studies.model_merging.spec import MergeSpec
from foltr_audit.studies.model_merging.splits import (
    PAIR,
    QueryTopics,
    TopicSplit,
    category_rows,
    chosen_places,
    mixture_rows,
    split_statistics,
)
from foltr_audit.studies.model_merging.trainers import (
    LambdaMARTTrainer,
    Ranker,
    RankingJudge,
    RegressionTrainer,
    Trainer,
    TuningBudget,
)

from foltr_audit.core.records import Collection, Dataset
from foltr_audit.core.settings.data import without_paths
from foltr_audit.data.load import load_collection
from foltr_audit.errors import UsageError
from foltr_audit.experiments.run import data_record
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Floats
from foltr_audit.utils.optional_dependencies import require
from foltr_audit.utils.progress import SILENT, Progress

SHOWN_FEATURES = 10
"""Number of features of a stacked model whose importance is reported: those with the largest gain."""


def run_merging(
    spec: MergeSpec, progress: Progress = SILENT, *, data: Collection | None = None, threads: int = 1
) -> MergeReport:
    """Run a study; the same spec on the same data gives the same rows on any number of threads.

    Without the extra `foltr-audit[merge]` regression trees of scikit-learn stand for LambdaMART; a note says
    so. `data`: the collection of the spec, not normalised, if it is loaded already. `threads`: number of
    threads of LightGBM.

    Raises:
        UsageError: a column or category does not exist.
        DataError: the data are not ranking data or have no categories, or a client has no queries.
    """
    rule, numbers = spec.data.rule, spec.numbers
    trainer, instead = _trainer()
    collection = load_collection(spec.data.spec, spec.seed) if data is None else data
    streams = Streams(spec.seed)
    topics = QueryTopics.of(collection, rule, streams)
    places = chosen_places(topics, spec.categories)
    splits = [TopicSplit.of(number, topics, places) for number in numbers]
    tuning = TuningBudget(trials=spec.trials, trees=spec.trees, threads=threads)
    with progress.task("models", _models(splits) * spec.trials) as tick:
        runner = _MergeRunner(collection, Tuner(trainer, tuning, streams, tick))
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
        dataset=DATASET.of(data_record(collection), category_feature=rule.feature, topics=spec.data.topics),
        categories=[topics.categories[place] for place in places],
        trainer=trainer.NAME,
        notes=[*instead, *(line for split in splits for line in split.shortage), *runner.constant],
    )


def _trainer() -> tuple[type[Trainer], list[str]]:
    """What trains the models, and a note where this is not LambdaMART."""
    try:
        require("merge")
    except UsageError as error:
        return RegressionTrainer, [f"models are {RegressionTrainer.NAME}, not LambdaMART: {error}"]
    return LambdaMARTTrainer, []


def _models(splits: Sequence[TopicSplit]) -> int:
    """The number of tuned models: the full one, each local one once, and a stacked one for each client."""
    keys = {key for split in splits for key in _keys(split).values()}
    return len(keys) + sum(len(split.merge) for split in splits)


def _keys(split: TopicSplit) -> dict[str, str]:
    """The name of each local model in a split, and that of all splits that share the model.

    DS'_2 and so its model are the same for each method; the initial split trains on all of DS_2.
    """
    first = split.category if split.clients == PAIR else "each"
    keys = {name: f"{name}/{split.method}/{first}" for name in local_names(split.clients)}
    if split.clients == PAIR:
        keys["M_2"] = f"M_2/{'rest' if split.number == 0 else 'without'}/{split.category}"
    return {"M_full": "M_full", **keys}


class _MergeRunner:
    """Trains each model of one study once, and collects the rows."""

    def __init__(self, collection: Collection, tuner: Tuner) -> None:
        self.collection, self.tuner = collection, tuner
        self.judge = RankingJudge(collection.test)
        self.rankers: dict[str, Ranker] = {}
        self.scores: dict[str, Floats] = {}  # of the test documents
        self.rows: dict[str, list[dict[str, Any]]] = {name: [] for name in SECTIONS}
        self.constant: list[str] = []

    def run(self, split: TopicSplit) -> None:
        keys = self._train_local(split)
        self._test_local(split, keys)
        if not split.merge:
            return
        local = [keys[name] for name in local_names(split.clients)]
        metrics = {name: self.judge.metrics(self.scores[keys[name]]) for name in local_names(split.clients)}
        for client, queries in enumerate(split.merge, start=1):
            metrics |= self._merge(split.number, client, self.collection.vali.select(queries), local)
        self.rows["merged"] += compared_rows(split.number, metrics, split.clients)

    def _train_local(self, split: TopicSplit) -> dict[str, str]:
        """Train the missing models, and return the key of each local model by its name."""
        keys, parts = _keys(split), split.parts
        for name, key in keys.items():
            train, vali = self.collection.train, self.collection.vali
            known = key in self.rankers
            if not known:
                if name != "M_full":
                    client = int(name[2:]) - 1
                    train = train.select(parts["train"].clients[client])
                    vali = vali.select(parts["vali"].clients[client])
                self.rankers[key] = self.tuner.tuned(train, vali, key)
                self.scores[key] = self.rankers[key].scores(self.collection.test.features)
            if name != "M_full" or not known:
                self._add_parameters(None if name == "M_full" else split.number, name, self.rankers[key])
        return keys

    def _test_local(self, split: TopicSplit, keys: dict[str, str]) -> None:
        everything = np.arange(self.collection.test.n_queries)
        groups = {**dict(zip(split.groups, split.parts["test"].clients, strict=True)), "DS": everything}
        for model in (*local_names(split.clients), "M_full"):
            ndcg = self.judge.ndcg(self.scores[keys[model]])
            for group, queries in groups.items():
                where = {"method": split.method, "model": model, "on": group}
                row = {
                    "split": split.number,
                    "category": split.category,
                    **where,
                    "queries": int(queries.size),
                    "ndcg@10": float(ndcg[queries].mean()) if queries.size else math.nan,
                    "published": figure("local", "ndcg@10", choice=split.choice, **where),
                }
                self.rows["local"].append(row)

    def _merge(
        self, split: int, client: int, merge: Dataset, local: Sequence[str]
    ) -> dict[str, dict[str, Floats]]:
        """Merge the local models in both ways on D_merge of a client; the metrics of each test query."""
        ours = [self.rankers[key].scores(merge.features) for key in local]
        test = [self.scores[key] for key in local]
        alphas, ndcg = best_weights(RankingJudge(merge), ours)
        of_split = split if len(local) == PAIR else None
        row = {
            "split": split,
            "client": client,
            "queries": merge.n_queries,
            "alpha": alphas[1],
            "alphas": list(alphas),
            "ndcg@10_merge": ndcg,
            "published_alpha": figure("weights", "alpha", split=of_split, client=client),
        }
        self.rows["weights"].append(row)
        linear, stacked = (merged_name(client, len(local)) + last for last in METHODS.values())
        stack = self.tuner.stacked(merge, ours, f"{stacked}/split{split}")
        self._add_parameters(split, stacked, stack)
        self._add_importances(split, stacked, stack)
        return {
            linear: self.judge.metrics(combine_scores(test, alphas)),
            stacked: self.judge.metrics(stack.scores(with_scores(self.collection.test, test).features)),
        }

    def _add_parameters(self, split: int | None, model: str, ranker: Ranker) -> None:
        if not ranker.importances("gain").any():
            where = "" if split is None else f"split {split}, "
            self.constant.append(f"{where}{model}: no tree could split, so all its scores are equal")
        row = {"split": split, "model": model, **ranker.parameters, "trees": ranker.trees}
        self.rows["hyperparameters"].append(row | {"ndcg@10_validation": ranker.validation})

    def _add_importances(self, split: int, model: str, ranker: Ranker) -> None:
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
