"""Intents of clients, by least squares from the sums of rounds and from what each list is expected to add."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from foltr_audit.core.records.participation import Participation
from foltr_audit.utils.arrays import Floats, Ints

MOST_UNKNOWNS = 4096
"""Clients times intents whose equations are solved at once: 128 MB."""

_LEAST = 1e-9  # least variance of a number in a sum, relative to the largest


class ExplainedSum(NamedTuple):
    """The sum of one round, and what the lists of its clients explain of it.

    Attributes:
        total: the sum of updates, float64 (P,).
        owner: place of each list's client among the members of the round, int64 (B,).
        mean: the update that each list is expected to add under each intent, float64 (B, I, P).
        covariance: how much clicks make the sum vary, float64 (P, P).
    """

    total: Floats
    owner: Ints
    mean: Floats
    covariance: Floats


def intent_weights(sums: Sequence[ExplainedSum], taking_part: Participation) -> Floats:
    """How much speaks for each intent of each of N clients, float64 (N, I).

    A sum is what its lists are expected to add under the intents of their clients, plus noise by clicks,
    whose covariance is known, and by defenses, whose variance is estimated. The answer is the best linear
    estimate of an indicator of each client's intent, if intents are equally likely and do not change: 1 / I
    for each where the sums say nothing.

    Args:
        sums: of each round.
        taking_part: who took part; at most `MOST_UNKNOWNS` clients times intents.
    """
    intents, N = sums[0].mean.shape[1], taking_part.clients
    left = np.eye(N * intents) * intents  # an indicator varies by 1 / I, less than what all of them share
    right = np.zeros(N * intents)
    added = [_by_client(one, members.weights) for one, members in zip(sums, taking_part.rounds, strict=True)]
    misfits = [one.total - each.mean(axis=1).sum(axis=0) for one, each in zip(sums, added, strict=True)]
    extra = _further_variance(sums, misfits)
    for one, each, misfit, members in zip(sums, added, misfits, taking_part.rounds, strict=True):
        design = (each - each.mean(axis=1, keepdims=True)).reshape(-1, misfit.size).T
        spread = one.covariance + extra * np.eye(misfit.size)
        values, vectors = np.linalg.eigh(spread)
        whiten = vectors / np.sqrt(np.maximum(values, _LEAST * max(values[-1], np.finfo(float).tiny)))
        design, misfit = whiten.T @ design, whiten.T @ misfit
        at = (members.clients[:, np.newaxis] * intents + np.arange(intents)).reshape(-1)
        left[np.ix_(at, at)] += design.T @ design
        right[at] += design.T @ misfit
    return np.asarray(1.0 / intents + np.linalg.solve(left, right).reshape(N, intents))


def _by_client(one: ExplainedSum, weights: Floats) -> Floats:
    """What each of n members is expected to add under each intent, (n, I, P)."""
    out = np.zeros((weights.size, *one.mean.shape[1:]))
    np.add.at(out, one.owner, one.mean)
    return out * weights[:, np.newaxis, np.newaxis]


def _further_variance(sums: Sequence[ExplainedSum], misfits: Sequence[Floats]) -> float:
    """Variance of a number in a sum beyond that by clicks: of noise, and of what is only approximate."""
    seen = float(np.mean([misfit @ misfit for misfit in misfits]))
    by_clicks = float(np.mean([np.trace(one.covariance) for one in sums]))
    return max(0.0, seen - by_clicks) / misfits[0].size
