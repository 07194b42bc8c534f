"""Interleaving: one list from the rankings of two rankers, and which of them its clicks prefer.

The rankers are the current one and a candidate. A ranking holds the positions of a query's documents,
the best first. A list has k places, padded with -1 where a query has fewer documents.

Source: Radlinski, Kurup & Joachims 2008, "How does clickthrough data reflect retrieval quality?",
section 4.2 (team draft); Hofmann, Whiteson & de Rijke 2011, "A probabilistic method for inferring
preferences from clicks", sections 3.1 and 3.2.
"""

from __future__ import annotations

import numpy as np

from .jit import Bools, Floats, Ints, kernel

_STEEPNESS = 3  # tau of the softmax over ranks


@kernel
def ranking(scores: Floats) -> Ints:
    """Positions (n,) by falling score (n,); of equal ones the lower position first."""
    return np.argsort(-scores, kind="mergesort")


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
def _left(weights: Floats) -> float:
    total = 0.0
    for rank in range(weights.size):
        total += weights[rank]
    return total


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
        left, right = _left(weights[0]), _left(weights[1])
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
    for place in range(odds.size):
        if clicks[place]:
            seen += 1
            # From the top down: share[won - 1] must still be that of the clicks before this one.
            for won in range(seen, 0, -1):
                share[won] = share[won] * (1.0 - odds[place]) + share[won - 1] * odds[place]
            share[0] *= 1.0 - odds[place]
    outcome = 0.0
    for won in range((seen + 1) // 2):
        outcome += share[seen - won] - share[won]
    return outcome
