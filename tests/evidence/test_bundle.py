"""What `bundle` packs, and what `verify` says of good bundles and of forged ones under right hashes."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from foltr_audit.recorder.trace_files import archive_of

from foltr_audit.core.settings.experiment import Spec
from foltr_audit.errors import FoltrAuditError, TraceError
from foltr_audit.evidence.bundle import NAME, pack
from foltr_audit.evidence.verification import DataPlaces
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.versions import OURS, code_of
from foltr_audit.report.compare import CompareReport
from tests.fixtures.bundles import Files, changed_json, content, forged, verify
from tests.fixtures.command import files, run
from tests.fixtures.data_cache import TEXT
from tests.fuzz.samples import lines_of, sealed

TINY = ("--data", "synthetic:mq2007:60", "--clients", "5", "--rounds", "2", "--threads", "1")
HOLD = ("files", "Specs", "cells", "re-run", "results")


def states(table: Any) -> dict[str, str]:
    """What came of each check of a verification."""
    return {check["check"]: check["state"] for check in table["checks"]}


def said(table: Any) -> str:
    return "\n".join(line for check in table["checks"] for line in check["found"])


def made(*arguments: object) -> None:
    done = run(*arguments)
    assert done.code == 0, done.err


def last_changed(data: bytes, bits: int) -> bytes:
    return data[:-1] + bytes([data[-1] ^ bits])


def cell_with(files: Files, name: str, defended: bool = True) -> str:
    """A file of the cell with a defense, or without one."""
    specs = [path for path in files if path.endswith("spec.toml")]
    chosen = next(path for path in specs if (b"none" not in files[path]) == defended)
    return f"{chosen.rpartition('/')[0]}/{name}"


def changed_arrays(files: Files, change: Callable[[dict[str, Any]], None]) -> Files:
    """Other arrays in the defended cell, with the hash that they must have."""
    name, records = cell_with(files, "arrays.npz"), cell_with(files, "records.jsonl")
    arrays = dict(np.load(io.BytesIO(files[name]), allow_pickle=False))
    change(arrays)
    archive = archive_of(arrays, zipfile.ZIP_DEFLATED)
    return {**files, name: archive, records: sealed(lines_of(files[records]), archive)}


def with_results(files: Files, tmp_path: Path) -> Files:
    """The results that honest code makes of what the files hold."""
    for name, data in files.items():
        (tmp_path / "made" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "made" / name).write_bytes(data)
    report = CompareReport.of(ComparisonFolder(tmp_path / "made"))
    return {**files, "results.json": (report.json() + "\n").encode()}


# --- packing --------------------------------------------------------------------------------------


def test_a_bundle_holds_every_file_with_its_hash_and_has_the_same_bytes_anywhere(
    small_comparison: Path, small_bundle: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(small_comparison, tmp_path / "copy"))
    (copy / "notes.txt").write_text("mine")
    for file in copy.rglob("*"):
        os.utime(file, (1, 1))
    done = run("report", copy, "--zip", tmp_path / "b.zip", "--json")
    assert (tmp_path / "b.zip").read_bytes() == small_bundle.read_bytes()
    assert done.json()["sha256"] == hashlib.sha256(small_bundle.read_bytes()).hexdigest()
    packed = content(small_bundle)
    manifest = json.loads(packed.pop(NAME))
    assert packed == files(small_comparison)
    for name, data in packed.items():
        expected = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        assert manifest["files"][name] == expected
    assert manifest["versions"]["numpy"] == np.__version__


def test_a_damaged_cell_is_not_packed_and_an_unfinished_comparison_only_as_partial(
    small_comparison: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(small_comparison, tmp_path / "copy"))
    folder = ComparisonFolder.open(copy)
    cell = folder.cell(folder.cells()[0].spec)
    whole = (cell / "arrays.npz").read_bytes()
    (cell / "arrays.npz").write_bytes(whole[:-1])
    with pytest.raises(TraceError, match=r"arrays\.npz: damaged"):
        pack(copy, tmp_path / "b.zip")
    (cell / "records.jsonl").unlink()
    done = run("report", copy, "--zip", tmp_path / "b.zip")
    assert (done.code, "1 of 2 cells are missing" in done.one_error()) == (2, True)
    assert not list(tmp_path.glob("*b.zip*"))
    made("report", copy, "--zip", tmp_path / "b.zip", "--partial")
    done = run("check", tmp_path / "b.zip", "--sample", "0")
    assert (done.code, "partial" in done.out, "Verdict: incomplete" in done.out) == (1, True, True)


def test_places_and_folders_that_are_none_for_a_bundle(small_comparison: Path, tmp_path: Path) -> None:
    (tmp_path / "there.zip").write_text("mine")
    for folder, to, problem in (
        (small_comparison, tmp_path / "there.zip", "--overwrite"),
        (small_comparison, tmp_path, "is a folder"),
        (small_comparison, tmp_path / "none" / "b.zip", "no such folder"),
        (small_comparison, tmp_path / "b.tar", "ends in .zip"),
        (small_comparison, small_comparison / "b.zip", "is inside"),
        (tmp_path, tmp_path.parent / "b.zip", "neither a Run"),
    ):
        done = run("report", folder, "--zip", to)
        assert (done.code, problem in done.one_error()) == (2, True)
    assert (tmp_path / "there.zip").read_text() == "mine"
    made("report", small_comparison, "--zip", tmp_path / "there.zip", "--overwrite")
    done = run("report", small_comparison, "--zip", tmp_path / "b.zip", "--with-trace")
    assert (done.code, "stores no traces" in done.one_error()) == (2, True)


def test_what_a_killed_writer_left_goes_with_the_next(small_comparison: Path, tmp_path: Path) -> None:
    for name in (
        ".b.zip.0123456789abcdef.tmp",
        ".page.html.0123456789abcdef.tmp",
        ".b.zip.tmp",
        ".b.zip.x.0.tmp",
    ):
        (tmp_path / name).touch()
    made("report", small_comparison, "--zip", tmp_path / "b.zip")
    made("report", small_comparison, "--out", tmp_path / "page.html")
    assert {file.name for file in tmp_path.iterdir()} == {
        "b.zip",
        "page.html",
        ".b.zip.tmp",
        ".b.zip.x.0.tmp",
    }


# --- comparisons ----------------------------------------------------------------------------------


def test_all_cells_of_a_good_bundle_run_again_to_the_same_bytes(small_bundle: Path) -> None:
    done = run("check", small_bundle, "--all", "--jobs", "1", "--json")
    assert done.code == 0, done.out + done.err
    table = done.json()
    assert (table["verdict"], table["versions_differ"]) == ("verified", {})
    assert table["sha256"] == hashlib.sha256(small_bundle.read_bytes()).hexdigest()
    assert states(table) == dict.fromkeys(HOLD, "holds")
    assert [f"{digest[:12]}: equal" in said(table) for digest in table["rerun"]] == [True, True]
    bare = run("check", small_bundle, "--sample", "0")
    assert (bare.code, "Verdict: verified, nothing re-run\n" in bare.out) == (0, True)


def test_the_sample_is_drawn_by_the_seed(small_bundle: Path) -> None:
    draws = [verify(small_bundle, sample=1, seed=seed)["rerun"] for seed in (1, 1, 2, 3, 4, 5)]
    assert draws[0] == draws[1]
    assert {len(drawn) for drawn in draws} == {1}
    assert len({drawn[0] for drawn in draws}) == 2


def test_results_that_do_not_follow_from_the_cells_are_named(small_bundle: Path, tmp_path: Path) -> None:
    files = content(small_bundle)
    better = changed_json(files["results.json"], lambda table: table["results"][1].update(auc=0.5))
    table = verify(forged(tmp_path / "f.zip", {**files, "results.json": better}), sample=0, seed=1)
    assert (table["verdict"], states(table)["results"]) == ("does not hold", "fails")
    assert "results[1].auc: 0.5, found" in said(table)


def test_a_forged_cell_with_results_to_match_is_caught_by_a_run(small_bundle: Path, tmp_path: Path) -> None:
    def weaker(arrays: dict[str, Any]) -> None:
        arrays["guessed/0/scores"] = np.zeros_like(arrays["guessed/0/scores"])

    files = with_results(changed_arrays(content(small_bundle), weaker), tmp_path)
    path = forged(tmp_path / "f.zip", files)
    assert verify(path, sample=0, seed=1)["verdict"] == "verified"  # nothing was run again
    table = verify(path, sample=None, seed=1)
    assert (states(table)["results"], states(table)["re-run"]) == ("holds", "fails")
    assert said(table).count(": equal") == 1
    assert "arrays.npz: guessed/0/scores" in said(table)


def test_renamed_exchanged_and_changed_cells_are_noticed(small_bundle: Path, tmp_path: Path) -> None:
    files = content(small_bundle)
    name, specs = cell_with(files, "").rstrip("/"), json.loads(files[NAME])["specs"]
    zeros = f"cells/{'0' * 12}-{'0' * 12}"
    renamed = {path.replace(name, zeros): data for path, data in files.items()}
    moved = {path.replace(name, zeros): digest for path, digest in specs.items()}
    table = verify(forged(tmp_path / "a.zip", renamed, specs=moved), sample=0, seed=1)
    assert f"{name}/spec.toml: missing" in said(table)
    other = dict(files)
    for part in ("records.jsonl", "arrays.npz"):
        other[cell_with(files, part)] = files[cell_with(files, part, defended=False)]
    table = verify(forged(tmp_path / "b.zip", other), sample=0, seed=1)
    assert "another Spec" in said(table)
    spec = cell_with(files, "spec.toml")
    text = files[spec].replace(b"clients = 5", b"clients = 6")
    for digest in (specs[spec], hashlib.sha256(text).hexdigest()):
        changed = forged(tmp_path / "c.zip", {**files, spec: text}, specs={**specs, spec: digest})
        assert states(verify(changed, sample=0, seed=1))["Specs"] == "fails"


def test_other_versions_are_named_and_numbers_held_within_limits(small_bundle: Path, tmp_path: Path) -> None:
    def moved(by: float) -> Files:
        def change(arrays: dict[str, Any]) -> None:
            arrays["rounds/online_ndcg@10"] *= 1 + by

        return with_results(changed_arrays(content(small_bundle), change), tmp_path / str(by))

    there = {**json.loads(content(small_bundle)[NAME])["versions"], "numpy": "0.0.1"}
    near = forged(tmp_path / "near.zip", moved(1e-12), versions=there)
    table = verify(near, sample=None, seed=1)
    assert table["verdict"] == "verified"
    assert table["versions_differ"]["numpy"]["packed"] == "0.0.1"
    assert "Versions differ: numbers had to agree within" in run("check", near, "--sample", "0").out
    far = verify(forged(tmp_path / "far.zip", moved(1e-4), versions=there), sample=None, seed=1)
    assert states(far)["re-run"] == "fails"
    same = verify(forged(tmp_path / "same.zip", moved(1e-12)), sample=None, seed=1)
    assert states(same)["re-run"] == "fails"  # on the same versions every byte counts


def test_code_is_a_version_and_a_run_by_other_code_refutes_nothing(
    small_bundle: Path, tmp_path: Path
) -> None:
    def weaker(arrays: dict[str, Any]) -> None:
        arrays["guessed/0/scores"] = np.zeros_like(arrays["guessed/0/scores"])

    def of_others(files: Files) -> Files:
        records = [name for name in files if name.startswith("cells/") and name.endswith("records.jsonl")]
        code, here = (json.dumps({OURS: digest}).encode() for digest in ("f" * 64, mine))
        assert all(here in files[name] for name in records)
        return files | {name: files[name].replace(here, code) for name in records}

    mine = code_of(Spec())[OURS]
    table = verify(forged(tmp_path / "a.zip", of_others(content(small_bundle))), sample=None, seed=1)
    assert table["verdict"] == "verified"
    assert table["versions_differ"] == {f"code of {OURS}": {"packed": "f" * 64, "here": mine}}
    files = with_results(changed_arrays(content(small_bundle), weaker), tmp_path)
    for others, state, verdict in ((False, "fails", "does not hold"), (True, "not possible", "incomplete")):
        path = forged(tmp_path / f"{verdict}.zip", of_others(files) if others else files)
        table = verify(path, sample=None, seed=1)
        assert (states(table)["re-run"], table["verdict"]) == (state, verdict)
        assert ("made by other code" in said(table)) == others


def test_without_lists_a_run_of_every_cell_tells_the_results(small_comparison: Path, tmp_path: Path) -> None:
    made("report", small_comparison, "--zip", tmp_path / "b.zip", "--without-lists")
    assert not [name for name in content(tmp_path / "b.zip") if name.endswith(".npz")]
    none = verify(tmp_path / "b.zip", sample=0, seed=1)
    assert (none["verdict"], states(none)["results"]) == ("incomplete", "not possible")
    assert verify(tmp_path / "b.zip", sample=None, seed=1)["verdict"] == "verified"


def test_options_that_cannot_be_meant(small_bundle: Path) -> None:
    for options, problem in {
        "--sample -1": "--sample",
        "--seed -1": "--seed",
        "--all --sample 1": "one or the other",
        "--data here": "synthetic",
        "--jobs 0": "--jobs",
    }.items():
        done = run("check", small_bundle, *options.split())
        assert (done.code, problem in done.one_error()) == (2, True), options


# --- Runs -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of one attacked Run."""
    path = tmp_path_factory.mktemp("attacked") / "run"
    made("attack", *TINY, "--eps", "1.2", "--click-model", "perfect", "--attack-on", "test", "--out", path)
    return path


