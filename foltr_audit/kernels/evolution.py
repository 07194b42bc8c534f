"""Evolution strategies: perturbations of a model, lists and clicks of clients with it, and a weighted sum.

A perturbation is a pure function of its seed, which is public: the seed is the key of a random stream of
its own. It never enters a list's query or a user's clicks; these come from the streams of the experiment.

Source: Salimans et al. 2017, "Evolution strategies as a scalable alternative to reinforcement learning",
section 2; Kharitonov 2019, "Federated online learning to rank with evolution strategies", section 4.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foltr_audit.kernels.philox import fill_columns, fill_normals

from .cascade import click_group
from .jit import Bools, Floats, Ints, inlined, kernel, read_only, uncounted, unsigned
from .ranking import Features, TieStream, fill_products, first_of_equals
from .threads import filled, in_parts

Seeds = NDArray[np.uint64]

# Clients whose perturbations are summed together, in their order. It is a part of the result: another number
# changes the order of the sums, and so their last bits.
_CHUNK = 32
_PLAYED = 16  # clients that one thread plays in a row; their number changes no byte
_WIDE = 64  # normal numbers that are made at once at least: their loops then fill wide registers
_BLOCK = 8  # documents whose highest score is stored, so that taking the best one looks at blocks only
_LIST_LENGTH = 10  # documents in a shown list


@kernel
def _room_for(size: int) -> Floats:
    """Memory for the first normal numbers of a seed, (1, at least `size`)."""
    return np.empty((1, (size + _WIDE - 1) // _WIDE * _WIDE))


@kernel
def _fill_from_seed(out: Floats, seed: np.uint64) -> None:
    """Fill `out` (1, even) with the first standard normal numbers of a seed."""
    fill_normals(out, 0, out.shape[1], 0, 0, 0, 0, seed)


def seed_normals(seeds: Seeds, size: int) -> Floats:
    """The first standard normal numbers of each seed (C,), shape (C, size)."""
    return filled(np.empty((seeds.size, size)), _CHUNK, fill_seed_normals, seeds)


@kernel
def fill_seed_normals(seeds: Seeds, out: Floats, begin: int, end: int) -> None:
    """Fill out[begin:end] of `seed_normals`."""
    size = out.shape[1]
    drawn = _room_for(size)
    for c in range(begin, end):
        _fill_from_seed(drawn, seeds[c])
        for j in range(size):
            out[c, j] = drawn[0, j]


def weighted_normals(seeds: Seeds, weights: Floats, size: int) -> Floats:
    """`sum_c weights[c] seed_normals(seeds, size)[c]`, shape (size,); weights of 0 draw nothing.

    Clients are summed in chunks of fixed size, and the chunks in their order: the same bytes for any
    number of threads.
    """
    chunks = -(-seeds.size // _CHUNK)
    total = np.zeros(size)
    for part in filled(np.zeros((chunks, size)), 1, add_weighted_normals, seeds, weights):
        total += part
    return total


@kernel
def add_weighted_normals(seeds: Seeds, weights: Floats, sums: Floats, begin: int, end: int) -> None:
    """Fill sums[begin:end] (chunks, size), zeros at first, with those of the chunks of `weighted_normals`."""
    size = sums.shape[1]
    drawn = _room_for(size)
    for part in range(begin, end):
        for c in range(part * _CHUNK, min((part + 1) * _CHUNK, seeds.size)):
            if weights[c] != 0.0:
                _fill_from_seed(drawn, seeds[c])
                for j in range(size):
                    sums[part, j] += weights[c] * drawn[0, j]


class EvolutionQueries(NamedTuple):
    """The data and click model of the users of a round: query q owns rows offsets[q] .. offsets[q+1]-1.

    Attributes:
        features: of all documents, (documents, P).
        grades: of each document, for one click model and intent after the other.
        offsets: first row of each query, int64 (queries + 1,).
        click, stop: P(click | grade) and P(stop | click, grade), float64 (G,).
        round, purpose, key: names of the random numbers of clicks.
        ties: which documents with equal scores come first.
    """

    features: Features
    grades: NDArray[np.int8]
    offsets: Ints
    click: Floats
    stop: Floats
    round: int
    purpose: int
    key: np.uint64
    ties: TieStream


class GroupBuffers(NamedTuple):
    """Memory for one list of each client of a group.

    Attributes:
        models: a perturbed and a mirrored model per client, (2 rows, P); the mirrored ones come last.
        scores: of a query's candidates, -inf at the padding, (rows, whole blocks of documents).
        tops: highest score of each block, (rows, blocks).
        sizes: number of candidates, (rows,).
    """

    models: Floats
    scores: Floats
    tops: Floats
    sizes: Ints


@kernel
def _new_pool(rows: int, longest: int, parameters: int) -> GroupBuffers:
    blocks = (longest + _BLOCK - 1) // _BLOCK
    return GroupBuffers(
        np.empty((2 * rows, parameters)),
        np.empty((rows, blocks * _BLOCK)),
        np.empty((rows, blocks)),
        np.empty(rows, dtype=np.int64),
    )


@kernel
def _perturb_group(parameters: Floats, seeds: Seeds, sigma: float, models: Floats) -> None:
    """Fill `models` (2 rows, P) with the perturbed and then the mirrored models of some seeds (rows,)."""
    P, rows = parameters.size, seeds.size
    drawn = _room_for(P)
    for row in range(rows):
        _fill_from_seed(drawn, seeds[row])
        for j in range(P):
            move = sigma * drawn[0, j]
            models[row, j] = parameters[j] + move
            models[rows + row, j] = parameters[j] - move


@inlined
def _top(scores: Floats, row: int, first: int) -> float:
    """The highest score of a block."""
    top = scores[unsigned(row), unsigned(first)]
    for i in range(1, _BLOCK):
        score = scores[unsigned(row), unsigned(first + i)]
        top = score if score > top else top
    return float(top)


@uncounted
def _score_group(
    features: Features, offsets: Ints, queries: Ints, step: int, mirrored_from: Ints, pool: GroupBuffers
) -> None:
    """Scores of the candidates of queries[:, step] under each client's perturbed or mirrored model."""
    models, scores, tops, sizes = pool
    rows = queries.shape[0]
    for row in range(rows):
        query = max(queries[row, step], 0)
        first = offsets[query]
        documents = offsets[query + 1] - first if queries[row, step] >= 0 else 0
        sizes[row] = documents
        model = row + (rows if step >= mirrored_from[row] else 0)
        fill_products(features, first, documents, models, model, scores, row, 0)
        blocks = (documents + _BLOCK - 1) // _BLOCK
        for i in range(documents, blocks * _BLOCK):
            scores[row, i] = -np.inf
        for block in range(blocks):
            tops[row, block] = _top(scores, row, block * _BLOCK)


