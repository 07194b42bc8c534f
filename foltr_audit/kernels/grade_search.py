"""Counts of clicks from sums over clients, when grades of the shown documents are unknown.

All clients of a sum saw the same documents, so their clicks share what the observer does not know: the
grades. Assignments of grades are weighed by how well they explain the sum and by their prior
probability; a local search finds those that matter, since 5^10 assignments are too many.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .click_sums import SumNoiseTable, UpdateSums, explained, fill_cascade_moments
from .elementary import exp
from .jit import Floats, Ints, kernel
from .threads import in_parts

_MOST_TRIED = 8000  # assignments of grades that are weighed for one list
_BETTER = 1e-9  # a gain in log evidence that counts: rounding alone must not keep the search going
_NEAR = 4.0  # assignments worse than the best by more log evidence (2 % of its weight) may be weighed roughly


class GradeBelief(NamedTuple):
    """The belief about G grades.

    Attributes:
        click: P(click | grade), (G,).
        stop: P(stop | click, grade), (G,).
        log_chances: log P(grade | position), (k, G).
    """

    click: Floats
    stop: Floats
    log_chances: Floats


class _AssignmentTable(NamedTuple):
    """The assignments weighed so far: their number (1,), their codes, their values, their counts (., k)."""

    size: Ints
    codes: Ints
    values: Floats
    counts: Floats


@kernel
def _weigh(
    sums: UpdateSums,
    i: int,
    noise: SumNoiseTable,
    grades: GradeBelief,
    assigned: Ints,
    bar: float,
    tried: _AssignmentTable,
) -> int:
    """Weigh an assignment (k,) unless that was done before; its number, or -1 if the table is full."""
    L, G = sums.lengths[i], grades.click.size
    code = 0
    for j in range(L):
        code = code * G + assigned[j]
    number = int(tried.size[0])
    # A plain search: comparing a code is nothing next to weighing an assignment, which visits 2^L patterns.
    for a in range(number):
        if tried.codes[a] == code:
            return a
    if number == tried.codes.size:
        return -1
    click, stop = np.zeros(assigned.size), np.zeros(assigned.size)
    usual = 0.0
    for j in range(L):
        click[j], stop[j] = grades.click[assigned[j]], grades.stop[assigned[j]]
        usual += grades.log_chances[j, assigned[j]]
    w, q = sums.terms.shape[2], sums.design.shape[2]
    mean, spread = np.empty(w), np.empty((w, q))
    fill_cascade_moments(sums, i, click, stop, mean, spread)
    fit = explained(sums, i, noise, mean, spread, bar - usual, tried.counts[number])
    tried.codes[number], tried.values[number] = code, usual + fit
    tried.size[0] = number + 1
    return number


@kernel
def _change(assigned: Ints, L: int, G: int, change: int, out: Ints) -> None:
    """Fill in an assignment after a change: one of `L G` grades, all a grade up or down, then two grades."""
    out[:] = assigned
    if change < L * G:
        out[change // G] = change % G
    elif change < L * G + 2:
        step = 2 * (change - L * G) - 1
        for j in range(L):
            out[j] = min(max(out[j] + step, 0), G - 1)
    else:
        pair = change - L * G - 2
        grade, pair = pair % (G * G), pair // (G * G)
        first = 0
        while pair >= L - 1 - first:
            pair -= L - 1 - first
            first += 1
        out[first] = grade % G
        out[first + 1 + pair] = grade // G


@kernel
def _climb(
    sums: UpdateSums,
    i: int,
    noise: SumNoiseTable,
    grades: GradeBelief,
    assigned: Ints,
    tried: _AssignmentTable,
) -> None:
    """Take changes that improve an assignment until none does.

    Single grades come first: pairs of grades are many, and help only where two errors cancel.
    """
    L, G = sums.lengths[i], grades.click.size
    small = L * G + 2
    every = small + L * (L - 1) // 2 * G * G
    changed = np.empty_like(assigned)
    at = _weigh(sums, i, noise, grades, assigned, -np.inf, tried)
    best = tried.values[at] if at >= 0 else np.inf
    change, idle = 0, 0
    while idle < every:
        _change(assigned, L, G, change, changed)
        at = _weigh(sums, i, noise, grades, changed, best - _NEAR, tried)
        change += 1
        idle += 1
        if at >= 0 and tried.values[at] > best + _BETTER:
            best = tried.values[at]
            assigned[:] = changed
            idle = 0
            if change > small:
                change = 0
        if change == every or (change == small and idle < small):
            change = 0


@kernel
def _search(
    sums: UpdateSums, i: int, noise: SumNoiseTable, grades: GradeBelief, starts: Ints, counts: Floats
) -> None:
    """Fill in the expected counts (k,) of sum i over all assignments that a search visited."""
    k = counts.size
    # One table for all starts: where searches meet, nothing is weighed twice.
    tried = _AssignmentTable(
        np.zeros(1, dtype=np.int64),
        np.empty(_MOST_TRIED, dtype=np.int64),
        np.empty(_MOST_TRIED),
        np.zeros((_MOST_TRIED, k)),
    )
    for start in range(starts.shape[0]):
        _climb(sums, i, noise, grades, starts[start].copy(), tried)
    size = tried.size[0]
    top = tried.values[:size].max()
    total = 0.0
    for a in range(size):
        # Relative to the best: the log evidence of a whole sum may be far outside the range of exp.
        weight = exp(tried.values[a] - top)
        total += weight
        for j in range(k):
            counts[j] += weight * tried.counts[a, j]
    for j in range(k):
        counts[j] /= total


def counts_by_grades(sums: UpdateSums, noise: SumNoiseTable, grades: GradeBelief, starts: Ints) -> Floats:
    """Expected clicks on each document, (n, k), where grades are unknown.

    `starts` (S, k) are assignments of grades where searches begin, S >= 1.
    """
    n, k = sums.lengths.size, starts.shape[1]
    out = np.zeros((n, k))
    in_parts(lambda begin, end: fill_counts_by_grades(sums, noise, grades, starts, out, begin, end), n, 1)
    return out


@kernel
def fill_counts_by_grades(
    sums: UpdateSums,
    noise: SumNoiseTable,
    grades: GradeBelief,
    starts: Ints,
    out: Floats,
    begin: int,
    end: int,
) -> None:
    """Fill out[begin:end] of `counts_by_grades`, which begins as 0."""
    for i in range(begin, end):
        _search(sums, i, noise, grades, starts, out[i])
