"""Threads that share the rows of a kernel.

Kernels run without the interpreter's lock, so that threads of Python can call them for parts of their rows.
A loop over `numba.prange` would be shorter, but all that it calls is compiled once more for the loop's
unsigned counter, and optimised two or three times more.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from threading import Event, Lock
from typing import Any, TypeVar

import numba
from numpy.typing import NDArray

A = TypeVar("A", bound=NDArray[Any])


def in_parts(rows: Callable[[int, int], object], count: int, size: int) -> None:
    """Call `rows(begin, end)` for parts of `count` rows, at least `size` each, on all threads for kernels.

    Each part has to be independent of the others: which thread takes it, and when, is left open. To hand a
    part to another thread takes some fifty microseconds: `size` rows should take longer.
    """
    parts = -(-count // size)
    threads = min(numba.get_num_threads(), parts) if parts > 1 else 1
    if threads == 1:
        if count:
            rows(0, count)
        return
    _Parts(rows, count, size, threads).run()


def filled(out: A, size: int, fill: Callable[..., object], *given: object) -> A:
    """An array of which `fill(*given, out, begin, end)` writes some rows, `size` or more: see `in_parts`."""
    in_parts(lambda begin, end: fill(*given, out, begin, end), len(out), size)
    return out


@cache
def _helpers() -> ThreadPoolExecutor:
    """Threads that wait for parts: to start one anew takes three times as long as to wake it."""
    others: int = numba.config.NUMBA_NUM_THREADS - 1  # type: ignore[attr-defined]
    return ThreadPoolExecutor(max(1, others), thread_name_prefix="kernel")


if hasattr(os, "register_at_fork"):  # a forked process has none of the threads of its parent
    os.register_at_fork(after_in_child=_helpers.cache_clear)


class _Parts:
    """The rows that no thread has taken yet, of which each takes two thirds of its share.

    So parts are large at first, which costs few calls and lets rows of a part share what they read, and small
    at last, when a thread that is faster than others should not wait for them.
    """

    def __init__(self, rows: Callable[[int, int], object], count: int, size: int, threads: int) -> None:
        self._rows, self._count, self._size, self._threads = rows, count, size, threads
        self._begin, self._lock, self._stop = 0, Lock(), Event()

    def run(self) -> None:
        """Take all parts on this thread and others."""
        others: list[Future[None]] = []
        with suppress(RuntimeError):  # Python is about to end: this thread takes all parts
            others += (_helpers().submit(self._work) for _ in range(self._threads - 1))
        try:
            self._take_all()
        finally:  # after Ctrl-C too: nobody writes into the arrays once this has returned
            self._stop.set()
            errors = [other.exception() for other in others if not other.cancel()]
        for error in errors:
            if error is not None:
                raise error

    def _work(self) -> None:
        try:
            self._take_all()
        except BaseException:
            self._stop.set()
            raise

    def _take_all(self) -> None:
        while not self._stop.is_set():
            with self._lock:
                begin, left = self._begin, self._count - self._begin
                if left <= 0:
                    return
                end = begin + min(left, max(self._size, -(-2 * left // (3 * self._threads))))
                self._begin = end
            self._rows(begin, end)
