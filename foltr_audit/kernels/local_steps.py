"""The local steps of a whole cohort in one pass: rank, click, learn and clip, client by client.

Each piece is described in the kernel that it comes from. Here they take turns over a few clients at a time,
in memory that is allocated once per chunk.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .ball import project_row
from .cascade import click_group
from .jit import Bools, Floats, Ints, inlined, kernel
from .network import NetworkShape, NetworkTile, fill_gradient, fill_scores, new_tile
from .pdgd import fill_coefficients, weigh_shown
from .philox import fill_uniforms
from .plackett_luce import SamplingBuffers, draw, new_pool
from .ranking import Features, add_documents, dot
from .threads import in_parts

# Clients that take turns on every piece: while one waits for a chain of additions the processor works on the
# next, as long as the scores and weights of all their documents fit in its second-level cache.
_FEWEST, _MOST = 8, 32
_POOL_BYTES = 100_000
_MODEL_BYTES = 400_000  # of their models, which neural rankers make large: the same cache
_AHEAD = 8  # steps whose random numbers are made at once: cheaper in batches


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
    global_lists: bool
    hidden: int | None
    layers: int | None


class StepStreamKeys(NamedTuple):
    """Names of the random numbers: of lists, and of clicks."""

    round: int
    show: int
    click: int
    key: np.uint64


class FirstScores(NamedTuple):
    """Scores of the first step, flat, and where those of each client begin, (C,); empty where not known."""

    scores: Floats
    begins: Ints


class LocalStepResult(NamedTuple):
    """Models and undefended steps (C, P), lists and clicks (C, B, k), whether steps were clipped (C, B)."""

    models: Floats
    steps: Floats
    shown: Ints
    clicks: Bools
    clipped: Bools


@kernel
def _score_group(
    data: KernelDocuments,
    queries: Ints,
    step: int,
    models: Floats,
    pool: SamplingBuffers,
    tile: NetworkTile | None,
) -> None:
    """Scores of the candidates of queries[:, step] under models (rows, P), into the pool."""
    features, offsets, scores, sizes, tops = data.features, data.offsets, pool.scores, pool.sizes, pool.tops
    for row in range(queries.shape[0]):
        query = max(queries[row, step], 0)
        first = offsets[query]
        sizes[row] = offsets[query + 1] - first if queries[row, step] >= 0 else 0
        if tile is not None:
            fill_scores(features, first, sizes[row], models[row], tile, scores[row])
        top = -np.inf
        for i in range(sizes[row]):
            if tile is None:
                scores[row, i] = dot(features, first + i, models, row)
            score = scores[row, i]
            top = score if score > top else top
        tops[row] = top


@kernel
def _recall_scores(
    offsets: Ints, queries: Ints, known: FirstScores, client: int, pool: SamplingBuffers
) -> None:
    """The same for the first step of the clients from `client` on, whose scores are known."""
    scores, sizes, tops = pool.scores, pool.sizes, pool.tops
    for row in range(queries.shape[0]):
        query, begin = max(queries[row, 0], 0), known.begins[client + row]
        sizes[row] = offsets[query + 1] - offsets[query] if queries[row, 0] >= 0 else 0
        top = -np.inf
        for i in range(sizes[row]):
            score = known.scores[begin + i]
            scores[row, i] = score
            top = score if score > top else top
        tops[row] = top


@kernel
def _step_group(
    data: KernelDocuments,
    rules: LocalStepRules,
    queries: Ints,
    step: int,
    shown: Ints,
    coefficients: Floats,
    pairs: Ints,
    tile: NetworkTile | None,
    gradient: Floats,
    models: Floats,
    undefended: Floats,
    clipped: Bools,
) -> None:
    """One gradient step of every client of a group that has pairs, and the ball."""
    features, offsets = data.features, data.offsets
    rate, norm, order, always = rules.learning_rate, rules.norm, rules.order, rules.always
    for row in range(queries.shape[0]):
        if pairs[row] > 0:
            first = offsets[queries[row, step]]
            if tile is None:
                add_documents(features, first, shown, coefficients, row, gradient, 0)
            else:
                fill_gradient(features, first, shown[row], coefficients[row], models[row], tile, gradient[0])
            for j in range(models.shape[1]):
                # The rounded difference instead of the gradient: by this the model really moves.
                stepped = models[row, j] + rate * gradient[0, j]
                undefended[row, j] += stepped - models[row, j]
                models[row, j] = stepped
        acts = (pairs[row] > 0 or always) and norm < np.inf and queries[row, step] >= 0
        clipped[row, step] = project_row(models, row, norm, order) if acts else False


@kernel
def _fill_group(
    out: Floats, size: int, block: int, clients: Ints, stream: StepStreamKeys, purpose: int
) -> None:
    """Random numbers of every client of a group."""
    for row in range(clients.size):
        fill_uniforms(out, row, size, block, clients[row], stream.round, purpose, stream.key)


@inlined
def _play_group(
    data: KernelDocuments,
    rules: LocalStepRules,
    stream: StepStreamKeys,
    queries: Ints,
    lifts: Ints,
    clients: Ints,
    known: FirstScores,
    client: int,
    models: Floats,
    undefended: Floats,
    all_shown: Ints,
    all_clicks: Bools,
    clipped: Bools,
    pool: SamplingBuffers,
    tile: NetworkTile | None,
) -> None:
    """All local steps of a few clients, of which the first is number `client` of the cohort."""
    (rows, steps), k = queries.shape, all_shown.shape[2]
    show, click = np.empty((rows, _AHEAD * k)), np.empty((rows, _AHEAD * 2 * k))
    shown, grades = np.empty((rows, k), dtype=np.int64), np.empty((rows, k), dtype=np.int64)
    clicks = np.empty((rows, k), dtype=np.bool_)
    coefficients, pairs = np.empty((rows, k)), np.empty(rows, dtype=np.int64)
    gradient = np.empty((1, models.shape[1]))
    candidates, only_observed = rules.candidates, rules.only_observed
    labels, offsets, p_click, p_stop = data.grades, data.offsets, rules.click, rules.stop
    # A copy where lists come from the global model: local steps change `models` in place.
    ranking = models.copy() if rules.global_lists else models
    for step in range(steps):
        ahead = step % _AHEAD
        if ahead == 0:
            more = min(_AHEAD, steps - step)
            _fill_group(show, more * k, step * k // 2, clients, stream, stream.show)
            _fill_group(click, more * 2 * k, step * k, clients, stream, stream.click)
        if step == 0 and known.begins.size > 0:
            _recall_scores(offsets, queries, known, client, pool)
        else:
            _score_group(data, queries, step, ranking, pool, tile)
        draw(pool, rows, show, ahead * k, shown)
        click_group(
            labels,
            lifts,
            offsets,
            p_click,
            p_stop,
            queries,
            step,
            shown,
            click,
            ahead * 2 * k,
            grades,
            clicks,
        )
        # Lists come from the global model, pair weights from the local one; at first both are the same.
        if rules.global_lists and step > 0:
            _score_group(data, queries, step, models, pool, tile)
            weigh_shown(pool, rows, shown)
        fill_coefficients(pool, shown, clicks, candidates, only_observed, coefficients, pairs)
        _step_group(
            data,
            rules,
            queries,
            step,
            shown,
            coefficients,
            pairs,
            tile,
            gradient,
            models,
            undefended,
            clipped,
        )
        for row in range(rows):
            for i in range(k):
                all_shown[row, step, i] = shown[row, i]
                all_clicks[row, step, i] = clicks[row, i]


@kernel
def _tile(features: int, hidden: int | None, layers: int | None) -> NetworkTile | None:
    """Memory for the documents of neural rankers."""
    if hidden is None or layers is None:
        return None
    return new_tile(NetworkShape(features, hidden, layers))


@kernel
def play_rows(
    data: KernelDocuments,
    rules: LocalStepRules,
    stream: StepStreamKeys,
    queries: Ints,
    lifts: Ints,
    clients: Ints,
    parameters: Floats,
    known: FirstScores,
    result: LocalStepResult,
    begin: int,
    end: int,
) -> None:
    """All local steps of the clients begin .. end - 1."""
    longest = 1
    for c in range(begin, end):
        for step in range(queries.shape[1]):
            query = max(queries[c, step], 0)
            longest = max(longest, int(data.offsets[query + 1] - data.offsets[query]))
    # A document of the pool takes 16 bytes: its score and its weight.
    rows = max(_FEWEST, min(_MOST, _POOL_BYTES // (16 * longest)))
    # A parameter takes 16 bytes too: in the model and in the step.
    rows = max(1, min(rows, _MODEL_BYTES // (16 * parameters.size)))
    # Groups of about equal size: a last group of one client would wait for every addition.
    groups = (end - begin + rows - 1) // rows
    rows = (end - begin + groups - 1) // groups
    pool = new_pool(rows, longest, result.shown.shape[2])
    tile = _tile(data.features.shape[1], rules.hidden, rules.layers)
    for first in range(begin, end, rows):
        last = min(first + rows, end)
        for c in range(first, last):  # by group: large models are then still in the cache
            for j in range(parameters.size):
                result.models[c, j] = parameters[j]
                result.steps[c, j] = 0.0
        _play_group(
            data,
            rules,
            stream,
            queries[first:last],
            lifts[first:last],
            clients[first:last],
            known,
            first,
            result.models[first:last],
            result.steps[first:last],
            result.shown[first:last],
            result.clicks[first:last],
            result.clipped[first:last],
            pool,
            tile,
        )


def play_local_steps(
    data: KernelDocuments,
    rules: LocalStepRules,
    stream: StepStreamKeys,
    queries: Ints,
    lifts: Ints,
    clients: Ints,
    parameters: Floats,
    known: FirstScores,
    result: LocalStepResult,
    chunk: int,
) -> None:
    """Play all local steps of clients (C,) that ask queries (C, B) and start at the global model (P,).

    Where there is no query (-1) nothing is shown, and no step taken. The grades of interaction (c, b) begin
    at lifts[c, b]. k is even. Where scores of the first step are `known`, they are not computed again. One
    thread plays `chunk` clients in a row; their number changes no byte.
    """
    arguments = (data, rules, stream, queries, lifts, clients, parameters, known, result)
    in_parts(lambda begin, end: play_rows(*arguments, begin, end), clients.size, chunk)


def empty_result(queries: Ints, parameters: int, k: int) -> LocalStepResult:
    """A result to fill, for clients with queries (C, B)."""
    clients = queries.shape[0]
    return LocalStepResult(
        np.empty((clients, parameters)),
        np.empty((clients, parameters)),
        np.empty((*queries.shape, k), dtype=np.int64),
        np.empty((*queries.shape, k), dtype=np.bool_),
        np.empty(queries.shape, dtype=np.bool_),
    )
