"""Presets: they load, their cells are Specs that can be made, their figures stand beside what was found."""

from __future__ import annotations

import shutil
import tomllib
from fnmatch import fnmatch
from functools import cache
from itertools import chain, product
from pathlib import Path
from typing import Any, cast

import pytest

from foltr_audit.cli.common import CommonOptions
from foltr_audit.cli.runs import PresetSelection, attack_preset
from foltr_audit.core.defense_chain import parse_chain
from foltr_audit.core.plugins import Attack, ClickModel, Learner
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.settings.experiment import Spec, flat
from foltr_audit.errors import UsageError
from foltr_audit.experiments.presets import RANDOM, load_preset, preset_names, read_preset
from tests.fixtures.command import answer, run
from tests.fixtures.import_graph import ROOT
from tests.fixtures.there import there

QUICK = "attack --preset pham-2022 --clients 30 --rounds 2"
SMALL = f"{QUICK} --data synthetic:mq2007:60"
READINGS = ("published", "written")


# --- the files ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", preset_names())
class TestEveryPreset:
    def test_its_cells_are_canonical_specs_whose_plugins_can_be_made(self, name: str) -> None:
        for spec in specs_of(name):
            assert Spec.from_toml(spec.toml) == spec
            assert spec.data.source == load_preset(name).data.twin
            if spec.attack is not None:
                for text in spec.attacks:
                    assert make(Attack, text).text == text
                for text in spec.attack.click_models:
                    assert make(ClickModel, text).text == text
            assert make(ClickModel, spec.train.click_model).text == spec.train.click_model
            assert make(Learner, spec.train.learner).text == spec.train.learner
            assert tuple(link.text for link in parse_chain(spec.defense)) == spec.defense

    def test_its_specs_differ_and_make_a_plan(self, name: str) -> None:
        assert len({spec.hash for spec in specs_of(name)}) == len(specs_of(name))

    def test_it_names_only_what_it_has(self, name: str) -> None:
        preset = load_preset(name)
        cells, published = [cell.name for cell in preset.cells], preset.published
        assert len(set(cells)) == len(cells)
        named = {one.cell for one in published.figures} | {one.cell for one in published.tests}
        named |= {other for test in published.tests for other in test.against}
        assert named <= set(cells) or not cells
        marks = {
            (test.cell, test.metric, sign)
            for test in published.tests
            for mark in test.marks
            for sign in (mark.gain, mark.loss)
        }
        assert {(one.cell, one.metric, one.mark) for one in published.figures if one.mark} <= marks
        assert published.figures or published.attacks or published.shows
        for one in published.attacks:
            assert one.method.startswith(RANDOM) or make(Attack, one.method).name == one.method
            assert make(ClickModel, one.click_model).text == one.click_model
            assert all(0 <= share <= 1 for share in (one.accuracy, one.precision, one.recall))

    def test_it_has_what_its_kind_needs(self, name: str) -> None:
        preset = load_preset(name)
        assert bool(preset.merge) == (preset.kind == "merge") == (not preset.cells)
        assert preset.merge or {spec.attack is not None for spec in specs_of(name)} == {
            preset.kind == "attack"
        }
        assert set(preset.readings) in (set(), set(READINGS))
        assert preset.readings or not any(cell.readings for cell in preset.cells)
        assert all(spec.train.rounds % preset.periods == 0 for spec in specs_of(name))
        assert preset.data.twin.startswith("synthetic:")

    def test_no_messages_are_kept(self, name: str) -> None:
        assert {spec.trace.every for spec in specs_of(name)} <= {0}

    def test_every_attack_runs_what_was_published(self, name: str) -> None:
        preset = load_preset(name)
        for spec in specs_of(name) if preset.kind == "attack" else []:
            attack = there(spec.attack)
            methods = [text.partition(":")[0] for text in attack.methods or ()]
            found = set(product(methods, attack.click_models))
            wanted = {(one.method, one.click_model) for one in preset.published.attacks}
            assert found == {pair for pair in wanted if not pair[0].startswith(RANDOM)}

    def test_every_number_is_of_specs_that_are_run(self, name: str) -> None:
        preset = load_preset(name)
        tables = preset.tables()
        for figure in preset.published.figures if preset.cells else ():
            specs = [Spec.parse(table) for table in tables[figure.cell]]
            where = dict(figure.where)
            clicks = where.pop("trained_on", None)
            defense = where.pop("defense", None)
            of_clicks = [spec for spec in specs if clicks in (None, spec.train.click_model)]
            assert [spec for spec in of_clicks if defense in (None, "+".join(spec.defense))], figure
            assert set(where) <= {"eps_claimed", "period"}

    def test_its_tables_may_be_changed(self, name: str) -> None:
        preset = load_preset(name)
        for tables in preset.tables().values():
            table: Any
            for table in tables:
                table["train"]["rounds"] = 1
                table.setdefault("attack", {}).setdefault("on", []).append("test")
        assert preset == load_preset(name)

    def test_a_scale_shortens_rounds_and_never_changes_the_clients(self, name: str) -> None:
        preset = load_preset(name)
        for scale in (0.5, 0.01, 1e-9):
            small, full = preset.tables(scale), preset.tables()
            assert list(small) == list(full)
            pairs = [zip(small[cell], full[cell], strict=True) for cell in full]
            for ours, theirs in chain.from_iterable(pairs):
                short, long = Spec.parse(ours), Spec.parse(theirs)
                assert short.population == long.population
                assert short.train.learner == long.train.learner
                assert short.train.rounds % preset.periods == 0
                assert abs(short.train.rounds - scale * long.train.rounds) <= preset.periods
                assert 1 <= short.train.rounds <= long.train.rounds
                assert Spec.parse({**ours, "train": theirs["train"]}).train == long.train

    def test_is_packaged(self, name: str) -> None:
        table = tomllib.loads((ROOT / "pyproject.toml").read_text())
        patterns = table["tool"]["setuptools"]["package-data"]["foltr_audit.scenarios"]
        assert any(fnmatch(f"presets/{name}.toml", pattern) for pattern in patterns)
        assert (ROOT / "scenarios" / "presets" / f"{name}.toml").is_file()


