"""What `foltr-audit bundle` packs: the right files, the same bytes each time, and nothing unfinished."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest

from foltr_audit.errors import TraceError, UsageError
from foltr_audit.evidence.bundle.contents import contents_of
from foltr_audit.evidence.bundle.manifest import NAME
from foltr_audit.evidence.bundle.pack import pack
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from tests.fixtures.bundles import content
from tests.fixtures.command import files, run


@pytest.fixture
def copy(small_comparison: Path, tmp_path: Path) -> Path:
    """A comparison that a test may change."""
    return Path(shutil.copytree(small_comparison, tmp_path / "copy"))


def test_a_bundle_holds_every_file_of_the_comparison_with_size_and_hash(
    small_comparison: Path, small_bundle: Path
) -> None:
    packed, folder = content(small_bundle), files(small_comparison)
    manifest = json.loads(packed.pop(NAME))
    assert packed == folder
    for name, data in folder.items():
        expected = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        assert manifest["files"][name] == expected
    for cell in ComparisonFolder.open(small_comparison).cells():
        assert manifest["specs"][f"cells/{cell.spec.hash[:12]}/spec.toml"] == cell.spec.hash


def test_the_same_folder_gives_the_same_bytes_whenever_and_wherever_it_lies(
    copy: Path, tmp_path: Path
) -> None:
    first = pack(copy, tmp_path / "a.zip")
    for file in copy.rglob("*"):
        os.utime(file, (1, 1))
    (copy / "grid.toml").chmod(0o600)
    moved = copy.rename(tmp_path / "moved")
    second = pack(moved, tmp_path / "b.zip")
    assert first.path.read_bytes() == second.path.read_bytes()
    assert first.sha256 == hashlib.sha256(first.path.read_bytes()).hexdigest()


def test_the_command_prints_the_digest_of_the_bundle(small_comparison: Path, tmp_path: Path) -> None:
    done = run("bundle", small_comparison, "--to", tmp_path / "b.zip", "--json")
    assert done.code == 0, done.err
    assert done.json()["sha256"] == hashlib.sha256((tmp_path / "b.zip").read_bytes()).hexdigest()
    assert done.json()["versions"]["numpy"] in done.out
    assert str(tmp_path) not in content(tmp_path / "b.zip")[NAME].decode()


def test_without_lists_no_array_is_packed(small_comparison: Path, tmp_path: Path) -> None:
    packed = pack(small_comparison, tmp_path / "b.zip", without_lists=True)
    assert not packed.manifest.lists
    assert not [name for name in packed.manifest.files if name.endswith(".npz")]


def test_files_that_are_no_part_of_a_comparison_stay_out(copy: Path) -> None:
    (copy / "notes.txt").write_text("mine")
    (copy / "cells" / ".cell.json.0123456789abcdef.tmp").write_text("half")
    names = contents_of(copy, with_trace=False, without_lists=False).files
    assert not [name for name in names if name.endswith((".txt", ".tmp"))]


def test_an_unfinished_comparison_is_packed_only_as_partial(copy: Path, tmp_path: Path) -> None:
    cell = ComparisonFolder.open(copy).cells()[0]
    (ComparisonFolder.open(copy).cell(cell.spec) / "cell.json").unlink()
    with pytest.raises(UsageError, match="1 of 2 cells are missing"):
        pack(copy, tmp_path / "b.zip")
    assert not (tmp_path / "b.zip").exists()
    packed = pack(copy, tmp_path / "b.zip", partial=True)
    assert packed.manifest.partial
    assert "results.json" not in packed.manifest.files  # they are of more cells than there are


def test_a_comparison_without_its_results_is_unfinished(copy: Path, tmp_path: Path) -> None:
    (copy / "results.json").unlink()
    with pytest.raises(UsageError, match=r"no results\.json"):
        pack(copy, tmp_path / "b.zip")


def test_a_damaged_cell_is_not_packed(copy: Path, tmp_path: Path) -> None:
    arrays = next(copy.rglob("arrays.npz"))
    arrays.write_bytes(arrays.read_bytes()[:-1])
    with pytest.raises(TraceError, match=r"arrays\.npz: damaged"):
        pack(copy, tmp_path / "b.zip")
    assert not list(tmp_path.glob("*b.zip*"))


def test_a_comparison_has_no_trace_to_pack(small_comparison: Path, tmp_path: Path) -> None:
    done = run("bundle", small_comparison, "--to", tmp_path / "b.zip", "--with-trace")
    assert done.code == 2
    assert "stores no traces" in done.one_error()


def test_places_that_a_bundle_may_not_go_to(small_comparison: Path, tmp_path: Path) -> None:
    (tmp_path / "there.zip").write_text("mine")
    for to, problem in (
        (tmp_path / "there.zip", "--overwrite"),
        (tmp_path, "is a folder"),
        (tmp_path / "none" / "b.zip", "no such folder"),
        (tmp_path / "b.tar", "ends in .zip"),
        (small_comparison / "b.zip", "is inside"),
    ):
        done = run("bundle", small_comparison, "--to", to)
        assert done.code == 2
        assert problem in done.one_error()
    assert (tmp_path / "there.zip").read_text() == "mine"
    assert run("bundle", small_comparison, "--to", tmp_path / "there.zip", "--overwrite").code == 0


def test_what_is_neither_a_comparison_nor_a_run_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path / "none", tmp_path):
        done = run("bundle", folder, "--to", tmp_path / "b.zip")
        assert done.code == 2
        assert str(folder) in done.one_error()
