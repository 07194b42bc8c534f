"""Central learners: users of one server, dueling bandit gradient descent, and counterfactual learning."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foltr_audit.kernels.cascade import click_row
from foltr_audit.kernels.elementary import cosine_and_sine, decay, log_normal, power
from foltr_audit.kernels.jit import Bools, Floats, Ints, inlined, kernel, unsigned
from foltr_audit.kernels.philox import fill_columns, fill_normals, fill_uniforms
from foltr_audit.kernels.plackett_luce import SamplingBuffers, draw, new_pool
from foltr_audit.kernels.ranking import Features, TieStream, fill_products
from foltr_audit.kernels.sums import add_products

# --- users of one server ---------------------------------------------------------------------------


class UserQueries(NamedTuple):
    """A data set and how users click on it: query q owns rows offsets[q] .. offsets[q + 1] - 1.

    Attributes:
        features: (documents, d).
        grades: int8, those of all documents, for one click model and intent after the other.
        lifts: where in them the grades of each interaction begin, int64 (N,).
        offsets: int64 (queries + 1,).
        click, stop: P(click | grade) and P(stop | click, grade), float64 (G,).
    """

    features: Features
    grades: NDArray[np.int8]
    lifts: Ints
    offsets: Ints
    click: Floats
    stop: Floats


class UserStreamKeys(NamedTuple):
    """Names of the random numbers: the round, and the purposes of lists, clicks, directions and ties."""

    round: int
    show: int
    click: int
    direction: int
    key: np.uint64
    ties: TieStream


class UserInteractions(NamedTuple):
    """What the users of a round saw and did: lists int64 (N, k), padded with -1, and clicks bool (N, k)."""

    shown: Ints
    clicks: Bools


@kernel
def show_numbers(names: UserStreamKeys, client: int, size: int) -> Floats:
    """Numbers 0 .. size-1 that a client's list is made of, (size,); size is even."""
    u = np.empty((1, size))
    fill_uniforms(u, 0, size, 0, client, names.round, names.show, names.key)
    return u.reshape(size)


@kernel
def click_list(
    data: UserQueries, names: UserStreamKeys, query: int, client: int, seen: UserInteractions, i: int
) -> None:
    """Fill seen.clicks[i] with a client's clicks on seen.shown[i], by numbers 2r and 2r + 1 at rank r."""
    k = seen.shown.shape[1]
    u, grades = np.empty((1, 2 * k)), np.empty((1, k), dtype=np.int64)
    fill_uniforms(u, 0, 2 * k, 0, client, names.round, names.click, names.key)
    first = data.lifts[i] + data.offsets[query]
    for rank in range(k):
        position = seen.shown[i, rank]
        grades[0, rank] = data.grades[first + position] if position >= 0 else -1
    click, stop = data.click, data.stop
    click_row(grades, 0, u.reshape(2 * k, 1), 0, click, stop, seen.clicks[i : i + 1])


# --- interleaving ----------------------------------------------------------------------------------
# The rankers are the current one and a candidate. A ranking holds the positions of a query's documents,
# the best first. A list has k places, padded with -1 where a query has fewer documents.
#
# Source: Radlinski, Kurup & Joachims 2008, "How does clickthrough data reflect retrieval quality?",
# section 4.2 (team draft); Hofmann, Whiteson & de Rijke 2011, "A probabilistic method for inferring
# preferences from clicks", sections 3.1 and 3.2.

_STEEPNESS = 3  # tau of the softmax over ranks
_COUNTED = 1_000  # documents up to which it is faster to compare every pair of them than to sort


@kernel
def ranking(scores: Floats, query: int, ties: TieStream) -> Ints:
    """Positions (n,) of the documents of a query by falling score (n,)."""
    n = scores.size
    places = np.zeros((1, n + n % 2))
    if ties.drawn:
        fill_uniforms(places, 0, places.size, 0, query, ties.round, ties.purpose, ties.key)
    among = places[0, :n]
    if n > _COUNTED or np.isnan(scores.sum()):
        order = np.argsort(among, kind="mergesort")
        return order[np.argsort(-scores[order], kind="mergesort")]
    # How many are above each: without branches, while half of those of a sort are guessed wrong.
    above, order = np.zeros(n, dtype=np.int32), np.full(n, -1)
    for score in scores:
        for i in range(n):
            above[unsigned(i)] += scores[unsigned(i)] < score
    for i in range(n):
        rank, one = above[i], i
        while order[rank] >= 0:  # of equal ones
            if among[one] < among[order[rank]]:
                order[rank], one = one, order[rank]
            rank += 1
        order[rank] = one
    return order


