"""Scenarios as text: what `--scenario` and a Spec say of the clients."""

from __future__ import annotations

from foltr_audit.plugins import ClickModel, Scenario
from foltr_audit.privacy.noise.parse import parts
from foltr_audit.registry import make


def parse_scenarios(text: str) -> tuple[Scenario, ...]:
    """The scenarios that a text joins by `+`, e.g. `intent-skew+quantity-skew:zipf=1`.

    Raises:
        PluginError: an unknown scenario or click model, or a refused parameter.
    """
    scenarios = tuple(make(Scenario, part) for part in parts(text))
    for scenario in scenarios:
        for model in scenario.click_models:
            make(ClickModel, model)
    return scenarios


def canonical_scenarios(text: str) -> str:
    """The canonical text; scenarios keep their order.

    Raises:
        ValueError: one is given twice.
        PluginError: as `parse_scenarios`.
    """
    scenarios = parse_scenarios(text)
    names = [scenario.name for scenario in scenarios]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name} is given twice; expected every scenario once")
    return "+".join(scenario.text for scenario in scenarios)
