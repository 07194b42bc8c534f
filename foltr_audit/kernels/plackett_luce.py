"""Lists sampled from Plackett-Luce without replacement: the distribution function inverted block by block.

A pool holds the weights exp(score - maximum) of the documents of some queries, a row each, the sums of
blocks of them, and the running sums up to each block. Drawing takes turns over the rows of a pool, so that
the processor works on several lists at once, and chooses without branches where it can.

Here and in related kernels a row is named by its number and never cut out of its array: every view counts
references, which costs more than the arithmetic.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from .elementary import decay
from .jit import Floats, Ints, inlined, inner, kernel, parallel_kernel, unsigned
from .philox import fill_uniforms

_BLOCK = 8  # documents whose weights are summed together: drawing looks at N / 8 sums and 8 weights
_FADED = 1e-200  # below this sum weights are made relative to a new maximum, long before they underflow


class SamplingBuffers(NamedTuple):
    """Memory for some lists.

    Attributes:
        scores: of the candidates, (rows, whole blocks of documents).
        weights: exp(score - maximum), 0 for a document that was taken and at the padding.
        sums: of blocks of weights, (rows, whole eights of blocks); 0 behind the last block.
        before: weight of all documents before each block, of the same shape.
        sizes: number of documents of each row, (rows,).
        tops: highest score of each row, (rows,).
        drawn: weight that each shown document was drawn with, (rows, k); the first is NaN where
            weights were taken relative to a new maximum, so that they cannot be compared.
        tails: weight of the documents that are not shown, (rows,).
        blocks, places, targets: of the document that is being drawn in each row: its block, its position, and
            the running sum of weights inside the block that it is the first to exceed, (rows,) each.
        scratch, sides: of the coefficients of one list, (k + 4, k + 1) and int64 (2, k + 1).
    """

    scores: Floats
    weights: Floats
    sums: Floats
    before: Floats
    sizes: Ints
    tops: Floats
    drawn: Floats
    tails: Floats
    blocks: Ints
    places: Ints
    targets: Floats
    scratch: Floats
    sides: Ints


@kernel
def new_pool(rows: int, longest: int, k: int) -> SamplingBuffers:
    """A pool for queries of up to `longest` documents and lists of k."""
    blocks = (longest + _BLOCK - 1) // _BLOCK
    eights = (blocks + _BLOCK - 1) // _BLOCK
    return SamplingBuffers(
        np.zeros((rows, blocks * _BLOCK)),
        np.empty((rows, blocks * _BLOCK)),
        np.empty((rows, eights * _BLOCK)),
        np.empty((rows, eights * _BLOCK)),
        np.zeros(rows, dtype=np.int64),
        np.zeros(rows),
        np.empty((rows, k)),
        np.zeros(rows),
        np.empty(rows, dtype=np.int64),
        np.empty(rows, dtype=np.int64),
        np.empty(rows),
        np.empty((k + 4, k + 1)),
        np.empty((2, k + 1), dtype=np.int64),
    )


@inlined
def _block_sum(weights: Floats, row: int, first: int) -> float:
    """The sum of a block in one fixed order."""
    a = weights[row, unsigned(first)] + weights[row, unsigned(first + 1)]
    b = weights[row, unsigned(first + 2)] + weights[row, unsigned(first + 3)]
    c = weights[row, unsigned(first + 4)] + weights[row, unsigned(first + 5)]
    d = weights[row, unsigned(first + 6)] + weights[row, unsigned(first + 7)]
    return float((a + b) + (c + d))


@inner
def put_scores(pool: SamplingBuffers, scores: Floats) -> None:
    """The candidates of a query (N,) as the pool's first row."""
    pool.sizes[0] = scores.size
    pool.tops[0] = scores.max()
    for i in range(scores.size):
        pool.scores[0, i] = scores[i]


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
    for block in range(blocks, sums.shape[1]):
        sums[row, block] = 0.0


@inner
def weigh(pool: SamplingBuffers, rows: int) -> None:
    """Weights of all documents of the first rows, and the sums of their blocks."""
    scores, weights, sums, sizes, tops = pool.scores, pool.weights, pool.sums, pool.sizes, pool.tops
    for row in range(rows):
        _weigh_row(scores, weights, sums, row, sizes[row], tops[row])