@cache
def specs_of(name: str) -> list[Spec]:
    """Every Spec of a preset."""
    preset = load_preset(name)
    every = [preset.tables(reading=reading) for reading in preset.reading_names]
    return [Spec.parse(table) for tables in every for mine in tables.values() for table in mine]


def test_repeats_are_shortened_too() -> None:
    text = GOOD.replace("min_documents = 10", "min_documents = 10\nrepeats = 20")
    (table,) = read_preset(text, "mine").tables(0.1)["FPDGD"]
    assert {"attack.repeats": 2, "train.rounds": 20}.items() <= flat(table).items()


def test_a_grid_is_each_with_each() -> None:
    first = '[[cells]]\nname = "FPDGD"\n'
    grid = "[grid]\nseed = [1, 2]\ntrain.rounds = [200, 400]\n\n"
    text = GOOD.replace(first, f"{grid}{first}grid.population.clients = [10, 1000, 20]\n")
    tables = read_preset(text, "mine").tables()
    assert [len(each) for each in tables.values()] == [12]
    points = {
        (each["seed"], each["train"]["rounds"], each["population"]["clients"])
        for each in cast("list[Any]", tables["FPDGD"])
    }
    assert points == {(s, r, c) for s in (1, 2) for r in (200, 400) for c in (10, 1000, 20)}


def test_the_readings_of_pham_2022_differ_in_data_and_attacks_only() -> None:
    published, written = specs_of("pham-2022")
    assert published.attack is not None
    assert published.data.normalise == "zscore-parts"
    assert written.data.normalise == "zscore"
    assert all("compare=positions" in text for text in published.attacks[:3])
    assert not any("positions" in text for text in written.attacks)
    same = {"data": written.data, "attack": there(written.attack)}
    assert published.model_copy(update=same) == written
    assert written.train.rounds == 200
    assert there(written.attack).on == ("vali",)


# --- what is refused ------------------------------------------------------------------------------

