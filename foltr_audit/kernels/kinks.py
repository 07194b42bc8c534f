"""The lowest point of a sum of absolute residuals and of costs that keep unknowns in a box.

Every unknown and every residual is a variable with a convex cost of at most two kinks: a residual has
one at 0, an unknown in a box one at either end, a free unknown none. At a vertex as many variables stand
at a kink as there are unknowns; a table says how fast the others move along its edges. The descent
leaves a vertex along the edge that falls most for its length, past as many kinks as it takes to the lowest
point, where the variable whose kink that is changes places with the one that left.

Rounding does not add up: where no edge falls the table is made afresh and looked at again. Where the
descent marks time, since many variables are at a kink at once, they are moved off it for a while.

Source: Barrodale & Roberts 1973, "An improved algorithm for discrete l1 linear approximation",
its passing of several kinks in a step; Bloomfield & Steiger 1980, "Least absolute deviations
curve-fitting", its weighted median along an edge and its choice of the edge.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .jit import inlined, kernel
from .weighted_median import median_event

TIE = 2.0**-33
"""By how much, relative to it, what is minimised gives way so that one of several minimisers is best."""

_FLAT = 1e-12  # a slope, relative to the steepest that the edge can have, that counts as none
_SMALL = 2.0**-46  # a distance from a kink, in units of a typical value, that does not tell the side
_NUDGE = 2.0**-40  # how far variables are moved off their kinks, in the same units
_PATIENCE = 20  # steps on the spot before they are
_STEPS = 30  # steps for each variable before a descent gives up


class Vertex(NamedTuple):
    """Where a descent is: m unknowns are the variables 0..m-1, P residuals the others."""

    cost: NDArray[np.float64]
    """(4, m + P): lower and upper kink of a variable, slope beyond them, slope between them."""
    side: NDArray[np.int64]
    """(m + P,): below (-1), between (0), above (1) its kinks; of one at a kink: whether at the upper."""
    table: NDArray[np.float64]
    """(P, m): how much a moving variable falls when one that stands rises by 1."""
    place: NDArray[np.float64]
    """(P + 1,): where the moving variables are, and on an edge its own variable."""
    moving: NDArray[np.int64]
    """(P + 1,): the variable of each row of the table, and on an edge its own variable."""
    standing: NDArray[np.int64]
    """(m,): the variable at a kink that each column is the edge of."""
    slopes: NDArray[np.float64]
    """(2, m): how the costs of the moving variables change along an edge, and the most that all can."""
    speeds: NDArray[np.float64]
    """(P + 1,): how fast they move on an edge."""
    events: NDArray[np.float64]
    """(2, 2 P + 2): when a variable meets a kink on an edge, and how much the slope rises there."""
    order: NDArray[np.int64]
    """(2 P + 2,): the events met on an edge."""


@inlined
def spread(i: int) -> float:
    """A number in [0, 1) for each whole number, evenly spread: multiples of the golden ratio."""
    return (i * 0.6180339887498949) % 1.0


@inlined
def _slope(cost: NDArray[np.float64], variable: int, side: int) -> float:
    """How fast the cost of a variable rises on one side of its kinks."""
    return float(cost[3, variable] if side == 0 else side * cost[2, variable])


@kernel
def _measure(vertex: Vertex) -> None:
    """Fill in the slopes of all edges."""
    cost, side, table, _, moving, standing, slopes, _, _, _ = vertex
    P, m = table.shape
    for k in range(m):
        slopes[0, k] = 0.0
        slopes[1, k] = cost[2, standing[k]]
    for i in range(P):
        weight = cost[2, moving[i]]
        slope = _slope(cost, moving[i], side[moving[i]])
        for k in range(m):
            slopes[0, k] -= slope * table[i, k]
            slopes[1, k] += weight * abs(table[i, k])


@kernel
def _best_edge(vertex: Vertex) -> tuple[int, int, float]:
    """The edge that falls most for its length, its direction and its slope: 0 if none falls."""
    cost, side, _, _, _, standing, slopes, _, _, _ = vertex
    best, edge, direction, found = _FLAT, 0, 1, 0.0
    for k in range(standing.size):
        variable = standing[k]
        below, above = -1, 1
        if cost[0, variable] < cost[1, variable]:
            below, above = side[variable] - 1, side[variable]
        up = slopes[0, k] + _slope(cost, variable, above)
        down = -slopes[0, k] - _slope(cost, variable, below)
        if -min(up, down) > best * slopes[1, k]:
            best = -min(up, down) / slopes[1, k]
            edge, direction, found = k, 1 if up < down else -1, min(up, down)
    return edge, direction, found


@kernel
def _events(vertex: Vertex) -> int:
    """Note what happens on the way along an edge; how many events.

    Variable i meets the first kink on its way at event `2 i`, the one behind it at the next.
    """
    cost, side, _, place, moving, _, _, speeds, events, order = vertex
    longest = 0.0
    for i in range(speeds.size):
        longest = max(longest, abs(speeds[i]))
    count = 0
    for i in range(speeds.size):
        variable, speed = moving[i], speeds[i]
        if abs(speed) <= _FLAT * longest or cost[2, variable] == 0.0:
            continue
        way = side[variable] if speed > 0.0 else -side[variable]
        kinks = 2 if cost[0, variable] < cost[1, variable] else 1
        for behind in range(way + 1, kinks):
            upper = 1 if (speed > 0.0) == (behind == 1) else 0
            time = (cost[upper, variable] - place[i]) / speed
            if time < np.inf:
                rise = (
                    cost[2, variable] - cost[3, variable] if upper else cost[2, variable] + cost[3, variable]
                )
                event = 2 * i + behind
                events[0, event] = max(time, 0.0)
                events[1, event] = (3 - kinks) * rise * abs(speed)
                order[count] = event
                count += 1
    return count


@kernel
def _walk(vertex: Vertex, edge: int, direction: int, slope: float) -> int:
    """Go along an edge to its lowest point; the event there, or -1 where there is none.

    The variable of the edge moves as if it had a row of its own, the last.
    """
    cost, side, table, place, moving, standing, _, speeds, events, order = vertex
    P, own = table.shape[0], standing[edge]
    stood = side[own]
    moving[P], place[P], speeds[P] = own, cost[stood, own], direction
    side[own] = direction if cost[0, own] == cost[1, own] else stood + min(direction, 0)
    for i in range(P):
        speeds[i] = -direction * table[i, edge]
    count = _events(vertex)
    last = median_event(events, order, count, slope)
    if last == count:
        side[own] = stood
        return -1
    for j in range(last):
        variable = moving[order[j] // 2]
        step = 1 if speeds[order[j] // 2] > 0.0 else -1
        side[variable] += step if cost[0, variable] < cost[1, variable] else 2 * step
    time = events[0, order[last]]
    for i in range(P + 1):
        place[i] += time * speeds[i]
    return int(order[last])


@kernel
def exchange(table: NDArray[np.float64], row: int, edge: int) -> None:
    """The table after the variables of a row and of an edge have changed places."""
    P, m = table.shape
    inverse = 1.0 / table[row, edge]
    for k in range(m):
        table[row, k] *= inverse
    table[row, edge] = inverse
    for i in range(P):
        factor = table[i, edge]
        if i != row and factor != 0.0:
            table[i, edge] = 0.0
            for k in range(m):
                table[i, k] -= factor * table[row, k]


@kernel
def _step(vertex: Vertex) -> float:
    """One step down from a vertex: how far it was along its edge, or -1 if no edge falls."""
    _measure(vertex)
    edge, direction, slope = _best_edge(vertex)
    event = _walk(vertex, edge, direction, slope) if slope < 0.0 else -1
    if event < 0:
        return -1.0
    cost, side, table, place, moving, standing, _, speeds, events, _ = vertex
    row, own = event // 2, standing[edge]
    leaving = moving[row]
    upper = (speeds[row] > 0.0) == (event % 2 == 1)
    side[leaving] = 1 if upper or cost[0, leaving] == cost[1, leaving] else 0
    if row < table.shape[0]:
        moving[row], standing[edge] = own, leaving
        place[row] = place[table.shape[0]]
        exchange(table, row, edge)
    return float(events[0, event])


@kernel
def _start(vertex: Vertex, design: NDArray[np.float64], values: NDArray[np.float64]) -> None:
    """Let all unknowns stand: those that moved at their lower kink, the others where they stood."""
    cost, side, table, place, moving, standing, _, _, _, _ = vertex
    P, m = design.shape
    for i in range(P):
        if moving[i] < m:
            side[moving[i]] = 0
    for i in range(P):
        place[i] = values[i]
        moving[i] = m + i
        for k in range(m):
            table[i, k] = design[i, k]
            if side[k] == 1:
                place[i] -= cost[1, k] * design[i, k]
    for k in range(m):
        standing[k] = k


@kernel
def _rebuild(vertex: Vertex, design: NDArray[np.float64], values: NDArray[np.float64]) -> None:
    """Make the table and the places of the variables afresh."""
    _, _, table, place, moving, standing, _, _, _, _ = vertex
    P, m = design.shape
    moves, stands = np.zeros(m, dtype=np.bool_), np.ones(P, dtype=np.bool_)
    for i in range(P):
        if moving[i] < m:
            moves[moving[i]] = True
        else:
            stands[moving[i] - m] = False
    _start(vertex, design, values)
    for k in range(m):
        if not moves[k]:
            continue
        row, largest = P, 0.0
        for i in range(P):
            if stands[i] and abs(table[i, k]) > largest:
                row, largest = i, abs(table[i, k])
        if row < P:
            time = place[row] / table[row, k]
            for i in range(P):
                place[i] -= time * table[i, k]
            place[row] = time
            moving[row], standing[k] = k, m + row
            stands[row] = False
            exchange(table, row, k)


@kernel
def _put_residuals(
    vertex: Vertex, design: NDArray[np.float64], values: NDArray[np.float64], x: NDArray[np.float64]
) -> None:
    """Fill `x` (m,) with the unknowns, and the first row of `events` with the residuals they leave."""
    cost, side, _, place, moving, standing, _, _, events, _ = vertex
    P, m = design.shape
    for k in range(m):
        if standing[k] < m:
            x[standing[k]] = cost[side[standing[k]], standing[k]]
    for i in range(P):
        if moving[i] < m:
            x[moving[i]] = place[i]
    for i in range(P):
        events[0, i] = values[i]
        for k in range(m):
            events[0, i] -= design[i, k] * x[k]


@kernel
def _refine(
    vertex: Vertex, design: NDArray[np.float64], values: NDArray[np.float64], x: NDArray[np.float64]
) -> None:
    """Take rounding out of the places after a rebuild: residuals that stand are not quite 0 else.

    Fills `x` (m,) with the unknowns.
    """
    _, _, table, place, moving, standing, _, _, events, _ = vertex
    P, m = design.shape
    _put_residuals(vertex, design, values, x)
    for i in range(P):
        for k in range(m):
            if moving[i] < m <= standing[k]:
                place[i] += table[i, k] * events[0, standing[k] - m]
    _put_residuals(vertex, design, values, x)
    for i in range(P):
        if moving[i] >= m:
            place[i] = events[0, moving[i] - m]


@kernel
def _take_sides(vertex: Vertex) -> None:
    """Note on which side of their kinks variables are; one at a kink keeps the side it had."""
    cost, side, table, place, moving, _, _, _, _, _ = vertex
    for i in range(table.shape[0]):
        variable = moving[i]
        below, above = cost[0, variable] - place[i], place[i] - cost[1, variable]
        if below > _SMALL:
            side[variable] = -1
        elif above > _SMALL:
            side[variable] = 1
        elif max(below, above) < -_SMALL:
            side[variable] = 0


@kernel
def _nudge(vertex: Vertex) -> None:
    """Move variables that are at a kink a little off it, each differently, to the side that they are on."""
    cost, side, table, place, moving, _, _, _, _, _ = vertex
    for i in range(table.shape[0]):
        variable = moving[i]
        low, high = cost[0, variable], cost[1, variable]
        nudge = _NUDGE * (0.5 + spread(variable))
        if low < high:
            nudge = min(nudge, 0.25 * (high - low))
        if abs(place[i] - low) <= _SMALL:
            place[i] += nudge if side[variable] >= 0 else -nudge
        elif abs(place[i] - high) <= _SMALL:
            place[i] += nudge if side[variable] > 0 else -nudge


@kernel
def _descend(vertex: Vertex, most: int) -> int:
    """Go down until no edge falls, or for a number of steps; how many were taken."""
    taken, idle = 0, 0
    while taken < most:
        far = _step(vertex)
        if far < 0.0:
            break
        taken += 1
        idle = idle + 1 if far == 0.0 else 0
        if idle > _PATIENCE:
            _nudge(vertex)
            idle = 0
    return taken


@kernel
def lowest(
    design: NDArray[np.float64],
    values: NDArray[np.float64],
    cost: NDArray[np.float64],
    answer: NDArray[np.float64],
) -> None:
    """Fill `answer` (m,) with the unknowns x that cost least, residuals `values - design x` included.

    Args:
        design: float64 (P, m), entries of about 1.
        values: float64 (P,), typical ones of about 1.
        cost: float64 (4, m + P), of the unknowns and then the residuals: lower kink (0), upper kink
            (the end of a box, else 0), slope beyond them (0 for a free unknown), slope between them.
            Beyond the ends of a box costs must rise so fast that nothing is gained there.
        answer: float64 (m,). Unknowns in a box may pass its ends by rounding.
    """
    P, m = design.shape
    side = np.ones(m + P, dtype=np.int64)
    side[:m] = 0
    vertex = Vertex(
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
    left = _STEPS * (m + P)
    while True:
        _rebuild(vertex, design, values)
        _refine(vertex, design, values, answer)
        _take_sides(vertex)
        taken = _descend(vertex, min(2 * m + 64, left))
        left -= taken
        if taken == 0:
            break
