"""The plain loops of the benchmarks compute what the engine computes: its own draws are played again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pytest

from benchmarks import plain_central, plain_neural
from benchmarks.plain_central import PlainPDGD
from benchmarks.plain_evolution import AdamState, PlainEvolution, adam, evolution_gradient
from benchmarks.plain_neural import PlainNeuralLoop
from benchmarks.plain_users import PlainUsers, click_setting
from foltr_audit.core.records import Collection
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.data.synthetic import synthesise
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.learners.foltr_es import FOLtRES
from foltr_audit.simulation.setup import Setup
from foltr_audit.utils.arrays import Bools, Floats, Ints
from tests.fixtures.plain_searches import K


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
