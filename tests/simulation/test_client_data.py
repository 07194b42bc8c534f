"""What clients search and click where they are not alike, by which laws, and what that means for claims."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from foltr_audit.auditing.audit import Audit
from foltr_audit.core.click_models import (
    CascadeClickModel,
    ClickModelMixture,
    InformationalClickModel,
    NavigationalClickModel,
    PerfectClickModel,
    declared_tables,
)
from foltr_audit.core.plugins import Attack, ClickModel
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.ranking_metrics import LIST_LENGTH, dcg, ideal_dcg, ndcg
from foltr_audit.core.records import Collection
from foltr_audit.core.records.dataset import QueryOrigin
from foltr_audit.core.records.population import QueryAssignment
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.core.settings.audit import AuditSpec
from foltr_audit.data.intents import balance_collection
from foltr_audit.errors import UsageError
from foltr_audit.experiments.recorded_attack import TraceAttack
from foltr_audit.judge.observer import Observer
from foltr_audit.rng import ClientStreams, Streams
from foltr_audit.simulation.client import ClientData, ClientSimulator
from foltr_audit.simulation.client_population import QueryTraffic
from foltr_audit.simulation.evolution import MetricSenders
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.fresh_clients import FreshClients
from foltr_audit.simulation.recorder import MemoryRoundStore, trace_header
from foltr_audit.simulation.setup import Setup
from foltr_audit.simulation.training import play_in_score_order
from foltr_audit.trace import Trace
from foltr_audit.utils.arrays import Bools, Ints
from tests.conftest import SetupOf
from tests.fixtures import tiny
from tests.fixtures.command import run
from tests.fixtures.intent_data import intent_collection, with_intents
from tests.fixtures.judging import judge_clicks
from tests.fixtures.tiny import FEATURES, score_order

DATA = with_intents(tiny.dataset((1, 14, 7, 10, 2, 30, 5, 3, 13, 11), 5))
ALL = "intent-skew:strength=0.5+label-skew:grades=2,overlap=true+click-skew+quantity-skew:batches=1/3/6"


def world(**changes: object) -> ClientData:
    given: dict[str, object] = {"largest_label": 1, "intents": 3, "holdings": [(0,), (1,), (0, 1)]}
    models = (PerfectClickModel(), InformationalClickModel())
    return ClientData.of(DATA, QueryOrigin.of_part(0, DATA), models, **{**given, **changes})  # type: ignore[arg-type]


class Mine(InformationalClickModel):
    """Clicks as its parent, by code of its own."""

    def click(self, labels: Ints, largest_label: int, streams: ClientStreams, step: int) -> Bools:
        return super().click(labels, largest_label, streams, step)


def test_every_document_is_held_by_whom_its_grade_says() -> None:
    made = world()
    for number, grades in enumerate(made.holdings[1:], start=1):
        assert grades is not None
        rows = []
        for query, place in enumerate(made.places[number]):
            own = np.arange(DATA.offsets[query], DATA.offsets[query + 1])
            held = own[np.isin(DATA.labels[own], grades)]
            assert (place >= 0) == (held.size > 0)
            if place >= 0:
                there = slice(made.data.offsets[place], made.data.offsets[place + 1])
                assert np.array_equal(made.data.features[there], DATA.features[held])
                assert np.array_equal(made.data.grades[:, there], DATA.grades[:, held])
                rows += held.tolist()
        assert rows == np.flatnonzero(np.isin(DATA.labels, grades)).tolist()
    assert np.array_equal(made.places[0], np.arange(DATA.n_queries))


def test_lists_are_recorded_as_positions_in_the_whole_query() -> None:
    made = world()
    assert made.origin.document is not None
    for place in range(made.data.n_queries):
        size = made.data.lengths[place]
        shown = np.concatenate([np.arange(size)[::-1], [-1]])[np.newaxis]
        told = made.origin.shown(made.data, np.array([place]), shown)
        query = made.origin.query[[place]]
        assert told[0, -1] == -1
        here, there = made.data.shown_features(np.array([place]), shown), DATA.shown_features(query, told)
        assert np.array_equal(here, there)


def test_a_world_of_clients_alike_is_the_data_itself() -> None:
    made = ClientData.alike(DATA, PerfectClickModel(), 1)
    assert made.data is DATA
    assert made.origin.document is None
    assert np.array_equal(made.grades, DATA.labels)
    assert isinstance(made.click_model, PerfectClickModel)


def test_grades_tell_models_and_intents_apart() -> None:
    made, rng = world(), np.random.default_rng(0)
    queries, ways = rng.integers(made.data.n_queries, size=40), rng.integers(6, size=40)
    shown = np.where(np.arange(10) < made.data.lengths[queries][:, np.newaxis], np.arange(10), -1)
    found = made.clicked_grades(queries, ways, shown)
    for c in range(40):
        grades = made.data.grades[ways[c] % 3]
        for i in range(10):
            row = made.data.offsets[queries[c]] + shown[c, i]
            expected = -1 if shown[c, i] < 0 else 2 * (ways[c] // 3) + grades[row]
            assert found[c, i] == expected


@pytest.mark.parametrize("largest", [1, 2, 4])
def test_a_mixture_clicks_as_its_models_do(largest: int) -> None:
    models: tuple[ClickModel, ...]
    models = (PerfectClickModel(), NavigationalClickModel(), Mine(), InformationalClickModel())
    mixture, rng = ClickModelMixture(models=models), np.random.default_rng(largest)
    labels = rng.integers(0, largest + 1, size=(200, 10))
    labels[np.arange(10) >= rng.integers(0, 11, size=(200, 1))] = -1
    number, streams = rng.integers(len(models), size=200), Streams(3).clients("clicks", 1, np.arange(200))
    shifted = np.where(labels >= 0, labels + number[:, np.newaxis] * (largest + 1), -1)
    clicks = mixture.click(shifted, largest, streams, 2)
    for m, model in enumerate(models):
        own = model.click(labels, largest, streams, 2)
        assert np.array_equal(clicks[number == m], own[number == m])
    assert declared_tables(mixture, largest) is None, "one of them clicks by code of its own"


@settings(max_examples=20)
@given(
    largest=st.integers(0, 4),
    order=st.permutations([PerfectClickModel(), NavigationalClickModel(), InformationalClickModel()]),
)
def test_tables_of_a_mixture(largest: int, order: list[CascadeClickModel]) -> None:
    tables = declared_tables(ClickModelMixture(models=tuple(order)), largest)
    assert tables is not None
    for m, model in enumerate(order):
        for mine, whole in zip(model.setting(largest), tables, strict=True):
            assert whole[m * (largest + 1) : (m + 1) * (largest + 1)].tolist() == list(mine[: largest + 1])


@pytest.mark.parametrize("ranker", ["linear", "neural:hidden=4,layers=2"])
def test_the_kernel_plays_every_trait_as_arrays_do(ranker: str, setup_of: SetupOf) -> None:
    given = {"data": intent_collection(), "defense": ("clip:norm=0.5",), "train": {"ranker": ranker}}
    setup = setup_of(clients=70, scenario=ALL, **given)
    clientele = Federation(setup).clientele
    model = np.random.default_rng(1).normal(size=setup.ranker.n_parameters)
    context = setup.context(3, np.arange(70), 6, model)
    asked = clientele.ask(context)
    assert (asked.queries < 0).any()
    assert len(np.unique(asked.ways)) == 9
    rules = setup.rules(clientele.world.click_model, sampled=True)
    assert rules.kernel_rules() is not None
    quick, plain = ClientSimulator(rules, clientele.world), ClientSimulator(rules, clientele.world)
    vars(plain)["_kernel_rules"] = None
    assert plain._kernel_rules is None  # mypy knows the name
    found = []
    for clients in (quick, plain):
        models, updates, done = clients.play(asked, context)
        arrays = models, updates, done.shown, done.clicks, done.clipped
        found.append([array.tobytes() for array in arrays])
    assert found[0] == found[1]
    assert not done.clipped[asked.queries < 0].any()
    assert (done.shown[asked.queries < 0] == -1).all()


def test_perturbed_models_play_every_trait_as_arrays_do(setup_of: SetupOf) -> None:
    scenario = ALL.replace("1/3/6", "2/4/6")
    setup = setup_of(learner="foltr-es:sigma=0.3", clients=70, scenario=scenario, data=intent_collection())
    clientele = Federation(setup).clientele
    context = setup.context(2, np.arange(70), 6, np.linspace(-1, 1, FEATURES))
    asked, world = clientele.ask(context), clientele.world
    seeds = np.random.default_rng(3).integers(2**63, size=70, dtype=np.uint64)
    senders = MetricSenders(setup, world)
    _, *quick = senders._play(asked, context, seeds)
    models = senders._models(asked, context, seeds)
    plain = play_in_score_order(setup.ranker, world, asked, models, context)
    assert [array.tobytes() for array in quick] == [array.tobytes() for array in plain]
    outcomes = senders.learner.outcomes(plain[1])
    means = senders._means(outcomes, asked.counts)
    for c, count in enumerate(asked.counts):
        values = senders.learner.values[outcomes[c, :count]]
        halves = values[: count // 2].mean(), values[count // 2 :].mean()
        assert means[c] == pytest.approx(halves, rel=1e-12)


@pytest.mark.parametrize(
    "learner", ["fpdgd", "foltr-es", "pdgd", "pdgd:batch=5", "dbgd", "coltr:candidates=20"]
)
def test_every_learner_lives_in_every_world(learner: str, setup_of: SetupOf) -> None:
    sizes = "2/4" if learner == "foltr-es" else "1/4"
    for scenario in (
        f"intent-skew+label-skew+quantity-skew:batches={sizes}",
        "mixed:only=2" if learner != "foltr-es" else "mixed",
        "click-skew+leaking",
    ):
        setup = setup_of(learner=learner, clients=9, scenario=scenario, data=intent_collection())
        federation = Federation(setup)
        played = [federation.play(np.full(FEATURES, 0.1), number) for number in (0, 1)]
        for each in played:
            record, truth = each.recorded()
            assert truth.intents is not None
            assert record.n_interactions == record.counts.sum()
            assert np.isfinite(record.aggregate).all()
            if "only" in scenario:
                assert (truth.intents == 1).all()
        again = Federation(setup).play(np.full(FEATURES, 0.1), 1)
        assert again.aggregate.tobytes() == played[1].aggregate.tobytes()


def test_averages_weigh_clients_by_their_interactions(setup_of: SetupOf) -> None:
    setup = setup_of(clients=12, scenario="quantity-skew:batches=1/3/9")
    record, _ = Federation(setup).play(np.zeros(FEATURES), 0).recorded()
    assert record.counts.tolist() == [1, 3, 9] * 4
    mean = np.average(record.messages.astype(np.float64), axis=0, weights=record.counts)
    np.testing.assert_allclose(record.aggregate, mean, rtol=0, atol=1e-15)
    assert not np.allclose(record.aggregate, record.messages.mean(axis=0), atol=1e-6)


def test_worlds_that_cannot_be_played_are_refused(setup_of: SetupOf) -> None:
    odd = setup_of(learner="foltr-es", scenario="quantity-skew:batches=3/4")
    many, origin = (PerfectClickModel(),) * 65, QueryOrigin.of_part(0, DATA)
    refused: tuple[tuple[Callable[[], object], str], ...] = (
        (lambda: Federation(odd).play(np.zeros(FEATURES), 0), "with 3 interactions; expected even numbers"),
        (lambda: world(holdings=[(7,)]), "no document has grade 7; expected one at least"),
        (lambda: ClientData.of(DATA, origin, many, largest_label=1), "65 click models .* 1; expected 64"),
    )
    for call, message in refused:
        with pytest.raises(UsageError, match=message):
            call()


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


ALPHA = 1e-4


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
