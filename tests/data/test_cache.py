"""The cache of parsed data: the same data with and without it, and no damaged entry is believed."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numba
import numpy as np
import pytest

from foltr_audit.core.records.dataset import names_in, names_text
from foltr_audit.core.settings.data import DataSpec
from foltr_audit.data import load as store
from foltr_audit.data.load import FACTS, load_collection
from tests.fixtures.data_cache import PARTS, TEXT, assert_same, contents, is_mapped, load, names
from tests.fixtures.search_logs import metadata, searches, write_log


@pytest.mark.parametrize("kind", ["file", "log", "synthetic:mq2007:30"])
def test_the_cache_gives_what_reading_gives(cache_place: Path, letor_file: Path, kind: str) -> None:
    rows, log = searches(users=4, count=20, documents=3, features=2), cache_place.parents[1] / "log"
    sources: dict[str, Path | str] = {"file": letor_file, "log": write_log(log, rows)}
    source = sources.get(kind, kind)
    (log / "metadata.csv").write_text(metadata(rows[2:]))
    plain = load(source, cache=False)
    assert not cache_place.exists()
    first, second = load(source), load(source)
    assert [is_mapped(data) for data in (plain, first, second)] == [False, True, True]
    assert_same(first, plain)
    assert_same(second, plain)
    assert second.left_out == plain.left_out == (2 if kind == "log" else 0)
    for name in PARTS:
        for array in ("features", "labels", "offsets", *(("users",) if kind == "log" else ())):
            one, other = getattr(plain.part(name), array), getattr(second.part(name), array)
            typeof: Callable[[object], object] = numba.typeof
            assert typeof(one) == typeof(other), "kernels were compiled for this type"
            assert not other.flags.writeable
            np.testing.assert_array_equal(one, other)


def test_each_folder_has_its_own_entry(
    cache_place: Path, letor_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load(letor_file, seed=2).fingerprint != load(letor_file, seed=1).fingerprint
    assert len(contents(cache_place)) == 2
    whole = letor_file.with_name("whole")
    whole.mkdir()
    for name in PARTS:
        shutil.copy(letor_file, whole / f"{name}.txt")
    for seed in (1, 2):
        assert is_mapped(load(whole, seed=seed))
    assert len(contents(cache_place)) == 3, "the seed counts only where something is split"
    _rewrite(whole / letor_file.name)
    found = []
    for folder in (letor_file.parent, whole):
        monkeypatch.chdir(folder)
        found.append(load(letor_file.name).fingerprint)
    assert found[0] != found[1], "the same relative path"


def test_every_field_of_the_data_has_entries_of_its_own(cache_place: Path, letor_file: Path) -> None:
    fields: tuple[dict[str, str], ...] = (
        {},
        {"normalise": "none"},
        {"dtype": "float64"},
        {"missing": "mean"},
        {"document_order": "file"},
    )
    for _ in range(2):
        for field in fields:
            data = DataSpec.model_validate({"source": str(letor_file), **field})
            cached = load_collection(data, 1)
            assert DataSpec.of(cached) == data
            assert_same(cached, load_collection(data, 1, cache=False))
    assert len(contents(cache_place)) == len(fields)


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
    assert (mapped.n_intents, load(letor_file).n_intents) == (2, 1)
    (folder / "2.txt").write_text((folder / "1.txt").read_text().replace(" 1 D", " 2 D"))
    assert load(letor_file, intents=folder).fingerprint != plain.fingerprint


# --- sources that change --------------------------------------------------------------------------


def _rewrite(path: Path) -> None:
    time.sleep(0.02)  # longer than the file system's clock ticks
    path.write_text(TEXT.replace("2:1.5", "2:9.5"))


def test_a_changed_file_is_read_again(cache_place: Path, letor_file: Path) -> None:
    old = load(letor_file)
    _rewrite(letor_file)
    new = load(letor_file)
    assert new.fingerprint != old.fingerprint
    assert_same(new, load(letor_file, cache=False))
    assert len(names(cache_place)) == 1, "the new entry takes the place of the old one"
    assert old.train.features.sum() == pytest.approx(0, abs=1e-4), "which stays for who has mapped it"


def test_small_data_pipes_and_files_that_change_meanwhile_are_not_kept(
    cache_place: Path, letor_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from foltr_audit.data import letor

    pipe = letor_file.with_name("pipe")
    os.mkfifo(pipe)
    with subprocess.Popen(["/bin/sh", "-c", f"printf '%s' \"$1\" > '{pipe}'", "sh", TEXT]):
        assert load(pipe).train.n_documents
    with monkeypatch.context() as patch:
        patch.setattr(store, "SMALLEST_BYTES", 1 << 20)
        load(letor_file)

    def reading(*arguments: object, **named: object) -> object:
        part = read(*arguments, **named)
        _rewrite(letor_file)
        return part

    read: Callable[..., object] = letor.read_letor
    monkeypatch.setattr("foltr_audit.data.sources.read_letor", reading)
    load(letor_file)
    assert not cache_place.exists()


def test_another_version_reads_again(
    cache_place: Path, letor_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(letor_file)
    old = (contents(cache_place)[0] / FACTS).read_text()
    monkeypatch.setattr(store, "code_version", lambda _: "another")
    assert is_mapped(load(letor_file))
    assert (contents(cache_place)[0] / FACTS).read_text() != old


# --- damage ---------------------------------------------------------------------------------------


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def _add_one(path: Path) -> None:
    array = np.load(path, allow_pickle=False)
    array.flat[1] += 1
    np.save(path, array, allow_pickle=False)


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
    "features changed": (FEATURES, _add_one),
    "labels changed": (LABELS, _add_one),
    "offsets that do not fit": ("test.offsets.npy", _flip),
    "offsets that fit": ("test.offsets.npy", _add_one),
    "names changed": ("test.document_ids.npy", _flip),
    "no facts": (FACTS, Path.unlink),
    "facts deep": (FACTS, lambda path: path.write_text("[" * 100_000)),
    "facts without a seal": (FACTS, lambda path: path.write_text("{}")),
    "facts changed": (FACTS, lambda path: path.write_text(path.read_text().replace("true", "false"))),
    "a link to nothing": ("", _link),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_entry_is_made_again(cache_place: Path, kind: str) -> None:
    source = "synthetic:mq2007:30"
    plain = load(source, cache=False)
    load(source)
    name, damage = DAMAGE[kind]
    (folder,) = contents(cache_place)
    damage(folder / name)
    again = load(source)
    assert is_mapped(again)
    assert_same(again, plain)
    assert names(cache_place) == [folder.name], "nothing is left of the damaged one"


# --- writers that die, or may not write -----------------------------------------------------------


def test_what_a_killed_writer_left_goes_after_a_day(cache_place: Path, letor_file: Path) -> None:
    left = cache_place / ".left"
    left.mkdir(parents=True)
    load(letor_file)
    assert left.exists(), "it may be another writer's, still at work"
    os.utime(left, (0, 0))
    load(letor_file, "none")
    assert not left.exists()


@pytest.mark.parametrize("failure", ["full", "file", "relative"])
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


def test_names_are_stored_and_given_back() -> None:
    given = tuple("\u00fc\ud800" * (number % 3) for number in range(7))
    stored = names_text(iter(given))
    assert names_in(stored, 7) == given
    assert names_in(names_text(()), 0) == ()
    assert stored.tobytes() == "".join(name + "\0" for name in given).encode("utf-8", "surrogatepass")
    with pytest.raises(ValueError, match="NUL"):
        names_text([*given, "a\0b"])


@pytest.mark.parametrize(("text", "count"), [(b"a\0b\0", 3), (b"a\0b", 1), (b"\xff\0", 1)])
def test_stored_names_are_as_many_as_was_said(text: bytes, count: int) -> None:
    with pytest.raises(ValueError, match=r"names; expected|utf-8"):
        names_in(np.frombuffer(text, dtype=np.uint8), count)
