"""What clients search and how they click on it, where they are not alike."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foltr_audit.core.click_models import (
    CascadeClickModel,
    ClickModelMixture,
    InformationalClickModel,
    NavigationalClickModel,
    PerfectClickModel,
    declared_tables,
)
from foltr_audit.core.plugins import ClickModel
from foltr_audit.core.records.dataset import QueryOrigin
from foltr_audit.errors import UsageError
from foltr_audit.rng import ClientStreams, Streams
from foltr_audit.simulation.client import ClientData, ClientSimulator
from foltr_audit.simulation.evolution import MetricSenders
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.training import play_in_score_order
from foltr_audit.utils.arrays import Bools, Ints
from tests.conftest import SetupOf
from tests.fixtures import tiny
from tests.fixtures.intent_data import intent_collection, with_intents
from tests.fixtures.tiny import FEATURES

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
