"""Regresses the sums of rounds on who took part in them, for a server that sees nothing but sums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from foltr_audit.inference.intent_likelihood import under_each
from foltr_audit.inference.pattern_decoder import PatternDecoder, why_too_long
from foltr_audit.inference.replay import NEEDS, why_no_replay
from foltr_audit.plugins import Inference, ParticipantAttack, ParticipantEstimates, Participation, View
from foltr_audit.utils.arrays import Floats, Ints

MOST_UNKNOWNS = 4096
"""Clients times intents whose equations are solved at once: 128 MB."""

_LEAST = 1e-9  # least variance of a number in a sum, relative to the largest


class ExplainedSum(NamedTuple):
    """The sum (P,) of one round, and what the lists of its clients explain of it.

    Each list has an owner among the members of the round, (B,), and the mean that it is expected to add under
    each intent, (B, I, P); clicks make the sum vary by the covariance, (P, P).
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

    There are at most `MOST_UNKNOWNS` clients times intents.
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


_MOST_PARAMETERS = 256  # a covariance of more would take a megabyte for each sum


def knows_expected_updates(view: View) -> bool:
    """Whether an observer can compute the updates that are expected under each intent."""
    known = view.knowledge
    if not (known.intents and known.has("click_model") and all(known.has(name) for name in NEEDS)):
        return False
    fits = view.parameters.shape[1] <= _MOST_PARAMETERS and why_too_long(view) is None
    return (
        fits and view.intent_labels is not None and known.belief is not None and why_no_replay(view) is None
    )


