"""Interleaving of two rankings in plain NumPy: the current ranker's, then the candidate's.

Sources: Radlinski, Kurup & Joachims 2008, "How does clickthrough data reflect retrieval quality?",
section 4.2 (team draft); Hofmann, Whiteson & de Rijke 2011, "A probabilistic method for inferring
preferences from clicks", sections 3.1 and 3.2.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import numpy as np

from benchmarks.plain_loop import LIST_LENGTH
from foltr_audit.utils.arrays import Bools, Floats, Ints


def merge(orders: Ints, turns: Iterable[bool]) -> Ints:
    """A list in which each place has the first document of its ranking that is not above it, (k,).

    Args:
        orders: the first ten documents of both rankings, or all if there are fewer, (2, k).
        turns: whether the candidate's ranking has its turn, for each place.
    """
    both = [iter(order) for order in orders.tolist()]
    shown: list[int] = []
    for turn in turns:
        for document in both[turn]:
            if document not in shown:
                shown.append(document)
                break
    return np.array(shown)


def team_draft(rankings: Ints, coins: Bools) -> tuple[Ints, Bools]:
    """A list (k,) of two rankings (2, n), and which of its documents the candidate picked, (k,).

    Coin r of at least five says whether the candidate begins round r of the draft.
    """
    orders = rankings[:, :LIST_LENGTH]
    turns = np.stack([coins, ~coins], axis=1).reshape(-1)[: orders.shape[1]]
    return merge(orders, turns.tolist()), turns


def prefers_team(teams: Bools, clicks: Bools) -> bool:
    """Whether the candidate picked more than half of the clicked documents; both (k,)."""
    return bool(2 * np.count_nonzero(clicks & teams) > np.count_nonzero(clicks))


@cache
def _weights(documents: int) -> tuple[Floats, Floats]:
    """`1 / rank^3` of each rank, and its logarithm, each (documents,)."""
    ranks = np.arange(1.0, documents + 1)
    return ranks**-3, -3 * np.log(ranks)


def probabilistic(rankings: Ints, rng: np.random.Generator) -> tuple[Ints, Floats]:
    """A list (k,) of two rankings (2, n), and P(the candidate drew it | document, places above), (k,).

    Each place belongs to a fair coin's ranker, which draws by `1 / rank^3` from what is left. All that it
    may draw is drawn at once, in Plackett-Luce order: what the other ranker takes out does not change the
    law of the order of the rest.
    """
    documents = rankings.shape[1]
    weights, logarithms = _weights(documents)
    drawn = np.argsort(-(logarithms + rng.gumbel(size=(2, documents))), axis=1)[:, :LIST_LENGTH]
    coins = rng.random(size=min(documents, LIST_LENGTH)) < 0.5
    shown = merge(np.take_along_axis(rankings, drawn, axis=1), coins.tolist())
    return shown, place_odds(rankings, shown, weights)


def place_odds(rankings: Ints, shown: Ints, weights: Floats) -> Floats:
    """P(the candidate drew it | document, places above), (k,), of rankers that draw ranks by weights (n,)."""
    ranks = np.empty_like(rankings)
    ranks[0, rankings[0]] = ranks[1, rankings[1]] = np.arange(rankings.shape[1])
    taken = weights[ranks[:, shown]]
    left = weights.sum() - (np.cumsum(taken, axis=1) - taken)
    current, candidate = taken / left
    odds: Floats = candidate / (current + candidate)
    return odds


def prefers(odds: Floats, clicks: Bools) -> bool:
    """Whether more clicked documents are rather the candidate's than fewer, of odds and clicks (k,).

    Sums in another order differ by rounding, which is no win.
    """
    share = [1.0]  # P(this many of the clicked documents are the candidate's)
    for p in odds[clicks].tolist():
        share = [lost * (1.0 - p) + won * p for lost, won in zip([*share, 0.0], [0.0, *share], strict=True)]
    seen = len(share) - 1
    return sum(share[seen // 2 + 1 :]) - sum(share[: (seen + 1) // 2]) > 1e-12
