"""Sums of messages of clients who saw the same list: how well a belief about their clicks explains a sum.

A client's pattern of clicks fixes its steps, coefficients of a few columns. Of m clients with independent
clicks of the same law, sums of steps and of clicks are close to normal, with moments that follow from the
law. The noise is a scale mixture of normals: a normal law touches its density from below at a residual of
any size, and the sizes are chosen so that this bound on the evidence is highest.

Source: Palmer, Wipf, Kreutz-Delgado & Rao 2006, "Variational EM algorithms for non-Gaussian latent
variable models", for the bound; Dempster, Laird & Rubin 1980, "Iteratively reweighted least
squares for linear regression when errors are normal/independent distributed", for the weights.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foltr_audit.kernels.density import DensityTable, log_density_at
from foltr_audit.kernels.elementary import exp, log
from foltr_audit.kernels.jit import Floats, Ints, inlined, kernel
from foltr_audit.kernels.threads import filled

# --- sums of independent whole numbers -------------------------------------------------------------
# Numbers are added one after the other; a state is the sum so far, as its place among the sums that this
# many numbers can make.
#
# Source: Baum et al. 1970, "A maximization technique occurring in the statistical analysis
# of probabilistic functions of Markov chains" (the forward-backward recursions).


def sum_likelihoods(laws: Floats, totals: Ints, after: NDArray[np.int32], sizes: Ints) -> Floats:
    """P(the sum is as it is | number i of a row has value r, the others follow their laws), (m, n, v).

    Args:
        laws: P(value) of each number of each row, (m, n, v).
        totals: each row's sum, as its place among the sums of n numbers, (m,).
        after: place of the sum with value r added, among the sums of j + 1 numbers, (n, widest, v).
        sizes: how many sums j numbers can make, j = 0 .. n, (n + 1,).
    """
    return filled(np.zeros(laws.shape), 1, fill_sum_likelihoods, laws, totals, after, sizes)


@kernel
def fill_sum_likelihoods(
    laws: Floats, totals: Ints, after: NDArray[np.int32], sizes: Ints, out: Floats, begin: int, end: int
) -> None:
    """Fill out[begin:end] of `sum_likelihoods`, which begins as 0."""
    _, n, v = laws.shape
    for i in range(begin, end):
        before = np.zeros((n, after.shape[1]))  # P(sum of the first j numbers)
        before[0, 0] = 1.0
        for j in range(n - 1):
            for t in range(sizes[j]):
                if before[j, t] > 0.0:
                    for r in range(v):
                        before[j + 1, after[j, t, r]] += before[j, t] * laws[i, j, r]
        rest = np.zeros(sizes[n])  # P(the total | sum of the first j + 1 numbers)
        rest[totals[i]] = 1.0
        for j in range(n - 1, -1, -1):
            new = np.zeros(sizes[j])
            for t in range(sizes[j]):
                for r in range(v):
                    ahead = rest[after[j, t, r]]
                    if ahead > 0.0:
                        out[i, j, r] += before[j, t] * ahead
                        new[t] += laws[i, j, r] * ahead
            rest = new


# --- sums of messages ------------------------------------------------------------------------------

_NEVER = 1e-10  # a probability that counts as 0, so that patterns without a chance cost nothing
_DEPENDENT = 1e-12  # a variance that counts as 0, relative to its own before others were eliminated
_ROUNDS = 60  # most iterations of the bound
_ENOUGH = 1e-2  # a gain in log evidence below which iterations stop
# All further gains together are assumed to be at most this many times the last one: the bound converges about
# linearly, so a belief that is far behind by then cannot win.
_HOPE = 20.0


class UpdateSums(NamedTuple):
    """n sums of messages, and what one client adds to them.

    Attributes:
        received: the sums, (n, P).
        design: columns whose coefficients are the steps, (n, P, q).
        terms: steps and clicks of one client for every pattern, (n, 2^k, q + k).
        lengths: documents of each list, (n,), at most k.
        clients: how many clients each sums, (n,).
        finest: the least standard deviation that a residual is given, (n,), above 0.
    """

    received: Floats
    design: Floats
    terms: Floats
    lengths: Ints
    clients: Ints
    finest: Floats


class SumNoiseTable(NamedTuple):
    """The law f of the noise in a sum, as two tables of one scale.

    Attributes:
        inverse_scale: 1 / scale.
        density: cubics of log f(x).
        slope: cubics of `d ln f(x) / d ln x`; less of it, over x^2, is the weight of a residual x.
    """

    inverse_scale: float
    density: Floats
    slope: Floats


@kernel
def _fill_chances(click: Floats, stop: Floats, L: int, chances: Floats, reading: Floats) -> None:
    """Fill in the chance of each of the 2^L patterns under a cascade; `reading` is room to work in."""
    reading[0], chances[0] = 1.0, 0.0
    size = 1
    for j in range(L):
        for p in range(size):
            clicked = reading[p] * click[j]
            reading[p + size] = clicked * (1.0 - stop[j])
            chances[p + size] = clicked * stop[j]
            reading[p] *= 1.0 - click[j]
        size *= 2
    for p in range(size):
        chances[p] += reading[p]


@kernel
def _fill_moments(sums: UpdateSums, i: int, chances: Floats, mean: Floats, spread: Floats) -> None:
    """Fill in the mean (q + k,) of the terms of sum i and their covariance with its steps (q + k, q).

    The covariance is filled in where its row is not before its column.
    """
    terms, m = sums.terms, float(sums.clients[i])
    w, q = spread.shape
    patterns = 1 << sums.lengths[i]
    mean[:] = 0.0
    spread[:] = 0.0
    for p in range(patterns):
        if chances[p] > _NEVER:
            for a in range(w):
                mean[a] += chances[p] * terms[i, p, a]
    # A second pass around the mean: a mean of products less a product of means cancels where the spread is
    # small.
    beyond = np.empty(w)
    for p in range(patterns):
        if chances[p] > _NEVER:
            for a in range(w):
                beyond[a] = terms[i, p, a] - mean[a]
            for a in range(w):
                weight = m * chances[p] * beyond[a]
                for b in range(min(a + 1, q)):
                    spread[a, b] += weight * beyond[b]
    for a in range(w):
        mean[a] *= m


@kernel
def fill_cascade_moments(
    sums: UpdateSums, i: int, click: Floats, stop: Floats, mean: Floats, spread: Floats
) -> None:
    """As `_fill_moments`, of clients who click by a cascade, `click` and `stop` (k,) of each document."""
    patterns = 1 << sums.lengths[i]
    chances, reading = np.empty(patterns), np.empty(patterns)
    _fill_chances(click, stop, sums.lengths[i], chances, reading)
    _fill_moments(sums, i, chances, mean, spread)


@kernel
def _factor(spread: Floats) -> None:
    """Replace a covariance (w, q) by its Cholesky factor; columns without variance of their own become 0."""
    w, q = spread.shape
    for b in range(q):
        own = spread[b, b]
        for c in range(b):
            own -= spread[b, c] ** 2
        if not own > _DEPENDENT * spread[b, b]:
            for a in range(b, w):
                spread[a, b] = 0.0
            continue
        root = math.sqrt(own)
        for a in range(b + 1, w):
            for c in range(b):
                spread[a, b] -= spread[a, c] * spread[b, c]
            spread[a, b] /= root
        spread[b, b] = root


@kernel
def _solve(M: Floats, target: Floats, answer: Floats) -> float:
    """Solve `M answer = target`; the log of the determinant of M (q, q), which its factor replaces."""
    q = target.size
    log_determinant = 0.0
    for b in range(q):
        for c in range(b):
            M[b, b] -= M[b, c] ** 2
        M[b, b] = math.sqrt(M[b, b])
        log_determinant += 2.0 * log(M[b, b])
        for a in range(b + 1, q):
            for c in range(b):
                M[a, b] -= M[a, c] * M[b, c]
            M[a, b] /= M[b, b]
    for a in range(q):
        answer[a] = target[a]
        for c in range(a):
            answer[a] -= M[a, c] * answer[c]
        answer[a] /= M[a, a]
    for a in range(q - 1, -1, -1):
        for c in range(a + 1, q):
            answer[a] -= M[c, a] * answer[c]
        answer[a] /= M[a, a]
    return log_determinant


@inlined
def _weight(slope: DensityTable, size: float) -> float:
    """The inverse variance that the bound gives a residual of this size."""
    return -log_density_at(slope, size) / size / size


@kernel
def _least_size(slope: DensityTable, finest: float) -> float:
    """A size from which on the weight of residuals is at most `1 / finest^2`."""
    size = finest
    while _weight(slope, size) > 1.0 / finest / finest:
        size *= 2.0
    return size


@kernel
def _bound(
    residuals: Floats, columns: Floats, sizes: Floats, noise: SumNoiseTable, M: Floats, hidden: Floats
) -> float:
    """The bound on the log evidence that touches the density at residuals of these `sizes` (P,).

    Fills in the mean of the `hidden` standard normal numbers (q,) and the factor M of their precision.
    """
    P, q = columns.shape
    density = DensityTable(noise.inverse_scale, noise.density)
    slope = DensityTable(noise.inverse_scale, noise.slope)
    M[:] = 0.0
    for a in range(q):
        M[a, a] = 1.0
    target = np.zeros(q)
    total = 0.0
    for p in range(P):
        weight = _weight(slope, sizes[p])
        total += log_density_at(density, sizes[p])
        total += 0.5 * weight * (sizes[p] * sizes[p] - residuals[p] * residuals[p])
        for a in range(q):
            pull = weight * columns[p, a]
            if pull != 0.0:
                target[a] += pull * residuals[p]
                for b in range(a + 1):
                    M[a, b] += pull * columns[p, b]
    total -= 0.5 * _solve(M, target, hidden)
    for a in range(q):
        total += 0.5 * target[a] * hidden[a]
    return total


@kernel
def _fill_sizes(
    residuals: Floats, columns: Floats, M: Floats, hidden: Floats, least: float, sizes: Floats
) -> None:
    """Fill in the root mean square of each residual, at least `least`; M is the factor of a precision."""
    P, q = columns.shape
    z = np.empty(q)
    for p in range(P):
        rest, square = residuals[p], 0.0
        for a in range(q):
            rest -= columns[p, a] * hidden[a]
            z[a] = columns[p, a]
            for c in range(a):
                z[a] -= M[a, c] * z[c]
            z[a] /= M[a, a]
            square += z[a] * z[a]
        sizes[p] = max(math.sqrt(rest * rest + square), least)


@kernel
def explained(
    sums: UpdateSums, i: int, noise: SumNoiseTable, mean: Floats, spread: Floats, bar: float, counts: Floats
) -> float:
    """A lower bound on the log evidence of sum i when its steps and clicks have these moments.

    Stops early where the bound is unlikely to reach `bar`. Fills in the expected `counts` (k,) of
    clicks. `spread` (q + k, q) is overwritten.
    """
    P, q = sums.received.shape[1], spread.shape[1]
    _factor(spread)
    columns, residuals, sizes = np.zeros((P, q)), np.empty(P), np.empty(P)
    least = _least_size(DensityTable(noise.inverse_scale, noise.slope), sums.finest[i])
    for p in range(P):
        residuals[p] = sums.received[i, p]
        square = 0.0
        for a in range(q):
            residuals[p] -= sums.design[i, p, a] * mean[a]
            for b in range(a + 1):
                columns[p, b] += sums.design[i, p, a] * spread[a, b]
        for b in range(q):
            square += columns[p, b] * columns[p, b]
        sizes[p] = max(math.sqrt(residuals[p] * residuals[p] + square), least)
    M, hidden = np.empty((q, q)), np.empty(q)
    bound = -np.inf
    for _ in range(_ROUNDS):
        before = bound
        bound = _bound(residuals, columns, sizes, noise, M, hidden)
        gain = bound - before
        # `not ... >` also ends the loop where the bound is NaN.
        if not gain > _ENOUGH or bound + _HOPE * gain < bar:
            break
        _fill_sizes(residuals, columns, M, hidden, least, sizes)
    for j in range(sums.lengths[i]):
        count = mean[q + j]
        for b in range(q):
            count += spread[q + j, b] * hidden[b]
        # A normal law does not know that a count lies between 0 and the number of clients.
        counts[j] = min(max(count, 0.0), float(sums.clients[i]))
    return bound


def counts_by_cascade(sums: UpdateSums, noise: SumNoiseTable, click: Floats, stop: Floats) -> Floats:
    """Expected clicks on each document (n, k) by clients of a known cascade, `click` and `stop` (n, k)."""
    n, k = click.shape
    return filled(np.zeros((n, k)), 1, fill_counts_by_cascade, sums, noise, click, stop)


@kernel
def fill_counts_by_cascade(
    sums: UpdateSums, noise: SumNoiseTable, click: Floats, stop: Floats, out: Floats, begin: int, end: int
) -> None:
    """Fill out[begin:end] of `counts_by_cascade`, which begins as 0."""
    w, q = sums.terms.shape[2], sums.design.shape[2]
    for i in range(begin, end):
        mean, spread = np.empty(w), np.empty((w, q))
        fill_cascade_moments(sums, i, click[i], stop[i], mean, spread)
        explained(sums, i, noise, mean, spread, -np.inf, out[i])


@kernel
def _after_another_client(beyond: Floats, L: int) -> None:
    """Replace terms (2^L, w) of each pattern by the mean ones of a second client, given that of the first.

    After a click the next client clicks with probability 2/3 (Laplace's rule of succession).
    """
    # Documents are independent: a pass for each of them, in place, takes L 2^L steps instead of 4^L.
    for j in range(L):
        for p in range(1 << L):
            if not (p >> j) & 1:
                other = p | (1 << j)
                for a in range(beyond.shape[1]):
                    low, high = beyond[p, a], beyond[other, a]
                    beyond[p, a] = (2.0 * low + high) / 3.0
                    beyond[other, a] = (low + 2.0 * high) / 3.0


@kernel
def fill_any_rate_moments(sums: UpdateSums, i: int, mean: Floats, spread: Floats) -> None:
    """As `_fill_moments`, of clients who share a uniformly distributed click rate of each document."""
    L, m = sums.lengths[i], float(sums.clients[i])
    patterns = 1 << L
    w, q = spread.shape
    _fill_moments(sums, i, np.full(patterns, 1.0 / patterns), mean, spread)
    alone, other = np.empty((patterns, w)), np.empty((patterns, q))
    for p in range(patterns):
        for a in range(w):
            alone[p, a] = sums.terms[i, p, a] - mean[a] / m
        for b in range(q):
            other[p, b] = alone[p, b]
    _after_another_client(other, L)
    share = m * (m - 1.0) / patterns
    for p in range(patterns):
        for a in range(w):
            for b in range(min(a + 1, q)):
                spread[a, b] += share * alone[p, a] * other[p, b]


def counts_by_any_rate(sums: UpdateSums, noise: SumNoiseTable) -> Floats:
    """Expected clicks on each document (n, k) with no knowledge of the click model.

    All that is assumed: each document has a click rate that all clients share, uniform from 0 to 1.
    """
    n, w, q = sums.lengths.size, sums.terms.shape[2], sums.design.shape[2]
    return filled(np.zeros((n, w - q)), 1, fill_counts_by_any_rate, sums, noise)


@kernel
def fill_counts_by_any_rate(
    sums: UpdateSums, noise: SumNoiseTable, out: Floats, begin: int, end: int
) -> None:
    """Fill out[begin:end] of `counts_by_any_rate`, which begins as 0."""
    w, q = sums.terms.shape[2], sums.design.shape[2]
    for i in range(begin, end):
        mean, spread = np.empty(w), np.empty((w, q))
        fill_any_rate_moments(sums, i, mean, spread)
        explained(sums, i, noise, mean, spread, -np.inf, out[i])


# --- counts where grades are unknown ---------------------------------------------------------------
# All clients of a sum saw the same documents, so their clicks share what the observer does not know: the
# grades. Assignments of grades are weighed by how well they explain the sum and by their prior
# probability; a local search finds those that matter, since 5^10 assignments are too many.

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
    return filled(np.zeros((n, k)), 1, fill_counts_by_grades, sums, noise, grades, starts)


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
