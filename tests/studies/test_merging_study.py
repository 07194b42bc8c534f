"""The study of model merging as a whole: every number by another route, on small data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from foltr_audit.studies.model_merging import MergeReport, MergeSpec, run_merging
from foltr_audit.studies.model_merging.categories import CategoryRule
from foltr_audit.studies.model_merging.local_baselines import compared_rows, figure, verdict_rows
from foltr_audit.studies.model_merging.splits import QueryTopics, TopicSplit, chosen_places
from foltr_audit.studies.model_merging.trainers import (
    METRICS,
    LambdaMARTRanker,
    LambdaMARTTrainer,
    RankingJudge,
    TuningBudget,
)
from scipy import stats

from foltr_audit.data.synthetic import synthesise
from foltr_audit.errors import DataError, UsageError
from foltr_audit.rng import Streams
from foltr_audit.utils.progress import Progress, Tick
from tests.fixtures.merging_data import CATEGORY, topical

TABLE: dict[str, Any] = {
    "data": {"source": "topical", "category_feature": CATEGORY},
    "trials": 3,
    "trees": 5,
    "initial": True,
}
SETTINGS = ("learning_rate", "num_leaves", "min_data_in_leaf", "min_sum_hessian_in_leaf")


@cache
def study() -> MergeReport:
    return run_merging(MergeSpec.parse(TABLE), data=topical())


@cache
def topics_of_all() -> QueryTopics:
    return QueryTopics.of(topical(), CategoryRule(feature=CATEGORY), Streams(1))


def trained_again(report: MergeReport, split: TopicSplit, client: int) -> LambdaMARTRanker:
    """A client's own model of a split, from its queries and the setting that was chosen for it."""
    chosen = row(report.hyperparameters, split=split.number, model=f"M_{client + 1}")
    train, vali = (
        topical().part(name).select(split.parts[name].clients[client]) for name in ("train", "vali")
    )
    trainer = LambdaMARTTrainer(train, vali, TuningBudget(trials=1, trees=5))
    return trainer.train({name: chosen[name] for name in SETTINGS})


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
    split = TopicSplit.of(2, topics_of_all(), chosen_places(topics_of_all(), ()))
    ranker = trained_again(study(), split, 0)
    assert ranker.trees == row(study().hyperparameters, split=2, model="M_1")["trees"]
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
    class Counting(Tick, Progress):
        total = done = 0

        def __call__(self, metrics: object = None, /) -> None:
            self.done += 1

        @contextmanager
        def task(self, name: str, total: int, interactions: int = 0, /) -> Iterator[Tick]:
            self.total = total
            yield self

    counting = Counting()
    run_merging(MergeSpec.parse({**TABLE, "splits": [2], "trials": 2}), counting, data=topical())
    assert counting.done == counting.total == 2 * (1 + 4 + 2)


@pytest.mark.parametrize("clients", [2, 3])
def test_tests_are_corrected_for_their_number(clients: int) -> None:
    rng = np.random.default_rng(4)
    report = study() if clients == 2 else three()
    names = list(dict.fromkeys(one["model"] for one in report.merged))
    values = {
        name: {metric: rng.normal(size=40) + 0.05 * place for metric in METRICS}
        for place, name in enumerate(names)
    }
    rows = compared_rows(2, values, clients)
    for name in names[clients:]:
        found = row(rows, model=name, metric="mrr@10")
        for local, letter in zip(names[:clients], "abc", strict=False):
            p = clients**2 * stats.ttest_rel(values[name]["mrr@10"], values[local]["mrr@10"]).pvalue
            assert found[f"p_{letter}"] == pytest.approx(min(1.0, p))
            assert (letter in found["marks"]) == (p < 0.05)
        assert found["value"] == pytest.approx(values[name]["mrr@10"].mean())


def test_verdicts_by_another_route() -> None:
    rng = np.random.default_rng(4)
    names = ("M_1", "M_2", "M_12a", "M_21a", "M_12S", "M_21S")
    means = (0.3, 0.35, 0.5, 0.36, 0.2, 0.36)
    values = {
        name: {metric: mean + 0.1 * rng.normal(size=60) for metric in METRICS}
        for name, mean in zip(names, means, strict=True)
    }
    rows = compared_rows(1, values, 2)
    assert row(rows, model="M_12a", metric="map@10")["marks"] == "ab"
    assert row(rows, model="M_1", metric="map@10")["p_a"] is None
    verdict = row(verdict_rows(rows), method="linear", metric="ndcg@10")
    better = [values[name]["ndcg@10"].mean() > values["M_2"]["ndcg@10"].mean() for name in names[2:4]]
    assert (verdict["models"], verdict["better"]) == (2, sum(better))
    assert verdict["significant"] == 1  # M_21a is ahead of M_2 by chance at most
    assert (verdict["splits"], verdict["both"]) == (int(any(better)), int(all(better)))
    assert row(verdict_rows(rows), method="stacking", metric="ndcg@10")["better"] <= 1


def test_the_largest_gains_by_hand() -> None:
    values = {"M_1": 0.2, "M_2": 0.4, "M_12a": 0.3, "M_21a": 0.5, "M_12S": 0.1, "M_21S": 0.1}
    metrics = {name: dict.fromkeys(METRICS, np.full(9, value)) for name, value in values.items()}
    for split, own, published in ((1, metrics, 0.0041), (2, metrics, 0.0135)):
        rows = verdict_rows(compared_rows(split, own, 2))
        linear = row(rows, method="linear", metric="ndcg@10")
        assert linear["largest_gain"] == pytest.approx(0.5 / 0.2 - 1)
        assert linear["largest_gain_over_better"] == pytest.approx(0.5 / 0.4 - 1)
        assert linear["published_gain_over_better"] == pytest.approx(published, abs=1e-4)
        assert row(rows, method="stacking", metric="map@10")["largest_gain"] == pytest.approx(-0.5)


