"""The cache of parsed data: the same data with and without it."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numba
import numpy as np
import pytest

from foltr_audit.core.records.names import LazyNames
from foltr_audit.data import cache as store
from foltr_audit.data.normalize import NORMALISATIONS
from foltr_audit.errors import FoltrAuditError
from tests.fixtures.command import run
from tests.fixtures.data_cache import PARTS, TEXT, assert_same, contents, is_mapped, load, names
from tests.fixtures.import_graph import imports, modules

# --- the same data --------------------------------------------------------------------------------


@pytest.mark.parametrize("how", NORMALISATIONS)
@pytest.mark.parametrize("kind", ["file", "synthetic:mq2007:30", "written"])
def test_the_cache_gives_what_reading_gives(cache_place: Path, letor_file: Path, kind: str, how: str) -> None:
    if kind == "written":
        assert run("data", "synth", "--queries", 20, "--out", letor_file.parent / "made").code == 0
        letor_file = letor_file.parent / "made"
    wanted = letor_file if not kind.startswith("synthetic") else kind
    plain = load(wanted, how, cache=False)
    assert not cache_place.exists()
    first, second = load(wanted, how), load(wanted, how)
    assert not is_mapped(plain)
    assert is_mapped(first)
    assert is_mapped(second)
    assert_same(first, plain)
    assert_same(second, plain)


def test_kernels_see_the_types_that_they_were_compiled_for(cache_place: Path, letor_file: Path) -> None:
    plain, mapped = load(letor_file, cache=False), load(letor_file)
    for name in PARTS:
        for array in ("features", "labels", "offsets"):
            one, other = getattr(plain.part(name), array), getattr(mapped.part(name), array)
            assert type(other) is np.ndarray
            typeof: Callable[[object], object] = numba.typeof
            assert typeof(one) == typeof(other)
            assert not other.flags.writeable
            assert other.flags.aligned
            with pytest.raises(ValueError, match="WRITEABLE"):
                other.flags.writeable = True


def test_nothing_is_parsed_the_second_time(
    cache_place: Path, letor_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(letor_file)

    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("parsed again")

    monkeypatch.setattr("foltr_audit.data.sources.read_letor", forbidden)
    assert is_mapped(load(letor_file))
    with pytest.raises(AssertionError):
        load(letor_file, "none")


def test_train_prints_the_same_bytes(cache_place: Path, tmp_path: Path) -> None:
    options = ("--data", "synthetic:mq2007:40", "--clients", 5, "--rounds", 2)
    runs: list[tuple[str, bytes]] = []
    for cache in ("", str(cache_place.parent), str(cache_place.parent)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(store.FOLDER_VARIABLE, cache)
            out = tmp_path / f"run{len(runs)}"
            assert run("train", *options, "--out", out).code == 0
            facts = run("train", *options, "--json").json()
        clock = re.compile("second")
        text = json.dumps({key: value for key, value in facts.items() if not clock.search(key)})
        runs.append((text, (out / "model.npy").read_bytes()))
    assert len(contents(cache_place)) == 1
    assert runs[0] == runs[1] == runs[2]


def test_each_source_has_its_own_entry_and_a_link_is_its_file(cache_place: Path, letor_file: Path) -> None:
    link = letor_file.with_name("link.txt")
    link.symlink_to(letor_file)
    found = [load(path) for path in (letor_file, link, letor_file)]
    assert [one.source for one in found] == [str(letor_file), str(link), str(letor_file)]
    assert {row.fingerprint for row in store.list_entries()} == {found[0].fingerprint}
    load(letor_file, "none")
    assert {(row.source, row.normalised) for row in store.list_entries()} == {
        (str(letor_file), "zscore"),
        (str(link), "zscore"),
        (str(letor_file), "none"),
    }


def test_the_split_seed_counts_only_where_something_is_split(cache_place: Path, letor_file: Path) -> None:
    assert load(letor_file, seed=1).fingerprint != load(letor_file, seed=2).fingerprint
    whole = letor_file.with_name("whole")
    whole.mkdir()
    for name in PARTS:
        shutil.copy(letor_file, whole / f"{name}.txt")
    before = len(contents(cache_place))
    load(whole, seed=1)
    load(whole, seed=2)
    assert len(contents(cache_place)) == before + 1


def test_names_are_decoded_on_use() -> None:
    text = np.frombuffer("a\0\0\u00fc\u2028\0".encode(), dtype=np.uint8)
    stored = LazyNames(text, 3)
    assert len(stored) == 3
    assert list(stored) == ["a", "", "\u00fc\u2028"]
    assert stored[2] == "\u00fc\u2028"
    assert stored[-3] == "a"
    assert stored[:2] == ("a", "")
    assert stored[2:1] == ()
    assert stored[::-2] == ("\u00fc\u2028", "a")
    with pytest.raises(IndexError):
        stored[3]
    assert stored == ("a", "", "\u00fc\u2028")
    assert stored != ("a", "", "b")
    assert stored == LazyNames(text.copy(), 3)
    assert hash(stored) == hash(LazyNames(text.copy(), 3))


@pytest.mark.parametrize("count", [0, 1, 5, 6, 7])
def test_names_are_stored_and_given_back(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foltr_audit.core.records.names._BATCH_NAMES", 3)
    names = tuple("\u00fc\ud800" * (number % 3) for number in range(count))
    stored = LazyNames.of(iter(names))
    assert len(stored) == count
    assert tuple(stored) == tuple(stored[number] for number in range(count)) == stored[:] == names
    assert stored.text.tobytes() == "".join(name + "\0" for name in names).encode("utf-8", "surrogatepass")
    assert LazyNames.of(stored) is stored
    with pytest.raises(ValueError, match="NUL"):
        LazyNames.of([*names, "a\0b"])


def test_small_data_are_not_kept(
    cache_place: Path, letor_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "SMALLEST_BYTES", 1 << 20)
    assert not is_mapped(load(letor_file))
    assert not cache_place.exists()


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
    assert len(contents(cache_place)) == 1, "what nobody can ask for any more is removed"
    assert old.train.features.sum() == pytest.approx(0, abs=1e-4), "and stays for who has mapped it"


def test_a_group_file_counts(cache_place: Path, tmp_path: Path) -> None:
    (tmp_path / "web.train").write_text("1 1:1\n0 1:2\n0 1:3\n1 1:4\n" * 3)
    (tmp_path / "web.train.query").write_text("3\n" * 4)
    old = load(tmp_path / "web.train")
    time.sleep(0.02)
    (tmp_path / "web.train.query").write_text("2\n" * 6)
    assert load(tmp_path / "web.train").fingerprint != old.fingerprint


def test_a_file_that_changes_while_it_is_read_is_not_kept(
    cache_place: Path, letor_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from foltr_audit.data.letor import reader

    def reading(*arguments: object, **named: object) -> object:
        part = read(*arguments, **named)
        time.sleep(0.02)
        _rewrite(letor_file)
        return part

    read: Callable[..., object] = reader.read_letor
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
    old = contents(cache_place)
    monkeypatch.setattr(store, "code_version", lambda: "0" * 64)
    assert is_mapped(load(letor_file))
    assert len(contents(cache_place)) == 1
    assert contents(cache_place) != old


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
    assert {name.split(".")[1] for name in found} == set(store.DECIDING)


# --- the commands ---------------------------------------------------------------------------------


def test_list(cache_place: Path, letor_file: Path) -> None:
    assert "empty" in run("data", "cache", "list").out
    data = load(letor_file)
    load("synthetic:mq2007:20", "none")
    shown = run("data", "cache", "list")
    assert shown.code == 0
    for text in (data.fingerprint[:12], "zscore", "synthetic:mq2007:20"):
        assert text in shown.out
    assert "float32" in shown.out
    facts = run("data", "cache", "list", "--json").json()
    assert {entry["dtype"] for entry in facts["entries"]} == {"float32"}
    assert facts["schema"] == "foltr-audit/data-cache-list/2"
    assert facts["folder"] == str(cache_place)
    row = facts["entries"][0]
    (folder,) = (path for path in contents(cache_place) if "zscore" in (path / "meta.json").read_text())
    assert (row["source"], row["fold"], row["normalised"]) == (str(letor_file), 0, "zscore")
    assert row["fingerprint"] == data.fingerprint
    assert row["bytes"] == sum(path.stat().st_size for path in folder.iterdir())
    assert facts["bytes"] == sum(entry["bytes"] for entry in facts["entries"])


def test_the_last_use_is_noted(cache_place: Path, letor_file: Path) -> None:
    load(letor_file)
    (index,) = cache_place.glob("*/meta.json")
    os.utime(index, (0, 0))
    assert store.list_entries()[0].last_used == "1970-01-01T00:00:00+00:00"
    load(letor_file)
    assert store.list_entries()[0].last_used > "2020"


def test_clear_removes_what_is_the_cache_s_own(cache_place: Path, letor_file: Path) -> None:
    data = load(letor_file)
    load(letor_file, "none")
    (cache_place / f".{'0' * 32}.abcd.tmp").mkdir()
    (cache_place / "mine.txt").write_text("dear")
    outside = cache_place.parent / "outside"
    outside.mkdir()
    (outside / "dear").write_text("")
    (cache_place / f"{'1' * 32}").symlink_to(outside)
    done = run("data", "cache", "clear")
    assert done.code == 0
    assert "removed 2 entries" in done.out
    assert names(cache_place) == ["mine.txt"]
    assert (outside / "dear").exists()
    assert data.train.features.sum() == pytest.approx(0, abs=1e-4), "a run that has mapped it goes on"
    assert "removed 0 entries" in run("data", "cache", "clear").out


def test_clear_says_what_it_could_not_remove(
    cache_place: Path, letor_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(letor_file)

    def refused(path: Path) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(shutil, "rmtree", refused)
    done = run("data", "cache", "clear")
    assert done.code == FoltrAuditError.exit_code
    assert "cannot be removed" in done.one_error()


def test_info_reads_the_files(cache_place: Path, letor_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("asked the cache")

    load(letor_file, "none")
    monkeypatch.setattr(store, "cached", forbidden)
    monkeypatch.setattr("foltr_audit.data.load.cached", forbidden)
    with pytest.raises(AssertionError):
        load(letor_file, "none")
    facts = run("data", "info", letor_file, "--json").json()
    assert facts["fingerprint"] == load(letor_file, cache=False).fingerprint


# --- several intents ------------------------------------------------------------------------------


def test_intents_are_kept_and_qrels_that_change_are_read_anew(cache_place: Path, letor_file: Path) -> None:
    folder = letor_file.parent / "qrels"
    folder.mkdir()
    for intent in (1, 2):
        text = "".join(f"{q} {intent} D{q}-{row} {row % intent}\n" for q in range(12) for row in range(3))
        (folder / f"{intent}.txt").write_text(text)
    plain = load(letor_file, cache=False, intents=folder)
    first, second = load(letor_file, intents=folder), load(letor_file, intents=folder)
    assert is_mapped(second)
    assert_same(first, plain)
    assert_same(second, plain)
    assert second.train.n_intents == 2
    assert second.intents_from == str(folder)
    typeof: Callable[[object], object] = numba.typeof
    assert typeof(second.train.intents) == typeof(plain.train.intents)
    assert load(letor_file).n_intents == 1
    (folder / "2.txt").write_text((folder / "1.txt").read_text().replace(" 1 D", " 2 D"))
    assert load(letor_file, intents=folder).fingerprint != plain.fingerprint


def test_made_up_intents_are_kept_apart(cache_place: Path) -> None:
    collections = [load("synthetic:mq2007:30", intents=text) for text in (None, "synthetic:2", "synthetic:3")]
    again = [load("synthetic:mq2007:30", intents=text) for text in (None, "synthetic:2", "synthetic:3")]
    assert [collection.n_intents for collection in again] == [1, 2, 3]
    assert len({collection.fingerprint for collection in again}) == 3
    for one, other in zip(collections, again, strict=True):
        assert_same(one, other)
    assert [row.source for row in store.list_entries()] == [
        "synthetic:mq2007:30",
        "synthetic:mq2007:30 with intents synthetic:2",
        "synthetic:mq2007:30 with intents synthetic:3",
    ]