@inlined
def _run_up_eight(sums: Floats, before: Floats, row: int, first: int, left: float) -> float:
    """Fill in the running sums of eight blocks, from the weight before them; the weight up to their end."""
    # Written out: the processor would often guess wrong how many blocks of each row there are.
    before[row, unsigned(first)] = left
    left += sums[row, unsigned(first)]
    before[row, unsigned(first + 1)] = left
    left += sums[row, unsigned(first + 1)]
    before[row, unsigned(first + 2)] = left
    left += sums[row, unsigned(first + 2)]
    before[row, unsigned(first + 3)] = left
    left += sums[row, unsigned(first + 3)]
    before[row, unsigned(first + 4)] = left
    left += sums[row, unsigned(first + 4)]
    before[row, unsigned(first + 5)] = left
    left += sums[row, unsigned(first + 5)]
    before[row, unsigned(first + 6)] = left
    left += sums[row, unsigned(first + 6)]
    before[row, unsigned(first + 7)] = left
    return float(left + sums[row, unsigned(first + 7)])


@inlined
def _run_up(sums: Floats, before: Floats, row: int, documents: int) -> float:
    """Fill in the running sums of a row; the weight of all documents left in it."""
    left = 0.0
    for first in range(0, (documents + _BLOCK - 1) // _BLOCK, _BLOCK):
        left = _run_up_eight(sums, before, row, first, left)
    return left


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
def _passed(before: Floats, row: int, first: int, target: float) -> int:
    """How many of eight blocks begin at or before the target."""
    # Written out: a loop over so few would be cut in two, one of wide registers and one of single numbers.
    passed = 0
    passed += before[row, unsigned(first)] <= target
    passed += before[row, unsigned(first + 1)] <= target
    passed += before[row, unsigned(first + 2)] <= target
    passed += before[row, unsigned(first + 3)] <= target
    passed += before[row, unsigned(first + 4)] <= target
    passed += before[row, unsigned(first + 5)] <= target
    passed += before[row, unsigned(first + 6)] <= target
    return int(passed + (before[row, unsigned(first + 7)] <= target))


@inlined
def _find_blocks(pool: SamplingBuffers, rows: int, rank: int, u: Floats, number: int) -> None:
    """The block of every row's next document, and what is left of its target inside that block."""
    before, sizes, tails, blocks, targets = pool.before, pool.sizes, pool.tails, pool.blocks, pool.targets
    for row in range(rows):
        if rank < sizes[row]:
            target, count, passed = u[row, number] * tails[row], (sizes[row] + _BLOCK - 1) // _BLOCK, 0
            for first in range(0, count, _BLOCK):
                passed += _passed(before, row, first, target)
            # Where rounding moved the target past the end, the last block; none passes what is not a number.
            block = min(max(passed - 1, 0), count - 1)
            blocks[row] = block
            targets[row] = target - before[row, unsigned(block)]


@inlined
def _find_places(pool: SamplingBuffers, rows: int, rank: int) -> None:
    """The place in its block of every row's next document: the first whose running sum exceeds the target."""
    weights, sizes, blocks, places, targets = (
        pool.weights,
        pool.sizes,
        pool.blocks,
        pool.places,
        pool.targets,
    )
    for row in range(rows):
        if rank < sizes[row]:
            first, target = blocks[row] * _BLOCK, targets[row]
            running, inside = 0.0, 0
            for i in range(_BLOCK - 1):  # past the end it is the last one, as with blocks
                running += weights[row, unsigned(first + i)]
                inside += running <= target
            places[row] = first + inside


@inlined
def _take_weights(pool: SamplingBuffers, rows: int, rank: int, shown: Ints) -> None:
    """Show every row's next document, keep the weight that it was drawn with, and remove it."""
    weights, sizes, drawn, blocks, places = pool.weights, pool.sizes, pool.drawn, pool.blocks, pool.places
    for row in range(rows):
        if rank < sizes[row]:
            i = places[row]
            weight = weights[row, unsigned(i)]
            if not weight > 0.0:  # rounding led to a document that was taken
                i = _last_left(weights, row, sizes[row])
                weight, blocks[row] = weights[row, i], i // _BLOCK
            shown[row, rank] = i
            drawn[row, rank] = weight
            weights[row, unsigned(i)] = 0.0
        else:
            shown[row, rank] = -1


@inlined
def _sum_blocks(pool: SamplingBuffers, rows: int, rank: int) -> None:
    """Sum the block of every row again whose document was taken."""
    weights, sums, sizes, blocks = pool.weights, pool.sums, pool.sizes, pool.blocks
    for row in range(rows):
        if rank < sizes[row]:
            sums[row, unsigned(blocks[row])] = _block_sum(weights, row, blocks[row] * _BLOCK)


@inlined
def _run_up_rows(pool: SamplingBuffers, rows: int, rank: int) -> bool:
    """Running sums of all rows, and what is left of each; whether one of more than `rank` documents faded."""
    sums, before, sizes, tails = pool.sums, pool.before, pool.sizes, pool.tails
    faded = False
    for row in range(rows):
        left = _run_up(sums, before, row, sizes[row])
        tails[row] = left
        faded |= (not left >= _FADED) & (rank < sizes[row])
    return faded


@kernel
def _weigh_faded(pool: SamplingBuffers, shown: Ints, rank: int, rows: int) -> None:
    """Compute the weights of faded rows again, relative to the maximum of the documents left."""
    for row in range(rows):
        if not pool.tails[row] >= _FADED:
            documents = pool.sizes[row]
            rest = pool.scores[row : row + 1].copy()
            for r in range(rank):
                rest[0, shown[row, r]] = -np.inf
            weights, sums = pool.weights[row : row + 1], pool.sums[row : row + 1]
            _weigh_row(rest, weights, sums, 0, documents, rest[0, :documents].max())
            # `decay` gave the documents that were taken a small weight again.
            for r in range(rank):
                take(weights, sums, 0, shown[row, r])
            pool.tails[row] = _run_up(sums, pool.before[row : row + 1], 0, documents)
            pool.drawn[row, 0] = np.nan


@kernel
def draw(pool: SamplingBuffers, rows: int, u: Floats, ahead: int, shown: Ints) -> None:
    """Fill the first rows of `shown` (rows, k) with lists; number u[row, ahead + r] decides on rank r.

    Scores, sizes and tops of the pool are given. Where the documents left weigh next to nothing compared
    with those taken, weights are computed again relative to their own maximum: any spread of scores is right.
    """
    weigh(pool, rows)
    _run_up_rows(pool, rows, 0)
    # Stage by stage for all rows: inside a row each step waits for the one before, and a number that was just
    # stored cannot be read at once as a part of a wide register. The rows in between pass that time.
    for rank in range(shown.shape[1]):
        _find_blocks(pool, rows, rank, u, ahead + rank)
        _find_places(pool, rows, rank)
        _take_weights(pool, rows, rank, shown)
        _sum_blocks(pool, rows, rank)
        if _run_up_rows(pool, rows, rank + 1):
            _weigh_faded(pool, shown, rank + 1, rows)


@parallel_kernel
def sampled_lists(
    scores: Floats, starts: Ints, k: int, first: int, clients: Ints, round_: int, purpose: int, key: np.uint64
) -> Ints:
    """Up to k positions a client, sampled from Plackett-Luce without replacement; (C, k), padded with -1.

    Number `first + r` of a client's stream goes to rank r.
    """
    shown = np.empty((clients.size, k), dtype=np.int64)
    for c in numba.prange(clients.size):
        documents = starts[c + 1] - starts[c]
        pool = new_pool(1, documents, k)
        put_scores(pool, scores[starts[c] : starts[c + 1]])
        u = np.empty((1, k + 2 - k % 2))
        fill_uniforms(u, 0, u.shape[1], first // 2, clients[c], round_, purpose, key)
        draw(pool, 1, u, first % 2, shown[c : c + 1])
    return shown
