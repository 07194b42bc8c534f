"""The contracts of click models and scenarios."""

from __future__ import annotations

import numpy as np

from foltr_audit.core.plugins import (
    ClickModel,
    Environment,
    Population,
    Scenario,
    ScenarioContext,
    Trait,
    TraitValue,
)
from foltr_audit.core.plugins.answers import all_of, clicks_of, one_of
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.settings.population import canonical_scenarios
from foltr_audit.rng import ClientStreams, Streams
from foltr_audit.testing.contract import CheckList, ContractCheck, checks_of, expect, run_checks
from foltr_audit.testing.plugin_checks import PLUGIN_CHECKS
from foltr_audit.testing.sample_data import generator
from foltr_audit.testing.surroundings import own_generators_only, threads
from foltr_audit.utils.arrays import Bools, Ints

_CLICKS, _SCENARIOS = CheckList(), CheckList()
_CLIENTS = np.arange(200)
_LARGEST = (1, 2, 4)
_AROUND = ScenarioContext(intents=4, largest_label=2, interactions=4, total=400)


def click_model_checks(model: ClickModel | type[ClickModel] | str) -> list[ContractCheck]:
    """The checks of a click model, each with its name, e.g. for `pytest.mark.parametrize`.

    Args:
        model: an object, a class whose parameters all have defaults, or the text of a registered click model.

    Raises:
        ContractError: it cannot be made.
    """
    return checks_of(ClickModel, model, [*PLUGIN_CHECKS, *_CLICKS])


def check_click_model(model: ClickModel | type[ClickModel] | str) -> None:
    """Check that a click model does what every click model must do; it need not be registered.

    Args:
        model: as for `click_model_checks`.

    Raises:
        ContractError: it does not; the error says which checks failed, and why.
    """
    run_checks(click_model_checks(model))


def scenario_checks(scenario: Scenario | type[Scenario] | str) -> list[ContractCheck]:
    """The checks of a scenario, each with its name, e.g. for `pytest.mark.parametrize`.

    Args:
        scenario: an object, a class whose parameters all have defaults, or the text of a registered one.

    Raises:
        ContractError: it cannot be made.
    """
    return checks_of(Scenario, scenario, [*PLUGIN_CHECKS, *_SCENARIOS])


def check_scenario(scenario: Scenario | type[Scenario] | str) -> None:
    """Check that a scenario does what every scenario must do; it need not be registered.

    Args:
        scenario: as for `scenario_checks`.

    Raises:
        ContractError: it does not; the error says which checks failed, and why.
    """
    run_checks(scenario_checks(scenario))


# --- click models -----------------------------------------------------------------------------------


def _labels(largest: int) -> Ints:
    rng = generator(2)
    labels = rng.integers(0, largest + 1, size=(_CLIENTS.size, 10))
    labels[np.arange(10) >= rng.integers(0, 11, size=(_CLIENTS.size, 1))] = -1
    labels.flags.writeable = False
    return labels


def _streams(clients: Ints, seed: int = 3) -> ClientStreams:
    return Streams(seed).clients("clicks", 1, clients)


def _clicks(model: ClickModel, largest: int, seed: int = 3, step: int = 2) -> Bools:
    labels = _labels(largest)
    return clicks_of(model, labels, largest, _streams(_CLIENTS, seed), step)


@_CLICKS("clicks on lists")
def _some_clicks(model: ClickModel) -> None:
    for largest in _LARGEST:
        labels = _labels(largest)
        with own_generators_only():
            clicks = _clicks(model, largest)
        expect(clicks.any(), f"clicks on lists with grades up to {largest}", "none")
        expect(not clicks[labels < 0].any(), "no click at the padding", "one")
        again = _clicks(model, largest)
        expect(again.tobytes() == clicks.tobytes(), "the same clicks from the same streams", "others")
        nobody = clicks_of(model, labels[:0], largest, _streams(_CLIENTS[:0]), 0)
        expect(nobody.shape == (0, 10), "clicks of shape (0, 10) of nobody", f"shape {nobody.shape}")


@_CLICKS("clicks do not depend on other clients")
def _clicks_alone(model: ClickModel) -> None:
    order = generator(5).permutation(_CLIENTS.size)
    for largest in _LARGEST:
        labels, clicks = _labels(largest), _clicks(model, largest)
        turned = clicks_of(model, labels[order], largest, _streams(_CLIENTS[order]), 2)
        expect(
            np.array_equal(clicks[order], turned), "the same clicks for clients in another order", "others"
        )
        for row in (0, 7):
            alone = clicks_of(model, labels[row : row + 1], largest, _streams(_CLIENTS[row : row + 1]), 2)
            expect(np.array_equal(alone[0], clicks[row]), "the same clicks for a client alone", "others")


@_CLICKS("every step draws anew")
def _steps(model: ClickModel) -> None:
    for largest in _LARGEST:
        clicks = _clicks(model, largest)
        certain = np.array_equal(clicks, _clicks(model, largest, seed=4))
        same = np.array_equal(clicks, _clicks(model, largest, step=3))
        expect(certain == same, "other draws in another local step", "the same clicks in two steps")


@_CLICKS("any number of threads")
def _click_threads(model: ClickModel) -> None:
    found = []
    for count in (1, 2):
        with threads(count):
            found.append(_clicks(model, 2).tobytes())
    expect(found[0] == found[1], "the same clicks on one thread and on two", "others")


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
def _clients(scenario: Scenario) -> None:
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
