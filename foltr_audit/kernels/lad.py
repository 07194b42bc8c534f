"""Least absolute deviations: regression that a minority of wrong equations does not touch.

Source: Bloomfield & Steiger 1980, "Least absolute deviations curve-fitting".
"""

from __future__ import annotations

import math

import numpy as np

from .jit import Floats, Ints, kernel
from .kinks import TIE_BREAK, golden_fraction, minimize
from .scaling import largest_exponent, scaled, typical_exponent
from .threads import in_parts

_SYSTEMS = 8  # of one part: less work is done before a thread has started


def least_absolute(columns: Floats, values: Floats) -> Floats:
    """Compute the unknowns b that minimize `sum |values - columns b|`, for each of n systems.

    Of several fits the answer has the one with the least `sum_i u_i |residual_i|`, u_i evenly spread numbers
    in [0, 1) (it is the best when equation i weighs `1 + 1.2e-10 u_i`): the order of columns does not
    matter. Of all b with that fit it is the shortest, so twin columns share their weight, zero columns have
    none, and as many independent columns as equations or more answer as least squares do.

    Args:
        columns: float64 (n, P, m), one column per unknown.
        values: float64 (n, P), of any size.

    Returns:
        float64 (n, m). Columns count by their direction alone when their rank is found: singular
        values below `max(P, m) * 2.2e-16` of the largest, of the columns scaled to the same
        size, count as zero. A system without columns answers zeros.
    """
    n, P, m = columns.shape
    answers = np.zeros((n, m))
    nonzero = values.any(axis=1)
    if m == 0 or not nonzero.any():
        return answers
    columns, values = columns[nonzero], values[nonzero]
    sizes, size = largest_exponent(columns), typical_exponent(values)
    # The simplex method gets an orthonormal basis of the columns: its pivots need not decide on their rank.
    U, s, Vt = np.linalg.svd(scaled(columns, -sizes[:, np.newaxis]), full_matrices=False)
    floor = np.finfo(np.float64).eps * max(P, m) * s[:, :1]
    ranks = np.count_nonzero(s > floor, axis=1)
    units = scaled(np.ones(sizes.shape), sizes - sizes.max(axis=1, keepdims=True))
    found = np.zeros(units.shape)
    given = (U, s, Vt, ranks, scaled(values, -size[:, np.newaxis]), units, found)
    in_parts(lambda begin, end: fill_least_absolute(*given, begin, end), ranks.size, _SYSTEMS)
    answers[nonzero] = scaled(found, size[:, np.newaxis] - sizes)
    return answers


@kernel
def _shortest(rows: Floats, targets: Floats, answer: Floats) -> None:
    """Fill `answer` (m,) with the shortest b for which `rows b = targets`; `rows` (r, m) is overwritten.

    Gram-Schmidt on independent rows, in the modified form: it loses far fewer digits than the classical one.
    """
    r, m = rows.shape
    answer[:] = 0.0
    weights = np.empty(r)
    for k in range(r):
        weight = targets[k]
        for other in range(k):
            along = 0.0
            for j in range(m):
                along += rows[k, j] * rows[other, j]
            weight -= along * weights[other]
            for j in range(m):
                rows[k, j] -= along * rows[other, j]
        length = 0.0
        for j in range(m):
            length += rows[k, j] * rows[k, j]
        length = math.sqrt(length)
        weights[k] = weight / length if length > 0.0 else 0.0
        for j in range(m):
            rows[k, j] /= length if length > 0.0 else 1.0
            answer[j] += weights[k] * rows[k, j]


@kernel
def _regress(
    U: Floats, s: Floats, Vt: Floats, rank: int, values: Floats, units: Floats, answer: Floats
) -> None:
    """Fill `answer` (m,) with the unknowns of one scaled system."""
    P, m = U.shape[0], answer.size
    design, cost = np.empty((P, rank)), np.zeros((4, rank + P))
    for i in range(P):
        cost[2, rank + i] = 1.0 + TIE_BREAK * golden_fraction(i)
        for k in range(rank):
            design[i, k] = U[i, k]
    weights, rows = np.empty(rank), np.empty((rank, m))
    minimize(design, values, cost, weights)
    for k in range(rank):
        weights[k] /= s[k]
        for j in range(m):
            rows[k, j] = Vt[k, j] * units[j]
            answer[j] += Vt[k, j] * weights[k]
    # Dependent columns leave many b of one fit. The shortest is meant in the caller's units, so the scaling
    # of the columns is undone while it is found.
    if rank < m:
        _shortest(rows, weights, answer)
        for j in range(m):
            answer[j] *= units[j]


@kernel
def fill_least_absolute(
    U: Floats,
    s: Floats,
    Vt: Floats,
    ranks: Ints,
    values: Floats,
    units: Floats,
    answers: Floats,
    begin: int,
    end: int,
) -> None:
    """Fill answers[begin:end], zeros at first, of scaled systems by the singular values of their columns.

    `units` (n, m) are the sizes of the columns before, relative to the largest.
    """
    for row in range(begin, end):
        if ranks[row] > 0:
            _regress(U[row], s[row], Vt[row], ranks[row], values[row], units[row], answers[row])
