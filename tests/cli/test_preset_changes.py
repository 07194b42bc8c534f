"""Presets with parameters of their own: they say so."""

from __future__ import annotations

from foltr_audit.cli.common import CommonOptions
from foltr_audit.cli.runs import PresetSelection, attack_preset
from tests.experiments.test_presets import QUICK, SMALL
from tests.fixtures.command import answer

TWIN = {"data.source": "synthetic:mq2007:60"}


def test_what_was_overridden_is_in_the_title_and_in_json() -> None:
    report = answer(SMALL)
    changed = {one["option"]: (one["value"], one["published"]) for one in report["published"]["overridden"]}
    assert QUICK.endswith("--clients 30 --rounds 2")
    assert {name: value for name, (value, _) in changed.items()} == {"--clients": "30", "--rounds": "2"}
    assert (changed["--rounds"][1], changed["--clients"][1]) == ("200", "1000")


def test_a_preset_as_it_is_overrides_nothing() -> None:
    preset = attack_preset("pham-2022")
    chosen = PresetSelection.of(preset, CommonOptions(fields=TWIN | {"seed": 7}), scale=0.1)
    assert list(chosen._overridden()) == []
    fewer = PresetSelection.of(preset, CommonOptions(fields=TWIN, eps=[4.5]))
    (one,) = fewer._overridden()
    assert one.option == "--defense"
    assert one.published == "clip:norm=3,gamma-laplace:eps=1.2,sensitivity=3"
