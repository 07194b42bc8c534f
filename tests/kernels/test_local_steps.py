"""The kernel that plays all local steps: the same bytes as the array path, in any chunks, on any threads."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
from foltr_audit.defenses.clip import Clip
from numpy.typing import NDArray

from foltr_audit.core.click_models import NavigationalClickModel, PerfectClickModel
from foltr_audit.core.plugins import Ball, ClickModel, Defense, RoundContext
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.rankers import make_ranker
from foltr_audit.core.records.population import QueryAssignment
from foltr_audit.kernels import local_steps
from foltr_audit.kernels.messages import projected
from foltr_audit.kernels.plackett_luce import sampled_lists
from foltr_audit.rng import ClientStreams
from foltr_audit.simulation.client import ClientData, ClientSimulator
from foltr_audit.simulation.learners.fpdgd import FPDGD
from foltr_audit.simulation.setup import Setup
from foltr_audit.utils.arrays import Bools, Floats, Ints
from tests.conftest import SetupOf
from tests.fixtures.reference import numba_threads
from tests.fixtures.tiny import FEATURES, ToyClick, sorted_collection

EVERY_RANKER = pytest.mark.parametrize("ranker", ["linear", "neural:hidden=5", "neural:hidden=4,layers=2"])


def with_ranker(setup: Setup, text: str) -> Setup:
    """The same experiment, chain included, with another ranker."""
    vars(setup)["ranker"] = make_ranker(text, FEATURES)
    return setup


def world_of(setup: Setup) -> ClientData:
    """The training split, clicked as the Spec says."""
    click_model = make(ClickModel, setup.spec.train.click_model)
    return ClientData.alike(setup.collection.train, click_model, setup.collection.largest_label)


def asked(setup: Setup, context: RoundContext, steps: int = 4) -> QueryAssignment:
    """Any training query, so many a client."""
    draws = context.streams("queries").uniform(steps)
    return QueryAssignment.alike(np.floor(draws * setup.collection.train.n_queries).astype(np.int64))


def all_bytes(clients: ClientSimulator, setup: Setup, steps: int, model: Floats) -> list[bytes]:
    """Everything that clients do in round 3."""
    population = setup.spec.population
    context = setup.context(3, np.arange(population.clients) * 5, steps, model)
    models, updates, done = clients.play(asked(setup, context, steps), context)
    arrays = (models, updates, done.queries, done.shown, done.clicks, done.clipped)
    return [np.ascontiguousarray(array).tobytes() for array in arrays]


def clients_of(setup: Setup, *, sampled: bool = True) -> ClientSimulator:
    world = world_of(setup)
    return ClientSimulator(setup.rules(world.click_model, sampled=sampled), world)


def through_arrays(setup: Setup, *, sampled: bool = True) -> ClientSimulator:
    """Clients whose rules are kept from the kernel."""
    clients = clients_of(setup, sampled=sampled)
    vars(clients)["_kernel_rules"] = None
    assert clients._kernel_rules is None  # mypy knows the name
    return clients


def both_ways_agree(setup: Setup, steps: int, model: Floats, *, sampled: bool = True) -> None:
    """The kernel, which knows these rules, does byte for byte what the array path does."""
    kernel = clients_of(setup, sampled=sampled)
    assert kernel.rules.kernel_rules() is not None
    expected = all_bytes(through_arrays(setup, sampled=sampled), setup, steps, model)
    assert all_bytes(kernel, setup, steps, model) == expected


def model_of(setup: Setup, spread: float = 1.0) -> Floats:
    """A model whose scores lie that far apart."""
    return np.linspace(-1.0, 1.3, setup.ranker.n_parameters) * spread


@EVERY_RANKER
@pytest.mark.parametrize("spread", [0.0, 1.0, 30.0, 3000.0])
@pytest.mark.parametrize(
    ("pairs", "normaliser", "click_model", "chain"),
    [
        ("last-click+1", "candidates", "informational", ()),
        ("all", "shown", "perfect", (Clip(norm=0.7),)),
        ("all", "candidates", "navigational", (Clip(norm=20.0),)),
        ("last-click+1", "shown", "informational", (Clip(norm=1e-3),)),
    ],
)
def test_the_kernel_and_the_array_path_are_one_engine(
    spread: float,
    pairs: str,
    normaliser: str,
    click_model: str,
    chain: tuple[Defense, ...],
    ranker: str,
    setup_of: SetupOf,
) -> None:
    """Also where scores lie so far apart that weights fade and products underflow."""
    for clients, steps in ((1, 1), (9, 3), (40, 11)):
        learner = f"fpdgd:interactions={steps},learning_rate=0.4,pairs={pairs},normaliser={normaliser}"
        setup = with_ranker(
            setup_of(clients=clients, learner=learner, click_model=click_model, chain=chain), ranker
        )
        both_ways_agree(setup, steps, model_of(setup, spread))


@EVERY_RANKER
@pytest.mark.parametrize("spread", [0.0, 1.0])
@pytest.mark.parametrize("clients", [1, 40])
def test_equal_scores_rank_alike_on_both_ways(
    clients: int, spread: float, ranker: str, setup_of: SetupOf
) -> None:
    """Lists in score order of data with twins; a model without spread makes all documents equal."""
    setup = with_ranker(
        setup_of(clients=clients, learner="fpdgd:interactions=5", data=sorted_collection()), ranker
    )
    both_ways_agree(setup, 5, model_of(setup, spread), sampled=False)


@EVERY_RANKER
@pytest.mark.parametrize("always", [True, False])
def test_the_ball_acts_without_pairs_or_not(always: bool, ranker: str, setup_of: SetupOf) -> None:
    learner = f"fpdgd:interactions=4,clip_without_pairs={str(always).lower()}"
    setup = with_ranker(setup_of(clients=30, learner=learner, defense=("clip:norm=0.5",)), ranker)
    both_ways_agree(setup, 4, np.ones(setup.ranker.n_parameters))


@EVERY_RANKER
@pytest.mark.parametrize("order", [1, 2])
def test_steps_that_overflow_end_in_the_ball_both_ways(order: int, ranker: str, setup_of: SetupOf) -> None:
    learner = "fpdgd:interactions=4,learning_rate=1.7e308"
    setup = with_ranker(
        setup_of(clients=30, learner=learner, defense=(f"clip:norm=0.5,ord={order}",)), ranker
    )
    model = model_of(setup)
    context = setup.context(3, np.arange(30), 4, model)
    with np.errstate(over="ignore", invalid="ignore"):
        found = [each(setup).play(asked(setup, context), context) for each in (clients_of, through_arrays)]
    for local in found:
        assert np.linalg.norm(local.models, order, axis=1).max() <= 0.5 + 1e-12
        assert local.interactions.clipped.tobytes() == found[0].interactions.clipped.tobytes()
        assert local.models.tobytes() == found[0].models.tobytes()
    assert (found[0].models == 0.0).all(axis=1).any(), "an overflow"


class L1Clip(Defense):
    """Scales into a ball of the other norm."""

    name: ClassVar[str] = "l1-clip"

    @property
    def ball(self) -> Ball:
        return Ball(norm=0.8, ord=1)

    def on_step(self, models: Floats, context: RoundContext) -> Floats:
        return projected(np.ascontiguousarray(models), 0.8, 1)


def test_a_plug_in_may_declare_its_ball(setup_of: SetupOf) -> None:
    setup = setup_of(clients=30, chain=(L1Clip(),))
    rules = clients_of(setup).rules.kernel_rules()
    assert rules is not None
    assert (rules.norm, rules.order) == (0.8, 1)
    model = np.full(FEATURES, 0.3)
    both_ways_agree(setup, 4, model)
    context = setup.context(3, np.arange(30), 4, model)
    models, _, done = clients_of(setup).play(asked(setup, context), context)
    assert np.abs(models).sum(axis=1).max() <= 0.8 + 1e-12
    assert done.clipped.any()


@EVERY_RANKER
@pytest.mark.parametrize(
    ("chunk", "threads", "spread"),
    [(1, 1, 1.0), (3, 2, 1.0), (8, 1, 3000.0), (17, 2, 3000.0), (1000, 1, 1.0)],
)
def test_chunks_and_threads_change_no_byte(
    chunk: int, threads: int, spread: float, ranker: str, setup_of: SetupOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the weights of some lists of a group fade and those of others do not."""
    setup = setup_of(clients=70, learner="fpdgd:interactions=5", defense=("clip:norm=2",))
    model = model_of(with_ranker(setup, ranker), spread)
    expected = all_bytes(clients_of(setup), setup, 5, model)
    monkeypatch.setattr(local_steps, "clients_of_part", lambda *_: chunk)
    with numba_threads(threads):
        assert all_bytes(clients_of(setup), setup, 5, model) == expected