def expected_updates(view: View) -> tuple[Floats, Floats]:
    """Moments of what each list of a view that `knows_expected_updates` accepts adds to its client's update.

    The mean under each intent, float64 (n, B, I, P), 0 where a message has fewer lists; and the covariance of
    the sum over all lists, if intents are equally likely and known, (n, P, P).

    The probability of each of the 2^k click patterns under the grades of an intent times the update that
    follows from it, summed over the patterns. Each list is taken at the global model, so that they are
    approximate where a client has several in a round.
    """
    alone = _one_list_each(view)
    # Updates follow from reported clicks.
    decoder, worlds = PatternDecoder(alone), [replace(each, reported=True) for each in under_each(alone)]
    (n, B, _), P = view.shown.shape, view.parameters.shape[1]
    mean, covariance = np.zeros((n * B, len(worlds), P)), np.zeros((n, P, P))
    for rows in decoder.chunks():
        terms, columns = decoder.coefficients(rows)
        terms = terms[:, :, : columns.shape[2]]
        chances = np.stack([np.exp(world.log_priors(rows, 0)) for world in worlds])
        first = np.einsum("ihs,hsj->hij", chances, terms)
        mean[rows] = np.einsum("hij,hpj->hip", first, columns)
        weighted = chances.mean(axis=0)[:, :, np.newaxis] * terms
        second = np.matmul(weighted.transpose(0, 2, 1), terms)
        spread = second - np.einsum("hij,hil->hjl", first, first) / len(worlds)
        np.add.at(covariance, rows // B, np.matmul(np.matmul(columns, spread), columns.transpose(0, 2, 1)))
    return mean.reshape(n, B, len(worlds), P), covariance


def _one_list_each(view: View) -> View:
    """The same lists as messages of their own, (n B, 1)."""
    n, B, k = view.shown.shape
    candidates, labels, grades = view.candidates, view.labels, view.intent_labels
    return replace(
        view,
        parameters=np.repeat(view.parameters, B, axis=0),
        messages=np.repeat(view.messages, B, axis=0),
        seeds=None,
        shown=view.shown.reshape(n * B, 1, k),
        features=view.features.reshape(n * B, 1, *view.features.shape[2:]),
        candidates=None if candidates is None else replace(candidates, query=candidates.query.reshape(-1, 1)),
        labels=None if labels is None else labels.reshape(n * B, 1, k),
        intent_labels=None if grades is None else grades.reshape(n * B, 1, k, grades.shape[3]),
        clients=np.ones(1, dtype=np.int64),
        senders=None,
    )


_PENALTIES = np.geomspace(1e-12, 1e4, 65)
"""Penalties that are compared, relative to the largest squared singular value."""

_NOTHING = 1e-10  # singular values below this, relative to the largest, are rounding
_FARTHEST = 1e140  # sums are clipped to this size, so that their squares are finite


class _Spectrum(NamedTuple):
    """The sums in coordinates in which each has one unknown.

    The r singular values of the design, directions of clients (N, r), sums along the directions that the
    design reaches (r, P), the sum of squares of what it does not reach (P,), and the number of independent
    rows.
    """

    singular: Floats
    right: Floats
    along: Floats
    rest: Floats
    rows: int


def mean_updates(sums: Floats, taking_part: Participation, drift: int = 2) -> Floats:
    """Estimates of the mean update of each of N clients, float64 (N, P).

    A sum is taken as the members' mean updates plus what all have in common and changes slowly with the
    rounds, as global models do: a polynomial of the number of the round. What is left of sums and cohorts is
    regressed on each other, with a penalty on the deviations of clients from each other. The penalty is the
    one with the largest likelihood if deviations and noise are normal, so that sums full of noise give small
    deviations. Clients that the cohorts do not tell apart, such as those of fixed cohorts, get the same
    estimate.

    `sums` are of the updates in each of R rounds, weighted as in `taking_part`, (R, P); `drift` is the degree
    of the polynomial, a lower one for few rounds.

    Source: Lam, Wei, Brooks, Reddi & Mitzenmacher 2021, "Gradient disaggregation: breaking privacy in
    federated learning by reconstructing the user participant matrix", for a matrix that is known; the penalty
    as the ratio of two variances, by their likelihood: Patterson & Thompson 1971, "Recovery of inter-block
    information when block sizes are unequal", section 2.
    """
    matrix = taking_part.matrix
    sums = np.clip(np.asarray(sums, dtype=np.float64), -_FARTHEST, _FARTHEST)
    if not matrix.size:
        return np.zeros((taking_part.clients, sums.shape[1]))
    basis = _common(matrix.sum(axis=1), drift)
    found = _spectrum(sums - basis @ (basis.T @ sums), matrix - basis @ (basis.T @ matrix), basis.shape[1])
    shrunk = found.singular**2 + _penalty(found)
    deviations = found.right @ ((found.singular / shrunk)[:, np.newaxis] * found.along)
    left = sums - matrix @ deviations
    common = basis @ (basis.T @ left)
    squares = matrix**2
    turns = matrix.sum(axis=0)[:, np.newaxis]
    turns[turns <= 0] = 1.0  # a client who takes part in no round
    own = squares.T @ ((left - common) / squares.sum(axis=1, keepdims=True)) / turns
    size = matrix.sum(axis=1)
    return np.asarray(deviations + own + (size @ common) / (size @ size))


def _common(weights: Floats, drift: int) -> Floats:
    """Orthonormal columns (R, J + 1) of what all clients have in common, by the sums' total weights (R,)."""
    R = weights.size
    degree = min(drift, (R - 1) // 4)
    time = np.linspace(-1.0, 1.0, R) if R > 1 else np.zeros(1)
    columns = np.polynomial.legendre.legvander(time, degree) * weights[:, np.newaxis]
    return np.asarray(np.linalg.qr(columns)[0])


def _spectrum(sums: Floats, matrix: Floats, removed: int) -> _Spectrum:
    left, singular, right = np.linalg.svd(matrix, full_matrices=False)
    kept = singular > _NOTHING * singular.max(initial=0.0)
    along = left[:, kept].T @ sums
    rest = np.maximum((sums**2).sum(axis=0) - (along**2).sum(axis=0), 0.0)
    return _Spectrum(singular[kept], right[kept].T, along, rest, len(sums) - removed)


def _penalty(found: _Spectrum) -> float:
    """The penalty with the largest profile likelihood: the noise's variance over that of deviations."""
    if not found.singular.size:
        return 1.0
    squares = (found.along**2).sum(axis=0) + found.rest
    here = squares > 0.0
    penalties = _PENALTIES * found.singular[0] ** 2
    if not here.any():
        return float(penalties[0])
    along, rest = found.along[:, here] ** 2 / squares[here], found.rest[here] / squares[here]
    best, chosen = -np.inf, float(penalties[0])
    for penalty in penalties.tolist():
        spread = 1.0 + found.singular**2 / penalty
        noise = (along / spread[:, np.newaxis]).sum(axis=0) + rest
        likely = -found.rows * np.log(noise).sum() - here.sum() * np.log(spread).sum()
        if likely > best:
            best, chosen = float(likely), penalty
    return chosen


_SIZES = 3  # numbers in front: parameters, lists and intents, the last two 0 where lists explain nothing


class ParticipationRegression(ParticipantAttack):
    """Finds each client's mean update, and its intent, by least squares of sums on cohorts.

    A round's sum is one equation in the mean updates of those who took part, so after about as many rounds as
    there are clients nothing but each client's own variation hides them. Intents go another way, since the
    mean update follows from the queries much more than from the intent: from each sum it takes what the lists
    are expected to add under equally likely intents, and regresses the rest on what each intent would change.

    Sees: the sum of updates of each round and who took part in it; for intents also features, order and
    grades of the shown documents under each intent, PDGD's settings, the clip, the click model, whose list is
    whose.

    Source: Lam, Wei, Brooks, Reddi & Mitzenmacher 2021, "Gradient disaggregation: breaking privacy in
    federated learning by reconstructing the user participant matrix", whose last step this is: the server
    knows the matrix.
    """

    name: ClassVar[str] = "participation-regression"
    ranker_use: ClassVar[str] = "nothing"
    needs: ClassVar[frozenset[str]] = frozenset()

    drift: int = Field(
        2, ge=0, le=20, description="degree in time of the polynomial that all clients have in common"
    )

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        """`answer` holds the sum, and what its lists are expected to add."""
        (n, B, _), P = view.shown.shape, view.parameters.shape[1]
        if not knows_expected_updates(view):
            sizes = np.broadcast_to(np.array([P, 0, 0]), (n, _SIZES))
            return Inference.about(view, np.concatenate([sizes, view.updates], axis=1))
        mean, covariance = expected_updates(view)
        owner = np.zeros((n, B)) if view.senders is None else view.senders.astype(np.float64)
        sizes = np.broadcast_to(np.array([P, B, mean.shape[2]], dtype=np.float64), (n, _SIZES))
        rows: tuple[Floats, ...] = (sizes, view.updates, owner, mean, covariance)
        flat = [row.reshape(n, math.prod(row.shape[1:])) for row in rows]
        return Inference.about(view, np.concatenate(flat, axis=1))

    def participants(self, sums: Sequence[Floats], taking_part: Participation) -> ParticipantEstimates:
        """Mean updates by regression; intents where lists explain every sum."""
        told = [_unpacked(row) for row in sums]
        updates = mean_updates(np.array([one.total for one in told]), taking_part, self.drift)
        intents = {one.mean.shape[1] for one in told}
        known = 0 not in intents and len(intents) == 1 and self._fits(told, taking_part)
        return ParticipantEstimates(updates, intent_weights(told, taking_part) if known else None)

    def _fits(self, told: Sequence[ExplainedSum], taking_part: Participation) -> bool:
        """Whether each list has an owner, and the equations are not too many."""
        owned = all(
            one.owner.max(initial=0) < members.clients.size
            and (members.clients.size == 1 or np.unique(one.owner).size > 1)
            for one, members in zip(told, taking_part.rounds, strict=True)
        )
        return owned and taking_part.clients * told[0].mean.shape[1] <= MOST_UNKNOWNS


def _unpacked(row: Floats) -> ExplainedSum:
    """The sum and what explains it, from a row of `infer`."""
    P, B, intents = (int(size) for size in row[:_SIZES])
    total, owner, mean, covariance = np.split(row[_SIZES:], np.cumsum([P, B, B * intents * P]))
    return ExplainedSum(
        total=total,
        owner=owner.astype(np.int64),
        mean=mean.reshape(B, intents, P),
        covariance=covariance.reshape(P, P) if intents else np.zeros((0, 0)),
    )
