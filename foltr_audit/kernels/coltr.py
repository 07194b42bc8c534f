"""Counterfactual online learning to rank with the linear ranker, one interaction after the other.

A list shown by the current ranker f is reused to evaluate many candidate rankers g at once. A document's
importance weight is softmax(g) / softmax(f) over all candidates of its query. A candidate's
estimate does not change when all of its weights are multiplied by one number, so the sums of both softmaxes
drop out and exp(g - f) of the shown documents remains: `step` times features times a unit vector.

Where no shown document has a cost, the estimate and its variance are 0 for every ranker, and none
is below the current one: no direction is drawn then.

Source: Zhuang & Zuccon 2020, "Counterfactual online learning to rank", section 3.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .directions import LANES, fill_directions
from .elementary import decay, power
from .jit import Bools, Floats, Ints, inlined, kernel
from .plackett_luce import SamplingBuffers, draw, new_pool
from .ranking import fill_products
from .register_tiles import add_products
from .users import UserInteractions, UserQueries, UserStreamKeys, click_list, show_numbers

PLACE_BITS, CLIENT_BITS, ROUND_BITS = 10, 22, 21  # of an id: 53 together, exact in float64


class COLTRRules(NamedTuple):
    """Learning rate and its decay, weight of the variance, temperature of lists, length of a step."""

    learning_rate: float
    decay: float
    gamma: float
    tau: float
    step: float


class CandidateBuffers(NamedTuple):
    """Memory for the M candidates of a d-dimensional model, in tiles of LANES.

    A candidate stays in its slot, one lane of one tile, as long as it wins; what changes is their order.

    Attributes:
        directions: unit vectors, tile by tile, each (d, LANES), float64 (tiles d LANES,).
        slots: where in `directions` the vector of each place begins, int64 (M,): the last winners' in their
            order, then free ones.
        others: memory for an order of slots, int64 (M,).
        fresh: new unit vectors, (d + d % 2, LANES).
        where: round, client and place that they are drawn from, int64 (3, LANES).
        documents: features of up to k shown documents times the length of a step, (k, d).
        weights: of the documents, (k, LANES).
        wins: by tile and lane, bool (tiles, LANES).
    """

    directions: Floats
    slots: Ints
    others: Ints
    fresh: Floats
    where: Ints
    documents: Floats
    weights: Floats
    wins: Bools


@kernel
def _new_candidates(candidates: int, dimension: int, k: int) -> CandidateBuffers:
    tiles = (candidates + LANES - 1) // LANES
    slots = np.empty(candidates, dtype=np.int64)
    for m in range(candidates):
        slots[m] = m // LANES * dimension * LANES + m % LANES
    return CandidateBuffers(
        np.zeros(tiles * dimension * LANES),
        slots,
        np.empty(candidates, dtype=np.int64),
        np.empty((dimension + dimension % 2, LANES)),
        np.zeros((3, LANES), dtype=np.int64),
        np.empty((k, dimension)),
        np.empty((k, LANES)),
        np.empty((tiles, LANES), dtype=np.bool_),
    )


@kernel
def _place_fresh(candidates: CandidateBuffers, first: int, last: int, names: UserStreamKeys) -> None:
    """Draw the unit vectors named by candidates.where and put them to the places first .. last - 1."""
    directions, slots, fresh = candidates.directions, candidates.slots, candidates.fresh
    dimension = candidates.documents.shape[1]
    fill_directions(fresh, candidates.where, last - first, dimension, names.direction, names.key)
    # Unsigned numbers of places: signed ones may count from the end, which a loop over them has to ask.
    for j in range(dimension):
        row = directions[j * LANES :]
        for lane in range(last - first):
            row[np.uint64(slots[np.uint64(first + lane)])] = fresh[np.uint64(j), np.uint64(lane)]


@kernel
def _recall(candidates: CandidateBuffers, state: Floats, names: UserStreamKeys) -> int:
    """Draw the unit vectors of the winners in `state` again; how many there are."""
    M, where = candidates.slots.size, candidates.where
    count = 0
    while count < M and state[1 + count] >= 0.0:
        count += 1
    for first in range(0, count, LANES):
        last = min(first + LANES, count)
        for m in range(first, last):
            number = np.int64(state[1 + m])
            where[0, m - first] = number >> (PLACE_BITS + CLIENT_BITS)
            where[1, m - first] = (number >> PLACE_BITS) & ((1 << CLIENT_BITS) - 1)
            where[2, m - first] = number & ((1 << PLACE_BITS) - 1)
        _place_fresh(candidates, first, last, names)
    return count


@kernel
def _show(
    data: UserQueries,
    names: UserStreamKeys,
    tau: float,
    model: Floats,
    pool: SamplingBuffers,
    query: int,
    client: int,
) -> Ints:
    """A list (1, k) sampled from Plackett-Luce by the scores over tau."""
    first, k = data.offsets[query], pool.drawn.shape[0]
    pool.sizes[0] = data.offsets[query + 1] - first
    pool.tops[0] = -np.inf
    fill_products(data.features, first, pool.sizes[0], model, 0, pool.scores, 0, 0)
    for i in range(pool.sizes[0]):
        pool.scores[0, i] /= tau
        pool.tops[0] = max(pool.tops[0], pool.scores[0, i])
    shown = np.empty((1, k), dtype=np.int64)
    size = k + k % 2
    draw(pool, 1, show_numbers(names, client, size).reshape(size, 1), 0, shown)
    return shown


@kernel
def _fill_costs(seen: UserInteractions, i: int, costs: Floats) -> tuple[int, bool]:
    """Fill `costs` (k,): 1 if unclicked above the last click, else 0; the list's length, whether any is 1."""
    length, last, some = 0, -1, False
    for rank in range(costs.size):
        length += seen.shown[i, rank] >= 0
        last = rank if seen.clicks[i, rank] else last
    for rank in range(costs.size):
        costly = rank < last and not seen.clicks[i, rank]
        costs[rank] = 1.0 if costly else 0.0
        some |= costly
    return length, some


