"""The local steps of a whole cohort in one pass: rank, click, learn and clip, client by client.

Each piece is described in the kernel that it comes from. Here they take turns over a few clients at a time,
in memory that each thread has for itself. Clients of a linear ranker take each step together, in the order of
their queries: features that several of them need are read from memory once. Where queries are small a thread
plays neighbours in the cohort: two that write to the same cache line slow each other down by half.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foltr_audit.kernels.cascade import click_group
from foltr_audit.kernels.jit import (
    Bools,
    Floats,
    Ints,
    inlined,
    inner,
    uncounted,
    uncounted_kernel,
    unsigned,
)
from foltr_audit.kernels.messages import project_row
from foltr_audit.kernels.network import NetworkShape, NetworkTile, fill_gradient, fill_scores, new_tile
from foltr_audit.kernels.pdgd import fill_coefficients
from foltr_audit.kernels.philox import fill_columns
from foltr_audit.kernels.plackett_luce import SamplingBuffers, draw, empty_pool, weigh_shown
from foltr_audit.kernels.ranking import Features, TieStream, add_documents, fill_products, take_best
from foltr_audit.kernels.threads import in_parts

# --- groups of clients -----------------------------------------------------------------------------


class StepStreamKeys(NamedTuple):
    """Names of the random numbers: of lists, of clicks, and of equal scores."""

    round: int
    show: int
    click: int
    key: np.uint64
    ties: TieStream


class GroupMemory(NamedTuple):
    """Memory for one step of each client of a group.

    Attributes:
        members: their numbers in the cohort, (rows,).
        queries: what they ask, -1 for nothing, (rows,).
        begins, firsts: where the documents of their queries begin, and the grades of these, (rows,).
        alike: a row before with the same query and the same model, else -1, (rows,).
        common: zeros, the row of a model that all share, (rows,).
        columns, blocks: clients and first blocks of the random numbers, a column for each step, (columns,).
        show, click: random numbers of lists and clicks, (k, columns) and (2k, columns).
        shown, grades, clicks: their lists, the grades of these and the clicks, (rows, k).
        coefficients, pairs: of their gradients, and how many pairs make them, (rows, k) and (rows,).
        gradient: of one client, (1, P).
    """

    members: Ints
    queries: Ints
    begins: Ints
    firsts: Ints
    alike: Ints
    common: Ints
    columns: Ints
    blocks: Ints
    show: Floats
    click: Floats
    shown: Ints
    grades: Ints
    clicks: Bools
    coefficients: Floats
    pairs: Ints
    gradient: Floats


def empty_memory(rows: int, columns: int, k: int, parameters: int) -> GroupMemory:
    """Memory for groups of so many rows, and so many columns of random numbers."""
    return GroupMemory(
        np.empty(rows, dtype=np.int64),
        np.empty(rows, dtype=np.int64),
        np.empty(rows, dtype=np.int64),
        np.empty(rows, dtype=np.int64),
        np.empty(rows, dtype=np.int64),
        np.zeros(rows, dtype=np.int64),
        np.empty(columns, dtype=np.int64),
        np.empty(columns, dtype=np.int64),
        np.empty((k, columns)),
        np.empty((2 * k, columns)),
        np.empty((rows, k), dtype=np.int64),
        np.empty((rows, k), dtype=np.int64),
        np.empty((rows, k), dtype=np.bool_),
        np.empty((rows, k)),
        np.empty(rows, dtype=np.int64),
        np.empty((1, parameters)),
    )


@inlined
def prepare_group(
    offsets: Ints,
    queries: Ints,
    lifts: Ints,
    order: Ints,
    begin: int,
    rows: int,
    step: int,
    memory: GroupMemory,
) -> None:
    """Clients order[begin : begin + rows] and what they ask in a step."""
    for row in range(rows):
        client = order[begin + row]
        query = queries[client, step]
        memory.members[row], memory.queries[row] = client, query
        memory.begins[row] = offsets[max(query, 0)]
        memory.firsts[row] = lifts[client, step] + memory.begins[row]
        # Before the first step all models are the same.
        same = step == 0 and row > 0 and query == memory.queries[row - 1]
        memory.alike[row] = row - 1 if same else -1


@inlined
def draw_numbers(
    stream: StepStreamKeys, clients: Ints, memory: GroupMemory, rows: int, step: int, ahead: int
) -> None:
    """Random numbers of a group for the steps from `step` on, `ahead` of them."""
    k, columns = memory.show.shape[0], rows * ahead
    for column in range(columns):
        memory.columns[column] = clients[memory.members[column % rows]]
        memory.blocks[column] = (step + column // rows) * k // 2
    show, click, round_, key = memory.show, memory.click, stream.round, stream.key
    fill_columns(show, k, memory.blocks, memory.columns, columns, round_, stream.show, key)
    for column in range(columns):
        memory.blocks[column] *= 2
    fill_columns(click, 2 * k, memory.blocks, memory.columns, columns, round_, stream.click, key)


# --- clicks, learning and clipping -----------------------------------------------------------------
# Small kernels take the arrays that they need one by one: to pass whole tuples of arrays takes longer. For a
# gradient step it makes no difference.


@uncounted
def score_group(
    features: Features,
    offsets: Ints,
    queries: Ints,
    alike: Ints,
    rows: int,
    models: Floats,
    members: Ints,
    scores: Floats,
    sizes: Ints,
    tops: Floats,
    tile: NetworkTile | None,
) -> None:
    """Scores of the candidates of a group's queries under the rows `members` of models, into the pool."""
    for row in range(rows):
        query, model, top = queries[row], members[row], -np.inf
        first = offsets[max(query, 0)]
        documents = offsets[query + 1] - first if query >= 0 else 0
        if alike[row] >= 0:
            other = alike[row]
            for i in range(documents):
                scores[row, i] = scores[other, i]
            top = tops[other]
        else:
            if tile is None:
                fill_products(features, first, documents, models, model, scores, row, 0)
            else:
                fill_scores(features, first, documents, models[model], tile, scores[row])
            for i in range(documents):
                top = scores[row, i] if scores[row, i] > top else top
        sizes[row], tops[row] = documents, top