GOOD = (ROOT / "scenarios" / "presets" / "pham-2022.toml").read_text()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[shared]", "[shared", "not TOML: "),
        ("about =", "abuot =", "about is missing"),
        ("[[cells]]", "[[cells]]\nextra = 1", "cells.extra=1: "),
        ('kind = "attack"', 'kind = "attak"', "kind=attak: "),
    ],
)
def test_a_wrong_preset_is_one_clear_line(old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(UsageError) as caught:
        read_preset(GOOD.replace(old, new), "mine")
    assert str(caught.value).startswith(f"preset mine: {message}")


# --- the command ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    return dict(answer(SMALL))


def test_rows_are_those_of_the_report(report: dict[str, Any]) -> None:
    """Scored by another piece of code: without folds the comparison and the results must agree."""
    published = report["published"]
    assert published["preset"] == "pham-2022"
    assert published["synthetic"] is True
    assert {row["reading"] for row in published["rows"]} == set(READINGS)
    prepared = {"published": "zscore-parts", "written": "zscore"}
    results = {(row["data.normalise"], row["click_model"], row["method"]): row for row in report["results"]}
    assert len(published["rows"]) == 2 * 3 * (2 + 4)
    for row in published["rows"]:
        wanted = results[prepared[row["reading"]], row["click_model"], row["method"]]
        for name in ("accuracy", "precision", "recall"):
            assert row[name] == (wanted[name] and pytest.approx(wanted[name], abs=1e-12))
            assert 0 <= row[f"published_{name}"] <= 1


def test_only_the_validation_part_is_attacked(report: dict[str, Any]) -> None:
    assert report["config"]["attack"]["on"] == ["vali"]
    assert {row["queries"] for row in report["results"]} <= set(range(13))  # a fifth of 60 queries
    assert len(report["utility"]) == 2


def test_options_override_every_cell() -> None:
    attack = "--method olsr --method higher-score --click-model perfect --repeats 2"
    told = answer(f"{SMALL} {attack} --eps 1.2 --eps 5 --seed 9")
    assert told["config"]["seed"] == 9
    assert told["config"]["attack"]["repeats"] == 2
    assert told["config"]["train"]["rounds"] == 2
    assert told["config"]["population"]["clients"] == 30
    rows = told["published"]["rows"]
    assert {row["method"] for row in rows} == {"olsr", "higher-score", "random:k=3", "random:k=4"}
    assert {row["click_model"] for row in rows} == {"perfect"}
    pairs = ((1.2, 3), (5, 5))
    chains = {f"clip:norm={d / 2}+gamma-laplace:eps={eps},sensitivity={d}" for eps, d in pairs}
    assert {row["defense"] for row in rows} == chains
    assert len(rows) == 2 * 2 * 4


def test_cells_that_options_make_equal_are_run_once() -> None:
    told = answer(f"{SMALL} --method olsr --normalise zscore --click-model perfect")
    assert "cells" not in told["config"]
    rows = [row for row in told["published"]["rows"] if row["method"] == "olsr"]
    assert [row["reading"] for row in rows] == list(READINGS)
    assert rows[0]["accuracy"] == rows[1]["accuracy"]


@pytest.fixture(scope="module")
def folds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two folds: the second has the parts of the first in other roles."""
    folder = tmp_path_factory.mktemp("folds")
    assert run("data", "synth", "--queries", 60, "--out", folder / "made").code == 0
    for number, parts in enumerate((("train", "vali", "test"), ("train", "test", "vali")), start=1):
        (folder / f"Fold{number}").mkdir()
        for part, source in zip(("train", "vali", "test"), parts, strict=True):
            shutil.copy(folder / "made" / f"{source}.txt", folder / f"Fold{number}" / f"{part}.txt")
    shutil.rmtree(folder / "made")
    return folder


def test_all_folds_are_run_unless_one_is_named(folds: Path) -> None:
    asked = (f"{QUICK} --click-model informational --data", folds)
    for options, number in (((), 2), (("--fold", 2), 1), (("--runs", 3), 2)):
        told = answer(*asked, *options)
        assert {row["folds"] for row in told["published"]["rows"]} == {number}
    assert {row["runs"] for row in told["utility"]} == {3}


def test_a_kept_run_holds_the_comparison_and_its_plan_repeats_it(tmp_path: Path) -> None:
    config, folder = tmp_path / "plan.toml", tmp_path / "run"
    first = run(f"{SMALL} --click-model perfect --json --save-config", config, "--out", folder)
    assert first.out.strip() == (folder / "results.json").read_text().strip()
    told = first.json()
    assert told.pop("published")["rows"]
    assert answer("attack --config", config) == told
    assert run("trace validate", folder).code == 0


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
