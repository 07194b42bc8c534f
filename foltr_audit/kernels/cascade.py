"""Clicks of the cascade model.

Source: Guo, Liu & Wang 2009, "Efficient multiple-click models in web search", section 3.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .jit import Bools, Floats, Ints, inlined, inner, kernel, unsigned


@inlined
def click_row(grades: Ints, u: Floats, row: int, ahead: int, click: Floats, stop: Floats, out: Bools) -> None:
    """Fill out[row] with the clicks on the list of grades[row], -1 at its padding.

    Numbers u[row, ahead + 2i] and u[row, ahead + 2i + 1] decide on clicking rank i and on stopping there.
    """
    # Without branches: whether a user clicks is random, and a wrong guess of the processor costs more.
    reading = True
    for i in range(grades.shape[1]):
        grade = max(grades[row, i], 0)
        here = unsigned(ahead + 2 * i)
        clicked = reading & (grades[row, i] >= 0) & (u[row, here] < click[unsigned(grade)])
        reading = reading & ~(clicked & (u[row, here + unsigned(1)] < stop[unsigned(grade)]))
        out[row, i] = clicked


@inner
def click_group(
    labels: NDArray[np.int8],
    lifts: Ints,
    offsets: Ints,
    click: Floats,
    stop: Floats,
    queries: Ints,
    step: int,
    shown: Ints,
    u: Floats,
    ahead: int,
    grades: Ints,
    clicks: Bools,
) -> None:
    """Fill `clicks` (rows, k) with clicks on the lists (rows, k) shown for queries[:, step].

    Query q owns labels[lift + offsets[q] : lift + offsets[q + 1]], where lifts[:, step] select click model
    and intent; `grades` (rows, k) is scratch memory. Lists are empty where there is no query.
    """
    for row in range(queries.shape[0]):
        first = lifts[row, step] + offsets[max(queries[row, step], 0)]
        for i in range(shown.shape[1]):
            grade = labels[unsigned(first + max(shown[row, i], 0))]
            grades[row, i] = grade if shown[row, i] >= 0 else -1
    for row in range(queries.shape[0]):
        click_row(grades, u, row, ahead, click, stop, clicks)


@kernel
def cascade_clicks(grades: Ints, u: Floats, click: Floats, stop: Floats) -> Bools:
    """Clicks on lists of grades (C, k), -1 at the padding, from numbers (C, 2k); bool (C, k).

    `click` and `stop` hold P(click | grade) and P(stop | click, grade).
    """
    clicks = np.empty(grades.shape, dtype=np.bool_)
    for c in range(grades.shape[0]):
        click_row(grades, u, c, 0, click, stop, clicks)
    return clicks