@uncounted
def step_group(
    features: Features,
    memory: GroupMemory,
    rows: int,
    rate: float,
    tile: NetworkTile | None,
    models: Floats,
    steps: Floats,
) -> None:
    """One gradient step of every client of a group that has pairs."""
    shown, coefficients, gradient = memory.shown, memory.coefficients, memory.gradient
    for row in range(rows):
        if memory.pairs[row] > 0:
            client, first = memory.members[row], memory.begins[row]
            if tile is None:
                add_documents(features, first, shown, coefficients, row, gradient, 0)
            else:
                fill_gradient(
                    features, first, shown[row], coefficients[row], models[client], tile, gradient[0]
                )
            for j in range(models.shape[1]):
                # The rounded difference instead of the gradient: by this the model really moves.
                stepped = models[client, j] + rate * gradient[0, j]
                steps[client, j] += stepped - models[client, j]
                models[client, j] = stepped


@uncounted
def keep_in_ball(
    models: Floats,
    clipped: Bools,
    members: Ints,
    queries: Ints,
    pairs: Ints,
    rows: int,
    step: int,
    norm: float,
    order: int,
    always: bool,
) -> None:
    """Scale the models of a group that are outside of the ball, if there is one."""
    for row in range(rows):
        client = members[row]
        acts = (pairs[row] > 0 or always) and norm < np.inf and queries[row] >= 0
        clipped[client, step] = project_row(models, client, norm, order) if acts else False


# --- clients in the order of their queries ---------------------------------------------------------

_FEW = 16  # below one client in so many queries hardly any two ask the same: sorting would cost more


