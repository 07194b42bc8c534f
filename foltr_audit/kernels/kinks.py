"""The minimum of a sum of absolute residuals and of costs that keep unknowns in a box: a simplex method.

Every unknown and every residual is a variable with a convex cost of at most two kinks: a residual has
one at 0, an unknown in a box one at either end, a free unknown none. As in bounded linear programming, as
many variables as there are unknowns are nonbasic and lie at a kink; the tableau says how fast the basic
ones change when a nonbasic one does. An iteration prices the edges, lets the steepest one enter, and passes
as many kinks as it takes to the lowest point of the edge (a bound-flipping ratio test). The variable whose
kink that is leaves the basis.

Why not `scipy.optimize.linprog`: decoders solve thousands of small dense systems. HiGHS takes them one at a
time, with two variables for every residual, and breaks ties as it likes: a system of 46 equations for 10
unknowns takes 0.2 ms here and 6 ms there (one thread of a server processor).

Source: Barrodale & Roberts 1973, "An improved algorithm for discrete l1 linear approximation", which passes
several kinks in a step; Bloomfield & Steiger 1980, "Least absolute deviations curve-fitting", for the
weighted median along an edge and the choice of the edge.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from foltr_audit.kernels.jit import Floats, Ints, inlined, kernel

# --- the minimum along a line ----------------------------------------------------------------------
# Quickselect by weight: sorting all events would take longer than the rest of a simplex iteration.


@kernel
def median_event(events: Floats, order: Ints, count: int, slope: float) -> int:
    """How many events come before the one at which a slope stops being negative: a weighted median.

    `order[:count]` names events (2, events), of a time and a rise of the slope each. It is rearranged
    so that those before come first and that one next. Answers `count` where the slope stays negative.
    """
    low, high = 0, count
    while low < high:
        first, middle, last = order[low], order[(low + high) // 2], order[high - 1]
        a, b, c = events[0, first], events[0, middle], events[0, last]
        # The median of three: events often lie in order already, the worst case of a fixed choice.
        pivot = max(min(a, b), min(max(a, b), c))
        before, i, after = low, low, high
        gained = 0.0
        while i < after:
            one = order[i]
            # Three parts instead of two: kinks of degenerate variables have equal times.
            if events[0, one] < pivot:
                gained += events[1, one]
                order[i], order[before] = order[before], one
                before += 1
                i += 1
            elif events[0, one] > pivot:
                after -= 1
                order[i], order[after] = order[after], one
            else:
                i += 1
        if slope + gained >= 0.0:
            high = before
            continue
        slope += gained
        for j in range(before, after):
            slope += events[1, order[j]]
            if slope >= 0.0:
                return j
        low = after
    return low


# --- the simplex method ----------------------------------------------------------------------------

TIE_BREAK = 2.0**-33
"""Relative perturbation of the costs, so that one of several minimizers is best.

