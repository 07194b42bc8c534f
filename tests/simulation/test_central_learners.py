"""Engines against the plain loops of the benchmarks: central learners, evolution and neural rounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pytest

from benchmarks import plain_central, plain_neural
from benchmarks.plain_central import COLTRMemory, PlainCOLTR, PlainDBGD, PlainPDGD
from benchmarks.plain_evolution import AdamState, PlainEvolution, adam, evolution_gradient
from benchmarks.plain_interleaving import place_odds
from benchmarks.plain_neural import PlainNeuralLoop
from benchmarks.plain_users import PlainUsers, click_setting
from foltr_audit.core.plugins import CentralLearner, CentralResult, RoundContext, Users
from foltr_audit.core.records import Collection, Dataset
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.data.synthetic import synthesise
from foltr_audit.errors import UsageError
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.learners.coltr import COLTR
from foltr_audit.simulation.learners.dbgd import DBGD
from foltr_audit.simulation.learners.foltr_es import FOLtRES
from foltr_audit.simulation.setup import Setup
from foltr_audit.utils.arrays import Bools, Floats, Ints
from tests.fixtures.plain_interleaving import chances
from tests.fixtures.plain_searches import (
    ALWAYS,
    DATA,
    INFORMATIONAL,
    NAVIGATIONAL,
    NEVER,
    PERFECT,
    Clicking,
    K,
    all_bytes,
    asked,
    cascade,
    features_of,
    padded,
    played,
    searching,
)
from tests.fixtures.reference import normals, numba_threads
from tests.fixtures.tiny import FEATURES, dataset
from tests.simulation.test_rounds import drawn_list

START = np.linspace(-0.7, 1.0, FEATURES)
FIRST_CLICK: Clicking = ((1.0, 1.0, 1.0), (1.0, 1.0, 1.0))
TEAMS = DBGD(interleaving="team-draft", delta=0.8, learning_rate=0.3)
CHANCES = DBGD(interleaving="probabilistic", delta=0.8, learning_rate=0.3)
LEARNERS = (TEAMS, CHANCES, COLTR())
every_learner = pytest.mark.parametrize("learner", LEARNERS, ids=["teams", "chances", "coltr"])


@dataclass(frozen=True, eq=False)
class Searcher(PlainUsers):
    """User `place` of a round: the lists and clicks of the loop must be those of the engine."""

    users: Users
    done: CentralResult
    place: int

    @classmethod
    def at(cls, users: Users, done: CentralResult, place: int) -> Searcher:
        features = [features_of(users.data, query) for query in range(users.data.n_queries)]
        return cls(features, [], users.click, users.stop, users, done, place)

    @property
    def show(self) -> Floats:
        """Its numbers for a list."""
        return cast(Floats, self.users.streams("show").uniform(2 * K)[self.place])

    def clicks(self, query: int, shown: Ints, rng: np.random.Generator) -> Bools:
        numbers = self.users.streams(self.users.clicks).uniform(2 * K)[self.place]
        clicks = cascade(self.users, query, padded(shown.tolist()), numbers)
        assert self.done.shown[self.place].tolist() == padded(shown.tolist()).tolist()
        assert self.done.clicks[self.place].tolist() == clicks.tolist()
        return clicks[: shown.size]


def numbers_of(users: Users, purpose: str, place: int, size: int) -> Floats:
    """The first normal numbers of a user, (size,)."""
    stream = users.streams(purpose)
    names = (stream.round, stream.purpose_code, np.uint64(stream.key))
    return cast(Floats, normals(size, stream.clients[place : place + 1], *names)[0])


# --- DBGD -----------------------------------------------------------------------------------------


class Numbers:
    """A generator that gives the numbers of a user: its direction, and the coins of a team draft."""

    def __init__(self, searcher: Searcher) -> None:
        self.searcher = searcher

    def standard_normal(self, size: int) -> Floats:
        return numbers_of(self.searcher.users, "dbgd/direction", self.searcher.place, size)

    def random(self, size: int) -> Floats:
        return 1.0 - self.searcher.show[:size]


def drawn(rankings: Ints, rng: Any) -> tuple[Ints, Floats]:
    """A list of probabilistic interleaving: each place by inverting the ranker's distribution function."""
    shown: list[int] = []
    u, (current, candidate) = rng.searcher.show, rankings.tolist()
    for place in range(min(K, len(current))):
        share = chances(candidate if u[2 * place] >= 0.5 else current, shown)
        passed = np.searchsorted(np.cumsum(list(share.values())), u[2 * place + 1], side="right")
        shown.append(list(share)[passed])
    return np.array(shown), place_odds(rankings, np.array(shown), np.arange(1.0, len(current) + 1) ** -3)


