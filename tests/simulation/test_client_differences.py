"""What clients that differ mean for claims, headers, traces and learners that mirror their models."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from foltr_audit.auditing.audit import Audit
from foltr_audit.core.plugins import Attack
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.core.settings.audit import AuditSpec
from foltr_audit.data.intents import balance_collection
from foltr_audit.errors import UsageError
from foltr_audit.experiments.recorded_attack import TraceAttack
from foltr_audit.judge.observer import Observer
from foltr_audit.rng import Streams
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.fresh_clients import FreshClients
from foltr_audit.simulation.recorder import MemoryRoundStore, trace_header
from foltr_audit.trace import Trace
from tests.conftest import SetupOf
from tests.fixtures.command import run
from tests.fixtures.intent_data import intent_collection
from tests.fixtures.judging import judge_clicks
from tests.fixtures.tiny import FEATURES

MODEL = np.linspace(-1.0, 1.0, FEATURES)


@pytest.mark.parametrize("scenario", ["quantity-skew", "mixed:only=2"])
def test_no_claim_is_audited_where_clients_weigh_differently(scenario: str, setup_of: SetupOf) -> None:
    noise = ("clip:norm=1", "laplace:eps=1,sensitivity=2")
    setup = setup_of(scenario=scenario, data=intent_collection(), defense=noise)
    with pytest.raises(UsageError, match="different numbers of interactions"):
        Audit(setup, AuditSpec())
    told, even = (str(one.privacy.warnings()) for one in (setup, setup_of(defense=noise)))
    assert "neither the noise nor the sensitivity" in told
    assert "neither the noise" not in even


def test_a_message_composes_what_the_busiest_client_sends(setup_of: SetupOf) -> None:
    setup = setup_of(learner="foltr-es", defense=("metric-rr:p=0.9",), scenario="quantity-skew:batches=2/20")
    (warning,) = (one.text for one in setup.privacy.warnings() if "composes" in one.text)
    single = abs(math.log(0.9 * 10 / 0.1))
    assert "a message of 20" in warning
    assert f"composes {20 * single:.4g}" in warning


@pytest.mark.parametrize("learner", ["fpdgd", "foltr-es", "pdgd", "dbgd"])
def test_a_round_in_which_nobody_asks_changes_nothing(learner: str, setup_of: SetupOf) -> None:
    interactions = 2 if learner == "foltr-es" else 1
    text, data = f"{learner}:interactions={interactions}", intent_collection()
    setup = setup_of(learner=text, clients=1, rounds=30, scenario="mixed:only=1", data=data)
    quiet = 0
    for played in Federation(setup).rounds(MODEL):
        if not played.context.counts.any():
            quiet += 1
            if learner != "foltr-es":  # Adam goes on by what it remembers
                assert np.array_equal(played.aggregate, played.context.parameters)
        assert np.isfinite(played.aggregate).all()
    assert quiet > 5


def test_mirrored_pairs_have_one_intent_where_others_are_left_out(setup_of: SetupOf) -> None:
    setup = setup_of(
        learner="foltr-es:interactions=8", clients=200, scenario="mixed:only=2", data=intent_collection()
    )
    clientele = Federation(setup).clientele
    asked = clientele.ask(setup.context(0, np.arange(200), 8, MODEL))
    assert not (asked.counts % 2).any()
    assert len(np.unique(asked.counts)) > 2


def test_intents_of_clients_and_of_time_are_not_both(setup_of: SetupOf) -> None:
    setup = setup_of(scenario="intent-skew+abrupt", data=intent_collection())
    with pytest.raises(UsageError, match="abrupt: clients have intents of their own"):
        _ = setup.clients.environment
    with pytest.raises(UsageError, match="both define how intents change"):
        _ = setup_of(scenario="leaking+abrupt", data=intent_collection()).clients.environment


def test_a_header_names_no_click_model_where_there_are_several(setup_of: SetupOf) -> None:
    def named(scenario: str) -> object:
        setup = setup_of(scenario=scenario, click_model="navigational")
        click_model = setup.clients.population.click_model(setup.spec.train.click_model)
        return trace_header(setup, click_model, 8).knowledge.get("click_model")

    assert named("uniform") == "navigational"
    assert named("click-skew:models=informational") == "informational"
    assert named("click-skew:models=perfect/informational") is None


def test_no_posterior_is_called_exact_where_users_have_several_intents(setup_of: SetupOf) -> None:
    """Grades under any intent do not say how a user with one of them clicks."""
    protocol = AttackSpec(methods=("map",), on=("train",), min_documents=5)
    for scenario, exact in (("uniform", True), ("intent-skew", False)):
        setup = setup_of(scenario=scenario, data=intent_collection(), defense=("gaussian:sigma=0.01",))
        fresh = FreshClients(setup, protocol)
        header = trace_header(setup, "informational", fresh.queries.size, 1)
        recording = MemoryRoundStore(header)
        recording.write(*next(fresh.rounds(MODEL, "informational")).recorded())
        observer = Observer(header, setup.collection)
        found = judge_clicks(recording, observer, [make(Attack, "map:prior=relevance")], setup.streams)
        assert bool(found.exact) == exact
        assert np.isnan(found.surprisal).all() != exact


def test_the_group_of_a_fresh_client_does_not_follow_from_its_query(setup_of: SetupOf) -> None:
    protocol = AttackSpec(on=("train", "vali", "test"), min_documents=1)
    setups = [setup_of(scenario="intent-skew", data=intent_collection(), seed=seed) for seed in range(60)]
    intents = []
    for setup in setups:
        _, truth = next(FreshClients(setup, protocol).rounds(MODEL, "perfect")).recorded()
        assert truth.intents is not None
        intents.append(truth.intents)
    each = np.stack(intents)
    assert (np.ptp(each, axis=0) == 2).all(), "every query is asked with every intent"
    counts = np.bincount(each.reshape(-1), minlength=3)
    assert np.abs(counts - counts.mean()).max() < 5 * np.sqrt(counts.mean())


def test_a_bare_trace_keeps_the_numbers_of_its_intents(tmp_path: Path) -> None:
    world = "--data synthetic:mq2007:30 --intents synthetic:3 --scenario intent-skew --seed 7"
    assert run(f"train {world} --clients 6 --rounds 1 --out", tmp_path / "run").code == 0
    (folder,) = (path.parent for path in (tmp_path / "run").rglob("trace.toml"))
    header = Trace.open(folder).header
    assert header.knowledge["intents_numbered"] == ["7", "0"]
    assert header.intents == 3
    bare = TraceAttack.open(folder).collection
    whole = TraceAttack.open(tmp_path / "run").collection
    assert bare is not None
    assert whole is not None
    assert np.array_equal(bare.train.grades, whole.train.grades)
    again = balance_collection(whole, Streams(7))
    assert not np.array_equal(again.train.grades, whole.train.grades), "numbered anew once, and not twice"
