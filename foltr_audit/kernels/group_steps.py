"""What the clients of a group do in a local step besides ranking and clicking: score, move, stay in the ball.

These kernels take the arrays that they need one by one: to pass whole tuples of arrays takes longer.
"""

from __future__ import annotations

import numpy as np

from .ball import project_row
from .jit import Bools, Floats, Ints, inlined, uncounted, unsigned
from .linear_steps import move_model
from .network import NetworkTile, fill_gradient, fill_scores
from .ranking import Features, fill_products


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


@inlined
def _learnt_documents(
    shown: Ints, coefficients: Floats, row: int, first: int, documents: Ints, amounts: Floats
) -> int:
    """Fill in the documents of a list that change the model, and their coefficients; how many they are."""
    count = 0
    for i in range(shown.shape[1]):
        # All are written and some counted: which of them take part is random.
        documents[unsigned(count)] = first + shown[row, i]
        amounts[unsigned(count)] = coefficients[row, i]
        count += (shown[row, i] >= 0) & (coefficients[row, i] != 0.0)
    return count


@uncounted
def step_group(
    features: Features,
    firsts: Ints,
    rate: float,
    members: Ints,
    pairs: Ints,
    rows: int,
    shown: Ints,
    coefficients: Floats,
    documents: Ints,
    amounts: Floats,
    gradient: Floats,
    tile: NetworkTile | None,
    models: Floats,
    steps: Floats,
) -> None:
    """One gradient step of every client of a group that has pairs; its documents begin at firsts[row]."""
    for row in range(rows):
        if pairs[row] > 0:
            client, first = members[row], firsts[row]
            if tile is None:
                count = _learnt_documents(shown, coefficients, row, first, documents, amounts)
                move_model(features, documents, amounts, count, rate, models, steps, client)
            else:
                only, model = gradient[0], models[client]
                fill_gradient(features, first, shown[row], coefficients[row], model, tile, only)
                for j in range(models.shape[1]):
                    # The rounded difference instead of the gradient: by this the model really moves.
                    stepped = models[client, j] + rate * only[j]
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
