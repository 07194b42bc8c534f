"""The contract of every registered plug-in; a new one is tested here by being registered.

`foltr_audit.testing` has the checks; that they find plug-ins which break it is tested in `tests/testing/`.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from foltr_audit.core.plugins import Attack, ClickModel, Defense, Learner, Plugin, Scenario
from foltr_audit.core.plugins.registry import GROUPS, names, plugin_class
from foltr_audit.privacy.noise import AdditiveNoise, DiscreteGaussian, GammaShare, Gaussian, Skellam
from foltr_audit.testing import (
    ContractCheck,
    attack_checks,
    click_model_checks,
    defense_checks,
    learner_checks,
    noise_law_checks,
    scenario_checks,
)
from foltr_audit.testing.contract import run_checks
from tests.fixtures import tiny
from tests.fixtures.plugin_examples import example

CHECKS: dict[type[Plugin], Callable[[Any], list[ContractCheck]]] = {
    Attack: attack_checks,
    Defense: defense_checks,
    Learner: learner_checks,
    Scenario: scenario_checks,
    ClickModel: click_model_checks,
}

LAWS: tuple[AdditiveNoise, ...] = (
    *(GammaShare(n=n, scale=2.5) for n in (1, 2, 1000)),
    *(GammaShare(n=10, scale=2.5, count=3), Gaussian(sigma=0.3)),
    *(law(sigma=s, step=d) for law in (Skellam, DiscreteGaussian) for s, d in ((0.5, 0.25), (2.5, 1e-05))),
)

NO_PAPER = {"first-position", "none"}
"""Plug-ins too plain to have a source."""


def every_contract() -> Iterator[Any]:
    """The checks of every registered plug-in, of toys of each stage, and of noise laws."""
    for base, checks in CHECKS.items():
        plugins = [example(base, name) for name in names(base)]
        plugins += tiny.TOYS if base is Defense else []
        yield from (pytest.param(checks(plugin), id=plugin.name) for plugin in plugins)
    yield from (pytest.param(noise_law_checks(law), id=law.text) for law in LAWS)


@pytest.mark.parametrize("checks", list(every_contract()))
def test_contract(checks: list[ContractCheck]) -> None:
    """A failure names every check that failed."""
    assert checks
    run_checks(checks)


@pytest.mark.parametrize(("base", "name"), [(base, name) for base in GROUPS for name in names(base)])
def test_a_registered_plug_in_has_its_name_and_its_source(base: type[Plugin], name: str) -> None:
    cls = plugin_class(base, name)
    assert cls.name == name
    around = (inspect.getdoc(cls) or "") + (sys.modules[cls.__module__].__doc__ or "")
    assert name in NO_PAPER or "Source:" in around, "author, year and section of its source"
