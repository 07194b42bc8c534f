"""Damaged, foreign and hostile bundles: exit code 3 or 1 with one clear line, never a traceback."""

from __future__ import annotations

import errno
import json
import os
import struct
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foltr_audit.evidence import bundle as bundle_archive
from foltr_audit.evidence import verification
from foltr_audit.evidence.bundle import NAME, entry
from tests.fixtures.bundles import Files, changed_json, content, forged, write_bundle
from tests.fixtures.command import Done, run


def verified(path: Path) -> Done:
    return run("check", path, "--sample", "0")


def refused(path: Path, problem: str) -> None:
    """The bundle is damaged, and the line says how."""
    done = verified(path)
    assert done.code == 3, done.out + done.err
    assert problem in done.one_error()


def does_not_hold(path: Path, problem: str) -> None:
    done = verified(path)
    assert done.code == 1, done.out + done.err
    assert problem in " ".join(done.out.split())
    assert "Verdict: does not hold" in done.out


def zipped(path: Path, files: Files, **info: Any) -> Path:
    """A bundle whose first entry has another header."""
    with zipfile.ZipFile(path, "w") as archive:
        for number, (name, data) in enumerate(files.items()):
            header = entry(name)
            for field, value in info.items() if number == 0 else ():
                setattr(header, field, value)
            archive.writestr(header, data)
    return path


def first_listed(path: Path) -> int:
    """Where the list of entries begins."""
    with zipfile.ZipFile(path) as archive:
        return archive.start_dir


# --- damage ---------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(data=st.data())
def test_any_damage_is_found_and_never_a_traceback(small_bundle: Path, data: st.DataObject) -> None:
    good = small_bundle.read_bytes()
    end = st.integers(len(good) - 3000, len(good) - 1)
    place = data.draw(st.one_of(st.integers(0, len(good) - 1), end))
    kind = data.draw(st.sampled_from(("flip", "cut", "replace", "insert")))
    if kind == "flip":
        bad = good[:place] + bytes([good[place] ^ data.draw(st.integers(1, 255))]) + good[place + 1 :]
    elif kind == "cut":
        bad = good[:place]
    else:
        piece = data.draw(st.binary(min_size=1, max_size=40))
        bad = good[:place] + piece + good[place + (len(piece) if kind == "replace" else 0) :]
    if bad == good:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "bad.zip")
        path.write_bytes(bad)
        done = verified(path)
        # What lies between the files, such as the time of an entry, changes nothing that is read.
        assert done.code in (1, 3) or content(path) == content(small_bundle), done
    assert "Traceback" not in done.err


@settings(max_examples=5)
@given(data=st.data())
def test_hostile_values_under_right_hashes_are_no_traceback(small_bundle: Path, data: st.DataObject) -> None:
    files = content(small_bundle)
    names = sorted(name for name in files if name.endswith(".json") and name != NAME)
    name = data.draw(st.sampled_from(names))
    table = json.loads(files[name])
    inner: Any = table
    while True:
        key = data.draw(st.sampled_from(sorted(inner) if isinstance(inner, dict) else range(len(inner))))
        if not (isinstance(inner[key], dict | list) and inner[key] and data.draw(st.booleans())):
            break
        inner = inner[key]
    odd: list[Any] = [None, True, -1, 10**400, 1e308, "nan", "\x1b[31m", "../../etc", [], {}, [[1]], 0.5]
    inner[key] = data.draw(st.sampled_from(odd))
    text = (json.dumps(table, indent=1, sort_keys=True) + "\n").encode()
    with tempfile.TemporaryDirectory() as folder:
        done = verified(forged(Path(folder, "bad.zip"), {**files, name: text}))
    assert done.code in (0, 1, 3)  # 0: a fact that no result depends on
    assert "\x1b" not in done.out + done.err


