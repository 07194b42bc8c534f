"""Kernels are compiled together with what they call, stored and loaded; parts of rows run on threads."""

from __future__ import annotations

import ast
import errno
import importlib.util
import os
import sys
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import numba
import numpy as np
import pytest

from foltr_audit.kernels import jit
from foltr_audit.kernels.threads import in_parts
from tests.fixtures.import_graph import ROOT
from tests.fixtures.reference import numba_threads

SOURCE = """
import numpy as np
from foltr_audit.kernels.jit import inner, kernel

@inner
def twice(x):
    if x < 0:
        raise ValueError(x)  # its message is made at run time, with the environment of the function
    return 2.0 * x

@kernel
def rows(n):
    return np.full(n, twice(1.5))  # memory comes from numba's manager

@kernel
def double(x):
    return twice(x)

@kernel
def total(n):
    return rows(n).sum()
"""


@pytest.fixture
def source(tmp_path: Path, stored: Path) -> Path:
    path = tmp_path / "package" / "made.py"
    path.parent.mkdir()
    path.write_text(SOURCE)
    return path


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of compiled kernels; it is not there yet."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "stored"))
    return tmp_path / "stored"


def loaded(source: Path) -> ModuleType:
    """The kernels as another process would find them."""
    jit._stamp.cache_clear()
    spec = importlib.util.spec_from_file_location("made", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=[True, False])