def test_a_run_with_its_trace_is_verified_and_holds_no_truth(attacked: Path, tmp_path: Path) -> None:
    made("report", attacked, "--zip", tmp_path / "plain.zip")
    stored = {"spec.toml", "model.npy", "arrays.npz", "records.jsonl"}
    assert set(content(tmp_path / "plain.zip")) == {*stored, "results.json", NAME}
    made("report", attacked, "--zip", tmp_path / "b.zip", "--with-trace")
    files = content(tmp_path / "b.zip")
    assert not [name for name in files if "truth" in name]
    assert {"trace/trace.toml", "trace/observed/messages-00000.npz", "fresh/perfect/trace.toml"} <= set(files)
    done = run("check", tmp_path / "b.zip", "--json")
    assert done.code == 0, done.out + done.err
    assert set(states(done.json()).values()) == {"holds"}
    truth = "trace/truth/clicks-00000.npz"
    forgery = forged(tmp_path / "t.zip", {**files, truth: (attacked / truth).read_bytes()})
    assert f"{truth}: not a file of this kind" in said(verify(forgery, sample=0, seed=1))
    results = changed_json(files["results.json"], lambda table: table["results"][0].update(auc=1.0))
    flipped = ("model.npy", "trace/observed/messages-00000.npz")
    other = {"results.json": results, **{name: last_changed(files[name], 1) for name in flipped}}
    table = verify(forged(tmp_path / "f.zip", {**files, **other}), seed=1)
    assert table["verdict"] == "does not hold"
    assert all(f"{name}: " in said(table) for name in other)