@inlined
def _best_block(tops: Floats, row: int, blocks: int) -> tuple[int, float, int]:
    """The block with the highest score, of equal ones the first, that score, and how many others have it."""
    block, top, others = 0, tops[unsigned(row), unsigned(0)], 0
    for other in range(1, blocks):
        score = tops[unsigned(row), unsigned(other)]
        others = 0 if score > top else others + (score == top)
        block = other if score > top else block
        top = score if score > top else top
    return block, top, others


@inlined
def _take_best(scores: Floats, tops: Floats, row: int, blocks: int, query: int, ties: TieStream) -> int:
    """The position of the highest score, which is then -inf."""
    block, top, equals = _best_block(tops, row, blocks)
    first, inside = block * _BLOCK, 0
    # From the back, so that the last match is the first position; without a branch that depends on scores.
    for i in range(_BLOCK - 1, -1, -1):
        same = scores[unsigned(row), unsigned(first + i)] == top
        inside = i if same else inside
        equals += same
    if equals > 1 and ties.drawn:
        best = first_of_equals(scores[row, : blocks * _BLOCK], top, query, ties)
        block, inside = best // _BLOCK, best % _BLOCK
        first = block * _BLOCK
    rest = -np.inf
    # Reading the block right after the store would wait until that has reached the cache: it comes last.
    for i in range(_BLOCK):
        score = scores[unsigned(row), unsigned(first + i)]
        score = -np.inf if i == inside else score
        rest = score if score > rest else rest
    scores[unsigned(row), unsigned(first + inside)] = -np.inf
    tops[unsigned(row), unsigned(block)] = rest
    return first + inside


@uncounted
def _rank_group(pool: GroupBuffers, rows: int, shown: Ints, queries: Ints, ties: TieStream) -> None:
    """Fill `shown` (rows, k) with the best-scored positions, -1 at its padding; their scores are lost."""
    _, scores, tops, sizes = pool
    # Rows take turns: while one waits for a chain of comparisons the processor works on the next.
    for rank in range(shown.shape[1]):
        for row in range(rows):
            documents = sizes[row]
            if rank < documents:
                blocks = (documents + _BLOCK - 1) // _BLOCK
                shown[row, rank] = _take_best(scores, tops, row, blocks, queries[row], ties)
            else:
                shown[row, rank] = -1