@kernel
def team_draft(current: Ints, candidate: Ints, u: Floats, shown: Ints, odds: Floats) -> None:
    """Fill `shown` (k,) by taking turns, and odds (k,) with the teams.

    Args:
        current: a ranking, (n,).
        candidate: the other ranking, (n,).
        u: numbers in (0, 1), at least (k + 1) // 2: in round r of the draft the candidate picks first if
            u[r] >= 1/2. Each picks its best document that is not in the list yet.
        shown: to fill, padded with -1.
        odds: to fill with 1 where the candidate picked, 0 where the current ranker did.
    """
    n = current.size
    taken = np.zeros(n, dtype=np.bool_)
    mine, other = 0, 0
    shown[:] = -1
    odds[:] = 0.0
    for rank in range(min(shown.size, n)):
        first = u[rank // 2] >= 0.5
        if first == (rank % 2 == 0):
            while taken[candidate[mine]]:
                mine += 1
            shown[rank] = candidate[mine]
            odds[rank] = 1.0
        else:
            while taken[current[other]]:
                other += 1
            shown[rank] = current[other]
        taken[shown[rank]] = True


@kernel
def _drawn_rank(weights: Floats, target: float) -> int:
    """The first rank whose running sum of weights exceeds the target; else the last one that is left."""
    running, found = 0.0, -1
    for rank in range(weights.size):
        if weights[rank] > 0.0:
            found = rank
            running += weights[rank]
            if running > target:
                break
    return found


@kernel
def _inverted(order: Ints) -> Ints:
    """Rank of each position."""
    ranks = np.empty_like(order)
    for rank in range(order.size):
        ranks[order[rank]] = rank
    return ranks


@kernel
def probabilistic(current: Ints, candidate: Ints, u: Floats, shown: Ints, odds: Floats) -> None:
    """Fill `shown` (k,) with documents that a fair coin's ranker draws from its softmax over ranks.

    A ranker draws a document that is not in the list yet with a probability proportional to 1 / rank^3.

    Args:
        current: a ranking, (n,).
        candidate: the other ranking, (n,).
        u: 2 k numbers in (0, 1): the candidate draws place i if u[2i] >= 1/2, and u[2i + 1] says what.
        shown: to fill, padded with -1.
        odds: to fill with P(the candidate drew it | document, places above).
    """
    weights = np.empty((2, current.size))
    for rank in range(current.size):
        weights[0, rank] = 1.0 / (rank + 1.0) ** _STEEPNESS
    weights[1] = weights[0]
    here, there = _inverted(current), _inverted(candidate)
    shown[:] = -1
    odds[:] = 0.0
    for place in range(min(shown.size, current.size)):
        # Summed again at every place: subtracting the weights that are taken would leave rounding behind.
        left, right = weights[0].sum(), weights[1].sum()
        if u[2 * place] >= 0.5:
            document = candidate[_drawn_rank(weights[1], u[2 * place + 1] * right)]
        else:
            document = current[_drawn_rank(weights[0], u[2 * place + 1] * left)]
        shown[place] = document
        by_current = weights[0, here[document]] / left
        by_candidate = weights[1, there[document]] / right
        odds[place] = by_candidate / (by_candidate + by_current)
        weights[0, here[document]] = 0.0
        weights[1, there[document]] = 0.0


@kernel
def preference(odds: Floats, clicks: Bools) -> float:
    """P(more clicks are the candidate's) - P(fewer are), from -1 to 1.

    The exact expectation over who contributed each document: k + 1 probabilities instead of 2^k assignments.

    Args:
        odds: P(the candidate contributed the document) of each place, independently, float64 (k,).
        clicks: bool (k,).
    """
    share = np.zeros(odds.size + 1)  # P(this many of the clicks so far are the candidate's)
    share[0] = 1.0
    seen = 0
    for rank in range(odds.size):
        if clicks[rank]:
            seen += 1
            # From the top down: share[won - 1] must still be that of the clicks before this one.
            for won in range(seen, 0, -1):
                share[won] = share[won] * (1.0 - odds[rank]) + share[won - 1] * odds[rank]
            share[0] *= 1.0 - odds[rank]
    outcome = 0.0
    for won in range((seen + 1) // 2):
        outcome += share[seen - won] - share[won]
    return outcome


# --- dueling bandit gradient descent ---------------------------------------------------------------
# Source: Yue & Joachims 2009, "Interactively optimizing information retrieval systems as a dueling bandits
# problem", section 4.


class DBGDRules(NamedTuple):
    """Distance of a candidate from the model, step size of a win, and the kind of interleaving."""

    delta: float
    learning_rate: float
    probabilistic: bool


@kernel
def _direction(names: UserStreamKeys, client: int, out: Floats, dimension: int) -> None:
    """Fill out[0, :dimension] with a unit vector; `out` has an even number of columns."""
    fill_normals(out, 0, out.shape[1], 0, client, names.round, names.direction, names.key)
    square = 0.0
    for j in range(dimension):
        square += out[0, j] * out[0, j]
    length = math.sqrt(square)
    for j in range(dimension):
        out[0, j] /= length


@kernel
def _rankings(data: UserQueries, query: int, models: Floats, ties: TieStream) -> tuple[Ints, Ints]:
    """The documents of a query as both models (2, P) rank them."""
    first = data.offsets[query]
    scores = np.empty((2, data.offsets[query + 1] - first))
    for row in range(2):
        fill_products(data.features, first, scores.shape[1], models, row, scores, row, 0)
    return ranking(scores[0], query, ties), ranking(scores[1], query, ties)


@kernel
def play_dbgd(
    data: UserQueries,
    names: UserStreamKeys,
    rules: DBGDRules,
    queries: Ints,
    clients: Ints,
    parameters: Floats,
    seen: UserInteractions,
) -> None:
    """All interactions of a round, of clients (N,) with queries (N,); `parameters` (P,) change in place."""
    P, k = parameters.size, seen.shown.shape[1]
    models, direction, odds = np.empty((2, P)), np.empty((1, P + P % 2)), np.empty(k)
    for i in range(queries.size):
        _direction(names, clients[i], direction, P)
        for j in range(P):
            models[0, j] = parameters[j]
            models[1, j] = parameters[j] + rules.delta * direction[0, j]
        current, candidate = _rankings(data, queries[i], models, names.ties)
        u = show_numbers(names, clients[i], 2 * k)
        if rules.probabilistic:
            probabilistic(current, candidate, u, seen.shown[i], odds)
        else:
            team_draft(current, candidate, u, seen.shown[i], odds)
        click_list(data, names, queries[i], clients[i], seen, i)
        if preference(odds, seen.clicks[i]) > 0.0:
            for j in range(P):
                parameters[j] += rules.learning_rate * direction[0, j]


# --- unit vectors ----------------------------------------------------------------------------------
# A direction is a standard normal vector over its length. The normal numbers are those of
# `kernels.philox`, computed for many directions side by side, one lane each: in this form the loops
# compile to wide registers.
#
# Source: Muller 1959, "A note on a method for generating points uniformly on n-dimensional spheres";
# Box & Muller 1958, "A note on the generation of random normal deviates".

LANES = 64
"""Directions that are made at once: 64 float64 numbers of one coordinate are eight cache lines."""


@kernel
def fill_directions(
    out: Floats,
    first: int,
    count: int,
    dimension: int,
    client: int,
    round_: int,
    purpose: int,
    key: np.uint64,
) -> None:
    """Fill the first columns of `out` (d + d % 2, LANES) with unit vectors of a dimension d, one a lane.

    They are vectors first .. first + count - 1 of a client's stream of a purpose in a round: vector m is made
    of the normal numbers from `m (d + d % 2)` on. Where d is odd the last row is left over.
    """
    size, squares = out.shape[0], np.zeros(LANES)
    blocks, clients = np.empty(LANES, dtype=np.int64), np.full(LANES, client)
    for lane in range(LANES):
        blocks[lane] = (first + lane) * (size // 2)
    fill_columns(out, size, blocks, clients, count, round_, purpose, key)
    # One loop for each step: each compiles to wide registers, a single loop over all steps does not.
    for row in range(0, size, 2):
        for lane in range(count):
            at = unsigned(lane)
            out[row, at] = math.sqrt(-2.0 * log_normal(out[row, at]))
        for lane in range(count):
            at = unsigned(lane)
            length = out[row, at]
            cosine, sine = cosine_and_sine(out[row + 1, at])
            out[row, at] = length * cosine
            out[row + 1, at] = length * sine
    for j in range(dimension):
        for lane in range(count):
            squares[lane] += out[j, lane] * out[j, lane]
    for lane in range(count):
        squares[lane] = 1.0 / math.sqrt(squares[lane])
    for j in range(dimension):
        for lane in range(count):
            out[j, lane] *= squares[lane]


# --- counterfactual learning -----------------------------------------------------------------------
# A list shown by the current ranker f is reused to evaluate many candidate rankers g at once. A document's
# importance weight is softmax(g) / softmax(f) over all candidates of its query. A candidate's
# estimate does not change when all of its weights are multiplied by one number, so the sums of both softmaxes
# drop out and exp(g - f) of the shown documents remains: `step` times features times a unit vector.
#
# Where no shown document has a cost, the estimate and its variance are 0 for every ranker, and none
# is below the current one: no direction is drawn then.
#
# Source: Zhuang & Zuccon 2020, "Counterfactual online learning to rank", section 3.

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
        documents: features of up to k shown documents times the length of a step, (k, d).
        weights: of the documents, (k, LANES).
        wins: by tile and lane, bool (tiles, LANES).
    """

    directions: Floats
    slots: Ints
    others: Ints
    fresh: Floats
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
        np.empty((k, dimension)),
        np.empty((k, LANES)),
        np.empty((tiles, LANES), dtype=np.bool_),
    )


@kernel
def _place_fresh(
    candidates: CandidateBuffers,
    place: int,
    number: int,
    count: int,
    client: int,
    round_: int,
    names: UserStreamKeys,
) -> None:
    """Put unit vectors of a client's stream, `count` from `number` on, to the places from `place` on."""
    directions, slots, fresh = candidates.directions, candidates.slots, candidates.fresh
    dimension = candidates.documents.shape[1]
    for first in range(0, count, LANES):
        some = min(LANES, count - first)
        fill_directions(fresh, number + first, some, dimension, client, round_, names.direction, names.key)
        for j in range(dimension):
            row = directions[j * LANES :]
            for lane in range(some):
                row[unsigned(slots[unsigned(place + first + lane)])] = fresh[unsigned(j), unsigned(lane)]


@kernel
def _recall(candidates: CandidateBuffers, state: Floats, names: UserStreamKeys) -> int:
    """Draw the unit vectors of the winners in `state` again; how many there are."""
    M, count = candidates.slots.size, 0
    while count < M and state[1 + count] >= 0.0:
        number = int(state[1 + count])
        client = (number >> PLACE_BITS) & ((1 << CLIENT_BITS) - 1)
        place, round_ = number & ((1 << PLACE_BITS) - 1), number >> (PLACE_BITS + CLIENT_BITS)
        _place_fresh(candidates, count, place, 1, client, round_, names)
        count += 1
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
        lower = _pessimistic(sums[0, lane], sums[1, lane], sums[2, lane], sums[3, lane], gamma, length)
        wins[lane] = lower < bound


@kernel
def _judge(
    data: UserQueries, rules: COLTRRules, candidates: CandidateBuffers, first: int, shown: Ints, costs: Floats
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
    directions, slots = candidates.directions, candidates.slots
    others, wins = candidates.others, candidates.wins
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
            _place_fresh(candidates, kept, kept, M - kept, client, names.round, names)
            _judge(data, rules, candidates, first, seen.shown[i, :length], costs)
            number = ((names.round << CLIENT_BITS) + client) << PLACE_BITS
            rate = rules.learning_rate * power(rules.decay, int(state[0]))
            kept = _step(candidates, kept, number, rate, model, state)
