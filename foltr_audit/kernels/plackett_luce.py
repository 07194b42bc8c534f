"""Lists of the Plackett-Luce model: sampled without replacement, and what shown ones reveal of their scores.

A pool holds the weights exp(score - maximum) of the documents of some queries, and the sums of blocks of
them, a row each. Drawing takes turns over the rows, so that the processor works on several lists at once, and
chooses without branches where it can.

Here and in related kernels a row is named by its number and never cut out of its array: every view counts
references, which costs more than the arithmetic.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from foltr_audit.kernels.elementary import decay, exp, log
from foltr_audit.kernels.jit import Floats, Ints, inlined, kernel, uncounted, unsigned
from foltr_audit.kernels.philox import fill_uniforms
from foltr_audit.kernels.threads import filled

# --- what shown lists reveal -----------------------------------------------------------------------

_LISTS = 64  # of one part: less work is done before a thread has started
_CLOSE = 600.0  # exp(-600) is far above the smallest number


@kernel
def tail_weight(scores: Floats, shown: Ints) -> tuple[float, float]:
    """Maximum of the scores not shown, and the sum of exp(score - maximum) over them."""
    hidden = scores.copy()
    for i in shown:
        if i >= 0:
            hidden[i] = -np.inf
    top, total = -np.inf, 0.0
    for score in hidden:
        top = score if score > top else top
    if top > -np.inf:
        for score in hidden:  # exp(-inf) is 0, and adding it is exact
            total += exp(score - top)
    return top, total


@kernel
def _log_probability(scores: Floats, shown: Ints) -> float:
    """Log probability of one list, from the last rank up: every denominator adds one term to the next."""
    top, rest = tail_weight(scores, shown)  # the documents left weigh rest * exp(top)
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
    (best, _), found = tail_weight(scores, shown), 0
    for rank in range(shown.size - 1, -1, -1):
        if shown[rank] >= 0:
            score = scores[shown[rank]]
            found += score < best - tolerance
            best = max(best, score)
    return found


@inlined
def _close_log_probability(
    scores: Floats, shown: Ints, c: int, high: float, weights: Floats, drawn: Floats
) -> float:
    """The same of list c, whose scores are close: one exponential a document, and one logarithm."""
    for i in range(scores.size):
        weights[i] = decay(scores[i] - high)
    total, rest, product = 0.0, 0.0, 1.0
    for rank in range(drawn.size):
        drawn[rank] = 0.0
        i = shown[c, rank]
        if i >= 0:
            total += scores[i] - high
            drawn[rank] = weights[i]
            weights[i] = 0.0
    for i in range(scores.size):
        rest += weights[i]
    for rank in range(drawn.size - 1, -1, -1):
        rest += drawn[rank]
        if shown[c, rank] >= 0:
            product *= rest
    return float(total - log(product))


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
    longest = 0
    for c in range(begin, end):
        longest = max(longest, starts[c + 1] - starts[c])
    weights, drawn = np.empty(longest), np.empty(shown.shape[1])
    for c in range(begin, end):
        of_list = scores[starts[c] : starts[c + 1]]
        low, high = np.inf, -np.inf
        for score in of_list:
            low, high = min(low, score), max(high, score)
        # A denominator is at least exp(low - high), and their product must not underflow.
        if (high - low) * drawn.size < _CLOSE:
            out[c] = _close_log_probability(of_list, shown, c, high, weights, drawn)
        else:
            out[c] = _log_probability(of_list, shown[c])


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

_BLOCK = 8  # documents whose weights are summed together: drawing looks at N / 8 sums and 8 weights
_CLIENTS = 32  # of one part: less work is done before a thread has started
_1, _2, _3, _4, _5, _6, _7 = (unsigned(i) for i in range(1, _BLOCK))
_FADED = 1e-200  # below this sum weights are made relative to a new maximum, long before they underflow


class SamplingBuffers(NamedTuple):
    """Memory for some lists.

    Attributes:
        scores: of the candidates, (rows, whole blocks of documents).
        weights: exp(score - maximum), 0 for a document that was taken and at the padding.
        sums: of blocks of weights, (rows, blocks).
        sizes: number of documents of each row, (rows,).
        tops: highest score of each row, (rows,).
        drawn: weight that each shown document was drawn with, 0 at the padding, (k, rows); the first is
            NaN where weights were taken relative to a new maximum, so that they cannot be compared.
        tails: weight of the documents that are not shown, (rows,).
        lasts: the last block of each row, -1 without documents, (rows,).
        left, table: denominators of a list, (2, k + 1), and weights of its pairs, (k, k): see `pdgd`.
    """

    scores: Floats
    weights: Floats
    sums: Floats
    sizes: Ints
    tops: Floats
    drawn: Floats
    tails: Floats
    lasts: Ints
    left: Floats
    table: Floats


def empty_pool(rows: int, longest: int, k: int) -> SamplingBuffers:
    """A pool for queries of up to `longest` documents and lists of k."""
    blocks = (longest + _BLOCK - 1) // _BLOCK
    return SamplingBuffers(
        np.zeros((rows, blocks * _BLOCK)),
        np.empty((rows, blocks * _BLOCK)),
        np.empty((rows, blocks)),
        np.zeros(rows, dtype=np.int64),
        np.zeros(rows),
        np.zeros((k, rows)),
        np.zeros(rows),
        np.empty(rows, dtype=np.int64),
        np.empty((2, k + 1)),
        np.empty((k, k)),
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
def _block_sum(weights: Floats, row: int, block: int) -> float:
    """The sum of a block of weights, in pairs."""
    r, i = unsigned(row), unsigned(block * _BLOCK)
    low = (weights[r, i] + weights[r, i + _1]) + (weights[r, i + _2] + weights[r, i + _3])
    high = (weights[r, i + _4] + weights[r, i + _5]) + (weights[r, i + _6] + weights[r, i + _7])
    return float(low + high)


@inlined
def _weigh_row(scores: Floats, weights: Floats, sums: Floats, row: int, documents: int, top: float) -> None:
    """Weights of a row, and the sums of their blocks, from its scores."""
    blocks = (documents + _BLOCK - 1) // _BLOCK
    # Whole blocks, which fill wide registers; scores at the padding are those of an earlier query.
    for i in range(blocks * _BLOCK):
        # `decay` stays above 0 however low a score is: a weight of 0 means that a document was taken.
        weight = decay(scores[row, i] - top)
        weights[row, i] = weight if i < documents else 0.0
    for block in range(blocks):
        sums[unsigned(row), unsigned(block)] = _block_sum(weights, row, block)


@uncounted
def weigh(pool: SamplingBuffers, rows: int) -> None:
    """Weights of all documents of the first rows, the sums of their blocks, and of all of them."""
    for row in range(rows):
        _weigh_row(pool.scores, pool.weights, pool.sums, row, pool.sizes[row], pool.tops[row])
        pool.lasts[row] = (pool.sizes[row] + _BLOCK - 1) // _BLOCK - 1
        pool.tails[row] = _left(pool.sums, row, pool.lasts[row])


@inlined
def _left(sums: Floats, row: int, last: int) -> float:
    """The weight of all documents left in a row."""
    left = 0.0
    for block in range(last + 1):
        left += sums[unsigned(row), unsigned(block)]
    return left


@inlined
def take(weights: Floats, sums: Floats, row: int, i: int) -> None:
    """Remove a document; its block is summed again: subtracting would leave a rounding error behind."""
    weights[unsigned(row), unsigned(i)] = 0.0
    sums[unsigned(row), unsigned(i // _BLOCK)] = _block_sum(weights, row, i // _BLOCK)


@inlined
def _last_left(weights: Floats, row: int, documents: int) -> int:
    """The last document left, for draws whose target rounding moved past the end."""
    last = 0
    for i in range(documents):
        last = i if weights[row, i] != 0.0 else last
    return last


@inlined
def _draw_one(pool: SamplingBuffers, row: int, target: float, shown: Ints, rank: int) -> None:
    """Show the document that lies `target` deep among those left of a row, and remove it."""
    sums, weights, last = pool.sums, pool.weights, pool.lasts[row]
    running, before, block = 0.0, 0.0, 0
    # The last block is not tested: where rounding moved the target past the end, it is taken.
    for i in range(last):
        running += sums[unsigned(row), unsigned(i)]
        passed = running <= target
        block += passed
        before = running if passed else before
    target -= before
    running, inside = 0.0, 0
    for i in range(_BLOCK - 1):
        running += weights[unsigned(row), unsigned(block * _BLOCK + i)]
        inside += running <= target
    drawn = block * _BLOCK + inside
    if not weights[unsigned(row), unsigned(drawn)] > 0.0:  # rounding led to a document that was taken
        drawn = _last_left(weights, row, pool.sizes[row])
    shown[row, rank] = drawn
    pool.drawn[rank, row] = weights[row, drawn]
    take(weights, sums, row, drawn)
    pool.tails[row] = _left(sums, row, last)


@uncounted
def _weigh_faded(pool: SamplingBuffers, shown: Ints, rank: int, rows: int) -> None:
    """Compute the weights of faded rows again, relative to the maximum of the documents left."""
    scores, weights, sums = pool.scores, pool.weights, pool.sums
    for row in range(rows):
        documents = pool.sizes[row]
        # A row of which all documents are shown is complete: what becomes of others must not change it.
        if rank < documents and not pool.tails[row] >= _FADED:
            top = -np.inf
            for i in range(scores.shape[1]):  # the weights hold scores until they are weighed
                weights[row, i] = scores[row, i]
            for r in range(rank):
                weights[row, shown[row, r]] = -np.inf
            for i in range(documents):
                top = weights[row, i] if weights[row, i] > top else top
            _weigh_row(weights, weights, sums, row, documents, top)
            # `decay` gave the documents that were taken a small weight again.
            for r in range(rank):
                take(weights, sums, row, shown[row, r])
            pool.tails[row] = _left(sums, row, pool.lasts[row])
            pool.drawn[0, row] = np.nan


@uncounted
def draw(pool: SamplingBuffers, rows: int, u: Floats, column: int, shown: Ints) -> None:
    """Fill the first rows of `shown` (rows, k) with lists; number u[r, column + row] decides on rank r.

    Scores, sizes and tops of the pool are given. Where the documents left weigh next to nothing compared with
    those taken, weights are computed again relative to their own maximum: any spread of scores is right.
    """
    weigh(pool, rows)
    sizes, tails = pool.sizes, pool.tails
    for rank in range(shown.shape[1]):
        faded = False
        for row in range(rows):
            if rank < sizes[row]:
                number = u[unsigned(rank), unsigned(column + row)]
                _draw_one(pool, row, number * tails[row], shown, rank)
                faded |= (not tails[row] >= _FADED) & (rank + 1 < sizes[row])
            else:
                shown[row, unsigned(rank)] = -1
                pool.drawn[unsigned(rank), unsigned(row)] = 0.0
        if faded:
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
        pool.tails[row] = _left(sums, row, pool.lasts[row])


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
