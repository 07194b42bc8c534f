"""Lists of the Plackett-Luce model: sampled without replacement, and what shown ones reveal of their scores.

A pool holds the weights exp(score - maximum) of the documents of some queries, a row each, and the
sums of blocks of them, a column each: drawing finds the blocks of eight lists at once, one in each lane of a
vector. It then takes turns over the rows, so that the processor works on several lists at once, and chooses
without branches where it can.

Here and in related kernels a row is named by its number and never cut out of its array: every view counts
references, which costs more than the arithmetic.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from foltr_audit.kernels.elementary import decay, exp, log
from foltr_audit.kernels.jit import Bools, Floats, Ints, inlined, kernel, uncounted, unsigned
from foltr_audit.kernels.philox import fill_uniforms
from foltr_audit.kernels.sums import BLOCK, add_blocks, block_sum, find_blocks, sum_without
from foltr_audit.kernels.threads import filled

# --- what shown lists reveal -----------------------------------------------------------------------

_LISTS = 64  # of one part: less work is done before a thread has started


@kernel
def _hidden(scores: Floats, shown: Ints) -> Bools:
    """Which of the candidates are not shown, (N,)."""
    hidden = np.ones(scores.size, dtype=np.bool_)
    for i in shown:
        if i >= 0:
            hidden[i] = False
    return hidden


@kernel
def _log_probability(scores: Floats, shown: Ints) -> float:
    """Log probability of one list, from the last rank up: every denominator adds one term to the next."""
    top, rest = -np.inf, 0.0  # the documents left weigh rest * exp(top)
    hidden = _hidden(scores, shown)
    for i in range(scores.size):
        if hidden[i]:
            top = max(top, scores[i])
    for i in range(scores.size):
        if hidden[i]:
            rest += exp(scores[i] - top)
    total = 0.0
    for rank in range(shown.size - 1, -1, -1):
        if shown[rank] >= 0:
            score = scores[shown[rank]]
            # The sum is kept relative to the highest score so far: no exponential overflows, however far
            # scores spread.
            higher = max(top, score)
            rest = (rest * exp(top - higher) if rest > 0.0 else 0.0) + exp(score - higher)
            top = higher
            total += score - top - log(rest)
    return total


@kernel
def _broken_ranks(scores: Floats, shown: Ints, tolerance: float) -> int:
    """Ranks of one list at which some document left has a higher score than the one that is shown."""
    best, found = -np.inf, 0
    hidden = _hidden(scores, shown)
    for i in range(scores.size):
        if hidden[i]:
            best = max(best, scores[i])
    for rank in range(shown.size - 1, -1, -1):
        if shown[rank] >= 0:
            score = scores[shown[rank]]
            found += score < best - tolerance
            best = max(best, score)
    return found


def list_log_probabilities(scores: Floats, starts: Ints, shown: Ints) -> Floats:
    """Log probability of lists sampled from Plackett-Luce without replacement, (C,).

    List c, positions `shown[c]` (C, k) padded with -1, is of candidates with `scores[starts[c]:starts[c+1]]`.
    """
    return filled(np.empty(shown.shape[0]), _LISTS, fill_log_probabilities, scores, starts, shown)


@kernel
def fill_log_probabilities(
    scores: Floats, starts: Ints, shown: Ints, out: Floats, begin: int, end: int
) -> None:
    """Fill out[begin:end] of `list_log_probabilities`."""
    for c in range(begin, end):
        out[c] = _log_probability(scores[starts[c] : starts[c + 1]], shown[c])


def broken_ranks(scores: Floats, starts: Ints, shown: Ints, tolerance: float) -> Ints:
    """At how many ranks each list is not in the order of its scores, by more than rounding, (C,).

    Scores that differ by less than `tolerance` times the largest size of a list's scores are equal.
    """
    given = (scores, starts, shown, tolerance)
    return filled(np.empty(shown.shape[0], dtype=np.int64), _LISTS, fill_broken_ranks, *given)


@kernel
def fill_broken_ranks(
    scores: Floats, starts: Ints, shown: Ints, tolerance: float, out: Ints, begin: int, end: int
) -> None:
    """Fill out[begin:end] of `broken_ranks`."""
    for c in range(begin, end):
        of_client = scores[starts[c] : starts[c + 1]]
        size = 0.0
        for score in of_client:
            size = max(size, abs(score))
        out[c] = _broken_ranks(of_client, shown[c], tolerance * size)


# --- sampled lists ---------------------------------------------------------------------------------

_BLOCK = BLOCK  # documents whose weights are summed together: drawing looks at N / 8 sums and 8 weights
_CLIENTS = 32  # of one part: less work is done before a thread has started
_FADED = 1e-200  # below this sum weights are made relative to a new maximum, long before they underflow


class SamplingBuffers(NamedTuple):
    """Memory for some lists.

    Attributes:
        scores: of the candidates, (rows, whole blocks of documents).
        weights: exp(score - maximum), 0 for a document that was taken and at the padding.
        sums: of blocks of weights, (blocks, columns), a column for each row and up to seven more.
        sizes: number of documents of each row, (rows,).
        tops: highest score of each row, (rows,).
        drawn: weight that each shown document was drawn with, 0 at the padding, (k, columns); the first is
            NaN where weights were taken relative to a new maximum, so that they cannot be compared.
        tails: weight of the documents that are not shown, (columns,).
        lasts: the last block of each row, -1 without documents, (columns,).
        most: the most blocks of eight rows, (columns / 8,).
        found, targets: block of the document that is drawn, and how far it lies in it, (columns,).
        clicks: on the lists, (k, columns).
        left: scratch memory of `fill_pairs`, (2 k + 2, 8).
        coefficients, pairs: of gradients, (k, columns), and how many pairs make them, (columns,).
    """

    scores: Floats
    weights: Floats
    sums: Floats
    sizes: Ints
    tops: Floats
    drawn: Floats
    tails: Floats
    lasts: Ints
    most: Ints
    found: Ints
    targets: Floats
    clicks: Bools
    left: Floats
    coefficients: Floats
    pairs: Ints


def empty_pool(rows: int, longest: int, k: int) -> SamplingBuffers:
    """A pool for queries of up to `longest` documents and lists of k."""
    blocks, columns = (longest + _BLOCK - 1) // _BLOCK, (rows + _BLOCK - 1) // _BLOCK * _BLOCK
    return SamplingBuffers(
        np.zeros((rows, blocks * _BLOCK)),
        np.empty((rows, blocks * _BLOCK)),
        np.empty((blocks, columns)),
        np.zeros(rows, dtype=np.int64),
        np.zeros(rows),
        np.zeros((k, columns)),
        np.zeros(columns),
        np.empty(columns, dtype=np.int64),
        np.empty(columns // _BLOCK, dtype=np.int64),
        np.empty(columns, dtype=np.int64),
        np.empty(columns),
        np.zeros((k, columns), dtype=np.bool_),
        np.empty((2 * k + 2, _BLOCK)),
        np.empty((k, columns)),
        np.empty(columns, dtype=np.int64),
    )


new_pool = kernel(empty_pool)
"""`empty_pool` for kernels."""


@uncounted
def put_scores(pool: SamplingBuffers, scores: Floats) -> None:
    """The candidates of a query (N,) as the pool's first row."""
    pool.sizes[0] = scores.size
    top = -np.inf
    for i in range(scores.size):
        pool.scores[0, i] = scores[i]
        top = scores[i] if scores[i] > top else top
    pool.tops[0] = top