@inner
def order_by_query(queries: Ints, step: int, n_queries: int, order: Ints, begin: int, end: int) -> None:
    """Sort the clients order[begin:end] by queries[:, step], which are below `n_queries` or -1.

    Clients of one query keep their order. Where hardly any two ask the same nothing is done. Neighbours then
    share scores and features in the cache: without it a whole round takes 1.07 (46 features) to 1.12 (136)
    times as long.
    """
    if (end - begin) * _FEW < n_queries:
        return
    places, sorted_ = np.empty(n_queries + 2, dtype=np.int64), np.empty(end - begin, dtype=np.int64)
    places[:] = 0
    for i in range(begin, end):
        places[unsigned(queries[order[i], step] + 2)] += 1
    for query in range(n_queries + 1):
        places[unsigned(query + 1)] += places[unsigned(query)]
    for i in range(begin, end):
        place = unsigned(queries[order[i], step] + 1)
        sorted_[unsigned(places[place])] = order[i]
        places[place] += 1
    for i in range(begin, end):
        order[i] = sorted_[i - begin]


# --- whole cohorts ---------------------------------------------------------------------------------

# Clients that take turns on every piece: while one waits for a chain of additions the processor works on the
# next, as long as the scores and weights of all their documents fit in its second-level cache. One at a time,
# a whole round takes 1.1 (136 features) to 1.4 times (46) as long.
_FEWEST, _MOST = 8, 32
_POOL_BYTES = 100_000
_MODEL_BYTES = 400_000  # of their models, which neural rankers make large: the same cache
_BLOCK_BYTES = 4_000_000  # of the models of clients that take each step together: the third-level cache
# A thread gets work of a fifth of a millisecond at least. To draw a list and to learn from it takes as long
# as to read some thousand numbers.
_PART_NUMBERS, _LIST_NUMBERS = 1 << 20, 4_000
# Features of a query from which on threads share clients by their queries: to read them once costs less then.
_LARGE_QUERY = 8_000


class KernelDocuments(NamedTuple):
    """A data set: query q owns rows offsets[q] .. offsets[q + 1] - 1 of features.

    `grades` holds those of all documents, for one click model and intent after the other.
    """

    features: Features
    grades: NDArray[np.int8]
    offsets: Ints


class LocalStepRules(NamedTuple):
    """Rules that all clients share.

    Attributes:
        click, stop: P(click | grade) and P(stop | click, grade).
        learning_rate: step size.
        candidates, only_observed: the PDGD setting.
        norm, order: the ball that models are kept in; an infinite norm for none.
        always: the ball also acts after a step without pairs.
        sampled: lists are sampled from Plackett-Luce; otherwise they follow the scores.
        global_lists: lists are ranked by the model that the round began with, not by the client's own.
        hidden, layers: units of a hidden layer of the ranker, and their number; None for the linear one,
            for which kernels are compiled apart.
    """

    click: Floats
    stop: Floats
    learning_rate: float
    candidates: bool
    only_observed: bool
    norm: float
    order: int
    always: bool
    sampled: bool
    global_lists: bool
    hidden: int | None
    layers: int | None


class LocalStepResult(NamedTuple):
    """Models and undefended steps (C, P), lists and clicks (C, B, k), whether steps were clipped (C, B).

    See `play_batches` for one with fewer models.
    """

    models: Floats
    steps: Floats
    shown: Ints
    clicks: Bools
    clipped: Bools


@uncounted
def _list_best(pool: SamplingBuffers, rows: int, shown: Ints, queries: Ints, ties: TieStream) -> None:
    """Fill the first rows of `shown` with the documents of the highest scores; weights are overwritten."""
    for row in range(rows):
        size = pool.sizes[row]
        for i in range(size):
            pool.weights[row, i] = pool.scores[row, i]
        for i in range(shown.shape[1]):
            shown[row, i] = -1
        take_best(pool.weights[row, :size], shown[row], queries[row], ties)


