"""The plain loops of the benchmarks compute what the engine computes: its own draws are played again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import pytest

from benchmarks import plain_central, plain_neural
from benchmarks.plain_central import COLTRMemory, PlainCOLTR, PlainDBGD, PlainPDGD
from benchmarks.plain_evolution import AdamState, PlainEvolution, adam, evolution_gradient
from benchmarks.plain_interleaving import place_odds
from benchmarks.plain_neural import PlainNeuralLoop
from benchmarks.plain_users import PlainUsers, click_setting
from foltr_audit.core.plugins import CentralResult, Users
from foltr_audit.core.records import Collection
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.data.synthetic import synthesise
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.learners.coltr import COLTR
from foltr_audit.simulation.learners.dbgd import DBGD
from foltr_audit.simulation.learners.foltr_es import FOLtRES
from foltr_audit.simulation.setup import Setup
from foltr_audit.utils.arrays import Bools, Floats, Ints
from tests.fixtures.plain_searches import INFORMATIONAL, PERFECT, Clicking, K, asked, played, searching
from tests.fixtures.reference import dataset, normals

P = 6
LENGTHS = (1, 14, 7, 10, 2, 30, 5, 3, 13, 11)
WEIGHTS = 1.0 / np.arange(1.0, 31.0) ** 3


def searched() -> Any:
    rng = np.random.default_rng(8)
    rows = sum(LENGTHS)
    features = rng.normal(size=(rows, P))
    labels = np.clip(np.floor(1.5 * features[:, 0] + rng.normal(size=rows)), 0, 2)
    return dataset(features, labels, LENGTHS)


DATA = searched()


class Given:
    """A generator whose numbers are known beforehand, by the method that is asked for them."""

    def __init__(self, **numbers: Iterator[Any]) -> None:
        self.numbers = numbers

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: next(self.numbers[name])

    @property
    def rng(self) -> np.random.Generator:
        return cast(np.random.Generator, self)


@dataclass(frozen=True, eq=False)
class Scripted(PlainUsers):
    """Users who are shown known lists and click as they did there."""

    script: Iterator[tuple[Ints, Bools]]

    def clicks(self, query: int, shown: Ints, rng: np.random.Generator) -> Bools:
        list_, clicks = next(self.script)
        assert shown.tolist() == list_.tolist()
        return clicks


def lists_of(shown: Ints, clicks: Bools) -> list[tuple[Ints, Bools]]:
    """Lists (N, k) without their padding."""
    return [(row[row >= 0], clicked[row >= 0]) for row, clicked in zip(shown, clicks, strict=True)]


def scripted(data: Any, lists: list[tuple[Ints, Bools]], clicking: Clicking = PERFECT) -> Scripted:
    features, labels = PlainNeuralLoop.queries_of(data)
    click, stop = (np.array(values) for values in clicking)
    return Scripted(features, labels, click, stop, iter(lists))


def collection(*, certain: bool = False) -> Collection:
    """MQ2007-like data; `certain`: perfect users have no doubt, as no document is of grade 1."""
    data = synthesise("mq2007", queries=20)
    labels = data.train.labels
    return replace(data, train=replace(data.train, labels=np.where(labels > 0, 2, 0) if certain else labels))


def setup_of(learner: str, data: Collection, ranker: str = "linear", clients: int = 7) -> Setup:
    train = {"learner": learner, "ranker": ranker, "rounds": 3, "click_model": "perfect"}
    population, trace = {"clients": clients}, {"dtype": "float64"}
    table = {"defense": ("none",), "population": population, "train": train, "trace": trace}
    return Setup(Spec.parse(table), data)


# --- FOLtR-ES -------------------------------------------------------------------------------------


def test_plain_evolution_is_that_of_the_engine() -> None:
    """Whole rounds from the engine's seeds and queries, with users who never hesitate."""
    setup = setup_of("foltr-es:interactions=4,sigma=0.3", collection(certain=True), clients=30)
    users = PlainUsers.of(setup.collection, "perfect")
    loop, rng = PlainEvolution(users, 30, 4, sigma=0.3), np.random.default_rng(1)
    model = start = rng.normal(size=46) * 0.2
    state, mirrored = AdamState(0, np.zeros(46), np.zeros(46)), 0
    for round_ in Federation(setup).rounds(start):
        assert round_.sent.seeds is not None
        noise = FOLtRES(sigma=1.0).perturbations(round_.sent.seeds, 46)
        queries = round_.sent.interactions.queries
        metrics = loop.metrics(model, noise, queries, rng)
        np.testing.assert_allclose(metrics, round_.sent.messages, rtol=1e-12)
        mirrored += not np.allclose(loop.metrics(model, -noise, queries, rng), metrics)
        gradient = evolution_gradient(noise, metrics, 0.3)
        model, state = adam(model, state, gradient, loop.learning_rate)
        np.testing.assert_allclose(model, round_.aggregate, rtol=1e-9, atol=1e-12)
    assert mirrored == 3
    assert np.abs(model - start).max() > 1e-3


