"""The order in which NumPy's `argsort` put equal numbers before version 1.25, on any processor.

Today's NumPy sorts by vector instructions where a processor has them, so that the order of equal numbers
differs from one machine to the other. Programs of the field were published with the earlier order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .jit import Floats, Ints, inlined, kernel
from .threads import filled

Singles = NDArray[np.float32]

_FEW = 16  # numbers of a piece that is sorted by insertion
_LISTS = 32  # of one part: less work is done before a thread has started
_DEEPEST = 64  # pieces that wait: the larger one of two always does, so there are at most log2(n) of them


@inlined
def _swap(order: Ints, i: int, j: int) -> None:
    order[i], order[j] = order[j], order[i]


@kernel
def _split(values: Singles, order: Ints, first: int, last: int) -> int:
    """Put order[first..last] on the two sides of the median of three; the place of that one."""
    middle = first + ((last - first) >> 1)
    if values[order[middle]] < values[order[first]]:
        _swap(order, middle, first)
    if values[order[last]] < values[order[middle]]:
        _swap(order, last, middle)
    if values[order[middle]] < values[order[first]]:
        _swap(order, middle, first)
    pivot = values[order[middle]]
    up, down = first, last - 1
    _swap(order, middle, down)
    while True:
        up += 1
        while values[order[up]] < pivot:
            up += 1
        down -= 1
        while pivot < values[order[down]]:
            down -= 1
        if up >= down:
            break
        _swap(order, up, down)
    _swap(order, up, last - 1)
    return up


@kernel
def _insert(values: Singles, order: Ints, first: int, last: int) -> None:
    """Sort order[first..last] by insertion."""
    for i in range(first + 1, last + 1):
        moved, slot = order[i], i
        while slot > first and values[moved] < values[order[slot - 1]]:
            order[slot] = order[slot - 1]
            slot -= 1
        order[slot] = moved


@kernel
def ascending(values: Singles) -> Ints:
    """Positions of `values` (n,) in ascending order: quicksort by the median of three, then by insertion.

    NumPy turned to heapsort where quicksort went too deep; scores of a query never do, and are not told apart
    here.
    """
    order = np.arange(values.size)
    waiting = np.empty((_DEEPEST, 2), dtype=np.int64)
    first, last, number = 0, values.size - 1, 0
    while True:
        while last - first >= _FEW:
            pivot = _split(values, order, first, last)
            # The smaller piece is next.
            if pivot - first < last - pivot:
                waiting[number, 0], waiting[number, 1] = pivot + 1, last
                last = pivot - 1
            else:
                waiting[number, 0], waiting[number, 1] = first, pivot - 1
                first = pivot + 1
            number += 1
        _insert(values, order, first, last)
        if number == 0:
            return order
        number -= 1
        first, last = waiting[number]


def reversed_lists(scores: Floats, starts: Ints, k: int) -> Ints:
    """The last k positions of `ascending` scores of each client, the very last first; (C, k), padded with -1.

    Scores are rounded to single precision before. Client c owns `scores[starts[c] : starts[c + 1]]`.
    """
    clients = starts.size - 1
    return filled(np.full((clients, k), -1, dtype=np.int64), _LISTS, fill_reversed_lists, scores, starts)


@kernel
def fill_reversed_lists(scores: Floats, starts: Ints, shown: Ints, begin: int, end: int) -> None:
    """Fill shown[begin:end] of `reversed_lists`, which begins as -1."""
    for c in range(begin, end):
        order = ascending(scores[starts[c] : starts[c + 1]].astype(np.float32))
        for rank in range(min(shown.shape[1], order.size)):
            shown[c, rank] = order[order.size - 1 - rank]