@kernel
def _play_group(
    searches: EvolutionQueries,
    queries: Ints,
    lifts: Ints,
    clients: Ints,
    mirrored_from: Ints,
    pool: GroupBuffers,
    all_shown: Ints,
    all_clicks: Bools,
) -> None:
    """All interactions of a few clients; those from `mirrored_from` (rows,) on at the mirrored model."""
    (rows, steps), k = queries.shape, all_shown.shape[2]
    features, labels, offsets, click, stop, round_, purpose, key, ties = searches
    shown, grades = np.empty((rows, k), dtype=np.int64), np.empty((rows, k), dtype=np.int64)
    clicks, u = np.empty((rows, k), dtype=np.bool_), np.empty((2 * k, rows))
    firsts, blocks = np.empty(rows, dtype=np.int64), np.empty(rows, dtype=np.int64)
    for step in range(steps):
        _score_group(features, offsets, queries, step, mirrored_from, pool)
        _rank_group(pool, rows, shown, queries[:, step], ties)
        for row in range(rows):
            firsts[row] = lifts[row, step] + offsets[max(queries[row, step], 0)]
            blocks[row] = k * step
        fill_columns(u, 2 * k, blocks, clients, rows, round_, purpose, key)
        click_group(labels, firsts, click, stop, shown, rows, u, 0, grades, clicks)
        all_shown[:, step] = shown
        all_clicks[:, step] = clicks


@kernel
def play_perturbed_rows(
    searches: EvolutionQueries,
    queries: Ints,
    lifts: Ints,
    clients: Ints,
    parameters: Floats,
    seeds: Seeds,
    sigma: float,
    mirrored_from: Ints,
    shown: Ints,
    clicks: Bools,
    begin: int,
    end: int,
) -> None:
    """Rows begin .. end - 1 of `play_perturbed`, some clients at a time."""
    for first in range(begin, end, _PLAYED):
        last = min(first + _PLAYED, end)
        longest = 1
        for c in range(first, last):
            for asked in queries[c]:
                query = max(asked, 0)
                longest = max(longest, int(searches.offsets[query + 1] - searches.offsets[query]))
        pool = _new_pool(last - first, longest, parameters.size)
        _perturb_group(parameters, seeds[first:last], sigma, pool.models)
        _play_group(
            searches,
            queries[first:last],
            lifts[first:last],
            clients[first:last],
            mirrored_from[first:last],
            pool,
            shown[first:last],
            clicks[first:last],
        )


def play_perturbed(
    searches: EvolutionQueries,
    queries: Ints,
    lifts: Ints,
    clients: Ints,
    parameters: Floats,
    seeds: Seeds,
    sigma: float,
    antithetic: bool,
) -> tuple[Ints, Bools]:
    """Lists in score order of the perturbed linear models, and cascade clicks on them.

    Client c asks queries[c] at `parameters + sigma z` where z are the normal numbers of its seed; with
    `antithetic` the later half of those, rounded down, at `parameters - sigma z`. Numbers
    2 k step + 2 r and one more of its stream of clicks decide on rank r.

    Args:
        searches: the data and the click model.
        queries: int64 (C, B), padded with -1.
        lifts: where in the grades of `searches` the grades of each interaction begin, int64 (C, B).
        clients: ids that name the streams of clicks, int64 (C,).
        parameters: the global model, finite, float64 (P,).
        seeds: uint64 (C,).
        sigma: standard deviation of a perturbation.
        antithetic: whether models are mirrored.

    Returns:
        Shown lists, int64 (C, B, 10), padded with -1, and clicks, bool (C, B, 10).
    """
    C, B = queries.shape
    shown = np.empty((C, B, _LIST_LENGTH), dtype=np.int64)
    clicks = np.empty((C, B, _LIST_LENGTH), dtype=np.bool_)
    asked = (queries >= 0).sum(axis=1)
    mirrored_from = (asked + 1) // 2 if antithetic else np.full(C, B)
    named, model = read_only(clients), read_only(parameters)
    given = (searches, queries, lifts, named, model, seeds, sigma, mirrored_from, shown, clicks)
    in_parts(lambda begin, end: play_perturbed_rows(*given, begin, end), C, _PLAYED)
    return shown, clicks
