"""Dueling bandit gradient descent of the linear ranker, one interaction after the other.

Source: Yue & Joachims 2009, "Interactively optimizing information retrieval systems as a dueling bandits
problem", section 4.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .interleaving import preference, probabilistic, ranking, team_draft
from .jit import Floats, Ints, kernel
from .ranking import fill_products
from .standard_normal import fill_normals
from .users import UserInteractions, UserQueries, UserStreamKeys, click_list, show_numbers


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
def _rankings(data: UserQueries, query: int, models: Floats) -> tuple[Ints, Ints]:
    """The documents of a query as both models (2, P) rank them."""
    first = data.offsets[query]
    scores = np.empty((2, data.offsets[query + 1] - first))
    for row in range(2):
        fill_products(data.features, first, scores.shape[1], models, row, scores, row, 0)
    return ranking(scores[0]), ranking(scores[1])


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
        current, candidate = _rankings(data, queries[i], models)
        u = show_numbers(names, clients[i], 2 * k)
        if rules.probabilistic:
            probabilistic(current, candidate, u, seen.shown[i], odds)
        else:
            team_draft(current, candidate, u, seen.shown[i], odds)
        click_list(data, names, queries[i], clients[i], seen, i)
        if preference(odds, seen.clicks[i]) > 0.0:
            for j in range(P):
                parameters[j] += rules.learning_rate * direction[0, j]
