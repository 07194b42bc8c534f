"""Clicks of the cascade model.

Source: Guo, Liu & Wang 2009, "Efficient multiple-click models in web search", section 3.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .jit import Bools, Floats, Ints, inlined, kernel, uncounted, unsigned


@inlined
def click_row(
    grades: Ints, row: int, u: Floats, column: int, click: Floats, stop: Floats, out: Bools
) -> None:
    """Fill out[row] with the clicks on the list of grades[row], -1 at its padding.

    Numbers u[2i, column] and u[2i + 1, column] decide on clicking rank i and on stopping there.
    """
    # Without branches: whether a user clicks is random, and a wrong guess of the processor costs more.
    reading = True
    for i in range(grades.shape[1]):
        grade = max(grades[row, i], 0)
        clicked = (
            reading & (grades[row, i] >= 0) & (u[unsigned(2 * i), unsigned(column)] < click[unsigned(grade)])
        )
        reading = reading & ~(clicked & (u[unsigned(2 * i + 1), unsigned(column)] < stop[unsigned(grade)]))
        out[row, i] = clicked


@uncounted
def click_group(
    labels: NDArray[np.int8],
    firsts: Ints,
    click: Floats,
    stop: Floats,
    shown: Ints,
    rows: int,
    u: Floats,
    column: int,
    grades: Ints,
    clicks: Bools,
) -> None:
    """Fill the first rows of `clicks` (rows, k) with clicks on lists `shown` (rows, k), -1 at their padding.

    The grades of the documents that row r may show begin at labels[firsts[r]]. Numbers u[:, column + r]
    decide; `grades` (rows, k) is scratch memory.
    """
    for row in range(rows):
        first = firsts[row]
        for i in range(shown.shape[1]):
            grade = labels[unsigned(first + max(shown[row, i], 0))]
            grades[row, i] = grade if shown[row, i] >= 0 else -1
    for row in range(rows):
        click_row(grades, row, u, column + row, click, stop, clicks)


@kernel
def cascade_clicks(grades: Ints, u: Floats, click: Floats, stop: Floats) -> Bools:
    """Clicks on lists of grades (C, k), -1 at the padding, from numbers (C, 2k); bool (C, k).

    `click` and `stop` hold P(click | grade) and P(stop | click, grade).
    """
    clicks = np.empty(grades.shape, dtype=np.bool_)
    for c in range(grades.shape[0]):
        click_row(grades, c, u[c].reshape(u.shape[1], 1), 0, click, stop, clicks)
    return clicks
