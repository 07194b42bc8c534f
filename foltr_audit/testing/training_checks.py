"""The contracts of learners, click models and scenarios: what a training is made of."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from foltr_audit.core.plugins import (
    CentralLearner,
    ClickModel,
    Environment,
    Learner,
    MetricLearner,
    ModelLearner,
    Population,
    Scenario,
    ScenarioContext,
    Trait,
    TraitValue,
)
from foltr_audit.core.plugins.answers import (
    all_of,
    arrays_of,
    clicks_of,
    facts_of,
    one_of,
    published_of,
    step_of,
)
from foltr_audit.core.plugins.defense import STAGES
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.rankers import make_ranker
from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.core.settings.defaults import NO_DEFENSE
from foltr_audit.core.settings.population import canonical_scenarios
from foltr_audit.rng import ClientStreams, Streams
from foltr_audit.simulation.federation import Federation
from foltr_audit.testing.contract import (
    CheckList,
    ContractCheck,
    checks_of,
    expect,
    own_generators_only,
    run_checks,
    threads,
)
from foltr_audit.testing.samples import FEATURES, generator, tiny_collection, tiny_setup
from foltr_audit.utils.arrays import Bools, Floats, Ints

_CHECKS = CheckList()
_CLIENTS = 12
_RANKERS = ("linear", "neural:hidden=3")
_KINDS = (ModelLearner, MetricLearner, CentralLearner)


def learner_checks(learner: Learner | type[Learner] | str) -> list[ContractCheck]:
    """The checks of a learner, each with its name, e.g. for `pytest.mark.parametrize`."""
    return checks_of(Learner, learner, _CHECKS)


def check_learner(learner: Learner | type[Learner] | str) -> None:
    """Check that a learner does what every learner must do; it need not be registered."""
    run_checks(learner_checks(learner))


@_CHECKS("its kind and its facts")
def _facts(learner: Learner) -> None:
    wanted = " or ".join(kind.__name__ for kind in _KINDS)
    expect(isinstance(learner, _KINDS), f"a subclass of {wanted}", type(learner).__mro__[1].__name__)
    unknown = sorted(learner.stages - set(STAGES))
    expect(not unknown, f"stages of {', '.join(STAGES)}", f"{unknown}")
    refusal = learner.why_not("linear")
    expect(refusal is None, "that it trains the linear ranker", f"its refusal: {refusal}")
    chain = published_of(learner, math.inf, None)
    expect(chain == (NO_DEFENSE,), "no published defense for an infinite epsilon", f"{chain}")
    facts = facts_of(learner)
    plain = all(isinstance(fact, str | int | float | bool) for fact in facts.values())
    expect(plain, "facts that are texts, numbers or truth values", f"{facts}")


# --- whole rounds ---------------------------------------------------------------------------------


def _played(learner: Learner, seed: int = 1) -> tuple[RoundRecord, RoundTruth]:
    setup = tiny_setup(learner=learner.text, clients=_CLIENTS, seed=seed)
    return Federation(setup).play(_start(), 1).recorded()


def _start() -> Floats:
    return np.linspace(-0.4, 0.5, FEATURES)


@_CHECKS("a round")
def _plays(learner: Learner) -> None:
    record, truth = _played(learner)
    expect(np.isfinite(record.aggregate).all(), "a finite model after a round", "other numbers")
    expect(not np.array_equal(record.aggregate, _start()), "that it learns", "the model that it began with")
    named = isinstance(learner, ModelLearner)
    state = "none" if record.state is None else f"a state of {record.state.size} numbers"
    wanted = "no state beside the model" if named else "a state beside the model"
    expect((record.state is None) == named, wanted, state)
    expect(not truth.clicks[record.shown < 0].any(), "no click at the padding", "one")
    count = _CLIENTS * learner.interactions
    expect(record.n_interactions == count, f"{count} interactions", f"{record.n_interactions}")


@_CHECKS("same seed, same bytes")
def _same_seed(learner: Learner) -> None:
    with own_generators_only():
        one, two, other = (_played(learner, seed)[0] for seed in (1, 1, 2))
    expect(_bytes(one) == _bytes(two), "the same round from the same seed", "two rounds")
    expect(_bytes(one) != _bytes(other), "another round from another seed", "the same one")
    for count in (1, 2):
        with threads(count):
            same = _bytes(_played(learner)[0]) == _bytes(one)
        expect(same, f"the same round on {count} threads", "another one")


def _bytes(record: RoundRecord) -> list[bytes]:
    return [record.aggregate.tobytes(), record.messages.tobytes(), record.shown.tobytes()]


# --- local steps ----------------------------------------------------------------------------------


class _Interactions:
    """One interaction of each of five clients: the first shows one document, the last has no click."""

    def __init__(self, ranker: str) -> None:
        self.data, rng = tiny_collection().train, generator(4)
        self.ranker = make_ranker(ranker, self.data.n_features)
        self.queries = np.array([0, 5, 1, 9, 5])
        self.models = rng.normal(size=(5, self.ranker.n_parameters))
        self.shown = np.full((5, 10), -1)
        for row, length in enumerate(np.minimum(self.data.lengths[self.queries], 10)):
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
    """Interactions for each ranker that a learner trains, if its clients take local steps."""
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
            expect(not moved[row], wanted, "that it reports a step")
        expect(moved.any(), "that clients learn from clicks", "no step")
        changed = np.any(after != given.models, axis=1)
        expect(np.array_equal(changed, moved), "a step reported where a model changed", f"{moved}")


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
        nobody, _ = given.stepped(stepping, slice(0, 0))
        shape = (0, given.models.shape[1])
        expect(nobody.shape == shape, f"models of shape {shape} of nobody", f"shape {nobody.shape}")


# --- metrics --------------------------------------------------------------------------------------


@_CHECKS("metrics and perturbations")
def _metrics(learner: Learner) -> None:
    if not isinstance(learner, MetricLearner):
        return
    rng = generator(6)
    clicks = np.concatenate([np.zeros((1, 10), np.bool_), rng.random((200, 10)) < 0.3])
    outcomes, values = learner.outcomes(clicks), learner.values
    expect(outcomes.shape == (201,), "an outcome for each list", f"shape {outcomes.shape}")
    inside = (outcomes >= 0) & (outcomes < values.size)
    expect(inside.all(), f"outcomes from 0 to {values.size - 1}", "another one")
    order = rng.permutation(201)
    same = np.array_equal(learner.outcomes(clicks[order]), outcomes[order])
    expect(same, "the same outcome for the same clicks", "another in another order")
    seeds = rng.integers(2**63, size=8, dtype=np.uint64)
    several = learner.perturbations(seeds, FEATURES)
    expect(several.shape == (8, FEATURES), "a perturbation for each seed", f"shape {several.shape}")
    for i in range(8):
        alone = learner.perturbations(seeds[i : i + 1], FEATURES)
        same = alone[0].tobytes() == several[i].tobytes()
        expect(same, "that a perturbation follows from its seed", "another one alone")


@_CHECKS("the server's update")
def _update(learner: Learner) -> None:
    if not isinstance(learner, MetricLearner):
        return
    rng = generator(8)
    seeds, P = rng.integers(2**63, size=8, dtype=np.uint64), FEATURES
    messages, state = rng.random((8, 2 if learner.antithetic else 1)), learner.first_state(P)
    shapes = ((P,), state.shape)
    who = f"learner {learner.name}: update"
    model, after = arrays_of(who, learner.update(_start(), state, seeds, messages), shapes)
    finite = np.isfinite(model).all() and np.isfinite(after).all()
    expect(finite, "finite numbers from update", "others")
    order = rng.permutation(8)
    other, _ = arrays_of(who, learner.update(_start(), state, seeds[order], messages[order]), shapes)
    near = np.allclose(model, other, rtol=1e-9, atol=1e-12)
    expect(near, "the same update for messages in another order", "another one")


# --- click models and scenarios -------------------------------------------------------------------

_CLICKS, _SCENARIOS = CheckList(), CheckList()
_SEARCHERS = np.arange(200)
_LARGEST = (1, 2, 4)
_AROUND = ScenarioContext(intents=4, largest_label=2, interactions=4, total=400)


def click_model_checks(model: ClickModel | type[ClickModel] | str) -> list[ContractCheck]:
    """The checks of a click model, each with its name, e.g. for `pytest.mark.parametrize`."""
    return checks_of(ClickModel, model, _CLICKS)


def check_click_model(model: ClickModel | type[ClickModel] | str) -> None:
    """Check that a click model does what every click model must do; it need not be registered."""
    run_checks(click_model_checks(model))


def scenario_checks(scenario: Scenario | type[Scenario] | str) -> list[ContractCheck]:
    """The checks of a scenario, each with its name, e.g. for `pytest.mark.parametrize`."""
    return checks_of(Scenario, scenario, _SCENARIOS)


def check_scenario(scenario: Scenario | type[Scenario] | str) -> None:
    """Check that a scenario does what every scenario must do; it need not be registered."""
    run_checks(scenario_checks(scenario))


# --- click models -----------------------------------------------------------------------------------


def _labels(largest: int) -> Ints:
    rng = generator(2)
    labels = rng.integers(0, largest + 1, size=(_SEARCHERS.size, 10))
    labels[np.arange(10) >= rng.integers(0, 11, size=(_SEARCHERS.size, 1))] = -1
    labels.flags.writeable = False
    return labels


def _streams(clients: Ints, seed: int = 3) -> ClientStreams:
    return Streams(seed).clients("clicks", 1, clients)


def _clicks(model: ClickModel, largest: int, seed: int = 3, step: int = 2) -> Bools:
    labels = _labels(largest)
    return clicks_of(model, labels, largest, _streams(_SEARCHERS, seed), step)


@_CLICKS("clicks on lists")
def _some_clicks(model: ClickModel) -> None:
    for largest in _LARGEST:
        labels = _labels(largest)
        with own_generators_only():
            clicks = _clicks(model, largest)
        expect(clicks.any(), f"clicks on lists with grades up to {largest}", "none")
        expect(not clicks[labels < 0].any(), "no click at the padding", "one")
        with threads(2):
            again = _clicks(model, largest)
        expect(again.tobytes() == clicks.tobytes(), "the same clicks from the same streams", "others")
        nobody = clicks_of(model, labels[:0], largest, _streams(_SEARCHERS[:0]), 0)
        expect(nobody.shape == (0, 10), "clicks of shape (0, 10) of nobody", f"shape {nobody.shape}")


@_CLICKS("clicks do not depend on other clients")
def _clicks_alone(model: ClickModel) -> None:
    order = generator(5).permutation(_SEARCHERS.size)
    for largest in _LARGEST:
        labels, clicks = _labels(largest), _clicks(model, largest)
        turned = clicks_of(model, labels[order], largest, _streams(_SEARCHERS[order]), 2)
        expect(
            np.array_equal(clicks[order], turned), "the same clicks for clients in another order", "others"
        )
        for row in (0, 7):
            alone = clicks_of(model, labels[row : row + 1], largest, _streams(_SEARCHERS[row : row + 1]), 2)
            expect(np.array_equal(alone[0], clicks[row]), "the same clicks for a client alone", "others")


@_CLICKS("every step draws anew")
def _steps(model: ClickModel) -> None:
    for largest in _LARGEST:
        clicks = _clicks(model, largest)
        certain = np.array_equal(clicks, _clicks(model, largest, seed=4))
        same = np.array_equal(clicks, _clicks(model, largest, step=3))
        expect(certain == same, "other draws in another local step", "the same clicks in two steps")


# --- scenarios --------------------------------------------------------------------------------------


def _population(scenario: Scenario) -> Population:
    found = scenario.population(Population(), _AROUND)
    return one_of(f"scenario {scenario.name}: population", found, Population)


def _environment(scenario: Scenario) -> Environment | None:
    found = scenario.environment(_AROUND)
    if found is None:
        return None
    return one_of(f"scenario {scenario.name}: environment", found, Environment)


@_SCENARIOS("the clients")
def _population_holds(scenario: Scenario) -> None:
    population = _population(scenario)
    expect(_population(scenario) == population, "the same clients each time", "others")
    groups = len(set(population.groups))
    expect(groups == population.n_groups, f"{population.n_groups} names of groups", f"{groups}")
    other = Population().with_trait(Trait(name="other", values=(TraitValue(name="all"),)))
    both = scenario.population(other, _AROUND)
    kept = both.traits[: len(other.traits)] == other.traits
    expect(kept, "clients that keep the traits of earlier scenarios", f"{[one.name for one in both.traits]}")
    expect(both.n_groups == groups, f"{groups} groups behind a trait of one value", f"{both.n_groups}")
    for value in population.values:
        _check_value(value, scenario)


def _check_value(value: TraitValue, scenario: Scenario) -> None:
    intents, largest = _AROUND.intents, _AROUND.largest_label
    intent, grades, behind = value.intent, value.grades, value.interactions
    expect(intent is None or 0 <= intent < intents, f"intents from 0 to {intents - 1}", f"{intent}")
    expect(behind is None or behind >= 1, "1 interaction or more", f"{behind}")
    fits = grades is None or (len(grades) > 0 and all(0 <= grade <= largest for grade in grades))
    expect(fits, f"grades from 0 to {largest}", f"{grades}")
    if value.click_model is not None:
        listed = all_of(f"scenario {scenario.name}: click_models", scenario.click_models, (str,), "texts")
        named = make(ClickModel, value.click_model).text
        known = [make(ClickModel, text).text for text in listed]
        expect(named in known, f"click_models that list {value.click_model}", f"{known}")


@_SCENARIOS("the intents over time")
def _intents(scenario: Scenario) -> None:
    environment, times = _environment(scenario), np.arange(0, 500, 7)
    if environment is None:
        return
    chances = environment.probabilities(times)
    shape = (times.size, _AROUND.intents)
    expect(chances.shape == shape, f"probabilities of shape {shape}", f"shape {chances.shape}")
    expect((chances >= -1e-12).all(), "no negative probability of an intent", f"{chances.min():.4g}")
    sums = chances.sum(axis=1)
    near = np.allclose(sums, 1.0)
    expect(
        near, "probabilities of the intents that sum to 1", f"sums of {sums.min():.4g} to {sums.max():.4g}"
    )
    periods = environment.periods
    ends = [period.end for period in periods]
    starts = [0, *ends[:-1]]
    connected = [period.first for period in periods] == starts and ends[-1] == _AROUND.total
    wanted = f"periods one after the other, from 0 to {_AROUND.total}"
    expect(connected, wanted, f"{[(period.first, period.end) for period in periods]}")
    again = _environment(scenario)
    same = again is not None and again.probabilities(times).tobytes() == chances.tobytes()
    expect(same, "the same probabilities each time", "others")


@_SCENARIOS("its twins")
def _twins(scenario: Scenario) -> None:
    found = one_of(f"scenario {scenario.name}: twins", scenario.twins(_AROUND), dict)
    for name, text in found.items():
        expect(name, "a name of each twin", "none")
        expect(canonical_scenarios(text) == text, "the canonical text of a scenario", repr(text))
        expect(text != scenario.text, "another scenario as twin", repr(text))
