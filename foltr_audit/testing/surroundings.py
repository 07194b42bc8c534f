"""What surrounds a plug-in while it is checked: threads, the process's own state, and files."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from numpy.random import MT19937, mtrand

from foltr_audit.testing.contract import expect
from foltr_audit.utils.blas_threads import one_blas_thread

_UNUSED_SEED = 20_231_123
_WATCHED = {"open", "socket.connect", "subprocess.Popen", "os.system", "os.posix_spawn"}
_CODE = (".py", ".pyc", ".so", ".nbi", ".nbc")  # what an import opens


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let kernels and linear algebra use so many threads, or all where there are fewer."""
    import numba
    from threadpoolctl import threadpool_limits

    most, before = numba.config.NUMBA_NUM_THREADS, numba.get_num_threads()  # type: ignore[attr-defined]
    numba.set_num_threads(min(count, most))
    try:
        with threadpool_limits(limits=count):
            yield
    finally:
        numba.set_num_threads(before)


@contextmanager
def kernel_threads(count: int) -> Iterator[None]:
    """Let kernels use so many threads, and linear algebra one."""
    with threads(count), one_blas_thread():
        yield


@contextmanager
def own_generators_only() -> Iterator[None]:
    """Lend NumPy's global generator a known state, and expect that nothing draws from it or seeds it."""
    before = mtrand.get_state(legacy=False)
    mtrand.set_state(dict(MT19937(_UNUSED_SEED).state))
    lent = repr(mtrand.get_state(legacy=False))
    try:
        yield
        used = lent != repr(mtrand.get_state(legacy=False))
        expect(not used, "randomness from the given streams only", "a use of NumPy's global generator")
    finally:
        mtrand.set_state(before)


_reached: dict[int, list[str]] = {}  # by thread


def _note(event: str, given: tuple[object, ...]) -> None:
    # Most events end here, as every import is one. At the end of a process the module's names are gone.
    if not _reached or event not in _WATCHED:
        return
    found = _reached.get(threading.get_ident())
    if found is None:
        return
    place = str(given[0]) if given else ""
    if not (event == "open" and place.endswith(_CODE)):
        found.append(f"{event} {place}")


@cache
def _watch() -> None:
    sys.addaudithook(_note)  # cannot be taken away again: outside of `reached` it does nothing


@contextmanager
def reached() -> Iterator[list[str]]:
    """Notes the files, programs and addresses that this thread opens inside the `with` block."""
    _watch()
    mine = threading.get_ident()
    _reached[mine] = []
    try:
        yield _reached[mine]
    finally:
        _reached.pop(mine)
