"""What `foltr-audit verify` says of good bundles, and of forged ones whose hashes agree with each other."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foltr_audit.evidence.bundle.manifest import NAME
from foltr_audit.evidence.bundle.pack import pack
from foltr_audit.evidence.bundle.verify import RerunOptions, Verification, verify
from foltr_audit.experiments.comparison.compare import compare
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.comparison.grid import ComparisonGrid
from foltr_audit.experiments.comparison.workers import Workers
from foltr_audit.report.results.compare import CompareReport
from tests.fixtures.bundles import GRID, Files, changed_json, content, forged
from tests.fixtures.command import run

NONE = RerunOptions(sample=0, seed=1)
EVERY = RerunOptions(sample=None, seed=1)


def state(found: Verification, name: str) -> str:
    """What came of one check."""
    return next(check.state for check in found.checks if check.name == name)


def said(found: Verification) -> str:
    """Everything that the checks found."""
    return "\n".join(line for check in found.checks for line in check.found)


def cell_with(files: Files, name: str, defended: bool = True) -> str:
    """A file of the cell with a defense, or without one."""
    specs = [path for path in files if path.endswith("spec.toml")]
    chosen = next(path for path in specs if (b"none" not in files[path]) == defended)
    return f"{chosen.rpartition('/')[0]}/{name}"


def changed_arrays(files: Files, change: Callable[[dict[str, Any]], None]) -> Files:
    """Other arrays in the defended cell, with the hash that they must have."""
    name, facts = cell_with(files, "arrays.npz"), cell_with(files, "cell.json")
    arrays = dict(np.load(io.BytesIO(files[name]), allow_pickle=False))
    change(arrays)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    digest = hashlib.sha256(buffer.getvalue()).hexdigest()
    text = changed_json(files[facts], lambda table: table.update(arrays_sha256=digest))
    return {**files, name: buffer.getvalue(), facts: text}


def with_results(files: Files, tmp_path: Path) -> Files:
    """The results that honest code makes of what the files hold."""
    for name, data in files.items():
        (tmp_path / "made" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "made" / name).write_bytes(data)
    report = CompareReport.of(ComparisonFolder(tmp_path / "made"))
    return {**files, "results.json": (report.json() + "\n").encode()}


def test_a_good_bundle_is_verified_and_all_its_cells_run_again_to_the_same_bytes(small_bundle: Path) -> None:
    done = run("verify", small_bundle, "--all", "--jobs", "1", "--json")
    assert done.code == 0, done.out + done.err
    found = done.json()
    assert found["verdict"] == "verified"
    assert found["sha256"] == hashlib.sha256(small_bundle.read_bytes()).hexdigest()
    assert {check["check"]: check["state"] for check in found["checks"]} == dict.fromkeys(
        ("files", "Specs", "cells", "results", "grid", "re-run"), "holds"
    )
    assert found["versions_differ"] == {}
    assert "2 the same byte for byte" in found["checks"][-1]["found"][0]


def test_the_table_names_checks_and_verdict(small_bundle: Path) -> None:
    done = run("verify", small_bundle, "--sample", "0")
    assert done.code == 0
    assert "Verdict: verified, nothing re-run\n" in done.out
    assert "skipped" in done.out


def test_the_sample_is_drawn_by_the_seed() -> None:
    specs: Any = list(range(40))
    draws = [tuple(RerunOptions(sample=5, seed=seed).draw(specs)) for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]
    assert len(set(draws[0])) == 5
    assert list(draws[0]) == [spec for spec in specs if spec in draws[0]]


def test_results_that_do_not_follow_from_the_cells_are_named(small_bundle: Path, tmp_path: Path) -> None:
    files = content(small_bundle)
    better = changed_json(files["results.json"], lambda table: table["results"][1].update(auc=0.5))
    found = verify(forged(tmp_path / "f.zip", {**files, "results.json": better}), NONE)
    assert (found.verdict, state(found, "results")) == ("does not hold", "fails")
    assert "results[1].auc: 0.5, found" in said(found)


def test_a_forged_cell_with_results_to_match_is_caught_by_running_it_again(
    small_bundle: Path, tmp_path: Path
) -> None:
    def weaker(arrays: dict[str, Any]) -> None:
        arrays["guessed/0/scores"] = np.zeros_like(arrays["guessed/0/scores"])

    files = with_results(changed_arrays(content(small_bundle), weaker), tmp_path)
    path = forged(tmp_path / "f.zip", files)
    assert verify(path, NONE).verdict == "verified"  # as the report says, nothing was run again
    found = verify(path, EVERY)
    assert (state(found, "results"), state(found, "re-run")) == ("holds", "fails")
    assert "arrays.npz: guessed/0/scores" in said(found)


def test_a_renamed_cell_is_noticed(small_bundle: Path, tmp_path: Path) -> None:
    files = content(small_bundle)
    name = cell_with(files, "").rstrip("/")
    other = f"cells/{'0' * 12}"
    renamed = {path.replace(name, other): data for path, data in files.items()}
    specs = {path.replace(name, other): digest for path, digest in json.loads(files[NAME])["specs"].items()}
    found = verify(forged(tmp_path / "f.zip", renamed, specs=specs), NONE)
    assert state(found, "Specs") == "fails"
    assert "not to the name of its folder" in said(found)


def test_a_cell_with_the_results_of_another_is_noticed(small_bundle: Path, tmp_path: Path) -> None:
    files = content(small_bundle)
    for name in ("cell.json", "arrays.npz"):
        files[cell_with(files, name)] = files[cell_with(files, name, defended=False)]
    found = verify(forged(tmp_path / "f.zip", files), NONE)
    assert state(found, "cells") == "fails"
    assert "another Spec" in said(found)


def test_a_changed_spec_is_noticed_whatever_the_manifest_says(small_bundle: Path, tmp_path: Path) -> None:
    files = content(small_bundle)
    name = cell_with(files, "spec.toml")
    text = files[name].replace(b"clients = 5", b"clients = 6")
    assert text != files[name]
    specs = json.loads(files[NAME])["specs"]
    for digest in (specs[name], hashlib.sha256(text).hexdigest()):
        changed = forged(tmp_path / "f.zip", {**files, name: text}, specs={**specs, name: digest})
        assert state(verify(changed, NONE), "Specs") == "fails"


def test_a_defense_under_another_name_or_left_out_is_caught_by_the_grid(
    small_bundle: Path, tmp_path: Path
) -> None:
    files = content(small_bundle)

    def praised(table: Any) -> None:
        table["cells"][1].update(alternative="proven-laplace")

    def without(table: Any) -> None:
        del table["cells"][1]

    for change in (praised, without):
        cells = {**files, "comparison.json": changed_json(files["comparison.json"], change)}
        path = forged(tmp_path / "f.zip", with_results(cells, tmp_path / change.__name__))
        found = verify(path, RerunOptions(sample=1, seed=1))
        assert state(found, "results") == "holds"
        assert state(found, "grid") == "fails"


def test_a_sensitivity_that_was_not_the_best_on_the_validation_part_is_noticed(tmp_path: Path) -> None:
    grid = ComparisonGrid.parse({**GRID, "defenses": ["published"], "sensitivity_grid": [0.001, 0.01]})
    folder = ComparisonFolder.create(tmp_path / "study", resume=False, overwrite=False)
    assert not compare(grid, folder, Workers(jobs=1))
    folder.save_results(CompareReport.of(folder).json())
    pack(folder.path, tmp_path / "good.zip")
    asked = RerunOptions(sample=1, seed=1)
    assert verify(tmp_path / "good.zip", asked).verdict == "verified"

    def praised(table: Any) -> None:
        for row in table["sensitivities"]:
            row["ndcg"] += 0.5 * row["chosen"]

    files = content(tmp_path / "good.zip")
    index = changed_json(files["comparison.json"], praised)
    files = with_results({**files, "comparison.json": index}, tmp_path)
    found = verify(forged(tmp_path / "f.zip", files), asked)
    assert state(found, "grid") == "fails"
    assert "not the choice of the trainings" in said(found)


def test_other_versions_are_named_and_numbers_held_within_a_tolerance(
    small_bundle: Path, tmp_path: Path
) -> None:
    def moved(by: float) -> Files:
        def change(arrays: dict[str, Any]) -> None:
            arrays["rounds/online_ndcg@10"] = arrays["rounds/online_ndcg@10"] * (1 + by)

        return with_results(changed_arrays(content(small_bundle), change), tmp_path / str(by))

    there = {**json.loads(content(small_bundle)[NAME])["versions"], "numpy": "0.0.1"}
    near = verify(forged(tmp_path / "near.zip", moved(1e-12), versions=there), EVERY)
    assert near.verdict == "verified"
    assert near.differs["numpy"][0] == "0.0.1"
    assert "1 the same byte for byte, the others within relative 1e-06" in said(near)
    far = verify(forged(tmp_path / "far.zip", moved(1e-4), versions=there), EVERY)
    assert state(far, "re-run") == "fails"
    same = verify(forged(tmp_path / "same.zip", moved(1e-12)), EVERY)
    assert state(same, "re-run") == "fails"  # on the same versions every byte counts


def test_without_lists_only_a_run_of_every_cell_recomputes_the_results(
    small_comparison: Path, tmp_path: Path
) -> None:
    path = pack(small_comparison, tmp_path / "b.zip", without_lists=True).path
    none = verify(path, NONE)
    assert (none.verdict, state(none, "results")) == ("incomplete", "not possible")
    every = verify(path, EVERY)
    assert (every.verdict, state(every, "results")) == ("verified", "holds")


def test_a_partial_comparison_cannot_be_verified_as_a_whole(small_comparison: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(small_comparison, tmp_path / "copy"))
    cell = ComparisonFolder.open(copy).cells()[0]
    (ComparisonFolder.open(copy).cell(cell.spec) / "cell.json").unlink()
    done = run("verify", pack(copy, tmp_path / "b.zip", partial=True).path, "--sample", "0")
    assert done.code == 1
    assert "partial" in done.out
    assert "Verdict: incomplete" in done.out


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--sample", "-1"), "--sample"),
        (("--seed", "-1"), "--seed"),
        (("--all", "--sample", "1"), "one or the other"),
        (("--data", "here"), "synthetic"),
        (("--jobs", "0"), "--jobs"),
    ],
)
def test_options_that_cannot_be_meant(small_bundle: Path, options: tuple[str, ...], problem: str) -> None:
    done = run("verify", small_bundle, *options)
    assert done.code == 2
    assert problem in done.one_error()
