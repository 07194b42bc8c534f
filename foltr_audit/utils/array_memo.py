"""Arrays that a process needs again and again, kept while a block of code asks for it.

Cells of a comparison draw the same random numbers: streams are named by seed, repetition, round and client,
and neither by an epsilon nor by a click model.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T", bound=np.generic)


class ArrayMemo:
    """Read-only arrays by what they were made from; the ones not asked for longest go first."""

    def __init__(self, most_bytes: int) -> None:
        """Empty; it holds arrays of `most_bytes` together, and none that takes more than half of that."""
        self._most = most_bytes
        self._arrays: OrderedDict[Hashable, NDArray[np.generic]] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], NDArray[T]]) -> NDArray[T]:
        """The array of a key, which `make` makes where it is not there."""
        with self._lock:
            found = self._arrays.get(key)
            if found is not None:
                self._arrays.move_to_end(key)
                return cast("NDArray[T]", found)
        made = make()
        made.flags.writeable = False
        with self._lock:
            if 2 * made.nbytes <= self._most and key not in self._arrays:  # another thread may have made it
                self._arrays[key] = made
                self._bytes += made.nbytes
                while self._bytes > self._most:
                    self._bytes -= self._arrays.popitem(last=False)[1].nbytes
        return made


_memo: ContextVar[ArrayMemo | None] = ContextVar("_memo", default=None)


@contextmanager
def remembering(memo: ArrayMemo) -> Iterator[None]:
    """In this block, and in this thread, `remembered` looks into a memo."""
    token = _memo.set(memo)
    try:
        yield
    finally:
        _memo.reset(token)


@contextmanager
def at_least_remembering(most_bytes: int) -> Iterator[None]:
    """As `remembering`, with the memo of the surrounding block where there is one, else a new one."""
    if _memo.get() is not None:
        yield
        return
    with remembering(ArrayMemo(most_bytes)):
        yield


def remembered(key: Callable[[], Hashable], make: Callable[[], NDArray[T]]) -> NDArray[T]:
    """The array that `make` makes, from the memo of the surrounding block if any; do not write to it.

    The key, which is made only if there is a memo, names everything that the array depends on.

    >>> with remembering(ArrayMemo(1000)):
    ...     one, same = (remembered(lambda: "zeros", lambda: np.zeros(3)) for _ in range(2))
    >>> one is same
    True
    """
    memo = _memo.get()
    return make() if memo is None else memo.get(key(), make)
