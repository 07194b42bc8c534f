"""Twins and periods of real trainings: what they share, how they are stored, what a report makes of them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from foltr_audit.core.records import Collection, Dataset
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.errors import UsageError
from foltr_audit.experiments.periods import SPECIFIC
from foltr_audit.experiments.plan import Plan
from foltr_audit.experiments.run import Run
from foltr_audit.experiments.runner import Runner, RunOutput, run_plan
from foltr_audit.report.train import TrainReport
from foltr_audit.simulation.client_population import population_facts
from foltr_audit.simulation.intent_metrics import PLAYED
from foltr_audit.simulation.setup import twin_specs
from tests.conftest import SetupOf
from tests.fixtures.result_rows import plain
from tests.fixtures.tiny import collection_of, tiny_collection

INTENTS = 2


def judged(data: Dataset, seed: int) -> Dataset:
    """The documents judged under two intents, half of the grades moved to another document of the query."""
    rng = np.random.default_rng(seed)
    ends = pairwise(data.offsets)
    order = np.concatenate([rng.permutation(np.arange(start, end)) for start, end in ends])
    return data.with_intents(np.stack([data.labels, data.labels[order]]))


@pytest.fixture(scope="module")
def data() -> Collection:
    tiny = tiny_collection()
    return collection_of(*(judged(tiny.part(part), i) for i, part in enumerate(Collection.PARTS)))


def spec(scenario: str, **more: Any) -> Spec:
    train = {"rounds": 6, "click_model": "perfect", **more.pop("train", {})}
    return Spec.parse({"population": {"scenario": scenario, "clients": 6}, "train": train, **more})


def ran(data: Collection, *specs: Spec, output: RunOutput | None = None) -> tuple[Plan, list[Run]]:
    study = Runner(data=data)
    plan = study.with_twins(Plan(specs))
    return plan, run_plan(plan, output, study)


def test_each_twin_is_run_once_after_the_first_that_needs_it(data: Collection) -> None:
    specs = [spec("abrupt"), spec("smooth-abrupt"), spec("abrupt", repetition=1)]
    plan = Runner(data=data).with_twins(Plan(tuple(specs)))
    texts = [(one.population.scenario, one.repetition) for one in plan.specs]
    played = ["abrupt:period=0", "fixed-intent:intent=1", "fixed-intent:intent=2"]
    first = [(text, 0) for text in (*played, specs[1].population.scenario)]
    assert texts == [*first, *((text, 1) for text in played)]


def test_twins_of_joined_scenarios_change_all_that_have_one(data: Collection) -> None:
    joined = spec("intent-skew:strength=0.5+quantity-skew:batches=1/3")
    found = twin_specs(joined, Runner(data=data).setup(joined).clients)
    even = spec("intent-skew:strength=0+quantity-skew:batches=1/3,even=true")
    assert found == {"evenly dealt": even}
    joined = spec("click-skew+abrupt")
    found = twin_specs(joined, Runner(data=data).setup(joined).clients)
    texts = {name: twin.population.scenario for name, twin in found.items()}
    clicks = spec("click-skew").population.scenario
    assert texts["intent 2 alone"] == f"{clicks}+fixed-intent:intent=2"
    assert texts["evenly dealt"] == spec("click-skew:strength=0+abrupt").population.scenario
    assert len(texts) == 1 + INTENTS


def test_the_run_equals_its_first_twin_up_to_the_change(data: Collection) -> None:
    plan, cells = ran(data, spec("abrupt"))
    main, first, second = (cell.trained.rounds for cell in cells)
    assert main[:3] == first[:3]
    assert main[3:] != first[3:]
    assert second[0] != main[0]
    report = TrainReport.of(plan, cells)
    one, two = plain(report.periods)
    assert (one["first"], one["end"], two["end"], one["ndcg_delta@10"]) == (0, 72, 144, 0.0)
    assert main[-1]["offline_ndcg@10"] == main[-1]["offline_ndcg@10/intent 2"]
    assert (report.twins, report.population) == ((), ())


def test_one_ranker_per_intent_plays_every_interaction_of_the_single_one(data: Collection) -> None:
    plan, cells = ran(data, spec("mixed"))
    main, *rankers = cells
    each = main.record.per_round
    assert len(rankers) == INTENTS
    played = np.array([[row[PLAYED] for row in ranker.trained.rounds] for ranker in rankers])
    assert (played.sum(axis=0) == each).all()
    assert PLAYED not in main.trained.rounds[0]
    offline, online = plain(TrainReport.of(plan, cells).twins)
    assert offline["twin"] == online["twin"] == SPECIFIC
    ends = [ranker.trained.rounds[-1][f"offline_ndcg@10/intent {k + 1}"] for k, ranker in enumerate(rankers)]
    assert offline["mean_twin"] == pytest.approx(np.mean(ends))


def test_a_scenario_that_is_held_against_nothing_is_refused(data: Collection) -> None:
    with pytest.raises(UsageError, match="--twins: scenario uniform has no twin"):
        Runner(data=data).with_twins(Plan((spec("uniform"),)))


# --- populations ----------------------------------------------------------------------------------


def groups_of(data: Collection, scenario: str, clients: int = 7) -> list[dict[str, Any]]:
    population = spec(scenario).population.model_copy(update={"clients": clients})
    one = spec(scenario).model_copy(update={"population": population})
    setup = Runner(data=data).setup(one)

    found: Any = population_facts(setup.clients, setup.collection.train, setup.spec.train.click_model)
    rows: list[dict[str, Any]] = found["groups"]
    assert sum(row["clients"] for row in rows) == clients
    group = setup.clients.population.group_of(np.arange(clients))
    assert [row["clients"] for row in rows] == np.bincount(group, minlength=len(rows)).tolist()
    assert [row["group"] for row in rows] == list(setup.clients.population.groups)
    assert sum(row["share"] for row in rows) == pytest.approx(1.0)
    return rows


def counted(data: Dataset, labels: Any, allowed: set[int]) -> tuple[int, float]:
    """Queries with a document of some grades, and relevant ones for each, by loops."""
    queries = relevant = 0
    for q in range(data.n_queries):
        own = [row for row in range(data.offsets[q], data.offsets[q + 1]) if int(data.labels[row]) in allowed]
        queries += bool(own)
        relevant += sum(bool(labels[row] > 0) for row in own)
    return queries, relevant / queries


def test_what_clients_of_each_group_can_ask(data: Collection) -> None:
    train = Runner(data=data).setup(spec("abrupt")).collection.train  # as its intents are numbered in run 0
    for row, grade in zip(groups_of(data, "label-skew"), range(3), strict=True):
        expected = counted(train, train.labels, {grade})
        assert (row["queries"], row["relevant_per_query"]) == pytest.approx(expected)
        assert (row["grades"], row["intent"]) == ([grade], None)
    both = groups_of(data, "label-skew:grades=2+intent-skew", clients=2)
    allowed = [{0, 1}, {0, 1}, {2}, {2}]
    for number, row in enumerate(both):
        intent = number % 2
        expected = counted(train, train.grades[intent], allowed[number])
        assert (row["queries"], row["relevant_per_query"]) == pytest.approx(expected)
        assert row["intent"] == intent + 1
    changing = groups_of(data, "label-skew+abrupt")
    means = [np.mean([counted(train, grades, {1})[1] for grades in train.grades])]
    assert changing[1]["relevant_per_query"] == pytest.approx(means[0])


def test_clicks_and_quantities_of_groups(data: Collection) -> None:
    rows = groups_of(data, "quantity-skew:batches=1/9+click-skew:models=perfect/informational", clients=10)
    found = [(row["interactions"], row["click_model"]) for row in rows]
    assert found == [(1, "perfect"), (1, "informational"), (9, "perfect"), (9, "informational")]
    assert {row["queries"] for row in rows} == {data.train.n_queries}


def test_clients_that_are_alike_have_no_table(data: Collection, setup_of: SetupOf) -> None:
    _, cells = ran(data, spec("abrupt"))
    assert [cell.record.population for cell in cells] == [None] * 3
    assert Runner(data=setup_of().collection).run(setup_of().spec).record.population is None