@pytest.mark.parametrize("batch", [7, 70, 100])
def test_clients_that_take_turns_start_where_those_before_left(
    batch: int, setup_of: SetupOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the kernel and through arrays, on two threads that share the clients of a turn."""
    monkeypatch.setattr(local_steps, "clients_of_part", lambda *_: 3)
    setup = setup_of(clients=40, learner="fpdgd:interactions=2", chain=(Clip(norm=2.0),))
    context = setup.context(3, np.arange(70), 2, model_of(setup))
    found = []
    for clients in (clients_of(setup), through_arrays(setup)):
        with numba_threads(2):
            after, done = clients.play_in_turns(asked(setup, context, 2), context, batch)
        found.append([each.tobytes() for each in (after, done.shown, done.clicks, done.clipped)])
    assert found[0] == found[1]
    _, updates, _ = clients_of(setup).play(asked(setup, context, 2), context)
    together = context.parameters + updates.sum(axis=0)
    assert (found[0][0] == together.tobytes()) == (batch >= 70)


# --- lists ranked by the global model -------------------------------------------------------------------


@EVERY_RANKER
@pytest.mark.parametrize("spread", [1.0, 3000.0])
@pytest.mark.parametrize("normaliser", ["shown", "candidates"])
def test_both_ways_rank_with_the_global_model(
    spread: float, normaliser: str, ranker: str, setup_of: SetupOf
) -> None:
    for clients, steps in ((1, 2), (40, 11)):
        learner = f"fpdgd:interactions={steps},learning_rate=0.4,normaliser={normaliser},rank_with=global"
        setup = with_ranker(setup_of(clients=clients, learner=learner, chain=(Clip(norm=5.0),)), ranker)
        both_ways_agree(setup, steps, model_of(setup, spread))


@EVERY_RANKER
@pytest.mark.parametrize("rank_with", ["local", "global"])
@pytest.mark.parametrize("spread", [0.0, 1.0, 3000.0])
def test_both_ways_list_by_score(rank_with: str, spread: float, ranker: str, setup_of: SetupOf) -> None:
    """Also where all scores are equal, and documents are listed in their order."""
    for clients, steps in ((1, 2), (40, 6)):
        learner = f"fpdgd:interactions={steps},learning_rate=0.4,rank_with={rank_with}"
        setup = with_ranker(setup_of(clients=clients, learner=learner, chain=(Clip(norm=5.0),)), ranker)
        model = model_of(setup, spread)
        both_ways_agree(setup, steps, model, sampled=False)
        drawn, by_score = (clients_of(setup, sampled=each) for each in (True, False))
        assert all_bytes(drawn, setup, steps, model) != all_bytes(by_score, setup, steps, model)


@pytest.mark.parametrize("rank_with", ["local", "global"])
@pytest.mark.parametrize("sampled", [True, False])
def test_only_lists_of_the_global_model_do_not_follow_from_clicks(
    rank_with: str, sampled: bool, setup_of: SetupOf
) -> None:
    """The same queries and draws, and other clicks: the local models differ, and with them the lists."""
    learner = f"fpdgd:interactions=6,learning_rate=5,rank_with={rank_with}"
    setup = setup_of(clients=30, learner=learner)
    context = setup.context(3, np.arange(30), 6, model_of(setup))
    shown, models = [], []
    for click_model in (PerfectClickModel(), Stubborn()):
        world = ClientData.alike(setup.collection.train, click_model, setup.collection.largest_label)
        clients = ClientSimulator(setup.rules(click_model, sampled=sampled), world)
        local = clients.play(asked(setup, context, 6), context)
        shown.append(local.interactions.shown)
        models.append(local.models)
    assert np.any(models[0] != models[1])
    assert np.array_equal(shown[0][:, 0], shown[1][:, 0])
    assert np.array_equal(shown[0], shown[1]) == (rank_with == "global")


def test_given_lists_are_shown_and_learnt_from(setup_of: SetupOf) -> None:
    """A replay of recorded lists, first steps only or all of them, computes what was computed before."""
    setup = setup_of(clients=20, learner="fpdgd:interactions=4,learning_rate=2")
    context = setup.context(3, np.arange(20), 4, model_of(setup))
    queries = asked(setup, context)
    models, _, done = clients_of(setup).play(queries, context)
    for steps in (1, 2, 4):
        again, _, replayed = through_arrays(setup).play(queries, context, done.shown[:, :steps])
        assert np.array_equal(replayed.shown, done.shown)
        assert np.array_equal(again, models)
    turned = done.shown[:, :1].copy()
    for row in turned[:, 0]:
        row[row >= 0] = row[row >= 0][::-1]
    moved, _, played = clients_of(setup).play(queries, context, turned)
    assert np.array_equal(played.shown[:, :1], turned)
    assert np.any(moved != models)


# --- what only the array path may run ----------------------------------------------------------------


class Stubborn(NavigationalClickModel):
    """Clicks as its parent, by code of its own."""

    name: ClassVar[str] = "navigational"  # the same random numbers

    def click(self, labels: Ints, largest_label: int, streams: ClientStreams, step: int) -> Bools:
        return super().click(labels, largest_label, streams, step)


class OwnClip(Clip):
    """Clips as its parent, by code of its own, and so declares no ball."""

    @property
    def ball(self) -> None:
        return None

    def on_step(self, parameters: Floats, context: RoundContext) -> Floats:
        return super().on_step(parameters, context)


class OwnSteps(FPDGD):
    """Learns as its parent, by code of its own, and so declares no step."""

    @property
    def compiled_step(self) -> None:  # type: ignore[override]
        return None

    def local_step(self, parameters: Floats, *rest: object) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        return super().local_step(parameters, *rest)  # type: ignore[arg-type]


def test_code_of_a_plug_in_is_never_passed_over(setup_of: SetupOf) -> None:
    """Each of these acts as the built-in one that it replaces, and so must the whole round."""
    setup = setup_of(clients=20, click_model="navigational", defense=("clip:norm=0.7",))
    model = np.linspace(-1.0, 1.0, FEATURES)
    expected = all_bytes(clients_of(setup), setup, 4, model)
    learner = OwnSteps(**setup.learner.model_dump())
    own = setup_of(clients=20, click_model="navigational", chain=(OwnClip(norm=0.7),))
    usual = clients_of(setup).rules
    for rules in (
        replace(usual, click_model=Stubborn()),
        replace(usual, learner=learner),
        replace(usual, chain=own.chain),
    ):
        assert rules.kernel_rules() is None
        assert all_bytes(ClientSimulator(rules, world_of(setup)), setup, 4, model) == expected


@pytest.mark.parametrize(
    "chain", [(ToyClick(),), (Clip(norm=1.0), Clip(norm=2.0)), (Clip(norm=1.0), ToyClick())]
)
def test_chains_that_the_kernel_does_not_know(chain: tuple[Defense, ...], setup_of: SetupOf) -> None:
    assert clients_of(setup_of(chain=chain)).rules.kernel_rules() is None


# --- numbers that are none ---------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["first", "last", "all"])
def test_scores_that_are_no_numbers_give_lists_of_different_documents(bad: float, where: str) -> None:
    sizes = (1, 7, 8, 23)
    every = [np.linspace(0.0, 1.0, size) for size in sizes]
    for scores in every:
        scores[{"first": slice(0, 1), "last": slice(-1, None), "all": slice(None)}[where]] = bad
    starts = np.concatenate([[0], np.cumsum(sizes)])
    clients = np.arange(len(sizes))
    shown = sampled_lists(np.concatenate(every), starts, 10, 0, clients, 0, 0, np.uint64(1))
    for row, size in enumerate(sizes):
        listed = shown[row][shown[row] >= 0].tolist()
        assert len(listed) == min(size, 10)
        assert len(set(listed)) == len(listed)
        assert max(listed) < size