def test_scores_that_tie_may_fall_the_other_way_where_versions_differ(attacked: Path, tmp_path: Path) -> None:
    made("report", attacked, "--zip", tmp_path / "b.zip")
    files = content(tmp_path / "b.zip")
    other = {**json.loads(files[NAME])["versions"], "numpy": "0.0.1"}
    results = json.loads(files["results.json"])
    row = next(row for row in results["results"] if row["method"] == "olsr")
    auc = row["auc"]
    tie = 0.5 / (row["lists"] * row["unclicked_documents"])  # of one clicked document each
    for by, versions, state in (
        (tie, other, "holds"),
        (2 / row["lists"], other, "fails"),
        (tie, {}, "fails"),
    ):
        row["auc"] = auc + by * (1 if auc < 0.5 else -1)
        moved = json.dumps(results).encode()
        changes = {"versions": versions} if versions else {}
        table = verify(forged(tmp_path / "f.zip", {**files, "results.json": moved}, **changes), seed=1)
        assert states(table)["results"] == state, said(table)


def test_results_of_several_runs_need_all_of_them(tmp_path: Path) -> None:
    made("train", *TINY, "--runs", "2", "--out", tmp_path / "plan")
    made("report", tmp_path / "plan", "--zip", tmp_path / "b.zip")
    some = run("check", tmp_path / "b.zip", "--sample", "1", "--json")
    assert some.code == 1
    assert (states(some.json())["re-run"], states(some.json())["results"]) == ("holds", "not possible")
    every = run("check", tmp_path / "b.zip", "--all", "--json")
    assert (every.code, set(states(every.json()).values())) == (0, {"holds"})
    files = content(tmp_path / "b.zip")
    other = {**files, "rounds.parquet": files["rounds.parquet"] + b"\n"}
    assert "rounds.parquet: other bytes" in said(verify(forged(tmp_path / "f.zip", other), seed=1))
    model = next(name for name in files if name.endswith("model.npy"))
    far = {**files, model: last_changed(files[model], 0x40)}  # the last weight's exponent
    versions = {**json.loads(files[NAME])["versions"], "polars": "0.0.1"}
    assert verify(forged(tmp_path / "g.zip", files, versions=versions), seed=1)["verdict"] == "verified"
    table = verify(forged(tmp_path / "h.zip", far, versions=versions), seed=1)
    assert "model.npy: parameters: " in said(table)


