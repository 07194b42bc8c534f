"""Threads that share the rows of a kernel.

Kernels run without the interpreter's lock, so that threads of Python can call them for parts of their rows.
A loop over `numba.prange` would be shorter, but all that it calls is compiled once more for the loop's
unsigned counter, and optimised two or three times more.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Lock, Thread

import numba

_PARTS = 4  # for each thread


def in_parts(rows: Callable[[int, int], object], count: int, size: int) -> None:
    """Call `rows(begin, end)` for parts of `count` rows, at least `size` each, on all threads for kernels.

    Each part has to be independent of the others: which thread takes it, and when, is left open.
    """
    parts = -(-count // size)
    threads = min(numba.get_num_threads(), parts) if parts > 1 else 1
    if threads == 1:
        if count:
            rows(0, count)
        return
    # A call costs as much as some clients: few parts, and enough that no thread waits long for the last one.
    _Parts(rows, count, max(size, -(-count // (_PARTS * threads)))).run(threads)


class _Parts:
    """The parts that no thread has taken yet."""

    def __init__(self, rows: Callable[[int, int], object], count: int, size: int) -> None:
        self._rows, self._count, self._size = rows, count, size
        self._begin, self._lock, self._stop = 0, Lock(), Event()
        self._errors: list[BaseException] = []

    def run(self, threads: int) -> None:
        """Take all parts on this thread and others."""
        others = [Thread(target=self._work) for _ in range(threads - 1)]
        for other in others:
            other.start()
        try:
            self._take_all()
        finally:  # after Ctrl-C too: nobody writes into the arrays once this has returned
            self._stop.set()
            for other in others:
                other.join()
        if self._errors:
            raise self._errors[0]

    def _work(self) -> None:
        try:
            self._take_all()
        except BaseException as error:
            self._errors.append(error)
            self._stop.set()

    def _take_all(self) -> None:
        while not self._stop.is_set():
            with self._lock:
                begin = self._begin
                self._begin += self._size
            if begin >= self._count:
                return
            self._rows(begin, min(begin + self._size, self._count))
