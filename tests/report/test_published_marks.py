"""Marks of significance beside published numbers, in each reading of a preset."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from scipy.stats import ttest_rel

from foltr_audit.core.settings.experiment import Spec
from foltr_audit.experiments.presets import Preset, read_preset
from foltr_audit.experiments.published import StudyExtent
from foltr_audit.experiments.run import Run
from foltr_audit.report.presets import PresetComparison, preset_text
from tests.fixtures.run_results import run_of

TABLE = """
about = "Made up."
source = "Nobody 2020"
kind = "train"
data = { needs = "made-up data", get = "--data", twin = "synthetic:mq2007" }
shared.train.rounds = 1
grid.train.click_model = ["perfect", "informational"]
readings.published = { about = "p", spec = { data = { normalise = "none" } } }
readings.written = { about = "w" }
cells = [
    { name = "ours", grid.defense = [["clip:norm=1"]] },
    { name = "theirs", spec = { population = { clients = 7 } } },
]
[published]
title = "Nobody 2020, table 1"
data = "nothing"
figures = [
    { cell = "ours", where = { trained_on = "perfect" }, metric = "online_mean", value = 0.5, mark = "▼" },
    { cell = "ours", where = { trained_on = "informational" }, metric = "online_mean", value = 0.5 },
    { cell = "theirs", where = { trained_on = "perfect" }, metric = "online_mean", value = 0.6 },
]
[[published.tests]]
cell = "ours"
against = ["theirs"]
metric = "online_mean"
marks = [{ below = 0.05, gain = "△", loss = "▽" }, { below = 0.01, gain = "▲", loss = "▼" }]
"""
ROUND = {"round": 0.0, "offline_ndcg@10": 0.5, "maxrr": 0.5, "clipped": 0.0}
RUNS = 6
GAIN = {("published", "perfect"): 0.05, ("written", "informational"): -0.05}


def preset() -> Preset:
    return read_preset(TABLE, "mine")


def online(reading: str, cell: str, spec: Spec, repetition: int) -> float:
    """Online nDCG@10 of a run: "ours" is above "theirs" by `GAIN`, else the same up to noise."""
    clicks = spec.train.click_model
    rng = np.random.default_rng([len(reading), len(clicks), len(cell), repetition])
    shift = GAIN.get((reading, clicks), 0.0) if cell == "ours" else 0.0
    return float(0.4 + shift + 0.01 * repetition + rng.normal(0, 0.002))


def compared(runs: int = RUNS) -> PresetComparison:
    made: dict[str, dict[str, list[Run]]] = {}
    for reading in ("published", "written"):
        cells = made.setdefault(reading, {})
        for name, tables in preset().tables(reading=reading).items():
            specs = [Spec.parse({**table, "repetition": i}) for table in tables for i in range(runs)]
            cells[name] = [
                run_of(spec, [{**ROUND, "online_ndcg@10": online(reading, name, spec, spec.repetition)}])
                for spec in specs
            ]
    return PresetComparison.of(preset(), made, StudyExtent(data="here", synthetic=False))


def test_a_mark_is_found_where_a_difference_is_planted() -> None:
    table: Any = compared().table()
    found = {(row["reading"], row["cell"], row["where"]["trained_on"]): row for row in table["rows"]}
    assert {place: row["found_mark"] for place, row in found.items() if row["found_mark"]} == {
        ("published", "ours", "perfect"): "▲",
        ("written", "ours", "informational"): "▼",
    }
    assert found["published", "ours", "perfect"]["published_mark"] == "▼"
    assert found["written", "theirs", "perfect"]["published_mark"] == ""
    assert len(table["tests"]) == 4, "a family of two tests in each reading"
    for row in table["tests"]:
        reading, clicks = row["reading"], row["where"]["trained_on"]
        ours, theirs = (
            [online(reading, cell, Spec.parse({"train": {"click_model": clicks}}), i) for i in range(RUNS)]
            for cell in ("ours", "theirs")
        )
        assert row["p"] == pytest.approx(ttest_rel(ours, theirs).pvalue, rel=1e-9)
        assert row["p_bonferroni"] == pytest.approx(min(1.0, 2 * row["p"]), rel=1e-9)
        assert (row["against"], row["pairs"], row["comparisons"]) == ("theirs", RUNS, 2)


def test_numbers_are_printed_with_their_marks() -> None:
    out = io.StringIO()
    compared().print(Console(file=out, width=200))
    lines = [line.split() for line in out.getvalue().splitlines()]
    perfect = next(words for words in lines if words[:2] == ["ours", "perfect"])
    assert ".500▼" in perfect
    assert sum(word.endswith("▲") for word in perfect) == 1
    assert "0.5 ▼" in preset_text(preset())
