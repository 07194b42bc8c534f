"""Intents told and clients linked, from a Spec to rows and tables; rows against figures by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foltr_audit import api
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.errors import UsageError
from foltr_audit.judge.intents import IntentEvidence
from foltr_audit.judge.linkage import LinkEvidence
from foltr_audit.judge.protocol import TaskEvidence
from foltr_audit.judge.queries import TruthRanks
from foltr_audit.report.attack import AttackReport
from tests.fixtures.client_recordings import DATA, SHARES
from tests.fixtures.evidence import told_intents
from tests.fixtures.result_rows import attacked_by, kinds, plain, report_on

WHERE: dict[str, Any] = {
    "trained_on": "perfect",
    "eps_claimed": 1.2,
    "defense": "clip:norm=1",
    "learner": "fpdgd",
}


def links() -> LinkEvidence:
    """Two messages: first among four, third among four."""
    placed = TruthRanks(probability=np.array([0.7, 0.1]), ahead=np.array([0, 2]), tied=np.array([1, 1]))
    ties = TruthRanks(probability=np.full(2, 0.25), ahead=np.zeros(2, np.int64), tied=np.full(2, 4))
    found: dict[str, Any] = {"placed": {"linkage": placed}, "baselines": {"count": ties}}
    return LinkEvidence(client=np.array(["1", "2"]), choices=np.full(2, 4), asked=10, **found)


def rows(inquiries: TaskEvidence) -> dict[str, list[dict[str, Any]]]:
    return kinds(report_on(attacked_by(inquiries, **WHERE)))


# --- rows -----------------------------------------------------------------------------------------


def test_intent_rows_by_hand() -> None:
    intents = IntentEvidence(told={"intent-inference": told_intents()}, refused={"x": "why"})
    found = rows(TaskEvidence(found={"intent": intents}))
    (row,) = found["intent_inference"]
    assert {name: row[name] for name in WHERE} == WHERE
    assert (row["method"], row["view"]) == ("intent-inference", "individual")
    assert row["click_model"] == "navigational"
    assert (row["intents"], row["messages_together"], row["decisions"], row["clients"]) == (2, 2, 4, 3)
    assert (row["mixed"], row["left_over"]) == (1, 3)
    assert (row["chance"], row["most_frequent"]) == (0.5, 0.75)
    assert row["accuracy"] == pytest.approx((1 + 0 + 0.5 + 1) / 4)
    assert row["balanced_accuracy"] == pytest.approx(((1 + 0 + 0.5) / 3 + 1) / 2)
    assert (row["shown"], row["shown_balanced"]) == (0.75, 0.5)
    assert row["probability"] == pytest.approx((0.8 + 0.4 + 0.5 + 0.75) / 4)
    assert row["bits"] == pytest.approx(np.log2([1.6, 0.8, 1.0, 1.5]).mean())
    low, high = row["accuracy_ci95"]
    assert 0 <= low <= row["accuracy"] <= high <= 1
    (refused,) = found["refused"]
    assert (refused["method"], refused["reason"]) == ("x", "why")


def test_link_rows_by_hand() -> None:
    count, attack = rows(TaskEvidence(found={"client": links()}))["linkage"]
    assert [row["baseline"] for row in (count, attack)] == [True, False]
    for row in (count, attack):
        assert (row["choices"], row["choices_asked"], row["messages"], row["clients"]) == (4, 10, 2, 2)
        assert (row["chance"], row["chance_mrr"]) == (0.25, pytest.approx((1 + 1 / 2 + 1 / 3 + 1 / 4) / 4))
    assert (count["accuracy"], count["mrr"]) == (0.25, pytest.approx(count["chance_mrr"]))
    assert (attack["accuracy"], attack["mrr"]) == (0.5, pytest.approx((1 + 1 / 3) / 2))
    assert attack["rank"] == 2.0
    assert attack["probability"] == pytest.approx(0.4)


def test_no_link_makes_no_row() -> None:
    nothing = np.empty(0, np.int64)
    nobody = LinkEvidence(client=np.empty(0, np.str_), choices=nothing, asked=10, refused={"x": "y"})
    found = rows(TaskEvidence(found={"client": nobody}))
    assert (found["linkage"], found["refused"][0]["reason"]) == ([], "y")


def test_repetitions_are_pooled() -> None:
    wanted = IntentEvidence(told={"intent-inference": told_intents()})
    one = TaskEvidence(found={"intent": wanted, "client": links()})
    both = TaskEvidence.combined([one, one])
    intents, pairs = both.found["intent"], both.found["client"]
    assert isinstance(intents, IntentEvidence)
    assert isinstance(pairs, LinkEvidence)
    assert intents.told["intent-inference"].client.size == 8
    assert intents.told["intent-inference"].left_over == 6
    assert pairs.client.size == 4


# --- from a Spec ----------------------------------------------------------------------------------


def spec(scenario: str, *methods: str, **attack: Any) -> Spec:
    """Three rounds of 24 clients, all of whom take part."""
    return Spec.parse(
        {
            "defense": SHARES,
            "population": {"clients": 24, "scenario": scenario},
            "train": {"rounds": 3, "learner": LEARNER},
            "attack": {"methods": methods, "target": "training", "choices": 4, **attack},
        }
    )


LEARNER = "fpdgd:interactions=1,pairs=all,normaliser=shown,learning_rate=0.5"
BOTH = ("intent-inference", "intent-inference:messages=3", "linkage")


@pytest.fixture(scope="module")
def recorded_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, AttackReport]:
    """An attacked training of clients with two intents, and its folder."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    return folder, api.attack(spec("intent-skew", *BOTH), data=DATA, out=folder)


