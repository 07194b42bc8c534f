"""The cache of parsed data: the same data with and without it, and no damaged entry is believed."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numba
import numpy as np
import pytest

from foltr_audit.core.records.dataset import LazyNames
from foltr_audit.data import cache as store
from foltr_audit.data.cache import FACTS
from tests.fixtures.data_cache import PARTS, TEXT, assert_same, contents, is_mapped, load, names
from tests.fixtures.import_graph import imports, modules


@pytest.mark.parametrize("kind", ["file", "synthetic:mq2007:30"])
def test_the_cache_gives_what_reading_gives(cache_place: Path, letor_file: Path, kind: str) -> None:
    source = letor_file if kind == "file" else kind
    plain = load(source, cache=False)
    assert not cache_place.exists()
    first, second = load(source), load(source)
    assert [is_mapped(data) for data in (plain, first, second)] == [False, True, True]
    assert_same(first, plain)
    assert_same(second, plain)
    for name in PARTS:
        for array in ("features", "labels", "offsets"):
            one, other = getattr(plain.part(name), array), getattr(second.part(name), array)
            typeof: Callable[[object], object] = numba.typeof
            assert typeof(one) == typeof(other), "kernels were compiled for this type"
            assert not other.flags.writeable


def test_each_preparation_has_its_own_entry(cache_place: Path, letor_file: Path) -> None:
    scaled = [load(letor_file, how).train.features.sum() for how in ("none", "zscore", "none", "zscore")]
    assert scaled[:2] == scaled[2:]
    assert scaled[0] != scaled[1]
    assert load(letor_file, seed=2).fingerprint != load(letor_file, seed=1).fingerprint
    assert len(contents(cache_place)) == 3
    whole = letor_file.with_name("whole")
    whole.mkdir()
    for name in PARTS:
        shutil.copy(letor_file, whole / f"{name}.txt")
    for seed in (1, 2):
        assert is_mapped(load(whole, seed=seed))
    assert len(contents(cache_place)) == 4, "the seed counts only where something is split"


def test_the_same_relative_path_in_another_folder(
    cache_place: Path, letor_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = letor_file.parent / "other"
    other.mkdir()
    (other / letor_file.name).write_text(TEXT.replace("2:1.5", "2:9.5"))
    found = []
    for folder in (letor_file.parent, other):
        monkeypatch.chdir(folder)
        found.append(load(letor_file.name).fingerprint)
    assert found[0] != found[1]


def test_small_data_are_not_kept(
    cache_place: Path, letor_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "SMALLEST_BYTES", 1 << 20)
    assert not is_mapped(load(letor_file))
    assert not cache_place.exists()


def test_intents_are_kept_and_qrels_that_change_are_read_anew(cache_place: Path, letor_file: Path) -> None:
    folder = letor_file.parent / "qrels"
    folder.mkdir()
    for intent in (1, 2):
        text = "".join(f"{q} {intent} D{q}-{row} {row % intent}\n" for q in range(12) for row in range(3))
        (folder / f"{intent}.txt").write_text(text)
    plain = load(letor_file, cache=False, intents=folder)
    load(letor_file, intents=folder)
    mapped = load(letor_file, intents=folder)
    assert is_mapped(mapped)
    assert_same(mapped, plain)
    assert mapped.train.n_intents == 2
    assert load(letor_file).n_intents == 1
    (folder / "2.txt").write_text((folder / "1.txt").read_text().replace(" 1 D", " 2 D"))
    assert load(letor_file, intents=folder).fingerprint != plain.fingerprint
    made = [load("synthetic:mq2007:30", intents=text).n_intents for text in (None, "synthetic:3", None)]
    assert made == [1, 3, 1]


# --- sources that change --------------------------------------------------------------------------


def _rewrite(path: Path) -> None:
    path.write_text(TEXT.replace("2:1.5", "2:9.5"))


def test_a_changed_file_is_read_again(cache_place: Path, letor_file: Path) -> None:
    old = load(letor_file)
    time.sleep(0.02)  # longer than the file system's clock ticks
    _rewrite(letor_file)
    new = load(letor_file)
    assert new.fingerprint != old.fingerprint
    assert_same(new, load(letor_file, cache=False))
    assert len(names(cache_place)) == 1, "the new entry takes the place of the old one"
    assert old.train.features.sum() == pytest.approx(0, abs=1e-4), "which stays for who has mapped it"


def test_a_file_that_changes_while_it_is_read_is_not_kept(
    cache_place: Path, letor_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from foltr_audit.data import letor

    def reading(*arguments: object, **named: object) -> object:
        part = read(*arguments, **named)
        time.sleep(0.02)
        _rewrite(letor_file)
        return part

    read: Callable[..., object] = letor.read_letor
    monkeypatch.setattr("foltr_audit.data.sources.read_letor", reading)
    load(letor_file)
    assert not cache_place.exists()


def test_only_plain_files_are_kept(cache_place: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["/bin/sh", "-c", f"printf '%s' \"$1\" > '{pipe}'", "sh", TEXT]):
        assert load(pipe).train.n_documents
    assert not cache_place.exists()


def test_other_code_reads_again(cache_place: Path, letor_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load(letor_file)
    old = (contents(cache_place)[0] / FACTS).read_text()
    monkeypatch.setattr(store, "code_version", lambda: "0" * 64)
    assert is_mapped(load(letor_file))
    assert (contents(cache_place)[0] / FACTS).read_text() != old


def test_the_version_covers_all_code_that_decides() -> None:
    todo = {
        f"foltr_audit.{name}"
        for name in ("data.sources", "data.synthetic.generate", "data.normalize", "data.cache")
    }
    found: set[str] = set()
    while todo:
        name = todo.pop()
        found.add(name)
        todo |= {target for target in imports(name) if target in modules()} - found
    rooms = {parts[1] for parts in (name.split(".") for name in found) if len(parts) > 2}
    assert rooms - {"recorder"} == set(store.DECIDING)


# --- damage ---------------------------------------------------------------------------------------


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def _reshape(path: Path) -> None:
    array = np.load(path, allow_pickle=False)
    np.save(path, array.reshape(array.shape[::-1]) if array.ndim == 2 else array.view("<u8"))


def _objects(path: Path) -> None:
    np.save(path, np.array([print], dtype=object))  # what must never be loaded


def _link(path: Path) -> None:
    shutil.rmtree(path)
    path.symlink_to("elsewhere")


FEATURES, LABELS = "train.features.npy", "vali.labels.npy"
DAMAGE: dict[str, tuple[str, Callable[[Path], object]]] = {
    "features missing": (FEATURES, Path.unlink),
    "features cut": (FEATURES, lambda path: os.truncate(path, path.stat().st_size - 4)),
    "features of another shape": (FEATURES, _reshape),
    "features pickled": (FEATURES, _objects),
    "labels of another type": (LABELS, _reshape),
    "offsets changed": ("test.offsets.npy", _flip),
    "names changed": ("test.document_ids.npy", _flip),
    "no facts": (FACTS, Path.unlink),
    "facts no JSON": (FACTS, lambda path: path.write_text("{")),
    "facts deep": (FACTS, lambda path: path.write_text("[" * 100_000)),
    "facts without an array": (FACTS, lambda path: path.write_text(path.read_text().replace("labels", "x"))),
    "a link to nothing": ("", _link),
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


# --- writers that die, meet or may not write ------------------------------------------------------

HANGING_WRITER = """
import sys, time
import numpy
from foltr_audit.data import cache
from foltr_audit.data.load import load_collection
from foltr_audit.core.settings.experiment import DataSpec
def save(file, array, **named):
    print("writing", flush=True)
    time.sleep(60)
