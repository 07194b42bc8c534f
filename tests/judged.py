"""Evidence made by hand: lists with their truth and what one attack said of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from foltr_audit.judge.evidence import Evidence, Guessed

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def evidence(
    query: Sequence[str],
    clicks: Bools,
    guess: Bools,
    lengths: Ints | None = None,
    scores: Floats | None = None,
    *,
    any_click: Floats | None = None,
    message: Ints | None = None,
    told: Bools | None = None,
    observed: Bools | None = None,
    baselines: Sequence[str] = (),
    probabilities: Sequence[str] = (),
    refused: dict[str, str] | None = None,
) -> Evidence:
    """Lists of one attack named `attack`.

    Its scores are its guesses where none are given; each list is a message by itself, all its documents
    observed and told.
    """
    L, k = clicks.shape
    here = np.arange(k) < (np.full(L, k) if lengths is None else lengths)[:, np.newaxis]
    values = guess.astype(np.float64) if scores is None else scores
    number = np.arange(L) if message is None else message
    sure = np.where(here, values, -np.inf).max(axis=1, initial=-np.inf)
    own = here if told is None else told & here
    return Evidence(
        query=np.array(query, dtype=np.str_),
        message=number,
        shown=np.where(here, np.arange(k) + 10, -1),
        clicks=clicks & here,
        observed=here if observed is None else observed & here,
        told=own,
        rank=_of_message(number, own),
        unknowns=_of_message(number, here),
        guessed={
            "attack": Guessed(scores=values, guess=guess, any_click=sure if any_click is None else any_click)
        },
        baselines=frozenset(baselines),
        probabilities=frozenset(probabilities),
        refused=refused or {},
        steps=0,
        clipped=0,
    )


def _of_message(message: Ints, documents: Bools) -> Ints:
    """How many documents of each list's message there are, (L,)."""
    counts = documents.sum(axis=1)
    return np.array([counts[message == number].sum() for number in message], dtype=np.int64)


def random_evidence(
    seed: int, lists: int = 60, k: int = 6, queries: int = 12, silent: float = 0.0
) -> Evidence:
    """Lists of 1 to k documents with clicks; a share of them, in the mean, has lost its clicks."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, k + 1, size=lists)
    clicks = rng.random((lists, k)) < 0.5
    clicks[np.arange(lists), rng.integers(0, lengths)] = True
    scores = np.where(rng.random((lists, k)) < 0.5, clicks, rng.integers(0, 4, size=(lists, k))).astype(float)
    guess = scores > rng.integers(0, 4, size=(lists, 1))
    scores[np.arange(k) >= lengths[:, np.newaxis]] = 99.0  # the padding must not count
    names = [f"q{q}" for q in rng.integers(0, queries, size=lists)]
    clicks[rng.random(lists) < silent] = False
    told = rng.random((lists, k)) < 0.8
    return evidence(names, clicks, guess, lengths, scores, told=told)


def middle(draws: Floats) -> tuple[float, float]:
    """The middle 95 % of resampled values."""
    low, high = np.quantile(draws[~np.isnan(draws)], [0.025, 0.975])
    return float(low), float(high)


def share_ends(value: float, draws: Floats, queries: int) -> tuple[float, float]:
    """The 95 % interval of a share: as `middle`, but wider where few queries carry the hits or the misses."""
    low, high = middle(draws)
    spread = queries * draws[~np.isnan(draws)].var()
    few = any(p == 0 or queries / (1 + spread / p**2) < 5 for p in (value, 1 - value))
    if few:
        hits, misses = value * queries, (1 - value) * queries
        low = min(low, beta.ppf(0.025, hits, misses + 1) if hits else 0.0)
        high = max(high, beta.ppf(0.975, hits + 1, misses) if misses else 1.0)
    return float(low), float(high)


def resampled(values: Floats, counts: Floats, query: NDArray[np.str_], draws: Ints) -> Floats:
    """Sums of values over sums of counts in each resample: a bootstrap over queries in plain loops.

    Args:
        values, counts: of each list, (L,).
        query: name of each list's query, (L,).
        draws: numbers of the queries drawn, in the order of their names, (resamples, queries).
    """
    lists = [np.flatnonzero(query == name) for name in np.unique(query)]
    out = []
    for draw in draws:
        rows = [row for number in draw for row in lists[number]]
        total = sum(float(counts[row]) for row in rows)
        out.append(sum(float(values[row]) for row in rows) / total if total else np.nan)
    return np.array(out)