Small enough to move no fit visibly, and half a million times the rounding of one cost, so that it decides.
"""

_FLAT = 1e-12  # a slope, relative to the steepest that the edge can have, that counts as none
_SMALL = 2.0**-46  # a distance from a kink, in units of a typical value, that does not tell the side
_PERTURBATION = 2.0**-40  # how far degenerate variables move off their kinks: well above _SMALL
MAX_DEGENERATE_PIVOTS = 20  # pivots in a row that lower nothing, before a perturbation
_MAX_PIVOTS = 30  # for each variable, before a descent gives up


class SimplexState(NamedTuple):
    """Where a descent is: m unknowns are the variables 0..m-1, P residuals the others."""

    cost: Floats
    """(4, m + P): lower and upper kink of a variable, slope beyond them, slope between them."""
    side: Ints
    """(m + P,): below (-1), between (0), above (1) its kinks; of a nonbasic one: whether at the upper."""
    tableau: Floats
    """(P, m): how much a basic variable falls when a nonbasic one rises by 1."""
    value: Floats
    """(P + 1,): values of the basic variables, and during a ratio test of the entering one."""
    basic: Ints
    """(P + 1,): the variable of each row of the tableau, and during a ratio test the entering one."""
    nonbasic: Ints
    """(m,): the variable at a kink that each column belongs to."""
    prices: Floats
    """(2, m): how the costs of the basic variables change along an edge, and the most that all can."""
    speeds: Floats
    """(P + 1,): how fast the basic variables change along an edge."""
    events: Floats
    """(2, 2 P + 2): when a variable meets a kink on an edge, and how much the slope rises there."""
    order: Ints
    """(2 P + 2,): the events met on an edge."""


@inlined
def golden_fraction(i: int) -> float:
    """A number in [0, 1) for each whole number, evenly spread: multiples of the golden ratio.

    They break ties without random numbers, and neighbours get quite different ones.
    """
    return (i * 0.6180339887498949) % 1.0


@inlined
def _slope(cost: Floats, variable: int, side: int) -> float:
    """How fast the cost of a variable rises on one side of its kinks."""
    return float(cost[3, variable] if side == 0 else side * cost[2, variable])


@kernel
def _price(state: SimplexState) -> None:
    """Fill in the prices of all edges.

    They are summed again in every iteration: updating them would add up rounding, and one more pass over the
    tableau costs no more than the pivot that follows.
    """
    cost, side, tableau, _, basic, nonbasic, prices, _, _, _ = state
    P, m = tableau.shape
    for k in range(m):
        prices[0, k] = 0.0
        prices[1, k] = cost[2, nonbasic[k]]
    for i in range(P):
        weight = cost[2, basic[i]]
        slope = _slope(cost, basic[i], side[basic[i]])
        for k in range(m):
            prices[0, k] -= slope * tableau[i, k]
            prices[1, k] += weight * abs(tableau[i, k])


@kernel
def _entering_variable(state: SimplexState) -> tuple[int, int, float]:
    """The column of the variable to enter, its direction and the slope of its edge: 0 if none falls.

    It is the one that falls most relative to the steepest slope its edge can have (Bloomfield & Steiger's
    choice), which unlike the steepest slope (Dantzig's rule) does not depend on the units of the unknowns.
    """
    cost, side, _, _, _, nonbasic, prices, _, _, _ = state
    best, column, direction, steepest = _FLAT, 0, 1, 0.0
    for k in range(nonbasic.size):
        variable = nonbasic[k]
        below, above = -1, 1
        if cost[0, variable] < cost[1, variable]:
            below, above = side[variable] - 1, side[variable]
        up = prices[0, k] + _slope(cost, variable, above)
        down = -prices[0, k] - _slope(cost, variable, below)
        if -min(up, down) > best * prices[1, k]:
            best = -min(up, down) / prices[1, k]
            column, direction, steepest = k, 1 if up < down else -1, min(up, down)
    return column, direction, steepest


@kernel
def _note_events(state: SimplexState) -> int:
    """Note which kinks are met along an edge, and when; how many.

    Basic variable i meets its first kink at event `2 i`, the one behind it at the next.
    """
    cost, side, _, value, basic, _, _, speeds, events, order = state
    longest = 0.0
    for i in range(speeds.size):
        longest = max(longest, abs(speeds[i]))
    count = 0
    for i in range(speeds.size):
        variable, speed = basic[i], speeds[i]
        # Speeds that are rounding would become pivots, and a pivot is divided by.
        if abs(speed) <= _FLAT * longest or cost[2, variable] == 0.0:
            continue
        position = side[variable] if speed > 0.0 else -side[variable]
        kinks = 2 if cost[0, variable] < cost[1, variable] else 1
        for behind in range(position + 1, kinks):
            upper = 1 if (speed > 0.0) == (behind == 1) else 0
            time = (cost[upper, variable] - value[i]) / speed
            # A far bound over a small speed may overflow: that kink is never met.
            if time < np.inf:
                rise = (
                    cost[2, variable] - cost[3, variable] if upper else cost[2, variable] + cost[3, variable]
                )
                event = 2 * i + behind
                # Rounding may have moved a variable past its kink: it meets it at once.
                events[0, event] = max(time, 0.0)
                events[1, event] = (3 - kinks) * rise * abs(speed)
                order[count] = event
                count += 1
    return count


@kernel
def _ratio_test(state: SimplexState, column: int, direction: int, slope: float) -> int:
    """Move along an edge to its lowest point, past other kinks; the event there, or -1 where there is none.

    The entering variable has a row of its own meanwhile, the last.
    """
    cost, side, tableau, value, basic, nonbasic, _, speeds, events, order = state
    P, entering = tableau.shape[0], nonbasic[column]
    before = side[entering]
    basic[P], value[P], speeds[P] = entering, cost[before, entering], direction
    side[entering] = direction if cost[0, entering] == cost[1, entering] else before + min(direction, 0)
    for i in range(P):
        speeds[i] = -direction * tableau[i, column]
    count = _note_events(state)
    last = median_event(events, order, count, slope)
    if last == count:
        side[entering] = before
        return -1
    for j in range(last):
        variable = basic[order[j] // 2]
        step = 1 if speeds[order[j] // 2] > 0.0 else -1
        side[variable] += step if cost[0, variable] < cost[1, variable] else 2 * step
    time = events[0, order[last]]
    for i in range(P + 1):
        value[i] += time * speeds[i]
    return int(order[last])


@kernel
def pivot(tableau: Floats, row: int, column: int) -> None:
    """Update a tableau after the variables of a row and of a column have changed places."""
    P, m = tableau.shape
    inverse = 1.0 / tableau[row, column]
    for k in range(m):
        tableau[row, k] *= inverse
    tableau[row, column] = inverse
    for i in range(P):
        factor = tableau[i, column]
        if i != row and factor != 0.0:
            tableau[i, column] = 0.0
            for k in range(m):
                tableau[i, k] -= factor * tableau[row, k]


@kernel
def _iterate(state: SimplexState) -> float:
    """One iteration: how far it moved along its edge, or -1 if no edge falls."""
    _price(state)
    column, direction, slope = _entering_variable(state)
    event = _ratio_test(state, column, direction, slope) if slope < 0.0 else -1
    if event < 0:
        return -1.0
    cost, side, tableau, value, basic, nonbasic, _, speeds, events, _ = state
    row, entering = event // 2, nonbasic[column]
    leaving = basic[row]
    upper = (speeds[row] > 0.0) == (event % 2 == 1)
    side[leaving] = 1 if upper or cost[0, leaving] == cost[1, leaving] else 0
    if row < tableau.shape[0]:  # else it met its own other kink: a bound flip without a pivot
        basic[row], nonbasic[column] = entering, leaving
        value[row] = value[tableau.shape[0]]
        pivot(tableau, row, column)
    return float(events[0, event])


@kernel
def _start(state: SimplexState, design: Floats, targets: Floats) -> None:
    """Make all unknowns nonbasic: those that were basic at their lower kink, the others where they were."""
    cost, side, tableau, value, basic, nonbasic, _, _, _, _ = state
    P, m = design.shape
    for i in range(P):
        if basic[i] < m:
            side[basic[i]] = 0
    for i in range(P):
        value[i] = targets[i]
        basic[i] = m + i
        for k in range(m):
            tableau[i, k] = design[i, k]
            if side[k] == 1:
                value[i] -= cost[1, k] * design[i, k]
    for k in range(m):
        nonbasic[k] = k


@kernel
def _refactorize(state: SimplexState, design: Floats, targets: Floats) -> None:
    """Compute the tableau and the values of the basic variables again from the data.

    Every pivot adds rounding to the tableau. The largest entry of each column becomes the pivot, which bounds
    the growth of errors as partial pivoting does in an LU factorization.
    """
    _, _, tableau, value, basic, nonbasic, _, _, _, _ = state
    P, m = design.shape
    enters, stays = np.zeros(m, dtype=np.bool_), np.ones(P, dtype=np.bool_)
    for i in range(P):
        if basic[i] < m:
            enters[basic[i]] = True
        else:
            stays[basic[i] - m] = False
    _start(state, design, targets)
    for k in range(m):
        if not enters[k]:
            continue
        row, largest = P, 0.0
        for i in range(P):
            if stays[i] and abs(tableau[i, k]) > largest:
                row, largest = i, abs(tableau[i, k])
        # Without an entry to pivot on a column depends on others: its unknown stays at a kink.
        if row < P:
            time = value[row] / tableau[row, k]
            for i in range(P):
                value[i] -= time * tableau[i, k]
            value[row] = time
            basic[row], nonbasic[k] = k, m + row
            stays[row] = False
            pivot(tableau, row, k)


@kernel
def _put_residuals(state: SimplexState, design: Floats, targets: Floats, x: Floats) -> None:
    """Fill `x` (m,) with the unknowns, and the first row of `events` with the residuals they leave."""
    cost, side, _, value, basic, nonbasic, _, _, events, _ = state
    P, m = design.shape
    for k in range(m):
        if nonbasic[k] < m:
            x[nonbasic[k]] = cost[side[nonbasic[k]], nonbasic[k]]
    for i in range(P):
        if basic[i] < m:
            x[basic[i]] = value[i]
    for i in range(P):
        events[0, i] = targets[i]
        for k in range(m):
            events[0, i] -= design[i, k] * x[k]


@kernel
def _refine(state: SimplexState, design: Floats, targets: Floats, x: Floats) -> None:
    """Refine the values once after a refactorization; fills `x` (m,) with the unknowns.

    Without it nonbasic residuals are rounding instead of 0. One step of iterative refinement suffices, since
    the tableau is as exact as it gets.
    """
    _, _, tableau, value, basic, nonbasic, _, _, events, _ = state
    P, m = design.shape
    _put_residuals(state, design, targets, x)
    for i in range(P):
        for k in range(m):
            if basic[i] < m <= nonbasic[k]:
                value[i] += tableau[i, k] * events[0, nonbasic[k] - m]
    _put_residuals(state, design, targets, x)
    for i in range(P):
        if basic[i] >= m:
            value[i] = events[0, basic[i] - m]


@kernel
def _note_sides(state: SimplexState) -> None:
    """Note on which side of their kinks basic variables are; one at a kink keeps the side it had."""
    cost, side, tableau, value, basic, _, _, _, _, _ = state
    for i in range(tableau.shape[0]):
        variable = basic[i]
        below, above = cost[0, variable] - value[i], value[i] - cost[1, variable]
        if below > _SMALL:
            side[variable] = -1
        elif above > _SMALL:
            side[variable] = 1
        elif max(below, above) < -_SMALL:
            side[variable] = 0


@kernel
def _perturb(state: SimplexState) -> None:
    """Move degenerate basic variables a little off their kinks, each by another distance, to their side.

    Distances differ so that the next ratio tests have no ties, which could make the descent cycle. The next
    refactorization computes all values again, so nothing of the perturbation remains in the answer.
    """
    cost, side, tableau, value, basic, _, _, _, _, _ = state
    for i in range(tableau.shape[0]):
        variable = basic[i]
        low, high = cost[0, variable], cost[1, variable]
        distance = _PERTURBATION * (0.5 + golden_fraction(variable))
        if low < high:
            distance = min(distance, 0.25 * (high - low))
        if abs(value[i] - low) <= _SMALL:
            value[i] += distance if side[variable] >= 0 else -distance
        elif abs(value[i] - high) <= _SMALL:
            value[i] += distance if side[variable] > 0 else -distance


@kernel
def _descend(state: SimplexState, most: int) -> int:
    """Iterate until no edge falls, or `most` times; the number of iterations."""
    taken, degenerate = 0, 0
    while taken < most:
        moved = _iterate(state)
        if moved < 0.0:
            break
        taken += 1
        degenerate = degenerate + 1 if moved == 0.0 else 0
        if degenerate > MAX_DEGENERATE_PIVOTS:
            _perturb(state)
            degenerate = 0
    return taken


@kernel
def minimize(design: Floats, targets: Floats, cost: Floats, answer: Floats) -> None:
    """Fill `answer` (m,) with the unknowns x that cost least, residuals `targets - design x` included.

    Args:
        design: float64 (P, m), entries of about 1.
        targets: float64 (P,), typical ones of about 1.
        cost: float64 (4, m + P), of the unknowns and then the residuals: lower kink (0), upper kink
            (the end of a box, else 0), slope beyond them (0 for a free unknown), slope between them.
            Beyond the ends of a box costs must rise so fast that nothing is gained there.
        answer: float64 (m,). Unknowns in a box may pass its ends by rounding.
    """
    P, m = design.shape
    side = np.ones(m + P, dtype=np.int64)
    side[:m] = 0
    state = SimplexState(
        cost,
        side,
        np.empty((P, m)),
        np.empty(P + 1),
        np.arange(m, m + P + 1),
        np.arange(m),
        np.empty((2, m)),
        np.empty(P + 1),
        np.empty((2, 2 * P + 2)),
        np.empty(2 * P + 2, dtype=np.int64),
    )
    left = _MAX_PIVOTS * (m + P)
    while True:
        _refactorize(state, design, targets)
        _refine(state, design, targets, answer)
        _note_sides(state)
        # Rounding grows with every pivot: refactorize after about two of them for each unknown.
        taken = _descend(state, min(2 * m + 64, left))
        left -= taken
        if taken == 0:  # optimal also by a fresh tableau, whatever rounding said before
            break
