"""Parts of rows on threads: every row once, errors come out, and nothing runs on after the end."""

from __future__ import annotations

import ast
import os
import threading
import time
from itertools import pairwise

import numba
import numpy as np
import pytest

from foltr_audit.kernels.threads import in_parts
from tests.fixtures.import_graph import ROOT
from tests.fixtures.reference import numba_threads


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
        found = (after for line, after in pairwise(lines) if line in ("@inner", "@uncounted"))
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