@inlined
def _weigh_row(
    scores: Floats, at: int, weights: Floats, sums: Floats, row: int, documents: int, top: float
) -> None:
    """Weights of a row, and the sums of their blocks, from scores[at]."""
    blocks = (documents + _BLOCK - 1) // _BLOCK
    # Whole blocks, which fill wide registers; scores at the padding are those of an earlier query.
    for i in range(blocks * _BLOCK):
        # `decay` stays above 0 however low a score is: a weight of 0 means that a document was taken.
        weight = decay(scores[at, i] - top)
        weights[row, i] = weight if i < documents else 0.0
    for block in range(blocks):
        sums[unsigned(block), unsigned(row)] = block_sum(weights, row, block * _BLOCK)


@uncounted
def weigh(pool: SamplingBuffers, rows: int) -> None:
    """Weights of all documents of the first rows, the sums of their blocks, and of all of them."""
    for row in range(rows):
        _weigh_row(pool.scores, row, pool.weights, pool.sums, row, pool.sizes[row], pool.tops[row])
        pool.lasts[row] = (pool.sizes[row] + _BLOCK - 1) // _BLOCK - 1
    if rows == 1:
        add_alone(pool)
        return
    for first in range(0, rows, _BLOCK):
        most = 0
        for row in range(first, first + _BLOCK):
            if row >= rows:
                pool.lasts[row] = -1
            most = max(most, pool.lasts[row] + 1)
        pool.most[first // _BLOCK] = most
    add_rows(pool, rows)


@inlined
def add_alone(pool: SamplingBuffers) -> None:
    """The weight of all documents left in the only row of a pool."""
    left = 0.0
    for block in range(pool.lasts[0] + 1):
        left += pool.sums[unsigned(block), unsigned(0)]
    pool.tails[0] = left


@inlined
def add_rows(pool: SamplingBuffers, rows: int) -> None:
    """The weight of all documents left in each of the first rows."""
    for first in range(0, rows, _BLOCK):
        add_blocks(pool.sums, first, pool.most[first // _BLOCK], pool.lasts, pool.tails)


@inlined
def take(weights: Floats, sums: Floats, row: int, i: int) -> None:
    """Remove a document; its block is summed again: subtracting would leave a rounding error behind."""
    block = i // _BLOCK
    sums[unsigned(block), unsigned(row)] = sum_without(weights, row, block * _BLOCK, i % _BLOCK)


@inlined
def _last_left(weights: Floats, row: int, documents: int) -> int:
    """The last document left, for draws whose target rounding moved past the end."""
    last = 0
    for i in range(documents):
        last = i if weights[row, i] != 0.0 else last
    return last


@inlined
def _take_drawn(
    pool: SamplingBuffers, row: int, block: int, target: float, shown: Ints, rank: int
) -> tuple[int, float]:
    """Show the document that lies `target` deep in a block, or the last one of the block, and remove it.

    Its block, and what that weighs without it.
    """
    weights, running, inside = pool.weights, 0.0, 0
    for i in range(_BLOCK - 1):
        running += weights[unsigned(row), unsigned(block * _BLOCK + i)]
        inside += running <= target
    weight = weights[unsigned(row), unsigned(block * _BLOCK + inside)]
    if not weight > 0.0:  # rounding led to a document that was taken
        i = _last_left(weights, row, pool.sizes[row])
        block, inside, weight = i // _BLOCK, i % _BLOCK, weights[row, i]
    shown[row, rank] = block * _BLOCK + inside
    pool.drawn[rank, row] = weight
    return block, sum_without(weights, row, block * _BLOCK, inside)


@inlined
def _show_nothing(pool: SamplingBuffers, row: int, shown: Ints, rank: int) -> None:
    """Fill a rank for which no document is left."""
    shown[row, unsigned(rank)] = -1
    pool.drawn[unsigned(rank), unsigned(row)] = 0.0


@kernel
def _weigh_faded(pool: SamplingBuffers, shown: Ints, rank: int, rows: int) -> None:
    """Compute the weights of faded rows again, relative to the maximum of the documents left."""
    for row in range(rows):
        documents = pool.sizes[row]
        # A row of which all documents are shown is complete: what becomes of others must not change it.
        if rank < documents and not pool.tails[row] >= _FADED:
            width = pool.scores.shape[1]
            rest, top = np.empty((1, width)), -np.inf
            for i in range(width):
                rest[0, i] = pool.scores[row, i]
            for r in range(rank):
                rest[0, shown[row, r]] = -np.inf
            for i in range(documents):
                top = rest[0, i] if rest[0, i] > top else top
            _weigh_row(rest, 0, pool.weights, pool.sums, row, documents, top)
            # `decay` gave the documents that were taken a small weight again.
            for r in range(rank):
                take(pool.weights, pool.sums, row, shown[row, r])
            pool.tails[row] = 0.0
            for block in range(pool.lasts[row] + 1):
                pool.tails[row] += pool.sums[block, row]
            pool.drawn[0, row] = np.nan


@inlined
def _draw_rank(pool: SamplingBuffers, u: Floats, column: int, shown: Ints, rank: int, rows: int) -> bool:
    """Draw the document of one rank of every row; whether some row has faded then."""
    sums, sizes, tails, found, targets = pool.sums, pool.sizes, pool.tails, pool.found, pool.targets
    for first in range(0, rows, _BLOCK):
        most = pool.most[first // _BLOCK]
        find_blocks(sums, first, most, pool.lasts, u, rank, column, tails, found, targets)
    for row in range(rows):
        if rank < sizes[row]:
            block, rest = _take_drawn(pool, row, found[row], targets[row], shown, rank)
            sums[unsigned(block), unsigned(row)] = rest
        else:
            _show_nothing(pool, row, shown, rank)
    add_rows(pool, rows)
    faded = False
    for row in range(rows):
        faded |= (not tails[row] >= _FADED) & (rank + 1 < sizes[row])
    return faded


@inlined
def _draw_alone(pool: SamplingBuffers, rows: int, u: Floats, column: int, shown: Ints) -> None:
    """Draw the only list of a pool, whose weights are known; `rows` is 1, but no literal.

    Number by number: a vector that is read right after one of its numbers was stored waits for the cache.
    """
    sums, left, zero = pool.sums, pool.tails[0], unsigned(0)
    for rank in range(shown.shape[1]):
        if rank >= pool.sizes[0]:
            _show_nothing(pool, 0, shown, rank)
            continue
        target, running, before, found = u[rank, column] * left, 0.0, 0.0, 0
        for i in range(pool.lasts[0]):
            running += sums[unsigned(i), zero]
            passed = running <= target
            found += passed
            before = running if passed else before
        block, rest = _take_drawn(pool, 0, found, target - before, shown, rank)
        left = 0.0
        for i in range(pool.lasts[0] + 1):
            other = sums[unsigned(i), zero]
            left += rest if i == block else other
        sums[unsigned(block), zero] = rest
        pool.tails[0] = left
        if not left >= _FADED and rank + 1 < pool.sizes[0]:
            _weigh_faded(pool, shown, rank + 1, rows)
            left = pool.tails[0]


@uncounted
def draw(pool: SamplingBuffers, rows: int, u: Floats, column: int, shown: Ints) -> None:
    """Fill the first rows of `shown` (rows, k) with lists; number u[r, column + row] decides on rank r.

    For several rows `u` has columns up to the next multiple of eight. Scores, sizes and tops of the pool are
    given. Where the documents left weigh next to nothing compared with those taken, weights are computed
    again relative to their own maximum: any spread of scores is right.
    """
    weigh(pool, rows)
    if rows == 1:
        _draw_alone(pool, rows, u, column, shown)
        return
    for rank in range(shown.shape[1]):
        if _draw_rank(pool, u, column, shown, rank, rows):
            _weigh_faded(pool, shown, rank + 1, rows)


@uncounted
def weigh_shown(pool: SamplingBuffers, rows: int, shown: Ints) -> None:
    """Put a pool into the state that drawing the lists `shown` (rows, k) would have left."""
    weigh(pool, rows)
    weights, sums, drawn = pool.weights, pool.sums, pool.drawn
    for row in range(rows):
        for i in range(shown.shape[1]):
            drawn[i, row] = weights[row, shown[row, i]] if shown[row, i] >= 0 else 0.0
        for i in range(shown.shape[1]):
            if shown[row, i] >= 0:
                take(weights, sums, row, shown[row, i])
    if rows == 1:
        add_alone(pool)
    else:
        add_rows(pool, rows)


def sampled_lists(
    scores: Floats, starts: Ints, k: int, first: int, clients: Ints, round_: int, purpose: int, key: np.uint64
) -> Ints:
    """Up to k positions a client, sampled from Plackett-Luce without replacement; (C, k), padded with -1.

    Number `first + r` of a client's stream goes to rank r.
    """
    given = (scores, starts, first, clients, round_, purpose, key)
    return filled(np.empty((clients.size, k), dtype=np.int64), _CLIENTS, fill_sampled_lists, *given)


@kernel
def fill_sampled_lists(
    scores: Floats,
    starts: Ints,
    first: int,
    clients: Ints,
    round_: int,
    purpose: int,
    key: np.uint64,
    shown: Ints,
    begin: int,
    end: int,
) -> None:
    """Fill shown[begin:end] of `sampled_lists`."""
    k = shown.shape[1]
    for c in range(begin, end):
        documents = starts[c + 1] - starts[c]
        pool = new_pool(1, documents, k)
        put_scores(pool, scores[starts[c] : starts[c + 1]])
        u = np.empty((1, k + 2 - k % 2))
        fill_uniforms(u, 0, u.shape[1], first // 2, clients[c], round_, purpose, key)
        draw(pool, 1, u.reshape(u.size, 1)[first % 2 :], 0, shown[c : c + 1])