@pytest.mark.parametrize(("method", "models"), [("linear", "a"), ("stacking", "S")])
@pytest.mark.parametrize("metric", ["ndcg@10", "map@10"])
def test_published_gains_are_those_of_the_published_tables(method: str, models: str, metric: str) -> None:
    gains = [
        figure("merged", metric, split=split, model=name + models)
        / figure("merged", metric, split=split, model=local)
        for split in (1, 2, 3)
        for name in ("M_12", "M_21")
        for local in ("M_1", "M_2")
    ]
    assert figure("verdicts", "largest_gain", method=method, metric=metric) == pytest.approx(
        max(gains) - 1, abs=2e-4
    )


# --- more than two clients ------------------------------------------------------------------------


@cache
def three() -> MergeReport:
    return run_merging(MergeSpec.parse({**TABLE, "categories": [3, 5, 8], "splits": [2, 3]}), data=topical())


def test_three_clients_have_a_model_each_and_merge_all_of_them() -> None:
    topics = topics_of_all()
    relevant = topics.counts["test"].relevant
    for client in (0, 1, 2):
        leads = relevant[:, client] > np.delete(relevant, client, axis=1).max(axis=1)
        found = row(three().local, split=2, model="M_full", on=f"DS_{client + 1}")
        assert found["queries"] == leads.sum() > 0
    names = ["M_1", "M_2", "M_3", "M_123a", "M_213a", "M_312a", "M_123S", "M_213S", "M_312S"]
    here = [one["model"] for one in three().merged if one["metric"] == "ndcg@10"]
    assert here == names
    assert all(np.isnan(one["published"]) for one in (*three().merged, *three().local))
    assert all(np.isnan(one["published_gain"]) for one in three().verdicts)
    assert all(np.isnan(one["published_alpha"]) for one in three().weights)
    for weights in three().weights:
        assert sum(weights["alphas"]) == pytest.approx(1)
        assert weights["alphas"][1] == weights["alpha"]


def test_a_merge_of_three_clients_is_the_weighted_sum_of_their_models() -> None:
    split = TopicSplit.of(2, topics_of_all(), (0, 1, 2))
    rankers = [trained_again(three(), split, client) for client in range(3)]
    scores = [ranker.scores(topical().test.features) for ranker in rankers]
    alphas = row(three().weights, split=2, client=3)["alphas"]
    merged = sum(alpha * mine for alpha, mine in zip(alphas, scores, strict=True))
    found = row(three().merged, model="M_312a", metric="ndcg@10")["value"]
    assert found == pytest.approx(RankingJudge(topical().test).mean_ndcg(np.asarray(merged)))


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"trails": 3}, r"^merge: unknown field 'trails'; did you mean 'trials'\?"),
        ({"data": {"sauce": "x"}}, r"^merge: unknown field data\.sauce; did you mean 'source'\?"),
        ({"trials": 0}, r"^merge: trials=0: "),
        ({"splits": []}, r"^merge: splits="),
        ({"categories": [*range(10)]}, r"^merge: categories="),
    ],
)
def test_specs_that_cannot_be_meant(table: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        MergeSpec.parse(table, "merge")


def test_other_data_must_name_their_column() -> None:
    assert MergeSpec.parse({}).data.rule.feature == 220
    assert MergeSpec.parse({"data": {"source": "synthetic:istella-s:99"}}).data.rule.feature == 220
    with pytest.raises(UsageError, match="--category-feature: not given; expected the column of elsewhere"):
        _ = MergeSpec.parse({"data": {"source": "elsewhere"}}).data.rule


def test_splits_come_in_their_order_once() -> None:
    assert MergeSpec.parse({"splits": [3, 1, 3]}).splits == (1, 3)


def test_categories_may_be_chosen() -> None:
    topics = topics_of_all()
    assert [topics.categories[place] for place in chosen_places(topics, (8,))] == [8, 3]
    assert [topics.categories[place] for place in chosen_places(topics, (5, 8))] == [5, 8]


def test_a_client_without_queries_is_refused_before_anything_is_trained() -> None:
    few = synthesise("istella-s", queries=10)
    spec = MergeSpec.parse({"splits": [1], "trials": 1, "trees": 1})
    said = r"^merge: split 1: no (train|vali) query of client [12] for category"
    with pytest.raises(DataError, match=said):
        run_merging(spec, data=few)


def test_too_small_a_d_merge_names_its_cause() -> None:
    topics = topics_of_all()
    split = TopicSplit.of(2, topics, (0, 1))
    remaining = split.parts["vali"].remaining
    of_client = [split.parts["train"].clients[client] for client in (0, 1)]
    kept = {"train": np.union1d(of_client[0], of_client[1][:3]), "vali": np.arange(50)}
    with pytest.raises(DataError, match=r"half as many queries as train client 2, and these are 3; expected"):
        TopicSplit.of(2, _only(kept), (0, 1))
    kept = {"train": np.arange(80), "vali": np.setdiff1d(np.arange(50), remaining[1:])}
    with pytest.raises(
        DataError, match=r"^merge: split 2: 1 validation queries remain for D_merge; expected"
    ):
        TopicSplit.of(2, _only(kept), (0, 1))


def _only(kept: Mapping[str, Any]) -> QueryTopics:
    """The topics of some queries of the collection."""
    parts: dict[str, Any] = {name: topical().part(name).select(queries) for name, queries in kept.items()}
    return QueryTopics.of(replace(topical(), **parts), CategoryRule(feature=CATEGORY), Streams(1))


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
