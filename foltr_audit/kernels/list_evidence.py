"""What shown lists reveal about the scores that ranked them: Plackett-Luce probabilities, broken ranks."""

from __future__ import annotations

import numpy as np

from .elementary import exp, log
from .jit import Bools, Floats, Ints, kernel
from .threads import in_parts

_LISTS = 64  # of one part: less work is done before a thread has started


@kernel
def _hidden(scores: Floats, shown: Ints) -> Bools:
    """Which of the candidates are not shown, (N,)."""
    hidden = np.ones(scores.size, dtype=np.bool_)
    for i in shown:
        if i >= 0:
            hidden[i] = False
    return hidden


@kernel
def _log_probability(scores: Floats, shown: Ints) -> float:
    """Log probability of one list, from the last rank up: every denominator adds one term to the next."""
    top, rest = -np.inf, 0.0  # the documents left weigh rest * exp(top)
    hidden = _hidden(scores, shown)
    for i in range(scores.size):
        if hidden[i]:
            top = max(top, scores[i])
    for i in range(scores.size):
        if hidden[i]:
            rest += exp(scores[i] - top)
    found = 0.0
    for rank in range(shown.size - 1, -1, -1):
        if shown[rank] >= 0:
            score = scores[shown[rank]]
            # The sum is kept relative to the highest score so far: no exponential overflows, however far
            # scores spread.
            higher = max(top, score)
            rest = (rest * exp(top - higher) if rest > 0.0 else 0.0) + exp(score - higher)
            top = higher
            found += score - top - log(rest)
    return found


@kernel
def _broken_ranks(scores: Floats, shown: Ints, tolerance: float) -> int:
    """Ranks of one list at which some document left has a higher score than the one that is shown."""
    best, found = -np.inf, 0
    hidden = _hidden(scores, shown)
    for i in range(scores.size):
        if hidden[i]:
            best = max(best, scores[i])
    for rank in range(shown.size - 1, -1, -1):
        if shown[rank] >= 0:
            score = scores[shown[rank]]
            found += score < best - tolerance
            best = max(best, score)
    return found


def list_log_probabilities(scores: Floats, starts: Ints, shown: Ints) -> Floats:
    """Log probability of lists sampled from Plackett-Luce without replacement, (C,).

    List c, positions `shown[c]` (C, k) padded with -1, is of candidates with `scores[starts[c]:starts[c+1]]`.
    """
    out = np.empty(shown.shape[0])
    given = (scores, starts, shown, out)
    in_parts(lambda begin, end: fill_log_probabilities(*given, begin, end), out.size, _LISTS)
    return out


@kernel
def fill_log_probabilities(
    scores: Floats, starts: Ints, shown: Ints, out: Floats, begin: int, end: int
) -> None:
    """Fill out[begin:end] of `list_log_probabilities`."""
    for c in range(begin, end):
        out[c] = _log_probability(scores[starts[c] : starts[c + 1]], shown[c])


def broken_ranks(scores: Floats, starts: Ints, shown: Ints, tolerance: float) -> Ints:
    """At how many ranks each list is not in the order of its scores, by more than rounding, (C,).

    Scores that differ by less than `tolerance` times the largest size of a list's scores are equal.
    """
    out = np.empty(shown.shape[0], dtype=np.int64)
    given = (scores, starts, shown, tolerance, out)
    in_parts(lambda begin, end: fill_broken_ranks(*given, begin, end), out.size, _LISTS)
    return out


@kernel
def fill_broken_ranks(
    scores: Floats, starts: Ints, shown: Ints, tolerance: float, out: Ints, begin: int, end: int
) -> None:
    """Fill out[begin:end] of `broken_ranks`."""
    for c in range(begin, end):
        mine = scores[starts[c] : starts[c + 1]]
        size = 0.0
        for score in mine:
            size = max(size, abs(score))
        out[c] = _broken_ranks(mine, shown[c], tolerance * size)
