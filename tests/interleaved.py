"""Interleavings as their authors describe them, in plain Python: what the kernels are held against."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations, product

import numpy as np

from foltr_audit.kernels.interleaving import probabilistic, team_draft
from tests.toys import Bools, Floats, Ints


def drafted(
    current: Sequence[int], candidate: Sequence[int], coins: Sequence[bool], k: int
) -> tuple[list[int], list[int]]:
    """Radlinski's algorithm: the list and the teams (1 the candidate); coins[r] lets the candidate begin."""
    shown: list[int] = []
    teams: list[int] = []
    while len(shown) < min(k, len(current)):
        mine, other = teams.count(1), teams.count(0)
        picks = mine < other or (mine == other and coins[mine])
        shown.append(next(d for d in (candidate if picks else current) if d not in shown))
        teams.append(int(picks))
    return shown, teams


def chances(order: Sequence[int], gone: Sequence[int], steepness: float = 3.0) -> dict[int, float]:
    """P(a ranker draws a document) for those that are left."""
    weights = {d: 1.0 / (rank + 1) ** steepness for rank, d in enumerate(order) if d not in gone}
    total = sum(weights.values())
    return {d: weight / total for d, weight in weights.items()}


def list_law(
    current: Sequence[int], candidate: Sequence[int], k: int, steepness: float = 3.0
) -> dict[tuple[int, ...], float]:
    """P(list) of probabilistic interleaving, for every list."""
    law = {}
    for shown in permutations(current, k):
        law[shown] = 1.0
        for place, d in enumerate(shown):
            both = (chances(order, shown[:place], steepness)[d] for order in (current, candidate))
            law[shown] *= sum(both) / 2
    return law


def assignment_law(
    current: Sequence[int], candidate: Sequence[int], shown: Sequence[int]
) -> dict[tuple[int, ...], float]:
    """P(who drew each place | list), for every assignment (1 the candidate): Bayes over all of them."""
    law = {}
    for teams in product((0, 1), repeat=len(shown)):
        law[teams] = 1.0
        for place, team in enumerate(teams):
            law[teams] *= chances((current, candidate)[team], shown[:place])[shown[place]]
    total = sum(law.values())
    return {teams: p / total for teams, p in law.items()}


def place_odds(current: Sequence[int], candidate: Sequence[int], shown: Sequence[int]) -> list[float]:
    """P(the candidate drew it | document, places above) of each place."""
    odds = []
    for place, d in enumerate(shown):
        other, mine = (chances(order, shown[:place])[d] for order in (current, candidate))
        odds.append(mine / (mine + other))
    return odds


def independent_law(odds: Sequence[float]) -> dict[tuple[int, ...], float]:
    """P(assignment) where each place is the candidate's with a probability of its own."""
    return {
        teams: float(np.prod([p if team else 1 - p for p, team in zip(odds, teams, strict=True)]))
        for teams in product((0, 1), repeat=len(odds))
    }


def outcome(law: dict[tuple[int, ...], float], clicks: Sequence[bool] | Bools | None = None) -> float:
    """P(more clicks are the candidate's) - P(fewer) under a law of assignments; without clicks, all are."""
    total = 0.0
    for teams, p in law.items():
        clicks = [True] * len(teams) if clicks is None else clicks
        balance = sum(2 * team - 1 for team, click in zip(teams, clicks, strict=False) if click)
        total += p * float(np.sign(balance))
    return total


def numbers_for(current: Sequence[int], candidate: Sequence[int], shown: Sequence[int], team: int) -> Floats:
    """Numbers with which one ranker alone draws a list: the middle of each document's share."""
    u = []
    for place, d in enumerate(shown):
        share = chances((current, candidate)[team], shown[:place])
        below = sum(p for other, p in share.items() if list(share).index(other) < list(share).index(d))
        u += [0.25 + 0.5 * team, below + share[d] / 2]
    return np.array(u)


def filled(
    kind: str, current: Sequence[int] | Ints, candidate: Sequence[int] | Ints, u: Floats, k: int
) -> tuple[Ints, Floats]:
    """List and odds (k,) of a kernel."""
    shown, odds = np.full(k, 7, dtype=np.int64), np.full(k, np.nan)
    kernel = team_draft if kind == "team-draft" else probabilistic
    kernel(np.array(current), np.array(candidate), u, shown, odds)
    return shown, odds


def orders(n: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Every pair of rankings of n documents, up to their names."""
    for candidate in permutations(range(n)):
        yield tuple(range(n)), candidate