def test_data_elsewhere_are_named_and_must_be_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.txt").write_text(TEXT)
    made("train", "--data", "here.txt", "--clients", "3", "--rounds", "1", "--threads", "1", "--out", "run")
    made("report", "run", "--zip", "b.zip")
    (tmp_path / "here.txt").rename(tmp_path / "there.txt")
    (tmp_path / "other.txt").write_text(TEXT.replace(".5", ".25"))
    gone = run("check", "b.zip", "--json")
    other, moved = (run("check", "b.zip", "--json", "--data", name) for name in ("other.txt", "there.txt"))
    assert (gone.code, gone.json()["verdict"]) == (1, "incomplete")
    assert (other.code, states(other.json())["re-run"]) == (1, "not possible")
    assert "fingerprint" in other.out
    assert (moved.code, moved.json()["verdict"]) == (0, "verified"), moved.out


@pytest.mark.parametrize("field", ["source", "intents", "init"])
def test_a_foreign_spec_makes_nobody_read_a_device_or_a_pipe(tmp_path: Path, field: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path / "none", Path("x" * 5000)):
        table = {"train": {"init": str(path)}} if field == "init" else {"data": {field: str(path)}}
        with pytest.raises(FoltrAuditError, match="not on this machine"):
            DataPlaces().load(Spec.parse(table), "")
