"""The contract of every registered click model and scenario."""

from __future__ import annotations

import numpy as np
import pytest

from foltr_audit.core.plugins import ClickModel, Population, Scenario, ScenarioContext, Trait, TraitValue
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.spec.population import canonical_scenarios
from foltr_audit.rng import Streams
from tests.plugins.test_contract import example, registered


@registered(ClickModel)
@pytest.mark.parametrize("largest", [1, 2, 4])
def test_click_model(name: str, largest: int) -> None:
    model, rng = example(ClickModel, name), np.random.default_rng(2)
    clients = np.arange(200)
    labels = rng.integers(0, largest + 1, size=(clients.size, 10))
    labels[np.arange(10) >= rng.integers(0, 11, size=(clients.size, 1))] = -1
    labels.flags.writeable = False
    streams = Streams(3).clients("clicks", 1, clients)
    clicks = model.click(labels, largest, streams, 2)
    assert clicks.dtype == np.bool_
    assert clicks.shape == labels.shape
    assert clicks.any()
    assert not clicks[labels < 0].any(), "a click at the padding"
    assert clicks.tobytes() == model.click(labels, largest, streams, 2).tobytes()
    order = rng.permutation(clients.size)
    turned = model.click(labels[order], largest, Streams(3).clients("clicks", 1, clients[order]), 2)
    assert np.array_equal(clicks[order], turned)
    certain = (name, largest) == ("perfect", 1)
    assert certain == np.array_equal(clicks, model.click(labels, largest, streams, 3)), "steps draw anew"
    nobody = model.click(labels[:0], largest, Streams(3).clients("clicks", 1, clients[:0]), 0)
    assert nobody.shape == (0, 10)


@registered(Scenario)
def test_scenario(name: str) -> None:
    scenario = example(Scenario, name)
    around = ScenarioContext(intents=4, largest_label=2, interactions=4, total=400)
    population, environment = scenario.population(Population(), around), scenario.environment(around)
    assert (
        population.with_trait(Trait(name="other", values=(TraitValue(name="all"),))).n_groups
        == population.n_groups
    )
    assert len(set(population.groups)) == population.n_groups
    if environment is not None:
        chances = environment.probabilities(np.arange(0, 500, 7))
        assert chances.shape == (72, 4)
        assert np.allclose(chances.sum(axis=1), 1)
        assert (chances >= -1e-12).all()
        assert environment.periods[0].first == 0
        assert environment.periods[-1].end == 400
    for name, text in scenario.twins(around).items():
        assert name
        assert canonical_scenarios(text) == text != scenario.text
    assert scenario == make(Scenario, scenario.text)
