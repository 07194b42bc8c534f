"""The benchmark of table 2 of Wang et al. 2021: it trains the preset's Specs once, and compares in pairs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from benchmarks.preset_curves import EVERY, StoredCurve, repetition_specs
from benchmarks.wang_table_2 import (
    COMPARISONS,
    LEVELS,
    METRICS,
    PRESET,
    TableSystem,
    TrainedSystems,
    difference_rows,
    interval,
    main,
    named_systems,
    system_rows,
)
from foltr_audit.cli.common import CommonOptions
from foltr_audit.cli.preset_plan import PresetSelection
from foltr_audit.experiments.presets import load_preset
from foltr_audit.experiments.runner import Runner

DATA = "synthetic:mq2007:30"


def curve(level: float, rounds: int = 1000) -> StoredCurve:
    """A curve that rises in a straight line to a level."""
    ends = list(range(EVERY, rounds + 1, EVERY))
    values = [level * end / rounds for end in ends]
    return StoredCurve(
        rounds=ends, ndcg=values, maxrr=values, online=values, online_sum=sum(values), seconds=1.0
    )


def trained() -> TrainedSystems:
    """Every system of the preset, with three curves of random levels."""
    rng = np.random.default_rng(3)
    systems = [system for system, _ in named_systems(PRESET, DATA, 0, None)]
    return TrainedSystems({system: [curve(rng.uniform()) for _ in range(3)] for system in systems})


def test_it_trains_the_specs_of_the_preset() -> None:
    preset = load_preset(PRESET)
    common = CommonOptions(runs=2, fields={"data.source": DATA})
    expected = set(PresetSelection.of(preset, common).plan.specs)
    found = [spec for repetition in range(2) for _, spec in repetition_specs(PRESET, DATA, repetition)]
    assert len(found) == len(expected)
    assert all(spec.train.evaluate_every == EVERY for spec in found)
    every = (
        spec.model_copy(update={"train": spec.train.model_copy(update={"evaluate_every": 1})})
        for spec in found
    )
    assert {spec.hash for spec in every} == {spec.hash for spec in expected}


def test_repetitions_take_the_folds_in_turn(tmp_path: Path) -> None:
    for k in range(1, 6):
        (tmp_path / f"S{k}.txt").write_text(f"1 qid:{k} 1:0.5\n0 qid:{k} 1:0.1\n", encoding="utf-8")
    folds = [next(repetition_specs(PRESET, str(tmp_path), i))[1].data.fold for i in range(7)]
    assert folds == [1, 2, 3, 4, 5, 1, 2]


def test_every_system_has_its_level_and_its_published_number() -> None:
    rows = {(row["clicks"], row["learner"], row["level"]): row for row in system_rows(trained())}
    assert len(rows) == 3 * (2 * len(LEVELS) + 2)
    for figure in load_preset(PRESET).published.figures:
        text = str(figure.where.get("eps_claimed", figure.where.get("defense")))
        level = {
            "metric-rr:p=0.25": "1.2",
            "metric-rr:p=0.5": "2.3",
            "metric-rr:p=0.9": "4.5",
            "metric-rr:p=1": "10",
        }
        place = figure.where["trained_on"], figure.cell, level.get(text, text)
        assert rows[place]["published"] == figure.value
    for system, spec in named_systems(PRESET, DATA, 0, None):
        if system.learner == "FPDGD":
            assert f"eps={system.level}," in "+".join(spec.defense)
    assert sum(row["published"] is None for row in rows.values()) == 6


def test_a_difference_is_that_of_the_means() -> None:
    systems = trained()
    means = {
        (row["clicks"], row["learner"], row["level"], name): row[name]
        for row in system_rows(systems)
        for name in METRICS
    }
    by_name = {compared.name: compared for compared in COMPARISONS}
    falls = 0
    for row in difference_rows(systems):
        compared = by_name[str(row["comparison"])]
        first, second = compared.systems(str(row["clicks"]), str(row["level"]))
        if first == second:  # the curves rise in a straight line: a fifth of the rounds, a fifth of the level
            assert row["difference"] == pytest.approx(0.8 * means[(*first, row["metric"])])
            falls += 1
        else:
            expected = means[(*first, row["metric"])] - means[(*second, row["metric"])]
            assert row["difference"] == pytest.approx(expected)
    assert falls == 2 * 3 * len(LEVELS)


def test_an_interval_is_students() -> None:
    values = np.array([0.2, 0.5, 0.4, 0.9])
    expected = stats.t.interval(0.95, 3, loc=values.mean(), scale=stats.sem(values))
    assert interval(values) == pytest.approx(expected)
    assert interval(values[:2]) is None


def test_systems_are_paired_by_repetition() -> None:
    """Folds that differ widely widen no interval of a difference that is the same on each."""
    systems = trained()
    for k, level in enumerate((0.2, 0.5, 0.8)):
        systems.curves[TableSystem("perfect", "FPDGD", "1.2")][k] = curve(level + 0.1)
        systems.curves[TableSystem("perfect", "FOLtR-ES", "1.2")][k] = curve(level)
    row = next(row for row in difference_rows(systems) if row["level"] == "1.2")
    assert (row["comparison"], row["clicks"]) == ("FPDGD less FOLtR-ES", "perfect")
    assert row["difference ci95"] == pytest.approx([0.1, 0.1])


def test_finished_runs_are_not_played_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ["--data", DATA, "--rounds", "10", "--repetitions", "1", "--store", str(tmp_path)]
    main(options)
    first = json.loads(capsys.readouterr().out)
    assert first["config"]["runs"] == 1
    assert first["processor_seconds"] > 0
    assert len(list(tmp_path.glob("*.json"))) == 30
    monkeypatch.setattr(Runner, "run", lambda *_: pytest.fail("played again"))
    main(options)
    assert json.loads(capsys.readouterr().out) == first


def test_a_curve_has_the_mean_of_the_rounds_between_evaluations() -> None:
    """By another route: the same Spec, evaluated in every round."""
    _, spec = next(repetition_specs(PRESET, DATA, 0, rounds=20))
    small = spec.model_copy(update={"population": spec.population.model_copy(update={"clients": 5})})
    each = Runner().run(
        small.model_copy(update={"train": small.train.model_copy(update={"evaluate_every": 1})})
    )
    found = StoredCurve.of(Runner().run(small).trained, 0.0)
    rows = each.trained.rounds
    assert found.rounds == [10, 20]
    assert found.ndcg == [rows[9]["offline_ndcg@10"], rows[19]["offline_ndcg@10"]]
    assert found.maxrr == [rows[9]["offline_maxrr@10"], rows[19]["offline_maxrr@10"]]
    online = np.array([row["online_ndcg@10"] for row in rows]).reshape(2, 10).mean(axis=1)
    assert found.online == pytest.approx(online)
    assert found.online_sum == each.trained.online_sum
