"""The contracts of learners, click models and scenarios: what a training is made of."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from foltr_audit.core.plugins import (
    CentralLearner,
    ClickModel,
    Learner,
    MetricLearner,
    ModelLearner,
    Population,
    Scenario,
    ScenarioContext,
    Trait,
    TraitValue,
)
from foltr_audit.core.plugins.answers import clicks_of, step_of
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.rankers import make_ranker
from foltr_audit.core.records.interactions import RoundRecord
from foltr_audit.core.settings.population import canonical_scenarios
from foltr_audit.rng import ClientStreams, Streams
from foltr_audit.simulation.federation import Federation
from foltr_audit.testing.contract import PluginChecks, expect, same_each_time
from foltr_audit.testing.samples import data, generator, tiny_setup
from foltr_audit.utils.arrays import Bools, Floats, Ints

_CHECKS, _CLICKS, _SCENARIOS = PluginChecks(Learner), PluginChecks(ClickModel), PluginChecks(Scenario)
learner_checks, check_learner = _CHECKS.of_plugin, _CHECKS.check
click_model_checks, check_click_model = _CLICKS.of_plugin, _CLICKS.check
scenario_checks, check_scenario = _SCENARIOS.of_plugin, _SCENARIOS.check

_RANKERS = ("linear", "neural:hidden=3")
_KINDS = (ModelLearner, MetricLearner, CentralLearner)


def _start() -> Floats:
    return np.linspace(-0.4, 0.5, data().n_features)


@_CHECKS("same seed, same bytes")
def _same_seed(learner: Learner) -> None:
    """And what holds for every round that is played."""

    def played(seed: int = 1) -> RoundRecord:
        setup = tiny_setup(learner=learner.text, seed=seed)
        return Federation(setup).play(_start(), 1).recorded()[0]

    def output(seed: int = 1) -> list[bytes]:
        record = played(seed)
        return [record.aggregate.tobytes(), record.messages.tobytes(), record.shown.tobytes()]

    record = played()
    expect(np.isfinite(record.aggregate).all(), "a finite model after a round", "other numbers")
    expect(not np.array_equal(record.aggregate, _start()), "that it learns", "the model that it began with")
    alone = isinstance(learner, ModelLearner)
    wanted = "no state beside the model" if alone else "a state beside the model"
    expect((record.state is None) == alone, wanted, "none" if record.state is None else "a state")
    one = same_each_time(output, "round")
    expect(one != output(seed=2), "another round from another seed", "the same one")


class _Interactions:
    """One interaction of each of five clients: the first shows one document, the last has no click."""

    def __init__(self, ranker: str) -> None:
        self.data, rng = data().train, generator(4)
        self.ranker = make_ranker(ranker, self.data.n_features)
        self.queries = np.array([0, 5, 1, 9, 5])
        self.models = rng.normal(size=(5, self.ranker.n_parameters))
        self.shown = np.full((5, 10), -1)
        for row, length in enumerate([1, *np.minimum(self.data.lengths[self.queries[1:]], 10)]):
            self.shown[row, :length] = rng.permutation(length)
        self.clicks = (rng.random((5, 10)) < 0.4) & (self.shown >= 0)
        self.clicks[4] = False

    def stepped(self, learner: ModelLearner, rows: Ints | slice) -> tuple[Floats, Bools]:
        """A local step of some of the clients: their models (C, P), and which took a step (C,)."""
        models, queries = np.ascontiguousarray(self.models[rows]), self.queries[rows]
        scores, starts = self.ranker.scores(models, self.data, queries)
        given = (models, scores, starts, self.shown[rows].copy(), self.clicks[rows].copy())
        before = [array.tobytes() for array in given]
        models.flags.writeable = False
        out = learner.local_step(models, self.data, queries, *given[1:], self.ranker)
        after, moved = step_of(learner, out, models)
        same = before == [array.tobytes() for array in given]
        expect(same, "arrays that local_step leaves as they are", "that it changed one")
        expect(not np.shares_memory(after, models), "new models from local_step", "those it was given")
        return after, moved


def _trained(learner: Learner) -> Iterator[tuple[ModelLearner, _Interactions]]:
    if isinstance(learner, ModelLearner):
        yield from ((learner, _Interactions(one)) for one in _RANKERS if learner.why_not(one) is None)


@_CHECKS("a local step")
def _local_step(learner: Learner) -> None:
    for stepping, given in _trained(learner):
        after, moved = given.stepped(stepping, slice(None))
        expect(np.isfinite(after).all(), "finite models", "other numbers")
        for row, why in ((4, "no click"), (0, "one document")):
            wanted = f"that a client learns nothing from a list with {why}"
            expect(after[row].tobytes() == given.models[row].tobytes(), wanted, "another model")
        changed = np.any(after != given.models, axis=1)
        expect(changed.any(), "that clients learn from clicks", "no step")
        expect(np.array_equal(changed, moved), "a step reported where a model changed", moved)


@_CHECKS("a local step does not depend on other clients")
def _local_steps_alone(learner: Learner) -> None:
    for stepping, given in _trained(learner):
        after, moved = given.stepped(stepping, slice(None))
        order = np.array([2, 4, 0, 1, 3])
        turned, also = given.stepped(stepping, order)
        same = after[order].tobytes() == turned.tobytes() and np.array_equal(moved[order], also)
        expect(same, "the same steps for clients in another order", "other ones")
        for row in range(5):
            alone, _ = given.stepped(stepping, slice(row, row + 1))
            expect(alone[0].tobytes() == after[row].tobytes(), "the same step for a client alone", "another")
        given.stepped(stepping, slice(0, 0))


@_CHECKS("metrics and perturbations")
def _metrics(learner: Learner) -> None:
    if not isinstance(learner, MetricLearner):
        return
    rng = generator(6)
    clicks = np.concatenate([np.zeros((1, 10), np.bool_), rng.random((200, 10)) < 0.3])
    outcomes, values = learner.outcomes(clicks), learner.values
    inside = ((outcomes >= 0) & (outcomes < values.size)).all()
    expect(inside, f"outcomes from 0 to {values.size - 1}", "another one")
    order = rng.permutation(201)
    same = np.array_equal(learner.outcomes(clicks[order]), outcomes[order])
    expect(same, "the same outcome for the same clicks", "another in another order")
    seeds, size = rng.integers(2**63, size=8, dtype=np.uint64), _start().size
    several = learner.perturbations(seeds, size)
    alone = [learner.perturbations(seeds[i : i + 1], size)[0] for i in range(8)]
    same = np.array_equal(several, np.stack(alone))
    expect(same, "that a perturbation follows from its seed", "another one alone")


@_CHECKS("the server's update")
def _update(learner: Learner) -> None:
    if not isinstance(learner, MetricLearner):
        return
    rng = generator(8)
    seeds, state = rng.integers(2**63, size=8, dtype=np.uint64), learner.first_state(_start().size)
    messages, order = rng.random((8, 2 if learner.antithetic else 1)), rng.permutation(8)
    model, after = learner.update(_start(), state, seeds, messages)
    finite = np.isfinite(model).all() and np.isfinite(after).all()
    expect(finite, "finite numbers from update", "others")
    other, _ = learner.update(_start(), state, seeds[order], messages[order])
    near = np.allclose(model, other, rtol=1e-9, atol=1e-12)
    expect(near, "the same update for messages in another order", "another one")


_SEARCHERS = np.arange(200)
_LARGEST = (1, 2, 4)


def _labels(largest: int) -> Ints:
    rng = generator(2)
    labels = rng.integers(0, largest + 1, size=(_SEARCHERS.size, 10))
    labels[np.arange(10) >= rng.integers(0, 11, size=(_SEARCHERS.size, 1))] = -1
    labels.flags.writeable = False
    return labels


def _streams(clients: Ints, seed: int = 3) -> ClientStreams:
    return Streams(seed).clients("clicks", 1, clients)


def _clicks(model: ClickModel, largest: int, seed: int = 3, step: int = 2) -> Bools:
    return clicks_of(model, _labels(largest), largest, _streams(_SEARCHERS, seed), step)


@_CLICKS("clicks on lists")
def _some_clicks(model: ClickModel) -> None:
    for largest in _LARGEST:
        labels, clicks = _labels(largest), _clicks(model, largest)
        expect(clicks.any(), f"clicks on lists with grades up to {largest}", "none")
        expect(not clicks[labels < 0].any(), "no click at the padding", "one")
        same_each_time(lambda largest=largest: _clicks(model, largest).tobytes(), "click")  # type: ignore[misc]
        clicks_of(model, labels[:0], largest, _streams(_SEARCHERS[:0]), 0)


@_CLICKS("clicks do not depend on other clients")
def _clicks_alone(model: ClickModel) -> None:
    order = generator(5).permutation(_SEARCHERS.size)
    for largest in _LARGEST:
        labels, clicks = _labels(largest), _clicks(model, largest)
        for rows in (order, order[:1], order[1:2]):
            turned = clicks_of(model, labels[rows], largest, _streams(_SEARCHERS[rows]), 2)
            wanted = "the same clicks for clients in another order, and for a client alone"
            expect(np.array_equal(clicks[rows], turned), wanted, "others")


@_CLICKS("every step draws anew")
def _steps(model: ClickModel) -> None:
    for largest in _LARGEST:
        clicks = _clicks(model, largest)
        certain = np.array_equal(clicks, _clicks(model, largest, seed=4))
        same = np.array_equal(clicks, _clicks(model, largest, step=3))
        expect(certain == same, "other draws in another local step", "the same clicks in two steps")


_AROUND = ScenarioContext(intents=4, largest_label=2, interactions=4, total=400)


@_SCENARIOS("the clients")
def _population(scenario: Scenario) -> None:
    population = scenario.population(Population(), _AROUND)
    same = scenario.population(Population(), _AROUND) == population
    expect(same, "the same clients each time", "others")
    other = Population().with_trait(Trait(name="other", values=(TraitValue(name="all"),)))
    both = scenario.population(other, _AROUND)
    kept = both.traits == (*other.traits, *population.traits)
    expect(kept, "clients that keep the traits of earlier scenarios", [one.name for one in both.traits])
    intents, largest = range(_AROUND.intents), range(_AROUND.largest_label + 1)
    known = [make(ClickModel, text).text for text in scenario.click_models]
    for value in population.values:
        intent, grades, behind, model = value.intent, value.grades, value.interactions, value.click_model
        expect(intent is None or intent in intents, f"intents from 0 to {intents[-1]}", intent)
        expect(grades is None or set(grades) <= {*largest}, f"grades from 0 to {largest[-1]}", grades)
        expect(behind is None or behind >= 1, "1 interaction or more", behind)
        listed = model is None or make(ClickModel, model).text in known
        expect(listed, f"click_models that list {model}", known)


@_SCENARIOS("the intents over time")
def _intents(scenario: Scenario) -> None:
    environment, again = scenario.environment(_AROUND), scenario.environment(_AROUND)
    if environment is None or again is None:
        return
    times = np.arange(0, 500, 7)
    chances = environment.probabilities(times)
    shape = (times.size, _AROUND.intents)
    expect(chances.shape == shape, f"probabilities of shape {shape}", f"shape {chances.shape}")
    expect((chances >= -1e-12).all(), "no negative probability of an intent", f"{chances.min():.4g}")
    sums = chances.sum(axis=1)
    span = f"sums of {sums.min():.4g} to {sums.max():.4g}"
    expect(np.allclose(sums, 1.0), "probabilities of the intents that sum to 1", span)
    periods = [(period.first, period.end) for period in environment.periods]
    ends = [end for _, end in periods]
    connected = [first for first, _ in periods] == [0, *ends[:-1]] and ends[-1] == _AROUND.total
    expect(connected, f"periods one after the other, from 0 to {_AROUND.total}", periods)
    same = again.probabilities(times).tobytes() == chances.tobytes()
    expect(same, "the same probabilities each time", "others")


@_SCENARIOS("its twins")
def _twins(scenario: Scenario) -> None:
    for name, text in scenario.twins(_AROUND).items():
        expect(name, "a name of each twin", "none")
        expect(canonical_scenarios(text) == text, "the canonical text of a scenario", repr(text))
        expect(text != scenario.text, "another scenario as twin", repr(text))
