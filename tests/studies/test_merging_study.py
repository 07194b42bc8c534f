"""The study of model merging as a whole: every number by another route, on small data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from foltr_audit.studies.model_merging import MergeReport, MergeSpec, run_merging
from foltr_audit.studies.model_merging.categories import CategoryRule
from foltr_audit.studies.model_merging.lambdamart import (
    METRICS,
    LambdaMARTTrainer,
    RankingJudge,
    TuningBudget,
)
from foltr_audit.studies.model_merging.local_baselines import compared_rows, verdict_rows
from foltr_audit.studies.model_merging.splits import QueryTopics, TopicSplit, chosen_places
from scipy import stats

from foltr_audit.data.synthetic import synthesise
from foltr_audit.errors import DataError, UsageError
from foltr_audit.rng import Streams
from foltr_audit.utils.progress import Tick
from tests.fixtures.merging_data import CATEGORY, topical

TABLE: dict[str, Any] = {
    "data": {"source": "topical", "category_feature": CATEGORY},
    "trials": 3,
    "trees": 5,
    "initial": True,
}


@cache
def study() -> MergeReport:
    return run_merging(MergeSpec.parse(TABLE), data=topical())


def row(rows: Sequence[Mapping[str, Any]], **named: object) -> Mapping[str, Any]:
    found = [one for one in rows if all(one[name] == value for name, value in named.items())]
    assert len(found) == 1, named
    return found[0]


def test_the_same_spec_gives_the_same_bytes() -> None:
    again = run_merging(MergeSpec.parse(TABLE), data=topical())
    assert again.json() == study().json()
    other = run_merging(MergeSpec.parse({**TABLE, "seed": 2}), data=topical())
    assert other.hyperparameters != study().hyperparameters


def test_threads_change_nothing() -> None:
    short = MergeSpec.parse({**TABLE, "initial": False, "splits": [3], "trials": 2})
    one, two = (run_merging(short, data=topical(), threads=threads).json() for threads in (1, 2))
    assert one == two


def test_a_local_model_is_the_one_of_its_own_queries() -> None:
    topics = QueryTopics.of(topical(), CategoryRule(feature=CATEGORY), Streams(1))
    split = TopicSplit.of(2, topics, chosen_places(topics, ()))
    train, vali = (topical().part(name).select(split.parts[name].clients[0]) for name in ("train", "vali"))
    chosen = row(study().hyperparameters, split=2, model="M_1")
    names = ("learning_rate", "num_leaves", "min_data_in_leaf", "min_sum_hessian_in_leaf")
    setting = {name: chosen[name] for name in names}
    ranker = LambdaMARTTrainer(train, vali, TuningBudget(trials=1, trees=5)).train(setting)
    assert ranker.trees == chosen["trees"]
    ndcg = RankingJudge(topical().test).ndcg(ranker.scores(topical().test.features))
    for group, queries in zip(split.groups, split.parts["test"].clients, strict=True):
        found = row(study().local, split=2, model="M_1", on=group)
        assert found["ndcg@10"] == pytest.approx(float(ndcg[queries].mean()))
        assert found["queries"] == queries.size
    assert row(study().local, split=2, model="M_1", on="DS")["ndcg@10"] == pytest.approx(float(ndcg.mean()))
    merged = row(study().merged, split=2, model="M_1", metric="ndcg@10")
    assert merged["value"] == pytest.approx(float(ndcg.mean()))


def test_the_second_client_is_the_same_in_the_first_two_splits() -> None:
    one, other = (row(study().hyperparameters, split=split, model="M_2") for split in (1, 2))
    assert {**one, "split": 2} == other
    assert len([found for found in study().hyperparameters if found["model"] == "M_full"]) == 1


def test_every_table_is_complete() -> None:
    assert len(study().local) == 4 * 9
    assert len(study().merged) == 3 * 6 * 3
    assert len(study().weights) == 6
    assert len(study().hyperparameters) == 1 + 4 * 2 + 6
    assert study().categories == [3, 5]
    assert {found["on"] for found in study().local if found["split"] == 0} == {"DS_1", "DS_2", "DS"}


def test_the_progress_counts_every_trial() -> None:
    class Counting:
        def __init__(self) -> None:
            self.total, self.done = 0, 0

        def __call__(self, metrics: object = None) -> None:
            self.done += 1

        def skip(self, done: int) -> None:
            raise NotImplementedError

        def task(self, name: str, total: int, interactions: int = 0) -> Any:
            from contextlib import nullcontext

            self.total = total
            return nullcontext(self)

    counting = Counting()
    tick: Tick = counting
    assert tick is counting
    run_merging(MergeSpec.parse({**TABLE, "splits": [2], "trials": 2}), counting, data=topical())
    assert counting.done == counting.total == 2 * (1 + 4 + 2)


def test_metrics_and_tests_by_another_route() -> None:
    rng = np.random.default_rng(4)
    names = ("M_1", "M_2", "M_12a", "M_21a", "M_12S", "M_21S")
    means = (0.3, 0.35, 0.5, 0.36, 0.2, 0.36)
    values = {
        name: {metric: mean + 0.1 * rng.normal(size=60) for metric in METRICS}
        for name, mean in zip(names, means, strict=True)
    }
    rows = compared_rows(1, values, 2)
    for name in ("M_12a", "M_21S"):
        found = row(rows, model=name, metric="map@10")
        for local, letter in (("M_1", "a"), ("M_2", "b")):
            p = stats.ttest_rel(values[name]["map@10"], values[local]["map@10"]).pvalue
            assert found[f"p_{letter}"] == pytest.approx(min(1.0, 4 * p))
            assert (letter in found["marks"]) == (4 * p < 0.05)
        assert found["value"] == pytest.approx(values[name]["map@10"].mean())
    assert row(rows, model="M_12a", metric="map@10")["marks"] == "ab"
    assert row(rows, model="M_1", metric="map@10")["p_a"] is None
    verdict = row(verdict_rows(rows), method="linear", metric="ndcg@10")
    better = [values[name]["ndcg@10"].mean() > values["M_2"]["ndcg@10"].mean() for name in names[2:4]]
    assert (verdict["models"], verdict["better"]) == (2, sum(better))
    assert verdict["significant"] == 1  # M_21a is ahead of M_2 by chance at most
    assert (verdict["splits"], verdict["both"]) == (int(any(better)), int(all(better)))
    assert row(verdict_rows(rows), method="stacking", metric="ndcg@10")["better"] <= 1


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"trails": 3}, r"^merge: trails: no such field; did you mean 'trials'\?"),
        ({"data": {"sauce": "x"}}, r"^merge: data\.sauce: no such field; did you mean 'source'\?"),
        ({"trees": 3001}, r"^merge: trees=3001: input should be less than or equal to 3000"),
        ({"trials": 0}, r"^merge: trials=0: "),
        ({"splits": [4]}, r"^merge: splits=4: "),
        ({"splits": []}, r"^merge: splits="),
        ({"categories": [3, 3]}, r"^merge: categories: 3, 3: expected different ones$"),
        ({"categories": [*range(10)]}, r"^merge: categories="),
    ],
)
def test_specs_that_cannot_be_meant(table: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        MergeSpec.parse(table)


def test_other_data_must_name_their_column() -> None:
    assert MergeSpec.parse({}).data.rule.feature == 220
    assert MergeSpec.parse({"data": {"source": "synthetic:istella-s:99"}}).data.rule.feature == 220
    with pytest.raises(UsageError, match="--category-feature: not given; expected the column of elsewhere"):
        _ = MergeSpec.parse({"data": {"source": "elsewhere"}}).data.rule


def test_splits_come_in_their_order_once() -> None:
    assert MergeSpec.parse({"splits": [3, 1, 3]}).splits == (1, 3)


def test_categories_may_be_chosen() -> None:
    topics = QueryTopics.of(topical(), CategoryRule(feature=CATEGORY), Streams(1))
    assert [topics.categories[place] for place in chosen_places(topics, (8,))] == [8, 3]
    assert [topics.categories[place] for place in chosen_places(topics, (5, 8))] == [5, 8]


def test_a_client_without_queries_is_refused_before_anything_is_trained() -> None:
    few = synthesise("istella-s", queries=10)
    spec = MergeSpec.parse({"splits": [1], "trials": 1, "trees": 1})
    said = r"^merge: split 1: no (train|vali) query of client [12] for category"
    with pytest.raises(DataError, match=said):
        run_merging(spec, data=few)


def test_fewer_queries_for_d_merge_than_asked_are_said_in_words() -> None:
    data = replace(topical(), vali=topical().vali.select(np.arange(14)))
    found = run_merging(MergeSpec.parse({**TABLE, "splits": [2], "trials": 1, "trees": 1}), data=data)
    of_client = [note for note in found.notes if "client 1: D_merge has " in note]
    assert any("no more remain in the validation part" in note for note in of_client)
    assert all("D_merge has" in note or "no tree could split" in note for note in study().notes)


def test_only_models_without_importance_are_said_to_rank_nothing() -> None:
    told = study().notes
    silent = {note.rpartition(":")[0] for note in told if "no tree could split" in note}
    gains = {f"split {row['split']}, {row['model']}" for row in study().importances if row["gain_share"] > 0}
    assert not silent & gains
