"""Gradient coefficients of a list whose weights are far apart, where one scale still serves all of them.

The general functions of `pdgd` scale every denominator by itself. Where the scores of the shown documents are
less than 600 apart they all get the same scale: exponentials are then shared, and none of them is so small
that it needs more than `decay`. Every number is the result of the same operations as there.
"""

from __future__ import annotations

import numpy as np

from .elementary import decay, exp
from .jit import Bools, Floats, Ints, inlined, uncounted

SAFE_SPREAD = 600.0  # exp(-600) and its products with other terms are normal numbers
_DECAYS = 699.0  # up to here `decay` has the bits of `exp`

# Rows of the scratch memory: scores and terms of the shown documents, the terms below each, and denominators;
# from _WITHOUT on the denominators without one of the documents, a row for each rank.
_SCORE, _TERM, _BELOW, _WHOLE, _WITHOUT = 0, 1, 2, 3, 4


@inlined
def _rest(
    scores: Floats, row: int, documents: int, shown: Ints, length: int, terms: Floats
) -> tuple[float, float, bool]:
    """Maximum of the scores not shown, the sum of exp(score - maximum) over them, and whether `decay` serves.

    `terms` has room for those of all documents in its row.
    """
    for i in range(documents):
        terms[row, i] = scores[row, i]
    for i in range(length):
        terms[row, shown[row, i]] = -np.inf
    top = -np.inf
    for i in range(documents):
        top = terms[row, i] if terms[row, i] > top else top
    near = True
    for i in range(documents):
        near &= (terms[row, i] == -np.inf) | (top - terms[row, i] < _DECAYS)
    for i in range(documents):
        terms[row, i] = decay(terms[row, i] - top)
    for i in range(length):
        terms[row, shown[row, i]] = 0.0
    total = 0.0
    for i in range(documents):  # a term of 0 changes no bit of a sum
        total += terms[row, i]
    return top, total, near


@inlined
def _fill_denominators(scratch: Floats, length: int, observed: int, tail: float) -> None:
    """The denominators of the ranks 1 .. observed - 1, and those without one of the documents."""
    after = 0.0
    for s in range(length - 1, -1, -1):
        scratch[_BELOW, s] = after
        after += scratch[_TERM, s]
    for t in range(1, observed):
        before = tail
        for s in range(t, length):
            scratch[_WITHOUT + t, s] = before + scratch[_BELOW, s]
            before += scratch[_TERM, s]
        scratch[_WHOLE, t] = before


@inlined
def _pair_weight(scratch: Floats, p: int, q: int) -> float:
    """`rho * u / (1 + u)^2` of positions p < q, u = exp(-|f_p - f_q|)."""
    product: float = 1.0
    moved = scratch[_TERM, p]
    for t in range(p + 1, q + 1):
        product *= (scratch[_WITHOUT + t, q] + moved) / scratch[_WHOLE, t]
    u = decay(-abs(scratch[_SCORE, p] - scratch[_SCORE, q]))
    return float(u / (1.0 + u) ** 2 / (1.0 + product))


@uncounted
def one_scale_coefficients(
    scores: Floats,
    documents: int,
    shown: Ints,
    clicks: Bools,
    row: int,
    observed: int,
    candidates: bool,
    terms: Floats,
    scratch: Floats,
    sides: Ints,
    out: Floats,
) -> bool:
    """Add the coefficients of one list to out[row]; whether one scale serves all of its denominators.

    Args:
        scores: of the candidates, (rows, N).
        documents: number of candidates.
        shown: positions of the shown documents, (rows, k).
        clicks: (rows, k).
        row: of the list.
        observed: top documents that take part in pairs.
        candidates: the normaliser sums over all candidates, else over the shown ones.
        terms: scratch memory, (rows, N).
        scratch: scratch memory, (k + 4, k + 1).
        sides: scratch memory, (2, k + 1).
        out: (rows, k), 0 where the list begins.
    """
    length = 0
    while length < shown.shape[1] and shown[row, length] >= 0:
        length += 1
    tail_top, tail_sum, near = -np.inf, 0.0, True
    if candidates and documents > length:
        tail_top, tail_sum, near = _rest(scores, row, documents, shown, length, terms)
    top, low = tail_top, np.inf
    for i in range(length):
        score = scores[row, shown[row, i]]
        scratch[_SCORE, i] = score
        top = score if score > top else top
        low = score if score < low else low
    if not (near and top - low < SAFE_SPREAD):
        return False
    for i in range(length):
        scratch[_TERM, i] = decay(scratch[_SCORE, i] - top)
    tail = tail_sum * exp(tail_top - top) if tail_sum > 0.0 else 0.0
    _fill_denominators(scratch, length, observed, tail)
    clicked, unclicked = 0, 0
    for i in range(observed):
        sides[1, clicked] = i
        sides[0, unclicked] = i
        clicked += clicks[row, i]
        unclicked += not clicks[row, i]
    for i in range(clicked):
        winner = sides[1, i]
        for j in range(unclicked):
            loser = sides[0, j]
            weight = _pair_weight(scratch, min(winner, loser), max(winner, loser))
            out[row, winner] += weight
            out[row, loser] -= weight
    return True