def test_training_rounds_are_attacked(recorded_run: tuple[Path, AttackReport]) -> None:
    _, report = recorded_run
    one, three = plain(report.intent_inference)
    assert (one["decisions"], three["decisions"], one["clients"], three["clients"]) == (72, 24, 24, 24)
    assert (one["chance"], one["most_frequent"], one["mixed"], three["left_over"]) == (0.5, 0.5, 0, 0)
    assert three["accuracy"] > 0.6
    assert [row["method"] for row in plain(report.linkage)] == ["count", "same-queries", "linkage"]
    for row in plain(report.linkage):
        assert (row["choices"], row["chance"], row["messages"], row["clients"]) == (4, 0.25, 48, 24)
    assert plain(report.linkage)[0]["accuracy"] == 0.25, "everybody has as many interactions"


def test_fresh_clients_are_linked_by_their_own_query() -> None:
    """The same client asks the same query again: what a server sees of that links nearly all."""
    fresh = spec("uniform", "linkage", target="fresh", click_models=("perfect",), repeats=2, min_documents=5)
    report = api.attack(fresh, data=DATA)
    _, queries, _ = plain(report.linkage)
    assert queries["accuracy"] == 1.0
    with pytest.raises(UsageError, match="two recorded rounds"):
        api.attack(spec("uniform", "linkage", target="fresh", click_models=("perfect",)), data=DATA)


def test_without_intents_it_is_refused() -> None:
    with pytest.raises(UsageError, match="the observer does not know: intents"):
        api.attack(spec("intent-skew", "intent-inference", hide=("intents",)), data=DATA)
    report = api.attack(spec("intent-skew", *BOTH, hide=("intents",)), data=DATA)
    assert {row["method"] for row in plain(report.refused)} >= set(BOTH[:1])
    assert len(plain(report.linkage)) == 3


def test_fresh_clients_have_the_intents_of_their_groups() -> None:
    fresh = spec("intent-skew", "intent-inference", target="fresh", click_models=("informational",))
    (row,) = plain(api.attack(fresh, data=DATA).intent_inference)
    assert (row["intents"], row["mixed"], row["chance"]) == (2, 0, 0.5)
    assert row["decisions"] == row["clients"] > 40
    assert row["accuracy"] > row["chance"]