def test_a_changed_byte_in_any_file_is_found(small_bundle: Path, tmp_path: Path) -> None:
    data = bytearray(small_bundle.read_bytes())
    for info in zipfile.ZipFile(small_bundle).infolist():
        bad = bytearray(data)
        bad[info.header_offset + 30 + len(info.filename) + info.file_size // 2] ^= 1
        (tmp_path / "bad.zip").write_bytes(bad)
        refused(tmp_path / "bad.zip", info.filename)


def test_a_file_that_is_other_missing_or_extra_is_named(small_bundle: Path, tmp_path: Path) -> None:
    files = content(small_bundle)
    other = {**files, "grid.toml": files["grid.toml"] + b"\n"}
    does_not_hold(write_bundle(tmp_path / "a.zip", other), "grid.toml: not the content")
    missing = {name: data for name, data in files.items() if name != "results.json"}
    does_not_hold(write_bundle(tmp_path / "b.zip", missing), "results.json: missing")
    added = "cells/000000000000-000000000000/records.jsonl"
    extra = write_bundle(tmp_path / "c.zip", {added: b"{}", **files})
    does_not_hold(extra, f"{added}: not in manifest.json")
    foreign = {**files, "notes.txt": b"hello"}
    does_not_hold(forged(tmp_path / "d.zip", foreign), "notes.txt: not a file of this kind of bundle")


# --- hostile archives -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["../evil", "/etc/evil", "cells/../../evil", "a\\b", "./grid.toml", "cells//x", "new\nline", "a\x00b"],
)
def test_no_entry_gets_out_of_its_folder(small_bundle: Path, tmp_path: Path, name: str) -> None:
    data = small_bundle.read_bytes()
    stand_in = "x" * len(name)
    path = write_bundle(tmp_path / "f.zip", {stand_in: b"", **content(small_bundle)})
    path.write_bytes(path.read_bytes().replace(stand_in.encode(), name.encode()))
    refused(path, "a name")
    assert not list(tmp_path.rglob("evil"))
    assert data == small_bundle.read_bytes()


def test_links_folders_devices_and_ciphers_are_refused(small_bundle: Path, tmp_path: Path) -> None:
    files = {"grid.toml": b"/etc/passwd", **content(small_bundle)}
    for mode in (0o120777, 0o040755, 0o020666, 0):
        refused(zipped(tmp_path / "f.zip", files, external_attr=mode << 16), "not a regular file")
    path = write_bundle(tmp_path / "g.zip", files)
    data = bytearray(path.read_bytes())
    data[first_listed(path) + 8] |= 1
    path.write_bytes(data)
    refused(path, "encrypted")


def test_compressed_doubled_and_overlapping_entries_are_refused(small_bundle: Path, tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.zip"
    with zipfile.ZipFile(bomb, "w") as archive:
        header = entry("results.json")
        header.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(header, b"0" * 10**6)
        archive.writestr(entry(NAME), b"")
    refused(bomb, "compressed")
    twice = tmp_path / "twice.zip"
    with zipfile.ZipFile(twice, "w") as archive:
        archive.writestr(entry("grid.toml"), b"")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr(entry("grid.toml"), b"")
        archive.writestr(entry(NAME), b"")
    refused(twice, "two entries")
    large = write_bundle(tmp_path / "large.zip", {"results.json": b"0" * 100, NAME: b""})
    data = bytearray(large.read_bytes())
    sizes = first_listed(large) + 20
    data[sizes : sizes + 8] = struct.pack("<II", 2**31, 2**31)
    large.write_bytes(data)
    refused(large, "larger than the file")


def test_too_long_a_manifest(small_bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle_archive, "MOST_MANIFEST_BYTES", 100)
    refused(small_bundle, "expected at most 100")


def of_file(**fields: object) -> Callable[[Any], None]:
    return lambda table: table["files"]["grid.toml"].update(fields)


MANIFESTS: tuple[tuple[Callable[[Any], None], str], ...] = (
    (lambda table: table.update(schema="foltr-audit/bundle/2"), "schema"),
    (lambda table: table.update(kind="letter"), "kind"),
    (lambda table: table.update(more=1), "more"),
    (of_file(size=10**300), "beyond 64 bits"),
    (of_file(size=-1), "size"),
    (of_file(size=True), "size"),
    (of_file(sha256="no"), "sha256"),
    (lambda table: table.pop("files"), "files is missing"),
)
TEXTS = (b"", b"[]", b"\xff", b"[" * 100_000, b'{"size": ' + b"9" * 5000 + b"}", b'{"schema": NaN}')


def test_manifests_that_are_none(small_bundle: Path, tmp_path: Path) -> None:
    files = content(small_bundle)
    for change, problem in MANIFESTS:
        refused(write_bundle(tmp_path / "f.zip", {**files, NAME: changed_json(files[NAME], change)}), problem)
    for text in TEXTS:
        refused(write_bundle(tmp_path / "f.zip", {**files, NAME: text}), NAME)


def test_foreign_files(tmp_path: Path) -> None:
    refused(write_bundle(tmp_path / "foreign.zip", {"paper.pdf": b"%PDF"}), "no manifest.json")
    (tmp_path / "text.zip").write_text("hello")
    refused(tmp_path / "text.zip", "not packed by report --zip")


def test_a_full_temporary_folder_is_named(
    small_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(bundle_archive, "_extract", full)
        done = verified(small_bundle)
    assert (done.code, f"{tmp_path}/foltr-audit-" in done.one_error()) == (1, True)
    monkeypatch.setattr(verification, "run_cell", full)
    done = run("check", small_bundle, "--sample", "1", "--jobs", "1")
    assert (done.code, f"{tmp_path}/foltr-audit-" in "".join(done.out.split())) == (1, True)