@pytest.mark.parametrize("learner", [TEAMS, CHANCES], ids=["teams", "chances"])
@pytest.mark.parametrize(
    ("scale", "clicking"),
    [(0.0, PERFECT), (1.0, PERFECT), (1.0, NAVIGATIONAL), (1.0, INFORMATIONAL), (1e12, NAVIGATIONAL)],
)
def test_dbgd_is_the_plain_loop(
    learner: DBGD, clicking: Clicking, scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lists, clicks and models of two rounds, from equal scores, usual ones and huge ones."""
    monkeypatch.setattr(plain_central, "probabilistic", drawn)
    model, moved = START * scale, 0
    for round_, done in enumerate(played(learner, (0, 1), model, np.empty(0), clicking=clicking)):
        users = searching(round_=round_, clicking=clicking)
        for place, query in enumerate(asked(DATA, 20, round_)):
            searcher, before = Searcher.at(users, done, place), model
            loop = PlainDBGD(searcher, 20, learner is CHANCES, learner.delta, learner.learning_rate)
            model = loop.interact(model, query, cast(np.random.Generator, Numbers(searcher)))
            moved += bool((model != before).any())
        np.testing.assert_allclose(done.parameters, model, rtol=1e-12, atol=1e-12)
        assert done.state.size == 0
    assert moved > 3 or scale > 1


# --- COLTR ----------------------------------------------------------------------------------------


def fresh(users: Users, place: int, candidates: int) -> Floats:
    """The unit vectors of all places of an interaction, (candidates, P)."""
    width = FEATURES + FEATURES % 2
    n = numbers_of(users, "coltr/directions", place, candidates * width).reshape(candidates, width)
    n = n[:, :FEATURES]
    return cast(Floats, n / np.sqrt((n * n).sum(axis=1, keepdims=True)))


@dataclass(frozen=True, eq=False)
class DrawnCOLTR(PlainCOLTR):
    """COLTR with the directions of the engine."""

    def directions(self, winners: Floats, rng: np.random.Generator) -> Floats:
        searcher = cast(Searcher, self.users)
        return np.concatenate(
            [winners, fresh(searcher.users, searcher.place, self.candidates)[len(winners) :]]
        )


@pytest.mark.parametrize(
    ("learner", "scale", "clicking"),
    [
        (COLTR(), 1.0, PERFECT),
        (COLTR(), 1.0, NAVIGATIONAL),
        (COLTR(), 1.0, INFORMATIONAL),
        (COLTR(), 0.0, NAVIGATIONAL),
        (COLTR(), 1e9, INFORMATIONAL),
        (COLTR(candidates=3, tau=0.1, learning_rate=1.0, decay=0.5), 1.0, PERFECT),
        (COLTR(candidates=130, gamma=0.0, step=4.0), 2.0, NAVIGATIONAL),
        (COLTR(candidates=64, gamma=3.0, step=1e4), 1.0, INFORMATIONAL),
    ],
)
def test_coltr_is_the_plain_loop(
    learner: COLTR, scale: float, clicking: Clicking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lists, clicks, models and winners of three rounds; the plain memory keeps directions, not their ids."""
    rules = {
        name: value for name, value in learner.model_dump().items() if name in PlainCOLTR.__annotations__
    }
    memory = COLTRMemory(START * scale, 0, np.empty((0, FEATURES)))
    state = learner.first_state(FEATURES)
    for round_, done in enumerate(played(learner, range(3), memory.model, state, clicking=clicking)):
        users = searching(round_=round_, clicking=clicking)
        for place, query in enumerate(asked(DATA, 20, round_)):
            searcher = Searcher.at(users, done, place)
            show = searcher.show[:K]
            monkeypatch.setattr(plain_central, "sample_list", lambda scores, _, u=show: drawn_list(scores, u))
            memory = DrawnCOLTR(searcher, 20, **rules).interact(memory, query, np.random.default_rng(0))
        np.testing.assert_allclose(done.parameters, memory.model, rtol=1e-12, atol=1e-12)
        assert done.state[0] == memory.updates
        named = [divmod(int(one), 2**10) for one in done.state[1:] if one >= 0]
        found = [fresh(searching(round_=at >> 22), at % 2**22, learner.candidates)[m] for at, m in named]
        np.testing.assert_array_equal(found, memory.winners)
    assert memory.updates > 3


def test_ids_are_exact_up_to_the_last_round_and_client() -> None:
    """A winner of the very last id is drawn again exactly: both ways lead to the same model."""
    learner, last = COLTR(candidates=1000), (2**21 - 2, 2**22 - 1)
    queries = np.array([5])

    def numbered(round_: int, client: int) -> Users:
        users = searching(clicking=ALWAYS if round_ != last[0] else NAVIGATIONAL)
        context: RoundContext = replace(
            users.context, round=round_, clients=np.array([client]), counts=np.ones(1, dtype=np.int64)
        )
        return replace(users, context=context, click=np.array([0.5, 0.5, 0.5]), stop=np.zeros(3))

    done = learner.learn(numbered(*last), queries, START, learner.first_state(FEATURES))
    ids = done.state[1:][done.state[1:] >= 0]
    assert ids.size > 100
    assert ids.max() < 2**53
    places = ids.astype(np.int64) % 2**10
    assert (ids.astype(np.int64) >> 10 == last[0] * 2**22 + last[1]).all()
    u = fresh(numbered(*last), 0, learner.candidates)[places]
    np.testing.assert_allclose(done.parameters, START + 0.1 * u.mean(axis=0), rtol=1e-12)
    again = learner.learn(numbered(last[0] + 1, 3), queries, done.parameters, done.state)
    kept = again.state[1:][again.state[1:] >= 0]
    assert np.isin(kept, ids).any()
    vectors = fresh(numbered(last[0] + 1, 3), 0, learner.candidates)
    of_id = dict(zip(ids, u, strict=True))
    base = ((last[0] + 1) * 2**22 + 3) * 2**10
    moved = np.mean([of_id[one] if one in of_id else vectors[int(one) - base] for one in kept], axis=0)
    np.testing.assert_allclose(again.parameters - done.parameters, 0.1 * 0.99966 * moved, rtol=0, atol=1e-13)


def test_numbers_too_large_for_an_id_are_refused() -> None:
    learner = COLTR()
    for round_, client in ((2**21, 0), (0, 2**22)):
        users = searching(n=1, round_=round_)
        users = replace(users, context=replace(users.context, clients=np.array([client])))
        with pytest.raises(UsageError, match="expected less than 2097152 rounds and 4194304 interactions"):
            learner.learn(users, np.array([1]), START, learner.first_state(FEATURES))


# --- both -----------------------------------------------------------------------------------------


@every_learner
def test_rounds_can_be_resumed_and_threads_change_no_byte(learner: CentralLearner) -> None:
    first = learner.first_state(FEATURES)
    with numba_threads(1):
        expected = played(learner, range(4), START, first)
    with numba_threads(2):
        half = played(learner, range(2), START, first)
        state = np.array([float(repr(float(value))) for value in half[-1].state])
        rest = played(type(learner)(**learner.model_dump()), range(2, 4), half[-1].parameters.copy(), state)
    assert all_bytes([*half, *rest]) == all_bytes(expected)
    assert all_bytes(played(learner, range(4), START, first, seed=2)) != all_bytes(expected)
    if state.size:
        assert (state[1:] >= 0).sum() > 20
        forgotten = np.concatenate([state[:1], first[1:]])
        assert all_bytes(played(learner, range(2, 4), half[-1].parameters, forgotten)) != all_bytes(rest)


ALIKE = dataset((5, 12, 3, 30), 3)
ALIKE = ALIKE.with_features(
    7.3 * np.repeat(ALIKE.features[:4].astype(np.float32), np.diff(ALIKE.offsets), axis=0)
)


@pytest.mark.parametrize(
    ("data", "clicking", "n", "learners"),
    [
        (DATA, NEVER, 20, LEARNERS),
        (DATA, INFORMATIONAL, 0, LEARNERS),
        (dataset((1, 1, 1), 9), ALWAYS, 20, LEARNERS[1:]),
        (DATA, ALWAYS, 20, LEARNERS[2:]),
        (DATA, FIRST_CLICK, 20, LEARNERS[2:]),
        (ALIKE, INFORMATIONAL, 60, LEARNERS[2:]),
    ],
    ids=["no click", "no interaction", "one document", "all clicked", "first clicked", "all alike"],
)
def test_where_nobody_can_win_nothing_changes(
    data: Dataset, clicking: Clicking, n: int, learners: Sequence[CentralLearner]
) -> None:
    """Model and state, winners in it included, stay; no rounding makes a winner of anybody."""
    for learner in learners:
        before = played(learner, [0], START, learner.first_state(FEATURES))[0]
        assert before.parameters.tobytes() != START.tobytes()
        before.parameters.flags.writeable = False
        done = played(learner, [1, 2], before.parameters, before.state, data=data, clicking=clicking, n=n)
        kept = (before.parameters.tobytes(), before.state.tobytes())
        assert all((one.parameters.tobytes(), one.state.tobytes()) == kept for one in done)
        assert done[0].shown.shape == done[0].clicks.shape == (n, K)
        if data.n_queries == 3:
            assert (done[0].shown == padded([0])).all()
            assert (done[0].clicks == (padded([0]) == 0)).all()


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


def scripted(data: Any, lists: list[tuple[Ints, Bools]]) -> Scripted:
    return Scripted(*PlainNeuralLoop.queries_of(data), *click_setting("perfect", 2), iter(lists))


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


# --- neural FPDGD ---------------------------------------------------------------------------------


@pytest.mark.parametrize("ranker", ["neural:hidden=5", "neural:hidden=7,layers=2"])
def test_plain_neural_rounds_are_those_of_the_engine(ranker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole rounds with the engine's lists and clicks."""
    setup = setup_of("fpdgd:interactions=3", collection(), ranker)
    hidden, layers = (5, 1) if "layers" not in ranker else (7, 2)
    model = start = setup.ranker.initial(np.random.default_rng(10))
    data = setup.collection.train
    users = scripted(data, [])
    parts = (users.features, users.labels, users.click, users.stop, 7, 3)
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