@inlined
def _pessimistic(
    costly: float, free: float, costly2: float, free2: float, gamma: float, length: int
) -> float:
    """`SNIPS + gamma sqrt(Var / k)` from sums of weights and of their squares, by cost 1 or 0."""
    snips = costly / (costly + free)
    variance = ((1.0 - snips) * (1.0 - snips) * costly2 + snips * snips * free2) / (costly2 + free2)
    return snips + gamma * math.sqrt(variance / length)


@kernel
def _draw_fresh(candidates: CandidateBuffers, kept: int, names: UserStreamKeys, client: int) -> None:
    """New unit vectors for the places behind the last winners."""
    M, where = candidates.slots.size, candidates.where
    for first in range(kept, M, LANES):
        for lane in range(LANES):
            where[0, lane], where[1, lane], where[2, lane] = names.round, client, first + lane
        _place_fresh(candidates, first, min(first + LANES, M), names)


@kernel
def _weigh_tile(candidates: CandidateBuffers, tile: int, length: int) -> None:
    """Fill the weights of `length` documents for the candidates of a tile, the largest of each is 1."""
    documents, weights, d = candidates.documents, candidates.weights, candidates.documents.shape[1]
    weights[:length] = 0.0
    inputs = (tile * d * LANES, LANES)
    add_products(documents, (0, d, 1), candidates.directions, inputs, weights, (0, LANES), d, length, LANES)
    tops = np.full(LANES, -np.inf)
    for rank in range(length):
        for lane in range(LANES):
            tops[lane] = max(tops[lane], weights[rank, lane])
    for rank in range(length):
        # Relative to the largest: the estimate has no unit, and exp cannot overflow.
        for lane in range(LANES):
            weights[rank, lane] = decay(weights[rank, lane] - tops[lane])