# --- PDGD in the centre ---------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 5, 28])
def test_plain_central_pdgd_is_that_of_the_engine(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole rounds with the engine's lists and clicks."""
    setup = setup_of(f"pdgd:batch={batch}", collection())
    model = start = np.random.default_rng(5).normal(size=46) * 0.2
    other = start
    for round_ in Federation(setup).rounds(start):
        done = round_.sent.interactions
        shown, clicks = done.shown.swapaxes(0, 1), done.clicks.swapaxes(0, 1)
        lists, queries = lists_of(shown.reshape(-1, K), clicks.reshape(-1, K)), done.queries.T.reshape(-1)

        def learn(before: Floats, size: int, lists: Any = lists, queries: Ints = queries) -> Floats:
            rows = iter(lists)
            monkeypatch.setattr(plain_central, "sample_list", lambda scores, rng: next(rows)[0])
            loop = PlainPDGD(scripted(setup.collection.train, lists), queries.size, size)
            return loop.rounds(before, 1, Given(integers=iter([queries])).rng)

        model, other = learn(model, batch), learn(other, 1 if batch > 1 else 2)
        np.testing.assert_allclose(model, round_.aggregate, rtol=1e-9, atol=1e-11)
    assert np.abs(model - start).max() > 0.01
    assert np.abs(model - other).max() > 1e-6  # batches of another size are seen


# --- DBGD -----------------------------------------------------------------------------------------


def directions_of(users: Users, purpose: str, i: int, size: int) -> Floats:
    """Normal numbers 0 .. size-1 of interaction i."""
    stream = users.streams(purpose)
    names = (stream.round, stream.purpose_code, np.uint64(stream.key))
    numbers: Floats = normals(size, stream.clients[i : i + 1], *names)[0]
    return numbers


@pytest.mark.parametrize("clicking", [PERFECT, INFORMATIONAL])
@pytest.mark.parametrize("kind", ["team-draft", "probabilistic"])
def test_plain_dbgd_is_that_of_the_engine(
    kind: str, clicking: Clicking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A team draft makes the same lists of the same coins; probabilistic lists are those of the engine."""
    learner = DBGD.model_validate({"interleaving": kind, "learning_rate": 0.2, "delta": 0.7})
    start, n = np.linspace(-1.0, 1.3, P), 60
    done = played(learner, [0], start, np.empty(0), data=DATA, n=n, clicking=clicking)[0]
    users, lists = searching(DATA, n=n, clicking=clicking), lists_of(done.shown, done.clicks)
    rows = iter(lists)

    def given_list(rankings: Ints, rng: np.random.Generator) -> tuple[Ints, Floats]:
        shown = next(rows)[0]
        return shown, place_odds(rankings, shown, WEIGHTS[: rankings.shape[1]])

    monkeypatch.setattr(plain_central, "probabilistic", given_list)
    coins = users.streams("show").uniform(K // 2)
    given = Given(
        integers=iter([asked(DATA, n)]),
        standard_normal=(directions_of(users, "dbgd/direction", i, P) for i in range(n)),
        random=(1.0 - row for row in coins),
    )
    rules = {"probabilistic": kind != "team-draft", "delta": 0.7, "learning_rate": 0.2}
    loop = PlainDBGD(scripted(DATA, lists), n, **rules)  # type: ignore[arg-type]
    np.testing.assert_allclose(loop.rounds(start, 1, given.rng), done.parameters, rtol=1e-12, atol=1e-12)
    assert np.abs(done.parameters - start).max() > 0.1


# --- COLTR ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class GivenCOLTR(PlainCOLTR):
    """COLTR with known fresh directions, (N, M, P), of the interactions that need them."""

    fresh: Iterator[Floats] = field(default_factory=lambda: iter(()))

    def directions(self, winners: Floats, rng: np.random.Generator) -> Floats:
        drawn = next(self.fresh).copy()
        drawn[: winners.shape[0]] = winners
        return drawn


def fresh_of(users: Users, learnt: CentralResult, M: int) -> Iterator[Floats]:
    """The engine's fresh directions for each list with an unclicked document above a clicked one."""
    for i, clicks in enumerate(learnt.clicks):
        clicked = np.flatnonzero(clicks)
        if clicked.size and not clicks[: clicked[-1]].all():
            numbers = directions_of(users, "coltr/directions", i, M * P).reshape(M, P)
            yield numbers / np.sqrt((numbers**2).sum(axis=1, keepdims=True))


@pytest.mark.parametrize("clicking", [PERFECT, INFORMATIONAL])
@pytest.mark.parametrize(("gamma", "step", "tau"), [(1.0, 1.0, 1.0), (0.3, 0.4, 0.5)])
def test_plain_coltr_is_that_of_the_engine(
    clicking: Clicking, gamma: float, step: float, tau: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lists, clicks and directions of the engine; winners are carried over."""
    rules = {"candidates": 70, "gamma": gamma, "step": step, "tau": tau, "decay": 0.9}
    learner, n, start = COLTR.model_validate(rules), 40, np.linspace(-0.7, 1.0, P)
    done = played(learner, [0], start, learner.first_state(P), data=DATA, n=n, clicking=clicking)[0]
    users, lists = searching(DATA, n=n, clicking=clicking), lists_of(done.shown, done.clicks)
    rows, seen = iter(lists), []

    def given_list(scores: Floats, rng: np.random.Generator) -> Ints:
        seen.append(scores)
        return next(rows)[0]

    monkeypatch.setattr(plain_central, "sample_list", given_list)
    loop = GivenCOLTR(scripted(DATA, lists), n, **rules, fresh=fresh_of(users, done, 70))  # type: ignore[arg-type]
    memory, queries = COLTRMemory(start, 0, np.empty((0, P))), asked(DATA, n)
    for query in queries:
        memory = loop.interact(memory, query, np.random.default_rng(0))
    np.testing.assert_allclose(memory.model, done.parameters, rtol=1e-10, atol=1e-12)
    assert memory.updates == done.state[0] > 3
    assert memory.winners.shape[0] == np.count_nonzero(done.state[1:] >= 0) > 0
    np.testing.assert_allclose(seen[0] * tau, loop.users.features[queries[0]] @ start)


# --- neural FPDGD ---------------------------------------------------------------------------------


@pytest.mark.parametrize("ranker", ["neural:hidden=5", "neural:hidden=7,layers=2"])
def test_plain_neural_rounds_are_those_of_the_engine(ranker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole rounds with the engine's lists and clicks."""
    setup = setup_of("fpdgd:interactions=3", collection(), ranker)
    hidden, layers = (5, 1) if "layers" not in ranker else (7, 2)
    model = start = setup.ranker.initial(np.random.default_rng(10))
    data = setup.collection.train
    users = scripted(data, [])
    click, stop = click_setting("perfect", 2)
    parts = (users.features, users.labels, click, stop, 7, 3)
    loop = PlainNeuralLoop(*parts, hidden=hidden, layers=layers)
    for round_ in Federation(setup).rounds(start):
        done = round_.sent.interactions
        lists = lists_of(done.shown.reshape(-1, K), done.clicks.reshape(-1, K))
        shown, clicks = iter([one for one, _ in lists]), iter([two for _, two in lists])
        monkeypatch.setattr(plain_neural, "sample_list", lambda scores, rng, shown=shown: next(shown))
        monkeypatch.setattr(plain_neural, "cascade_clicks", lambda *args, clicks=clicks: next(clicks))
        model = loop.rounds(model, 1, Given(integers=iter(done.queries)).rng)
        np.testing.assert_allclose(model, round_.aggregate, rtol=1e-9, atol=1e-12)
    assert np.abs(model - start).max() > 1e-3