def known(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether numba is as it is expected, or of another make."""
    value: bool = request.param
    monkeypatch.setattr(jit, "KNOWN", value)
    return value


@pytest.mark.usefixtures("known")
def test_a_stored_kernel_runs_and_is_compiled_into_others(source: Path) -> None:
    """Of a numba of another make it is loaded the way of numba."""
    first, again, third = loaded(source), loaded(source), loaded(source)
    assert first.rows(4).tolist() == [3.0] * 4
    assert again.rows(2).tolist() == [3.0] * 2
    assert again.rows.stats.cache_hits
    assert again.total(5) == 15.0  # compiled from what was stored
    assert again.total.stats.cache_misses
    assert third.total(5) == 15.0
    assert third.total.stats.cache_hits


def was_stored(source: Path) -> bool:
    """Whether a kernel comes from its file; it works either way."""
    module = loaded(source)
    assert module.total(5) == 15.0
    return bool(module.total.stats.cache_hits)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def one_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def text(path: Path) -> None:
    path.write_text("not a kernel\n" * 100)


def dangling(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.parent / "nowhere")


@pytest.mark.parametrize("damage", [empty, cut, one_bit, text, dangling])
def test_a_damaged_file_is_made_again(source: Path, stored: Path, damage: Callable[[Path], None]) -> None:
    assert [was_stored(source), was_stored(source)] == [False, True]
    for path in stored.iterdir():
        damage(path)
    assert [was_stored(source), was_stored(source)] == [False, True]


def test_a_folder_in_place_of_a_file_is_left_alone(source: Path, stored: Path) -> None:
    assert not was_stored(source)
    for path in stored.iterdir():
        path.unlink()
        path.mkdir()
    assert [was_stored(source), was_stored(source)] == [False, False]


def test_a_full_disk_costs_time_only(source: Path, stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, content: bytes) -> int:
        with path.open("wb") as file:
            file.write(content[:1_000])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    assert [was_stored(source), was_stored(source)] == [False, False]
    assert list(stored.iterdir()) == []


def test_without_a_folder_kernels_are_compiled_each_time(source: Path, stored: Path) -> None:
    stored.write_text("a file")
    assert [was_stored(source), was_stored(source)] == [False, False]


def test_what_another_user_stored_is_not_run(
    source: Path, stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others may write to a folder that NUMBA_CACHE_DIR names."""
    assert not was_stored(source)
    me = os.geteuid()
    if me == 0:  # whose files are everybody's to trust
        for path in stored.iterdir():
            os.chown(path, 1, 1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    assert not was_stored(source)


def test_a_change_in_another_file_is_noticed(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a function there which a kernel here calls, and which is stored as a part of it."""
    callee = source.with_name("called.py")
    source.write_text(
        "from called import factor\nfrom foltr_audit.kernels.jit import kernel\n"
        "@kernel\ndef total(n):\n    return factor() * n\n"
    )
    monkeypatch.syspath_prepend(source.parent)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for value in (3.0, 2.5, 3.0):
        callee.write_text(
            f"from foltr_audit.kernels.jit import inner\n@inner\ndef factor():\n    return {value}\n"
        )
        monkeypatch.delitem(sys.modules, "called", raising=False)
        assert loaded(source).total(5) == 5 * value
        monkeypatch.delitem(sys.modules, "called")


def test_a_package_gets_no_files_that_its_installer_does_not_know(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would stay when it is uninstalled."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    assert [was_stored(source), was_stored(source)] == [False, True]
    left = [path.suffix for path in source.parent.rglob("*") if path.is_file()]
    assert set(left) <= {".py", ".pyc"}
    made = tmp_path / "user" / "foltr-audit" / "kernels"
    assert {path.name.partition("-")[0] for path in made.iterdir()} >= {"made.total", "made.rows"}
    assert made.stat().st_mode & 0o077 == 0


def test_this_numba_is_known() -> None:
    assert jit.KNOWN


def test_an_inner_function_has_machine_code_only_in_its_callers(source: Path, known: bool) -> None:
    """Of a numba of another make it has its own."""
    first, again = loaded(source), loaded(source)
    first.twice.compile("(float64,)")
    [inner] = first.twice.overloads.values()
    engine: Any = inner.library._codegen._engine
    assert engine.is_symbol_defined(inner.fndesc.llvm_func_name) == (not known)
    assert first.double(1.5) == 3.0
    assert first.rows(1).tolist() == [3.0]
    assert again.total(2) == 6.0  # `rows` comes from the store, and `twice` with it
    assert again.twice.overloads == {}


@pytest.mark.parametrize("stored", [False, True])
def test_an_error_of_an_inner_function_is_raised_by_its_caller(source: Path, stored: bool) -> None:
    module = loaded(source)
    if stored:
        assert module.double(1.0) == 2.0
        module = loaded(source)
    with pytest.raises(ValueError, match="-1"):
        module.double(-1.0)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 1000])
@pytest.mark.parametrize("size", [1, 8, 2000])
def test_every_row_is_visited_once(count: int, size: int) -> None:
    visits = np.zeros(count, dtype=np.int64)

    def visit(begin: int, end: int) -> None:
        assert 0 <= begin < end <= count
        visits[begin:end] += 1

    in_parts(visit, count, size)
    assert (visits == 1).all()


def test_one_thread_takes_all_rows_at_once() -> None:
    seen = []
    with numba_threads(1):
        in_parts(lambda begin, end: seen.append((threading.get_ident(), begin, end)), 7, 3)
    assert seen == [(threading.get_ident(), 0, 7)]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_of_any_thread_ends_the_call(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the thread that calls, as Ctrl-C, and in another one."""
    monkeypatch.setattr(numba, "get_num_threads", lambda: 2)
    caller, inside = threading.get_ident(), set[int]()
    for fails_in_caller in (True, False):
        met = threading.Barrier(2)  # both threads have begun a part

        def fail(begin: int, end: int, here: bool = fails_in_caller, both: threading.Barrier = met) -> None:
            me = threading.get_ident()
            inside.add(me)
            both.wait(timeout=60)
            if (me == caller) == here:
                inside.remove(me)
                raise error(begin)
            time.sleep(0.05)  # the call has to wait for this part
            inside.remove(me)

        with pytest.raises(error):
            in_parts(fail, 2, 1)
        assert not inside


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """It inherits the list of threads that wait for parts, and none of the threads."""
    monkeypatch.setattr(numba, "get_num_threads", lambda: 2)
    met = threading.Barrier(2)
    in_parts(lambda _begin, _end: met.wait(timeout=60), 2, 1)
    child = os.fork()
    if child == 0:
        again, failed = threading.Barrier(2), 1
        try:  # the barrier is passed only where two threads take a part each
            in_parts(lambda _begin, _end: again.wait(timeout=10), 2, 1)
            failed = 0
        finally:
            os._exit(failed)
    assert os.waitpid(child, 0)[1] == 0


def test_python_calls_no_inner_kernel() -> None:
    """Such a call crashes, so that no module outside imports a kernel that has no entry."""
    inner = set()
    for path in (ROOT / "foltr_audit" / "kernels").glob("*.py"):
        lines = path.read_text(encoding="utf-8").splitlines()
        found = (after for line, after in pairwise(lines) if line in ("@inner", "@uncounted", "@inlined"))
        inner |= {(path.stem, after.removeprefix("def ").partition("(")[0]) for after in found}
    assert {("ranking", "fill_products"), ("philox", "refill")} <= inner
    for folder in ("foltr_audit", "attacks", "defenses", "scenarios", "studies", "tests", "benchmarks"):
        for path in (ROOT / folder).rglob("*.py"):
            if path.parent.name == "kernels" and path.parent.parent.name == "foltr_audit":
                continue
            text = path.read_text(encoding="utf-8")
            for module, name in imported_from_kernels(text) if "foltr_audit.kernels" in text else ():
                assert (module, name) not in inner, f"{path}: {name}"
                assert not name.startswith("_") or name.isupper(), f"{path}: {name}"


def imported_from_kernels(text: str) -> list[tuple[str, str]]:
    """Module and name of what a file imports out of kernels."""
    return [
        (node.module.rpartition(".")[2], one.name)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("foltr_audit.kernels.")
        for one in node.names
        if node.module
    ]
