"""Lists sampled from Plackett-Luce without replacement: the distribution function inverted block by block.

A pool holds the weights exp(score - maximum) of the documents of some queries, a row each, and the
sums of blocks of them. Drawing takes turns over the rows of a pool, so that the processor works on
several lists at once, and chooses without branches where it can.

Here and in related kernels a row is named by its number and never cut out of its array: every view counts
references, which costs more than the arithmetic.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .elementary import decay
from .jit import Floats, Ints, inlined, kernel, uncounted, unsigned
from .philox import fill_uniforms
from .threads import in_parts

_BLOCK = 8  # documents whose weights are summed together: drawing looks at N / 8 sums and 8 weights
_CLIENTS = 32  # of one part: less work is done before a thread has started
_FADED = 1e-200  # below this sum weights are made relative to a new maximum, long before they underflow


class SamplingBuffers(NamedTuple):
    """Memory for some lists.

    Attributes:
        scores: of the candidates, (rows, whole blocks of documents).
        weights: exp(score - maximum), 0 for a document that was taken and at the padding.
        sums: of blocks of weights, (rows, blocks).
        sizes: number of documents of each row, (rows,).
        tops: highest score of each row, (rows,).
        drawn: weight that each shown document was drawn with, (rows, k); the first is NaN where
            weights were taken relative to a new maximum, so that they cannot be compared.
        tails: weight of the documents that are not shown, (rows,).
        scratch, sides: of the coefficients of one list, (k + 4, k + 1) and int64 (2, k + 1).
    """

    scores: Floats
    weights: Floats
    sums: Floats
    sizes: Ints
    tops: Floats
    drawn: Floats
    tails: Floats
    scratch: Floats
    sides: Ints


def empty_pool(rows: int, longest: int, k: int) -> SamplingBuffers:
    """A pool for queries of up to `longest` documents and lists of k."""
    blocks = (longest + _BLOCK - 1) // _BLOCK
    return SamplingBuffers(
        np.zeros((rows, blocks * _BLOCK)),
        np.empty((rows, blocks * _BLOCK)),
        np.empty((rows, blocks)),
        np.zeros(rows, dtype=np.int64),
        np.zeros(rows),
        np.empty((rows, k)),
        np.zeros(rows),
        np.empty((k + 4, k + 1)),
        np.empty((2, k + 1), dtype=np.int64),
    )


new_pool = kernel(empty_pool)
"""`empty_pool` for kernels."""


@inlined
def _block_sum(weights: Floats, row: int, first: int) -> float:
    """The sum of a block in one fixed order."""
    a = weights[row, unsigned(first)] + weights[row, unsigned(first + 1)]
    b = weights[row, unsigned(first + 2)] + weights[row, unsigned(first + 3)]
    c = weights[row, unsigned(first + 4)] + weights[row, unsigned(first + 5)]
    d = weights[row, unsigned(first + 6)] + weights[row, unsigned(first + 7)]
    return float((a + b) + (c + d))


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
def _weigh_row(scores: Floats, weights: Floats, sums: Floats, row: int, documents: int, top: float) -> None:
    blocks = (documents + _BLOCK - 1) // _BLOCK
    # Whole blocks, which fill wide registers; scores at the padding are those of an earlier query.
    for i in range(blocks * _BLOCK):
        # `decay` stays above 0 however low a score is: a weight of 0 means that a document was taken.
        weight = decay(scores[row, i] - top)
        weights[row, i] = weight if i < documents else 0.0
    for block in range(blocks):
        sums[row, block] = _block_sum(weights, row, block * _BLOCK)


@uncounted
def weigh(pool: SamplingBuffers, rows: int) -> None:
    """Weights of all documents of the first rows, the sums of their blocks, and of all of them."""
    scores, weights, sums, sizes, tops, _, tails, _, _ = pool
    for row in range(rows):
        _weigh_row(scores, weights, sums, row, sizes[row], tops[row])
        tails[row] = total(sums, row, sizes[row])


@inlined
def total(sums: Floats, row: int, documents: int) -> float:
    """The weight of all documents left in a row."""
    left = 0.0
    for block in range((documents + _BLOCK - 1) // _BLOCK):
        left += sums[row, block]
    return left


@inlined
def take(weights: Floats, sums: Floats, row: int, i: int) -> None:
    """Remove a document; its block is summed again: subtracting would leave a rounding error behind."""
    weights[row, i] = 0.0
    block = i // _BLOCK
    sums[row, block] = _block_sum(weights, row, block * _BLOCK)


@inlined
def _last_left(weights: Floats, row: int, documents: int) -> int:
    """The last document left, for draws whose target rounding moved past the end."""
    found = 0
    for i in range(documents):
        found = i if weights[row, i] != 0.0 else found
    return found


@inlined
def _find(weights: Floats, sums: Floats, row: int, documents: int, target: float) -> tuple[int, int]:
    """The first document whose running sum of weights exceeds the target: its block, and its place in it."""
    running, before, block = 0.0, 0.0, 0
    # The last block is not tested, nor the last document of a block below: where rounding moved the target
    # past the end, the last one is taken.
    for i in range((documents + _BLOCK - 1) // _BLOCK - 1):
        running += sums[row, i]
        passed = running <= target
        block += passed
        before = running if passed else before
    target -= before
    first = block * _BLOCK
    running, inside = 0.0, 0
    for i in range(_BLOCK - 1):
        running += weights[row, unsigned(first + i)]
        inside += running <= target
    return block, inside


@inlined
def _but(weights: Floats, row: int, first: int, place: int, taken: int) -> float:
    """A weight of a block; 0 if it is that of the document that is taken."""
    weight = weights[row, unsigned(first + place)]  # read in any case: a branch would often be guessed wrong
    return 0.0 if place == taken else weight


@inlined
def _take_at(weights: Floats, sums: Floats, row: int, block: int, inside: int, documents: int) -> float:
    """Remove a document; the weight of all that are left in its row."""
    first = block * _BLOCK
    # In the order of `_block_sum`. Reading a block right after a store to one of its numbers would wait until
    # that has reached the cache: the 0 is put in on the way and stored last.
    a = (_but(weights, row, first, 0, inside) + _but(weights, row, first, 1, inside)) + (
        _but(weights, row, first, 2, inside) + _but(weights, row, first, 3, inside)
    )
    b = (_but(weights, row, first, 4, inside) + _but(weights, row, first, 5, inside)) + (
        _but(weights, row, first, 6, inside) + _but(weights, row, first, 7, inside)
    )
    mine = a + b
    left = 0.0
    for i in range((documents + _BLOCK - 1) // _BLOCK):
        other = sums[row, i]
        left += mine if i == block else other
    weights[row, unsigned(first + inside)] = 0.0
    sums[row, unsigned(block)] = mine
    return left


@kernel
def _weigh_faded(pool: SamplingBuffers, shown: Ints, rank: int, rows: int) -> None:
    """Compute the weights of faded rows again, relative to the maximum of the documents left."""
    for row in range(rows):
        if not pool.tails[row] >= _FADED:
            documents = pool.sizes[row]
            width = pool.scores.shape[1]
            rest, top = np.empty((1, width)), -np.inf
            for i in range(width):
                rest[0, i] = pool.scores[row, i]
            for r in range(rank):
                rest[0, shown[row, r]] = -np.inf
            for i in range(documents):
                top = rest[0, i] if rest[0, i] > top else top
            weights, sums = pool.weights[row : row + 1], pool.sums[row : row + 1]
            _weigh_row(rest, weights, sums, 0, documents, top)
            # `decay` gave the documents that were taken a small weight again.
            for r in range(rank):
                take(weights, sums, 0, shown[row, r])
            pool.tails[row] = total(sums, 0, documents)
            pool.drawn[row, 0] = np.nan


@inlined
def _draw_rank(
    weights: Floats,
    sums: Floats,
    sizes: Ints,
    drawn: Floats,
    tails: Floats,
    u: Floats,
    column: int,
    shown: Ints,
    rank: int,
    rows: int,
) -> bool:
    """Draw the document of one rank of every row; whether some row has faded then."""
    faded = False
    for row in range(rows):
        documents = sizes[row]
        if rank < documents:
            block, inside = _find(weights, sums, row, documents, u[rank, column + row] * tails[row])
            weight = weights[row, unsigned(block * _BLOCK + inside)]
            if not weight > 0.0:  # rounding led to a document that was taken
                i = _last_left(weights, row, documents)
                block, inside, weight = i // _BLOCK, i % _BLOCK, weights[row, i]
            shown[row, rank] = block * _BLOCK + inside
            drawn[row, rank] = weight
            left = _take_at(weights, sums, row, block, inside, documents)
            tails[row] = left
            faded |= (not left >= _FADED) & (rank + 1 < documents)
        else:
            shown[row, rank] = -1
    return faded


@uncounted
def draw(pool: SamplingBuffers, rows: int, u: Floats, column: int, shown: Ints) -> None:
    """Fill the first rows of `shown` (rows, k) with lists; number u[r, column + row] decides on rank r.

    Scores, sizes and tops of the pool are given. Where the documents left weigh next to nothing compared
    with those taken, weights are computed again relative to their own maximum: any spread of scores is right.
    """
    weigh(pool, rows)
    _, weights, sums, sizes, _, drawn, tails, _, _ = pool
    for rank in range(shown.shape[1]):
        if _draw_rank(weights, sums, sizes, drawn, tails, u, column, shown, rank, rows):
            _weigh_faded(pool, shown, rank + 1, rows)


def sampled_lists(
    scores: Floats, starts: Ints, k: int, first: int, clients: Ints, round_: int, purpose: int, key: np.uint64
) -> Ints:
    """Up to k positions a client, sampled from Plackett-Luce without replacement; (C, k), padded with -1.

    Number `first + r` of a client's stream goes to rank r.
    """
    shown = np.empty((clients.size, k), dtype=np.int64)
    given = (scores, starts, first, clients, round_, purpose, key, shown)
    in_parts(lambda begin, end: fill_sampled_lists(*given, begin, end), clients.size, _CLIENTS)
    return shown


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
        u, numbers = np.empty((1, k + 2 - k % 2)), np.empty((k, 1))
        fill_uniforms(u, 0, u.shape[1], first // 2, clients[c], round_, purpose, key)
        for rank in range(k):
            numbers[rank, 0] = u[0, first % 2 + rank]
        draw(pool, 1, numbers, 0, shown[c : c + 1])
