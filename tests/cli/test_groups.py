"""Groups of clients from a training to its reports, and from what was stored of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import foltr_audit as fa
from foltr_audit.experiments.runs.folder import RunFolder
from foltr_audit.trace import Trace
from foltr_audit.utils.formatting import json_text
from tests.fixtures.command import answer
from tests.fixtures.intent_data import intent_collection
from tests.fixtures.result_rows import plain

SMALL = ("--data", "synthetic:mq2007:60", "--clients", "12", "--rounds", "4", "--eps", "inf")
SKEWED = (*SMALL, "--scenario", "label-skew+click-skew:models=perfect/navigational")
GRADES = ("grade 0", "grade 1", "grade 2")

Report = dict[str, Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("groups") / "run"


@pytest.fixture(scope="module")
def attacked(folder: Path) -> Report:
    return dict(answer("attack", *SKEWED, "--click-model", "informational", "--out", folder))


def of_method(report: Report, method: str) -> list[Report]:
    return [row for row in report["groups"] if row["method"] == method]


def test_fresh_clients_are_told_apart_by_what_they_hold(attacked: Report, folder: Path) -> None:
    (truth,) = Trace.open(RunFolder.open(folder).fresh("informational")).truths()
    grade = truth.clients // 2 % 3  # two click models vary fastest
    rows = of_method(attacked, "olsr")
    assert {row["group"] for row in rows} == set(GRADES)
    (result,) = [row for row in attacked["results"] if row["method"] == "olsr"]
    for row in rows:
        mine = grade == GRADES.index(row["group"])
        assert row["lists"] == int(truth.clicks[mine].any(axis=1).sum())
        assert row["lists"] + row["skipped"] == int(mine.sum())
        assert row["exact_all"] == result["exact"]
    assert sum(row["lists"] for row in rows) == result["lists"]
    for name in ("accuracy", "recall", "f1", "exact"):
        known = [(row["lists"], row[name]) for row in rows if row[name] is not None]
        mean = sum(n * value for n, value in known) / sum(n for n, _ in known)
        assert mean == pytest.approx(result[name], rel=1e-12), "all lists are those of the groups"


def test_what_was_stored_tells_the_same(attacked: Report, folder: Path) -> None:
    again = answer("attack --trace", folder)
    assert json_text(again["groups"]) == json_text(attacked["groups"])
    for row, told in zip(again["utility_groups"], attacked["utility_groups"], strict=True):
        assert row == {**{name: told[name] for name in row}, "learner": row["learner"]}


def test_training_messages_are_told_apart_by_every_trait(folder: Path, attacked: Report) -> None:
    assert attacked
    report = answer("attack --target training --trace", folder)
    rows = of_method(report, "olsr")
    models = ("perfect", "navigational")
    assert {row["group"] for row in rows} == {f"{g}, {model} clicks" for g in GRADES for model in models}
    lists = {row["group"]: row["lists"] + row["skipped"] for row in rows}
    trace = Trace.open(RunFolder.open(folder).training)
    expected = dict.fromkeys(lists, 0)
    for record, truth in zip(trace.rounds(), trace.truths(), strict=True):
        for client in truth.clients[record.slot].tolist():
            model = ("perfect", "navigational")[client % 2]
            expected[f"{GRADES[client // 2 % 3]}, {model} clicks"] += 1
    assert lists == expected


def test_utility_is_the_mean_of_the_rounds_that_were_stored(attacked: Report, folder: Path) -> None:
    rounds = Trace.open(RunFolder.open(folder).training).metrics()
    rows = attacked["utility_groups"]
    assert len(rows) == 6
    means = [row["online_mean"] for row in rows]
    assert means == sorted(means)
    for row in rows:
        values = [one[f"online_ndcg@10/{row['group']}"] for one in rounds]
        assert row["online_mean"] == pytest.approx(np.mean(values), rel=1e-12)
        assert row["online_mean"] == (0.0 if row["group"].startswith("grade 0") else 1.0)
        assert row["ndcg@10"] is None, "grades have no intent"


def test_groups_of_an_intent_are_served_as_their_intent_is() -> None:
    train = {"rounds": 3, "click_model": "perfect"}
    spec = {"population": {"scenario": "intent-skew", "clients": 6}, "train": train}
    specs = [fa.Spec.parse({**spec, "repetition": i}) for i in range(3)]
    report = fa.simulate(specs, data=intent_collection())
    last = [row for row in plain(report.rounds) if row["round"] == 2]
    assert [row["place"] for row in plain(report.utility_groups)] == [1, 2, 3]
    for row in plain(report.utility_groups):
        values = np.array([one[f"offline_ndcg@10/{row['group']}"] for one in last])
        every = np.array([one["offline_ndcg@10"] for one in last])
        assert row["runs"] == 3
        assert row["ndcg@10"] == pytest.approx(values.mean(), rel=1e-12)
        assert row["ndcg@10_difference"] == pytest.approx((values - every).mean(), abs=1e-12)
        low, high = row["ndcg@10_difference_ci95"]
        assert low <= row["ndcg@10_difference"] <= high
    alike = sum(row["ndcg@10"] for row in plain(report.utility_groups)) / 3
    whole = plain(report.utility_groups)[0]["ndcg@10_all"]
    assert alike == pytest.approx(whole, rel=1e-9), "intents weigh alike"


@pytest.mark.parametrize("command", ["train", "attack"])
def test_identical_clients_have_no_groups(command: str) -> None:
    assert not {"groups", "utility_groups"} & set(answer(command, *SMALL))


def test_clicks_alone_tell_no_fresh_clients_apart() -> None:
    done = answer("attack --scenario click-skew --click-model perfect", *SMALL)
    assert "groups" not in done
    assert len(done["utility_groups"]) == 3


def test_a_sum_is_of_clients_of_all_groups() -> None:
    """Fresh clients and those of training: no list of a sum is counted for the group of one client."""
    fresh = ("--view", "cohort", "--click-model", "informational")
    for seen in (fresh, ("--target", "training", "--view", "aggregate")):
        assert "groups" not in answer("attack", *SKEWED, "--method", "olsr", *seen)