@inlined
def _play_group(
    data: KernelDocuments,
    rules: LocalStepRules,
    step: int,
    rows: int,
    column: int,
    common: Floats,
    result: LocalStepResult,
    memory: GroupMemory,
    pool: SamplingBuffers,
    tile: NetworkTile | None,
    ties: TieStream,
) -> None:
    """One local step of a prepared group, whose random numbers begin at a column."""
    shown, clicks, models = memory.shown, memory.clicks, result.models
    candidates, only_observed = rules.candidates, rules.only_observed
    shared = rules.global_lists or step == 0
    ranking, members = common if shared else models, memory.common if shared else memory.members
    features, offsets, queries, alike = data.features, data.offsets, memory.queries, memory.alike
    scores, sizes, tops = pool.scores, pool.sizes, pool.tops
    score_group(features, offsets, queries, alike, rows, ranking, members, scores, sizes, tops, tile)
    if rules.sampled:
        draw(pool, rows, memory.show, column, shown)
    else:
        _list_best(pool, rows, shown, queries, ties)
    click, stop, u, grades = rules.click, rules.stop, memory.click, memory.grades
    click_group(data.grades, memory.firsts, click, stop, shown, rows, u, column, grades, clicks)
    # Lists come from the global model, pair weights from the local one; at first both are the same.
    relearnt = rules.global_lists and step > 0
    if relearnt:
        own = memory.members
        score_group(features, offsets, queries, alike, rows, models, own, scores, sizes, tops, tile)
    if relearnt or not rules.sampled:
        weigh_shown(pool, rows, shown)
    fill_coefficients(pool, rows, shown, clicks, candidates, only_observed, memory.coefficients, memory.pairs)
    step_group(features, memory, rows, rules.learning_rate, tile, models, result.steps)
    norm, order, always, pairs = rules.norm, rules.order, rules.always, memory.pairs
    keep_in_ball(models, result.clipped, memory.members, queries, pairs, rows, step, norm, order, always)
    for row in range(rows):
        client = memory.members[row]
        for i in range(shown.shape[1]):
            result.shown[client, step, i] = shown[row, i]
            result.clicks[client, step, i] = clicks[row, i]


class StepScratch(NamedTuple):
    """Memory that one part of the clients works in: see `GroupMemory`, `SamplingBuffers` and `NetworkTile`.

    Attributes:
        memory, pool: of a group.
        tile: of neural rankers, else None.
        common: the model that the round begins with, (1, P).
    """

    memory: GroupMemory
    pool: SamplingBuffers
    tile: NetworkTile | None
    common: Floats


