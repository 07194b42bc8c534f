"""The message of one client for every pattern of clicks, as coefficients of a few columns."""

from __future__ import annotations

import numpy as np

from .jit import Floats, Ints, kernel
from .patterns import ClipRule, shrunk
from .threads import in_parts


@kernel
def _fill_steps(weights: Floats, i: int, observed: int, pattern: int, rate: float, steps: Floats) -> None:
    """Fill in the coefficient that PDGD's step with a pattern adds to each observed document."""
    steps[:] = 0.0
    for j in range(observed):
        for s in range(observed):
            steps[j] += rate * weights[i, j, s] * (((pattern >> j) & 1) - ((pattern >> s) & 1))


def pattern_terms(
    weights: Floats,
    rows: Floats,
    starts: Floats,
    lengths: Ints,
    rate: float,
    only_observed: bool,
    ball: ClipRule,
) -> Floats:
    """Steps and clicks of one client for every pattern, (n, 2^k, 2 k + 1); 0 beyond a list's patterns.

    A client's update is `rows^T (s v) + (s - 1) start`, v the coefficients of PDGD and s the scale of
    the step stage. First come the k numbers s v, then s - 1, then the k clicks.

    Args:
        weights: PDGD's pair weights, (n, k, k).
        rows: Jacobian rows of the shown documents, (n, k, P).
        starts: the global model of each sum, (n, P).
        lengths: documents of each list, (n,), at most k.
        rate: the learning rate.
        only_observed: pairs reach down to one document below the last click only.
        ball: the step stage.
    """
    n, k, _ = rows.shape
    terms = np.zeros((n, 1 << k, 2 * k + 1))
    given = (weights, rows, starts, lengths, rate, only_observed, ball, terms)
    in_parts(lambda begin, end: fill_pattern_terms(*given, begin, end), n, 1)
    return terms


@kernel
def fill_pattern_terms(
    weights: Floats,
    rows: Floats,
    starts: Floats,
    lengths: Ints,
    rate: float,
    only_observed: bool,
    ball: ClipRule,
    terms: Floats,
    begin: int,
    end: int,
) -> None:
    """Fill terms[begin:end] of `pattern_terms`, which begin as 0."""
    _, k, P = rows.shape
    for i in range(begin, end):
        L = lengths[i]
        steps, model = np.zeros(k), np.empty(P)
        last = -1  # rank of the last click: patterns rise, so it only ever moves down the list
        for pattern in range(1 << L):
            if pattern >> (last + 1):
                last += 1
            observed = min(last + 2, L) if only_observed else L
            _fill_steps(weights, i, observed, pattern, rate, steps)
            model[:] = starts[i]
            for j in range(L):
                for p in range(P):
                    model[p] += steps[j] * rows[i, j, p]
            pairs = 0 < pattern < (1 << L) - 1
            kept = shrunk(model, ball, pairs or (ball.always and L > 0))
            for j in range(L):
                terms[i, pattern, j] = kept * steps[j]
                terms[i, pattern, k + 1 + j] = (pattern >> j) & 1
            terms[i, pattern, k] = kept - 1.0