@kernel
def _judge_tile(weights: Floats, costs: Floats, gamma: float, wins: Bools) -> None:
    """Mark the candidates of a tile that are below the current ranker, from weights (n, LANES)."""
    length = weights.shape[0]
    sums, ones = np.zeros((4, LANES)), np.zeros(2)
    for rank in range(length):
        row = 0 if costs[rank] > 0.0 else 1
        ones[row] += 1.0
        for lane in range(LANES):
            sums[row, lane] += weights[rank, lane]
            sums[row + 2, lane] += weights[rank, lane] * weights[rank, lane]
    # The current ranker is the candidate that does not move: all of its weights are 1.
    bound = _pessimistic(ones[0], ones[1], ones[0], ones[1], gamma, length)
    for lane in range(LANES):
        mine = _pessimistic(sums[0, lane], sums[1, lane], sums[2, lane], sums[3, lane], gamma, length)
        wins[lane] = mine < bound


@kernel
def _judge(
    data: UserQueries,
    rules: COLTRRules,
    candidates: CandidateBuffers,
    first: int,
    shown: Ints,
    costs: Floats,
) -> None:
    """Mark the candidates that win by the costs of documents `shown` (n,) of the query at row `first`."""
    documents, wins, gamma, n = candidates.documents, candidates.wins, rules.gamma, shown.size
    for rank in range(n):
        for j in range(documents.shape[1]):
            documents[rank, j] = rules.step * data.features[first + shown[rank], j]
    for tile in range(wins.shape[0]):
        _weigh_tile(candidates, tile, n)
        _judge_tile(candidates.weights[:n], costs, gamma, wins[tile])


@kernel
def _step(
    candidates: CandidateBuffers, kept: int, number: int, rate: float, model: Floats, state: Floats
) -> int:
    """Move the model (1, P) by the mean unit vector of the winners and keep them; how many there are.

    `number` is the id of the interaction's place 0. Nothing changes where none won.
    """
    # In place: `count` never passes m, so nothing is overwritten before it is read.
    directions, slots, others, wins = (
        candidates.directions,
        candidates.slots,
        candidates.others,
        candidates.wins,
    )
    M, P = slots.size, model.shape[1]
    count, lost, total = 0, 0, np.zeros(P)
    for m in range(M):
        slot = slots[m]
        if wins[slot // (P * LANES), slot % LANES]:
            state[1 + count] = state[1 + m] if m < kept else np.float64(number + m)
            for j in range(P):
                total[j] += directions[np.uint64(slot + j * LANES)]
            slots[count] = slot
            count += 1
        else:
            others[lost] = slot
            lost += 1
    slots[count:] = others[:lost]
    if count == 0:
        return kept
    for m in range(count, kept):
        state[1 + m] = -1.0
    for j in range(P):
        model[0, j] += rate * (total[j] / count)
    state[0] += 1.0
    return count


@kernel
def play_coltr(
    data: UserQueries,
    names: UserStreamKeys,
    rules: COLTRRules,
    queries: Ints,
    clients: Ints,
    model: Floats,
    state: Floats,
    seen: UserInteractions,
) -> None:
    """All interactions of a round, of clients (N,) with queries (N,); model (1, P) and state change in place.

    Args:
        data: the collection and the click model.
        names: names of the random numbers.
        rules: the learner's settings.
        queries: int64 (N,).
        clients: int64 (N,).
        model: float64 (1, P).
        state: float64 (1 + M,): updates so far, then the ids of the last winners, padded with -1.
            An id is `(round 2^22 + client) 2^10 + place`.
        seen: to fill.
    """
    M, k, longest = state.size - 1, seen.shown.shape[1], 1
    for query in queries:
        longest = max(longest, data.offsets[query + 1] - data.offsets[query])
    pool, candidates, costs = new_pool(1, longest, k), _new_candidates(M, model.shape[1], k), np.empty(k)
    kept = _recall(candidates, state, names)
    for i in range(queries.size):
        first, client = data.offsets[queries[i]], clients[i]
        seen.shown[i] = _show(data, names, rules.tau, model, pool, queries[i], client)[0]
        click_list(data, names, queries[i], client, seen, i)
        length, some = _fill_costs(seen, i, costs)
        if some:
            _draw_fresh(candidates, kept, names, client)
            _judge(data, rules, candidates, first, seen.shown[i, :length], costs)
            number = ((names.round << CLIENT_BITS) + client) << PLACE_BITS
            rate = rules.learning_rate * power(rules.decay, int(state[0]))
            kept = _step(candidates, kept, number, rate, model, state)