@uncounted_kernel
def play_rows(
    data: KernelDocuments,
    rules: LocalStepRules,
    stream: StepStreamKeys,
    queries: Ints,
    lifts: Ints,
    clients: Ints,
    order: Ints,
    result: LocalStepResult,
    scratch: StepScratch,
    begin: int,
    end: int,
) -> None:
    """All local steps of the clients order[begin:end], which are put into another order."""
    rows, common = scratch.memory.members.size, scratch.common
    # Neural models would leave no room in the cache for each other.
    block = rows if rules.hidden is not None else max(rows, _BLOCK_BYTES // (16 * common.shape[1]))
    blocks = (end - begin + block - 1) // block
    block = (end - begin + blocks - 1) // blocks
    memory, pool, tile = scratch.memory, scratch.pool, scratch.tile
    for start in range(begin, end, block):
        last = min(start + block, end)
        for i in range(start, last):
            for j in range(common.shape[1]):
                result.models[order[i], j] = common[0, j]
                result.steps[order[i], j] = 0.0
        # Groups of about equal size: a last group of one client would wait for every addition.
        groups = (last - start + rows - 1) // rows
        size = (last - start + groups - 1) // groups
        # A single group stays together, so that numbers of several steps can be made at once.
        ahead = max(1, _MOST // size) if groups == 1 else 1
        for step in range(queries.shape[1]):
            if groups > 1 or step == 0:
                order_by_query(queries, step, data.offsets.size - 1, order, start, last)
            for first in range(start, last, size):
                count, turn = min(size, last - first), step % ahead
                prepare_group(data.offsets, queries, lifts, order, first, count, step, memory)
                if turn == 0:
                    draw_numbers(stream, clients, memory, count, step, ahead)
                column, ties = turn * count, stream.ties
                _play_group(data, rules, step, count, column, common, result, memory, pool, tile, ties)


def new_scratch(data: KernelDocuments, rules: LocalStepRules, k: int, P: int) -> StepScratch:
    """Memory of one thread, for lists of k and models (P,)."""
    longest = max(1, int(np.diff(data.offsets).max(initial=1)))
    # A document of the pool takes 16 bytes: its score and its weight.
    rows = max(_FEWEST, min(_MOST, _POOL_BYTES // (16 * longest)))
    # A parameter takes 16 bytes too: in the model and in the step.
    rows = max(1, min(rows, _MODEL_BYTES // (16 * P)))
    tile = None
    if rules.hidden is not None and rules.layers is not None:
        tile = new_tile(NetworkShape(data.features.shape[1], rules.hidden, rules.layers))
    memory, pool = empty_memory(rows, _MOST, k, P), empty_pool(rows, longest, k)
    return StepScratch(memory, pool, tile, np.empty((1, P)))


def _unused_scratch(
    free: list[StepScratch], data: KernelDocuments, rules: LocalStepRules, k: int, P: int
) -> StepScratch:
    """Memory that no other thread has taken."""
    try:
        return free.pop()  # without asking before whether there is one: another thread may take it in between
    except IndexError:
        return new_scratch(data, rules, k, P)


def _query_numbers(data: KernelDocuments) -> float:
    """Mean number of features of a query's documents."""
    documents, features = data.features.shape
    return float(documents * features / max(1, data.offsets.size - 1))


def clients_of_part(data: KernelDocuments, rules: LocalStepRules, steps: int) -> int:
    """So many clients with so many local steps are worth a thread."""
    numbers = _query_numbers(data) * (1 if rules.hidden is None else rules.hidden)
    return 1 + int(_PART_NUMBERS / (max(1, steps) * (numbers + _LIST_NUMBERS)))


def play_local_steps(
    data: KernelDocuments,
    rules: LocalStepRules,
    stream: StepStreamKeys,
    queries: Ints,
    lifts: Ints,
    clients: Ints,
    parameters: Floats,
    result: LocalStepResult,
    free: list[StepScratch],
) -> None:
    """Play all local steps of clients (C,) that ask queries (C, B) and start at the global model (P,).

    Where there is no query (-1) nothing is shown, and no step taken. The grades of interaction (c, b) begin
    at lifts[c, b]. k is even. Threads take memory of the same data and rules from `free`, and leave it there.
    """
    order = np.arange(clients.size)
    if queries.shape[1] and _query_numbers(data) >= _LARGE_QUERY:
        order = np.argsort(queries[:, 0], kind="stable")
    arguments = (data, rules, stream, queries, lifts, clients, order, result)

    def rows(begin: int, end: int) -> None:
        scratch = _unused_scratch(free, data, rules, result.shown.shape[2], parameters.size)
        scratch.common[0] = parameters
        play_rows(*arguments, scratch, begin, end)
        free.append(scratch)

    in_parts(rows, clients.size, clients_of_part(data, rules, queries.shape[1]))


def play_batches(
    data: KernelDocuments,
    rules: LocalStepRules,
    stream: StepStreamKeys,
    queries: Ints,
    lifts: Ints,
    clients: Ints,
    parameters: Floats,
    result: LocalStepResult,
    free: list[StepScratch],
) -> Floats:
    """The model (P,) after clients (C,) that take turns, as many of them at once as `result.models` has rows.

    Those of each turn start at the model that the turns before left, and move it by the sum of their steps;
    `result` keeps models and steps of the last turn, and lists, clicks and what was clipped of all clients.
    """
    batch = result.models.shape[0]
    for first in range(0, clients.size, batch):
        last = min(first + batch, clients.size)
        rows = slice(first, last)
        models, steps = result.models[: last - first], result.steps[: last - first]
        part = LocalStepResult(models, steps, result.shown[rows], result.clicks[rows], result.clipped[rows])
        asked, begins, who = queries[rows], lifts[rows], clients[rows]
        play_local_steps(data, rules, stream, asked, begins, who, parameters, part, free)
        parameters = parameters + steps.sum(axis=0)
    return parameters


def empty_result(queries: Ints, parameters: int, k: int, models: int) -> LocalStepResult:
    """A result to fill, for clients with queries (C, B) and so many models."""
    return LocalStepResult(
        np.empty((models, parameters)),
        np.empty((models, parameters)),
        np.empty((*queries.shape, k), dtype=np.int64),
        np.empty((*queries.shape, k), dtype=np.bool_),
        np.empty(queries.shape, dtype=np.bool_),
    )
