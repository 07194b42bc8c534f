"""Presets with parameters of their own: they say so; and their tables on narrow terminals."""

from __future__ import annotations

import pytest

from foltr_audit.cli.common import CommonOptions
from foltr_audit.cli.preset_plan import PresetSelection, attack_preset
from tests.experiments.test_presets import QUICK, SMALL
from tests.fixtures.command import run

TWIN = {"data.source": "synthetic:mq2007:60"}


def test_what_was_overridden_is_in_the_title_and_in_json() -> None:
    report = run(*SMALL, "--json").json()
    changed = {one["option"]: (one["value"], one["published"]) for one in report["published"]["overridden"]}
    given = dict(zip(QUICK[::2], QUICK[1::2], strict=True))
    assert given
    assert {name: value for name, (value, _) in changed.items()} == {name: str(given[name]) for name in given}
    assert (changed["--rounds"][1], changed["--clients"][1]) == ("200", "1000")
    shown = " ".join(run(*SMALL).out.split())
    heading, _, rest = shown.partition(" instead of ")
    assert f"--rounds {given['--rounds']}" in heading
    assert "Pham 2022, table 4: accuracy/precision/recall (synthetic data, with --" in rest


def test_a_preset_as_it_is_overrides_nothing() -> None:
    preset = attack_preset("pham-2022")
    chosen = PresetSelection.of(preset, CommonOptions(fields=TWIN | {"seed": 7}), scale=0.1)
    assert list(chosen._overridden()) == []
    fewer = PresetSelection.of(preset, CommonOptions(fields=TWIN, eps=[4.5]))
    assert [(one.option, one.published) for one in fewer._overridden()] == [
        ("--defense", "clip:norm=3,gamma-laplace:eps=1.2,sensitivity=3")
    ]


def test_rows_of_utility_say_what_they_differ_in() -> None:
    shown = run(*SMALL, "--full").out
    table = shown[shown.index("nDCG@10 on ") :]
    assert "normalise" in table.partition("zscore")[0]
    assert [name for line in table.splitlines() for name in line.split() if name.startswith("zscore")][
        :2
    ] == [
        "zscore-parts",
        "zscore",
    ]


def test_a_narrow_table_keeps_names_and_published_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    done = run(*SMALL)
    table = done.out[done.out.index("Pham 2022, table 4: accuracy") :]
    assert "no room for as published" in " ".join(table.split())
    assert max(map(len, table.splitlines())) <= 60
    for words in ("random:k=3", "higher-probability", "informational", ".88/.80/.93", "corrected"):
        assert words in table
