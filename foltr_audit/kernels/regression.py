"""Regression by least absolute deviations, and regression whose unknowns lie in a box."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from foltr_audit.kernels.elementary import NOTHING, largest_exponent, scaled, typical_exponent
from foltr_audit.kernels.jit import Bools, Floats, Ints, kernel
from foltr_audit.kernels.kinks import TIE_BREAK, golden_fraction, minimize, pivot
from foltr_audit.kernels.threads import filled

# --- least absolute deviations ---------------------------------------------------------------------
# Source: Bloomfield & Steiger 1980, "Least absolute deviations curve-fitting".

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
    right = scaled(values, -size[:, np.newaxis])
    solutions = filled(np.zeros(units.shape), _SYSTEMS, fill_least_absolute, U, s, Vt, ranks, right, units)
    answers[nonzero] = scaled(solutions, size[:, np.newaxis] - sizes)
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


# --- unknowns in a box -----------------------------------------------------------------------------
# Absolute residuals are left to `kinks`, squared ones to an active-set method here. Why not
# `scipy.optimize.lsq_linear`: it solves one system per call (0.9 ms for 46 equations and 10 unknowns, here
# 0.05 ms), and of several minimizers it finds any.
#
# Source: for squares Stark & Parker 1995, "Bounded-variable least-squares: an algorithm and applications";
# Keller 1973, "The general quadratic optimization problem" (the steps, on a tableau); Rockafellar 1976,
# "Monotone operators and the proximal point algorithm" (the ridge around the last answer).

# A ridge makes the minimizer unique and every pivot safe, but pulls the answer: each proximal step moves its
# centre to the last answer, and shrinks the pull along well-determined directions by about 2^-30 again.
_RIDGE = 2.0**-30  # weight of an unknown's square, relative to the largest square of a column
_PROXIMAL_STEPS = 8
_FLAT = 2.0**-44  # a slope that counts as none
_FAR = 2.0**900  # bounds beyond it are never met, and can be added up
_MAX_RELEASES = 10  # for each unknown, before a descent gives up


def box_least_squares(design: Floats, values: Floats, upper: Floats) -> Floats:
    """Unknowns c in `0 <= c <= upper` that minimize `||values - design c||_2`, for each of n systems.

    Of several minimizers the answer is close to the shortest, each unknown measured in units of its
    column's size: twin columns share their weight and unknowns without a column are 0. Directions
    in which `design` is 30,000 times shorter than in its longest are told apart in part only.

    Args:
        design: float64 (n, P, m), one column per unknown.
        values: float64 (n, P), of any size.
        upper: float64 (n, m), at least 0; an unknown whose bound is 0 is left out.

    Returns:
        float64 (n, m), not outside the box even by rounding.
    """
    return _solved(fill_least_squares, largest_exponent, design, values, upper)


def box_least_absolute(design: Floats, values: Floats, upper: Floats) -> Floats:
    """Unknowns c in `0 <= c <= upper` that minimize `sum |values - design c|`, for each of n systems.

    Of several minimizers the answer is the one with the least `sum_j s_j c_j + sum_i u_i |residual_i|`, s_j
    the sum of the absolute values of column j, u_i evenly spread numbers in [0, 1): the order of columns
    matters only where several have that least sum, as multiples of one column may, and unknowns without a
    column are 0. Twin columns share their weight in the ratio of their bounds. The choice may cost 1.2e-10
    times that sum.

    Args:
        design: float64 (n, P, m), one column per unknown.
        values: float64 (n, P), of any size.
        upper: float64 (n, m), at least 0; an unknown whose bound is 0 is left out.

    Returns:
        float64 (n, m), not outside the box even by rounding.
    """
    return _solved(fill_box_least_absolute, typical_exponent, design, values, upper)


def _solved(
    fill: Callable[[Floats, Floats, Floats, Floats, int, int], None],
    exponent: Callable[[Floats], Ints],
    design: Floats,
    values: Floats,
    upper: Floats,
) -> Floats:
    """Scale systems to numbers of about 1, solve them, and scale the unknowns back.

    Unknowns are measured in units of their columns. Columns of those left out are 0.
    """
    c = np.zeros(upper.shape)
    asked = values.any(axis=1)
    if not asked.any():
        return c
    design, values = design[asked], values[asked]
    sizes, size = largest_exponent(design), exponent(values)[:, np.newaxis]
    ends = np.where(sizes > NOTHING, upper[asked], 0.0)
    X = scaled(np.where(ends[:, np.newaxis] > 0.0, design, 0.0), -sizes[:, np.newaxis])
    # A bound must not become 0 by underflow: solvers leave an unknown out where its bound is 0.
    high = np.where(ends > 0.0, np.clip(scaled(ends, sizes - size), 1.0 / _FAR, _FAR), 0.0)
    x = filled(np.zeros(high.shape), _SYSTEMS, fill, X, scaled(values, -size), high)
    inside = np.minimum(scaled(np.maximum(x, 0.0), size - sizes), ends)
    # At its bound an unknown gets the bound as it was given: `high` may have been clipped above.
    c[asked] = np.where(x >= high, ends, inside)
    return c


@kernel
def _share_between_twins(X: Floats, high: Floats, x: Floats) -> None:
    """Give unknowns of equal columns the same share of their bounds."""
    P, m = X.shape
    done = high <= 0.0
    for j in range(m):
        if done[j]:
            continue
        twins = np.zeros(m, dtype=np.bool_)
        total, room = 0.0, 0.0
        for other in range(j, m):
            i = 0
            while i < P and X[i, other] == X[i, j]:
                i += 1
            if i == P and not done[other]:
                twins[other] = True
                total += x[other]
                room += high[other]
        for other in range(j, m):
            if twins[other]:
                done[other] = True
                x[other] = high[other] * (total / room)


@kernel
def _absolute(X: Floats, y: Floats, high: Floats, x: Floats) -> None:
    """Fill `x` (m,) with the `box_least_absolute` of one scaled system.

    Beyond the box an unknown costs twice as much as it can gain, and inside it as good as nothing.
    """
    P, m = X.shape
    cost = np.zeros((4, m + P))
    for i in range(P):
        cost[2, m + i] = 1.0 + TIE_BREAK * golden_fraction(i)
        for j in range(m):
            cost[2, j] += 2.0 * abs(X[i, j])
    for j in range(m):
        cost[1, j] = high[j]
        cost[3, j] = 0.5 * TIE_BREAK * cost[2, j]
    minimize(X, y, cost, x)
    _share_between_twins(X, high, x)


@kernel
def fill_box_least_absolute(
    X: Floats, y: Floats, high: Floats, answers: Floats, begin: int, end: int
) -> None:
    """Fill answers[begin:end] (n, m), zeros at first, of scaled systems (n, P, m), (n, P), (n, m)."""
    for row in range(begin, end):
        _absolute(X[row], y[row], high[row], answers[row])


# --- squares ---------------------------------------------------------------------------------------


class BoxDescent(NamedTuple):
    """The state of a descent of m unknowns; those that are not free stay at an end of their box.

    Attributes:
        tableau: of minus the normal equations, with free unknowns in the basis, (m, m).
        x: the unknowns, (m,).
        slopes: how fast the cost rises along each, (m,).
        high: the upper ends; the lower ones are 0, (m,).
        free: which unknowns are in the basis, (m,).
        speeds: how fast the free unknowns move, and the slopes along the others change, (m,).
    """

    tableau: Floats
    x: Floats
    slopes: Floats
    high: Floats
    free: Bools
    speeds: Floats


@kernel
def _advance(state: BoxDescent, most: float) -> tuple[float, int]:
    """Move by `most` or until a free unknown meets the end of its box; how far, and which one (or -1)."""
    _, x, slopes, high, free, speeds = state
    ends = -1
    for i in range(x.size):
        if free[i] and speeds[i] != 0.0:
            time = ((high[i] if speeds[i] > 0.0 else 0.0) - x[i]) / speeds[i]
            if time < most:
                # An unknown may lie beyond its end by rounding: it stops at once instead of moving all
                # unknowns back.
                most, ends = max(time, 0.0), i
    for i in range(x.size):
        if free[i]:
            x[i] += most * speeds[i]
        else:
            slopes[i] += most * speeds[i]
    return most, ends


@kernel
def _fix(state: BoxDescent, i: int) -> None:
    """Fix an unknown at the end of its box that it has met."""
    state.x[i] = state.high[i] if state.speeds[i] > 0.0 else 0.0
    state.free[i] = False
    pivot(state.tableau, i, i)


@kernel
def _settle(state: BoxDescent) -> None:
    """Move the free unknowns to where the slopes along them are 0, or as far as the box allows."""
    tableau, x, slopes, _, free, speeds = state
    m = x.size
    ends = 0
    while ends >= 0:
        for i in range(m):
            speeds[i] = 0.0
            for k in range(m):
                if free[k]:
                    speeds[i] += tableau[i, k] * slopes[k]
        time, ends = _advance(state, 1.0)
        for k in range(m):
            if free[k]:
                slopes[k] *= 1.0 - time
        if ends >= 0:
            _fix(state, ends)


@kernel
def _release(state: BoxDescent, k: int) -> None:
    """Move an unknown off the end of its box, down to where its slope is 0 or to the other end.

    The free unknowns follow, and are fixed where they meet an end.
    """
    tableau, x, slopes, high, free, speeds = state
    direction = 1.0 if slopes[k] < 0.0 else -1.0
    end = high[k] if direction > 0.0 else 0.0
    ends = 0
    while ends >= 0:
        for i in range(x.size):
            speeds[i] = -direction * tableau[i, k]
        width = abs(end - x[k])
        # The ridge keeps this curvature away from 0, also where columns depend on each other.
        level = abs(slopes[k] / speeds[k])
        time, ends = _advance(state, min(width, level))
        x[k] += direction * time
        if ends >= 0:
            _fix(state, ends)
            slopes[ends] = 0.0
    if level < width:
        free[k] = True
        slopes[k] = 0.0
        pivot(tableau, k, k)
    else:
        x[k] = end


@kernel
def _steepest(state: BoxDescent) -> int:
    """The unknown at an end of its box along which the cost falls most steeply into it, or -1."""
    _, x, slopes, high, free, _ = state
    steepest, best = _FLAT, -1
    for k in range(x.size):
        if not free[k] and high[k] > 0.0:
            fall = slopes[k] if x[k] > 0.0 else -slopes[k]
            if fall > steepest:
                steepest, best = fall, k
    return best


@kernel
def _gram(X: Floats) -> Floats:
    """Minus the sums of products of all columns and of the ridge, (m, m)."""
    P, m = X.shape
    tableau = np.zeros((m, m))
    for i in range(P):
        for j in range(m):
            factor = X[i, j]
            for k in range(m):
                tableau[j, k] -= factor * X[i, k]
    ridge = 0.0
    for j in range(m):
        ridge = max(ridge, -tableau[j, j])
    for j in range(m):
        tableau[j, j] -= _RIDGE * ridge
    return tableau


@kernel
def _squares(X: Floats, y: Floats, high: Floats, x: Floats) -> None:
    """Fill `x` (m,), zeros at first, with the `box_least_squares` of one scaled system."""
    P, m = X.shape
    state = BoxDescent(_gram(X), x, np.empty(m), high, np.zeros(m, dtype=np.bool_), np.empty(m))
    slopes = state.slopes
    for _ in range(_PROXIMAL_STEPS):
        # At its own centre, the last answer, the ridge has no slope, so these are the slopes of the squares
        # alone. They are computed from the data because slopes that go through pivots collect rounding.
        slopes[:] = 0.0
        for i in range(P):
            residual = y[i]
            for j in range(m):
                residual -= X[i, j] * x[j]
            for j in range(m):
                slopes[j] -= X[i, j] * residual
        _settle(state)
        for _ in range(_MAX_RELEASES * m):
            k = _steepest(state)
            if k < 0:
                break
            _release(state, k)


@kernel
def fill_least_squares(X: Floats, y: Floats, high: Floats, answers: Floats, begin: int, end: int) -> None:
    """Fill answers[begin:end] (n, m), zeros at first, of scaled systems (n, P, m), (n, P), (n, m)."""
    for row in range(begin, end):
        _squares(X[row], y[row], high[row], answers[row])