cache.SMALLEST_BYTES = 0
numpy.save = save
load_collection(DataSpec(source=sys.argv[1]), 1)
"""


def test_a_killed_writer_leaves_nothing_that_is_read(cache_place: Path, letor_file: Path) -> None:
    command = [sys.executable, "-c", HANGING_WRITER, str(letor_file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "writing\n"
        writer.send_signal(signal.SIGKILL)
    (left,) = names(cache_place)
    assert left.startswith(".")
    assert_same(load(letor_file), load(letor_file, cache=False))
    assert left in names(cache_place), "it may be another writer's, still at work"
    os.utime(cache_place / left, (0, 0))
    load(letor_file, "none")
    assert left not in names(cache_place)


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


def test_where_the_cache_is(letor_file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(store, "SMALLEST_BYTES", 0)
    monkeypatch.setenv(store.FOLDER_VARIABLE, "")
    assert not is_mapped(load(letor_file))
    monkeypatch.delenv(store.FOLDER_VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = store.cache_folder()
    assert folder is not None
    assert folder.is_relative_to(tmp_path)
    assert "foltr-audit" in folder.parts


# --- names ----------------------------------------------------------------------------------------


def test_names_are_decoded_on_use() -> None:
    text = np.frombuffer("a\0\0\u00fc\u2028\0".encode(), dtype=np.uint8)
    stored = LazyNames(text, 3)
    assert len(stored) == 3
    assert list(stored) == ["a", "", "\u00fc\u2028"]
    assert (stored[2], stored[-3]) == ("\u00fc\u2028", "a")
    assert (stored[:2], stored[2:1], stored[::-2]) == (("a", ""), (), ("\u00fc\u2028", "a"))
    with pytest.raises(IndexError):
        stored[3]
    assert stored == ("a", "", "\u00fc\u2028")
    assert stored != ("a", "", "b")
    assert stored == LazyNames(text.copy(), 3)
    assert hash(stored) == hash(LazyNames(text.copy(), 3))


@pytest.mark.parametrize("count", [0, 1, 5, 6, 7])
def test_names_are_stored_and_given_back(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foltr_audit.core.records.dataset._BATCH_NAMES", 3)
    names = tuple("\u00fc\ud800" * (number % 3) for number in range(count))
    stored = LazyNames.of(iter(names))
    assert len(stored) == count
    assert tuple(stored) == tuple(stored[number] for number in range(count)) == stored[:] == names
    assert stored.text.tobytes() == "".join(name + "\0" for name in names).encode("utf-8", "surrogatepass")
    assert LazyNames.of(stored) is stored
    with pytest.raises(ValueError, match="NUL"):
        LazyNames.of([*names, "a\0b"])
