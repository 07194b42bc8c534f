"""Who asks what, with which intent: laws of draws, twins, sizes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from foltr_audit.core.ranking_metrics import LIST_LENGTH, dcg, ideal_dcg, ndcg
from foltr_audit.core.records import Collection
from foltr_audit.core.records.population import QueryAssignment
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.simulation.client_population import QueryTraffic
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.fresh_clients import FreshClients
from foltr_audit.simulation.setup import Setup
from tests.conftest import SetupOf
from tests.fixtures.intent_data import intent_collection
from tests.fixtures.tiny import FEATURES, score_order

ALPHA = 1e-4
MODEL = np.linspace(-1.0, 1.0, FEATURES)


def asked(setup: Setup, round_: int = 0) -> QueryAssignment:
    clientele = Federation(setup).clientele
    return clientele.ask(setup.context(round_, np.arange(setup.spec.population.clients), 0, MODEL))


def fits(found: np.ndarray, expected: np.ndarray) -> bool:
    """Whether counts follow expected ones, by a chi-square test; what is expected never must not be."""
    there = expected > 0
    if found[~there].any():
        return False
    return bool(there.sum() == 1 or stats.chisquare(found[there], expected[there]).pvalue > ALPHA)


def test_clients_alike_ask_any_query(setup_of: SetupOf, collection: Collection) -> None:
    setup = setup_of(clients=500)
    found, context = asked(setup, 3), setup.context(3, np.arange(500), 0, MODEL)
    draws = context.streams("queries").uniform(4)
    assert np.array_equal(found.queries, np.floor(draws * collection.train.n_queries))
    assert not found.intents.any()
    assert not found.ways.any()
    counts = np.bincount(found.queries.reshape(-1))
    assert fits(counts, np.full(counts.size, counts.mean()))


@pytest.mark.parametrize(
    "scenario", ["abrupt", "smooth-abrupt", "leaking", "mixed", "swap", "fixed-intent:intent=3"]
)
def test_intents_follow_their_law_over_time(scenario: str, setup_of: SetupOf) -> None:
    setup = setup_of(clients=2000, rounds=6, scenario=scenario, data=intent_collection())
    environment = setup.clients.environment
    assert environment is not None
    caught = False
    for number in range(6):
        intents = asked(setup, number).intents
        time = (number * 4 + np.arange(4)) * 2000 + np.arange(2000)[:, np.newaxis]
        expected = environment.probabilities(time.reshape(-1)).sum(axis=0)
        found = np.bincount(intents.reshape(-1), minlength=3)
        assert fits(found, expected)
        caught |= not fits(found, np.roll(expected, 1))
    assert caught or scenario == "mixed", "another law would have been caught"


def test_intents_change_nothing_else(setup_of: SetupOf) -> None:
    """A run and its fixed-intent twin ask the same queries, as the same seed must."""
    setups = [
        setup_of(clients=50, scenario=scenario, data=intent_collection(), rounds=3)
        for scenario in ("abrupt", "fixed-intent:intent=2", "uniform")
    ]
    for number in range(3):
        first, *rest = (asked(setup, number).queries for setup in setups)
        assert all(np.array_equal(first, other) for other in rest)


@pytest.mark.parametrize("strength", [0.0, 0.4, 1.0])
def test_strength_is_how_often_a_client_is_itself(strength: float, setup_of: SetupOf) -> None:
    setup = setup_of(clients=3000, scenario=f"intent-skew:strength={strength}", data=intent_collection())
    found = asked(setup)
    own = setup.clients.population.group_of(np.arange(3000))
    table = np.stack([np.bincount(found.intents[own == g].reshape(-1), minlength=3) for g in range(3)])
    for group in range(3):
        expected = np.full(3, (1 - strength) / 3)
        expected[group] += strength
        assert fits(table[group], expected * table[group].sum())
        other = abs(strength - 0.1)
        wrong = np.full(3, (1 - other) / 3)
        wrong[group] += other
        assert not fits(table[group], wrong * table[group].sum())


def test_only_one_intent_is_played(setup_of: SetupOf) -> None:
    given = {"clients": 300, "data": intent_collection()}
    everything = asked(setup_of(scenario="mixed", **given))
    for intent in range(3):
        kept = asked(setup_of(scenario=f"mixed:only={intent + 1}", **given))
        assert np.array_equal(kept.counts, (everything.intents == intent).sum(axis=1))
        assert (kept.intents[kept.queries >= 0] == intent).all()
        for c in range(300):
            mine = everything.queries[c][everything.intents[c] == intent]
            assert np.array_equal(kept.queries[c, : kept.counts[c]], mine)


def test_sizes_by_kind(setup_of: SetupOf) -> None:
    setup = setup_of(clients=10, scenario="quantity-skew")
    assert setup.clients.interactions == 9
    assert asked(setup).counts.tolist() == [1, 3, 5, 7, 9] * 2
    assert not setup.clients.alike_in_number
    even = setup_of(clients=10, scenario="quantity-skew:even=true")
    assert asked(even).counts.tolist() == [5] * 10


def test_weights_of_intents(setup_of: SetupOf) -> None:
    def clientele(scenario: str) -> QueryTraffic:
        return Federation(setup_of(scenario=scenario, rounds=6, data=intent_collection())).clientele

    total = 6 * 8 * 4
    abrupt = clientele("abrupt")
    assert [abrupt.weights(t).argmax() for t in (0, total // 3 - 1, total // 3, total - 1)] == [0, 0, 1, 2]
    assert clientele("intent-skew").weights(5).tolist() == pytest.approx([1 / 3] * 3)
    assert clientele("mixed:only=2").weights(5).tolist() == [0, 1, 0]
    assert clientele("uniform").weights(5).tolist() == [1]


def test_evaluation_is_the_weighted_mean_over_intents(setup_of: SetupOf) -> None:
    data = intent_collection()
    setup = setup_of(scenario="smooth-abrupt", data=data)
    evaluation = Federation(setup).evaluation
    queries = np.arange(data.train.n_queries)
    shown = score_order(*setup.ranker.scores(MODEL[np.newaxis], data.train, queries), LIST_LENGTH)
    under = [data.train.under(i) for i in range(3)]
    each = [ndcg(dcg(judged, queries, shown), ideal_dcg(judged)).mean() for judged in under]
    found = evaluation.metrics(MODEL, np.array([0.7, 0.1, 0.2]))
    assert [found[f"offline_ndcg@10/intent {i + 1}"] for i in range(3)] == pytest.approx(each)
    assert found["offline_ndcg@10"] == pytest.approx(0.7 * each[0] + 0.1 * each[1] + 0.2 * each[2])
    assert evaluation.ndcg(MODEL) == pytest.approx(np.mean(each))
    assert list(evaluation.missing()) == list(found)


def test_online_metrics_are_under_the_intent_of_each_list(setup_of: SetupOf) -> None:
    data = intent_collection()
    setup = setup_of(scenario="intent-skew", clients=30, data=data)
    played = Federation(setup).play(MODEL, 0)
    values = np.zeros((30, 4))
    for c in range(30):
        judged = data.train.under(c % 3)
        done = played.sent.interactions
        values[c] = ndcg(dcg(judged, done.queries[c], done.shown[c]), ideal_dcg(judged)[done.queries[c]])
    assert played.metrics["online_ndcg@10"] == pytest.approx(values.mean())
    for group in range(3):
        mine = values[group::3].mean()
        assert played.metrics[f"online_ndcg@10/intent {group + 1}"] == pytest.approx(mine)


def test_fresh_clients_have_the_traits_of_their_group(setup_of: SetupOf) -> None:
    data = intent_collection()
    scenario = "intent-skew+label-skew"
    protocol = AttackSpec(on=("train", "vali", "test"), min_documents=2, repeats=2)
    setup = setup_of(scenario=scenario, data=data, clients=6)
    fresh = FreshClients(setup, protocol)
    for played in fresh.rounds(MODEL, "perfect"):
        record, truth = played.recorded()
        assert truth.intents is not None
        for row in range(record.n_interactions):
            intent, grade = divmod(int(truth.clients[record.slot[row]]) % 6, 2)
            part = data.part(data.PARTS[record.part[row]])
            shown = record.shown[row][record.shown[row] >= 0]
            own = part.offsets[record.query[row]] + np.arange(part.lengths[record.query[row]])
            assert truth.intents[row] == intent
            if (part.labels[own] == grade).any():
                assert (part.labels[own[shown]] == grade).all()
            clicked = shown[truth.clicks[row][: shown.size]]
            # Perfect users click what is relevant to them.
            assert (part.grades[intent][own[clicked]] > 0).all()
