"""`foltr-audit study`: presets listed, shown as plans, and run at small scale."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from foltr_audit.studies.model_merging.spec import MergeSpec

from foltr_audit.core.settings.experiment import Spec
from foltr_audit.experiments.plan import Plan, apply_changes, read_tables
from foltr_audit.experiments.presets import FOLDS, load_preset, preset_names
from foltr_audit.experiments.runner import Runner
from tests.fixtures.command import answer, run

INTENTS, MQ2007 = "synthetic:clueweb-intents:15", "synthetic:mq2007:60"
RUN = [name for name in preset_names() if load_preset(name).kind != "merge"]


def small_data(name: str) -> str:
    """A small source in the likeness of what a preset needs."""
    return INTENTS if "intents" in load_preset(name).data.twin else MQ2007


# --- list and show --------------------------------------------------------------------------------


def test_list_names_every_preset_with_its_data_and_size() -> None:
    rows = answer("study list")["presets"]
    assert [row["name"] for row in rows] == list(preset_names())
    shown = run("study", "list")
    assert shown.code == 0
    for row in rows:
        assert row["name"] in shown.out
        assert row["about"]
        assert row["needs"]
    by_name = {row["name"]: row for row in rows}
    whole = by_name["wang-2021-figure-4"]
    assert (whole["specs"], whole["repetitions"]) == (2 * 3 * 3 * 2, 25)
    assert whole["interactions"] == 2 * 25 * 2 * 3 * (10 + 100 + 1000) * 2 * 200
    assert by_name["pham-2022"]["repetitions"] == FOLDS
    assert by_name["pham-2022"]["interactions"] == 5 * 2 * 1000 * 4 * 200
    periods = by_name["zhuang-2021-table-3"]
    assert periods["interactions"] == 2 * 25 * 3 * 3 * 4 * 50_000


@pytest.mark.parametrize("name", RUN)
def test_show_is_the_plan_that_config_accepts(name: str, tmp_path: Path) -> None:
    done = run("study", "show", name)
    assert done.code == 0
    plan = Plan.of(read_tables(done.out, "shown"))
    assert plan == load_preset(name).plan
    published = load_preset(name).published
    assert published.title in done.out
    for figure in published.figures:
        assert f"{figure.metric} {'about ' if figure.approximate else ''}{figure.value:g}" in done.out
    told = answer("study show", name)
    assert told["plan"] == tomllib.loads(done.out) == tomllib.loads(told["toml"])
    assert len(told["published"]["figures"]) == len(published.figures)


# --- run ------------------------------------------------------------------------------------------


def scaled(name: str, *options: object) -> Any:
    """A preset of which next to nothing is run."""
    return run("study", "run", name, "--data", small_data(name), "--scale", 1e-6, *options)


def test_a_training_stands_beside_its_numbers(tmp_path: Path) -> None:
    picture = tmp_path / "curves.svg"
    done = scaled("pham-2022-figure-2", "--json", "--out", tmp_path / "run", "--plot", picture)
    assert done.code == 0, done.err
    told = done.json()
    published = told["published"]
    assert published["preset"] == "pham-2022-figure-2"
    assert published["synthetic"] is True
    assert published["scale"] == 1e-6
    assert told["dataset"]["synthetic"] is True
    assert {row["round"] for row in told["rounds"]} == {0}
    assert told["config"]["population"]["clients"] == 1000
    for row in published["rows"]:
        (there,) = [each for each in told["utility"] if each["trained_on"] == row["where"]["trained_on"]]
        assert row["found"] == there["ndcg@10"]
        assert row["difference"] == row["found"] - 0.44
    assert picture.is_file()
    assert (tmp_path / "run" / "rounds.parquet").is_file()
    again = scaled("pham-2022-figure-2", "--json", "--out", tmp_path / "run", "--resume").json()
    assert again["published"] == published
    refused = scaled("pham-2022-figure-2", "--out", tmp_path / "run")
    assert refused.code == 2
    assert run("trace", "validate", tmp_path / "run").code == 0


def test_repetitions_are_scaled_and_may_be_given() -> None:
    told = answer(f"study run wang-2022-type-3 --data {MQ2007} --scale 0.001 --runs 2")
    assert {row["runs"] for row in told["utility"]} == {2}
    assert {row["round"] for row in told["rounds"]} == {0}
    assert {row["run"] for row in told["rounds"]} == {0, 1}
    assert {row["twin"] for row in told["twins"]} == {"evenly dealt"}
    assert {row["pairs"] for row in told["twins"]} == {2}


@pytest.mark.parametrize("name", RUN)
def test_a_spec_of_every_preset_runs_at_the_smallest_scale(name: str) -> None:
    preset = load_preset(name)
    (table, *_) = next(iter(preset.tables(1e-6).values()))
    spec = Spec.parse(apply_changes(table, {"data.source": small_data(name)}))
    cell = Runner().run(spec)
    assert len(cell.trained.rounds) == preset.periods
    assert cell.spec.population.clients == spec.population.clients
    assert (preset.kind == "attack") == bool(cell.attacks.evidence)


@pytest.mark.slow
@pytest.mark.parametrize("name", RUN)
def test_every_preset_runs_at_the_smallest_scale(name: str) -> None:
    done = scaled(name, "--json")
    assert done.code == 0, done.err
    told = done.json()
    assert told["published"]["preset"] == name
    preset = load_preset(name)
    assert len(told["published"]["rows"]) >= len(preset.published.figures)
    for row in told["published"]["rows"]:
        if "found" in row:
            assert row["found"] is not None, row


# --- the study of merged models -------------------------------------------------------------------

MERGE = "non-iid-ltr-2024"


def test_the_study_of_merged_models_is_a_valid_one() -> None:
    preset = load_preset(MERGE)
    spec = MergeSpec.parse(preset.merging())
    assert (spec.trees, spec.splits, spec.initial) == (3000, (1, 2, 3), True)
    small = MergeSpec.parse(preset.merging(0.1))
    assert (small.trees, small.trials) == (300, 3)
    assert small.model_copy(update={"trees": spec.trees, "trials": spec.trials}) == spec
    least = MergeSpec.parse(preset.merging(1e-9))
    assert (least.trees, least.trials) == (1, 1)
    shown = run("study", "show", MERGE)
    assert tomllib.loads(shown.out)["merge"] == preset.merging()
    (row,) = [row for row in answer("study list")["presets"] if row["name"] == MERGE]
    assert (row["trials"], row["trees"]) == (30, 3000)


@pytest.mark.slow
def test_the_study_of_merged_models_stands_beside_its_numbers(tmp_path: Path) -> None:
    options = ("--data", "synthetic:istella-s:700", "--scale", 1e-6, "--out", tmp_path / "study")
    told = answer("study", "run", MERGE, *options)
    assert told == json.loads((tmp_path / "study" / "results.json").read_text())
    assert told["published"]["synthetic"] is True
    rows = told["published"]["rows"]
    assert len(rows) == len(load_preset(MERGE).published.figures)
    # The exclusive split on the second category was discarded: it has no models to be found.
    lost = [row for row in rows if row["found"] is None]
    assert all(row["cell"] == "local" for row in lost)
    assert {(row["where"]["method"], row["where"]["choice"]) for row in lost} == {("exclusive", 2)}
    values = {(row["split"], row["model"], row["metric"]): row["value"] for row in told["merged"]}
    for row in rows:
        if row["cell"] == "merged":
            where = row["where"]
            assert row["found"] == values[where["split"], where["model"], row["metric"]]
    gains = {(row["method"], row["metric"]): row["largest_gain"] for row in told["verdicts"]}
    for row in rows:
        if row["cell"] == "verdicts":
            assert row["found"] == gains[row["where"]["method"], row["where"]["metric"]]
        if row["cell"] == "mixtures":
            assert row["found"] == told["mixtures"][0][row["metric"]]
    shown = run("study", "run", MERGE, *options, "--overwrite").out
    titles = [line for line in shown.splitlines() if "scale 1e-06)" in line]
    assert len(titles) >= 8
