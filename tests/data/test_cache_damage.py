"""Nothing damaged in the cache of data is ever believed, and no writer can spoil it."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from foltr_audit.core.records import Collection
from foltr_audit.data import cache as store
from foltr_audit.data.cache import META, SourceKey, write_entry
from foltr_audit.data.synthetic.generate import synthesise
from tests.fixtures.command import run
from tests.fixtures.data_cache import assert_same, contents, is_mapped, load, names

# --- damage ---------------------------------------------------------------------------------------


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def _reshape(path: Path) -> None:
    array = np.load(path, allow_pickle=False)
    np.save(
        path, array.reshape(array.shape[::-1]) if array.ndim == 2 else array.view("<u8"), allow_pickle=False
    )


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _objects(path: Path) -> None:
    np.save(path, np.array([print], dtype=object))  # what must never be loaded


FEATURES, LABELS = "train.features.npy", "vali.labels.npy"
DAMAGE: dict[str, tuple[str, Callable[[Path], object]]] = {
    "features missing": (FEATURES, Path.unlink),
    "features cut": (FEATURES, lambda path: os.truncate(path, path.stat().st_size - 4)),
    "features empty": (FEATURES, lambda path: path.write_bytes(b"")),
    "features longer": (FEATURES, lambda path: path.write_bytes(path.read_bytes() + b"1234")),
    "features of another shape": (FEATURES, _reshape),
    "features pickled": (FEATURES, _objects),
    "features a folder": (FEATURES, _folder),
    "labels of another type": (LABELS, _reshape),
    "offsets changed": ("test.offsets.npy", _flip),
    "names changed": ("test.document_ids.npy", _flip),
    "no meta": (META, Path.unlink),
    "meta no JSON": (META, lambda path: path.write_text("{")),
    "meta deep": (META, lambda path: path.write_text("[" * 100_000)),
    "meta no table": (META, lambda path: path.write_text("[]")),
    "meta no text": (META, lambda path: path.write_bytes(b"\xff")),
    "meta without facts": (META, lambda path: path.write_text("{}")),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_entry_is_made_again(cache_place: Path, letor_file: Path, kind: str) -> None:
    plain = load(letor_file, cache=False)
    load(letor_file)
    name, damage = DAMAGE[kind]
    (folder,) = contents(cache_place)
    damage(folder / name)
    again = load(letor_file)
    assert is_mapped(again)
    assert_same(again, plain)
    assert contents(cache_place) == [folder]
    assert len(names(cache_place)) == 1, "nothing is left of the damaged one"


def test_an_entry_without_its_intents_is_made_again(cache_place: Path) -> None:
    made = "synthetic:mq2007:30"
    plain = load(made, cache=False, intents="synthetic:2")
    load(made, intents="synthetic:2")
    (folder,) = contents(cache_place)
    for part in Collection.PARTS:
        (folder / f"{part}.intents.npy").unlink()
    assert_same(load(made, intents="synthetic:2"), plain)


@pytest.mark.parametrize("kind", ["gone", "a file", "a link to nothing"])
def test_an_entry_that_is_something_else_is_made_again(
    cache_place: Path, letor_file: Path, kind: str
) -> None:
    plain = load(letor_file, cache=False)
    load(letor_file)
    (folder,) = contents(cache_place)
    shutil.rmtree(folder)
    if kind == "a file":
        folder.write_text("")
    elif kind == "a link to nothing":
        folder.symlink_to("elsewhere")
    assert_same(load(letor_file), plain)
    assert contents(cache_place) == [folder]


# --- writers that die, meet or may not write ------------------------------------------------------

WORK = """
import sys
from foltr_audit.data import cache
from foltr_audit.data.load import load_collection
from foltr_audit.core.settings.experiment import DataSpec
cache.SMALLEST_BYTES = 0
if sys.argv[2] == "hang":
    import numpy, time
    save = numpy.save
    def slow(file, array, **named):
        save(file, array, **named)
        print("writing", flush=True)
        time.sleep(60)
    numpy.save = slow
print(load_collection(DataSpec(source=sys.argv[1]), 1).fingerprint)
"""


def start(source: Path | str, how: str = "go") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WORK, str(source), how]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_two_processes_at_once(cache_place: Path) -> None:
    made = "synthetic:mslr-web10k:40"
    first, second = start(made), start(made)
    answers = [process.communicate() for process in (first, second)]
    fingerprint = synthesise("mslr-web10k", queries=40).fingerprint
    assert answers == [(f"{fingerprint}\n", "")] * 2
    assert len(names(cache_place)) == 1
    assert is_mapped(load(made))


def test_a_killed_writer_leaves_nothing_that_is_read(cache_place: Path, letor_file: Path) -> None:
    with start(letor_file, "hang") as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "writing\n"
        writer.send_signal(signal.SIGKILL)
    (left,) = names(cache_place)
    assert left.endswith(".tmp")
    assert_same(load(letor_file), load(letor_file, cache=False))
    assert left in names(cache_place), "it may be another writer's, still at work"
    os.utime(cache_place / left, (0, 0))
    load(letor_file, "none")
    assert left not in names(cache_place)


def test_who_comes_second_takes_the_entry_of_the_first(
    cache_place: Path, letor_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def overtaken(folder: Path, collection: Collection, origin: SourceKey) -> None:
        monkeypatch.setattr(store, "write_entry", write_entry)
        load(letor_file)
        theirs.extend(path.stat().st_ino for path in contents(cache_place))
        write_entry(folder, collection, origin)

    theirs: list[int] = []
    monkeypatch.setattr(store, "write_entry", overtaken)
    assert is_mapped(load(letor_file))
    assert [path.stat().st_ino for path in contents(cache_place)] == theirs
    assert len(names(cache_place)) == 1


def test_an_entry_that_is_removed_at_once(
    cache_place: Path, letor_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def emptied(folder: Path) -> None:
        shutil.rmtree(contents(folder)[0])

    plain = load(letor_file, cache=False)
    monkeypatch.setattr(store, "_sweep", emptied)
    again = load(letor_file)
    assert not is_mapped(again)
    assert_same(again, plain)


@pytest.mark.parametrize("failure", ["full", "small", "file", "relative"])
def test_a_cache_that_cannot_be_written(
    cache_place: Path,
    letor_file: Path,
    failure: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if failure == "full":
        monkeypatch.setattr(np, "save", full)
    elif failure == "small":
        monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 9, 1))
    elif failure == "file":
        cache_place.parent.write_text("")
    else:
        monkeypatch.delenv(store.FOLDER_VARIABLE)
        monkeypatch.setattr("platformdirs.user_cache_path", lambda _: Path("~/.cache"))  # nobody's home
    plain = load(letor_file, cache=False)
    for _ in range(2):
        assert_same(load(letor_file), plain)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == (0 if failure == "relative" else 1)
    assert all(line.startswith("note: data cache: ") for line in lines)
    assert not cache_place.is_dir() or not names(cache_place)


def test_an_empty_variable_is_no_cache(letor_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(store.FOLDER_VARIABLE, "")
    monkeypatch.setattr(store, "SMALLEST_BYTES", 0)
    assert not is_mapped(load(letor_file))
    assert "switched off" in run("data", "cache", "list").out
    assert run("data", "cache", "list", "--json").json()["folder"] is None
    assert run("data", "cache", "clear").code == 0


def test_the_user_s_own_folder_is_the_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(store.FOLDER_VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = store.cache_folder()
    assert folder is not None
    assert folder.is_relative_to(tmp_path)
    assert "foltr-audit" in folder.parts
