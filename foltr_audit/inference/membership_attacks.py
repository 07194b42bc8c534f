"""Membership inference: who took part in a federation, from other federations with and without each client.

An attack gets the evidence (`update_evidence`) of the attacked federation and of shadow federations, and the
members of the shadows. It never gets those of the attacked one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from foltr_audit.core.settings.membership import MembershipMethod, MembershipSpec
from foltr_audit.errors import UsageError
from foltr_audit.utils.arrays import Bools, Floats, freeze


def update_evidence(changes: Floats, expected: Floats, baseline: Floats) -> Floats:
    """The log-likelihood ratio that a client's update is in a change of the global model.

    Changes with and without the client are taken to be Gaussian with the same covariance, their means one
    update apart. Then no statistic separates them better than the inner product of the change with the
    update, both multiplied by the inverse square root of the covariance (Neyman & Pearson 1933; Fisher 1936).
    The covariance is that of the federations, shrunk (`shrunk_covariance`), since there may be more
    parameters than federations. Changes of different rounds are taken to be independent.

    Of K federations, T rounds and P parameters the changes are (K, T, P); each of M clients is expected to
    contribute (M, T, P), and the client that takes its place (T, P). The evidence of each federation for each
    client is (K, M): 0 is none, above 0 is for membership.
    """
    total = np.zeros((len(changes), len(expected)))
    for t in range(changes.shape[1]):
        centred = changes[:, t] - changes[:, t].mean(axis=0)
        total += _one_round(centred, expected[:, t] - baseline[t])
    return total


def _one_round(centred: Floats, shifts: Floats) -> Floats:
    """Evidence (K, M) of centred changes (K, P) for shifts (M, P)."""
    shrinkage, scale = shrunk_covariance(centred)
    if not scale > 0:
        return np.zeros((len(centred), len(shifts)))
    # In the basis of the singular vectors the shrunk covariance is diagonal, also where there are more
    # parameters than federations: the rest of the space holds no change.
    left, size, right = np.linalg.svd(centred, full_matrices=False)
    spread = (1.0 - shrinkage) * size**2 / len(centred) + shrinkage * scale
    # With as many federations as they have degrees of freedom, the smallest variances may be rounded to 0.
    weights = np.divide(size, spread, out=np.zeros_like(size), where=spread > np.finfo(float).eps * scale)
    return np.asarray((left * weights) @ (right @ shifts.T))


def shrunk_covariance(centred: Floats) -> tuple[float, float]:
    """How far to shrink the covariance of centred rows (K, P), and the variance to shrink it to: s and m.

    The shrunk covariance is `(1 - s) S + s m I`, S the mean of the outer products, m the mean of its
    diagonal.

    Source: Ledoit & Wolf 2004, "A well-conditioned estimator for large-dimensional covariance matrices",
    section 3.
    """
    rows, parameters = centred.shape
    # With the Gram matrix of the rows no matrix of P x P is needed.
    gram = centred @ centred.T / rows
    scale = float(np.trace(gram)) / parameters
    squares = float((gram**2).sum())  # the squared Frobenius norm of S
    apart = squares / parameters - scale**2
    if not apart > 0:
        return 1.0, scale
    error = (float((np.diag(gram) ** 2).sum()) - squares / rows) / parameters
    return min(max(error, 0.0) / apart, 1.0), scale


FEW = 128
"""With fewer shadows than this, all candidates share one variance (Carlini et al. 2022, section VI)."""

_SMALLEST, _LEAST_LOG = 1e-300, -1e300  # the least variance, and the least logarithm of a mean


@dataclass(frozen=True, kw_only=True, eq=False)
class ShadowEvidence:
    """What an attacker knows of N candidates, Z other clients and S shadow federations.

    The evidence of the attacked federation for each candidate, (N,), and of each shadow, (S, N), with the
    candidates that took part in it; the same for clients that took part in none, (Z,) and (S, Z).
    """

    attacked: Floats
    shadows: Floats
    members: Bools
    attacked_others: Floats = field(default_factory=lambda: np.empty(0))
    shadow_others: Floats = field(default_factory=lambda: np.empty((0, 0)))

    def __post_init__(self) -> None:
        freeze(self, attacked=np.float64, shadows=np.float64, members=np.bool_)
        freeze(self, attacked_others=np.float64, shadow_others=np.float64)


class MembershipAttack(ABC):
    name: ClassVar[str]

    @abstractmethod
    def scores(self, known: ShadowEvidence) -> Floats:
        """A score for each candidate, float64 (N,): higher the more likely it is a member."""


@dataclass(frozen=True)
class LikelihoodRatioAttack(MembershipAttack):
    """LiRA: the ratio of two Gaussians, fitted to the shadows with and without the candidate.

    Offline it knows the shadows without the candidate only, and scores how far above them the evidence is.

    Source: Carlini, Chien, Nasr, Song, Terzis & Tramer 2022, "Membership inference attacks from first
    principles", algorithm 1 and section IV.
    """

    name: ClassVar[str] = "lira"

    offline: bool = False

    def scores(self, known: ShadowEvidence) -> Floats:
        """The log-likelihood ratio; offline, standard deviations above the mean without the candidate."""
        mean, variance = _normal(known.shadows, ~known.members)
        without = (known.attacked - mean) ** 2 / variance
        if self.offline:
            return np.asarray((known.attacked - mean) / np.sqrt(variance))
        there, spread = _normal(known.shadows, known.members)
        within = (known.attacked - there) ** 2 / spread
        return np.asarray(0.5 * (without - within + np.log(variance / spread)))


@dataclass(frozen=True)
class RelativeAttack(MembershipAttack):
    """RMIA: how many other clients the attacked federation speaks for less than for the candidate.

    What it says of a client is the likelihood ratio that its update is in the model, divided by the mean of
    this ratio over the shadows with and without the client. The score is the share of clients that took part
    in no federation whose value the candidate's exceeds by a factor `gamma`. Where the shadows with a client
    are unknown (offline, and for clients that took part in none), the mean with it is taken to be `scale`
    times the mean without it plus `1 - scale`; a likelihood ratio has mean 1 without the client.

    Source: Zarifzadeh, Liu & Shokri 2024, "Low-cost high-power membership inference attacks", section 2;
    the likelihood ratio takes the place of the probability of a label.
    """

    name: ClassVar[str] = "rmia"

    offline: bool = False
    gamma: float = 1.0
    scale: float = 0.3

    def scores(self, known: ShadowEvidence) -> Floats:
        """The share of other clients that the candidate exceeds."""
        if not known.attacked_others.size:
            raise UsageError("rmia: no other clients; expected some that took part in no federation")
        without = _log_mean(known.shadows, ~known.members)
        there = self._guess(without) if self.offline else _log_mean(known.shadows, known.members)
        mine = known.attacked - np.logaddexp(there, without)
        outside = _log_mean(known.shadow_others, np.ones(known.shadow_others.shape, dtype=np.bool_))
        theirs = np.sort(known.attacked_others - np.logaddexp(self._guess(outside), outside))
        beaten = np.searchsorted(theirs, mine - np.log(self.gamma), side="right")
        return np.asarray(beaten / theirs.size)

    def _guess(self, without: Floats) -> Floats:
        """The logarithm of the mean with a client, from that without it."""
        if self.scale in (0, 1):
            return self.scale * without
        return np.asarray(np.logaddexp(np.log(self.scale) + without, np.log(1.0 - self.scale)))


def membership_attack(name: MembershipMethod, protocol: MembershipSpec) -> MembershipAttack:
    base, _, offline = name.partition("-")
    if base == LikelihoodRatioAttack.name:
        return LikelihoodRatioAttack(offline=bool(offline))
    return RelativeAttack(offline=bool(offline), gamma=protocol.gamma, scale=protocol.offline_scale)


def _normal(values: Floats, where: Bools) -> tuple[Floats, Floats]:
    """Mean and variance (N,) of the values (S, N) of each candidate that count."""
    counts = where.sum(axis=0)
    mean = np.where(where, values, 0.0).sum(axis=0) / np.maximum(counts, 1)
    squares = np.where(where, (values - mean) ** 2, 0.0).sum(axis=0)
    free = np.maximum(counts - 1, 1)
    alike = squares.sum() / free.sum() if len(values) < FEW else squares / free
    return mean, np.maximum(np.broadcast_to(alike, mean.shape), _SMALLEST)


def _log_mean(values: Floats, where: Bools) -> Floats:
    """The logarithm of the mean of e^value (N,) over the values (S, N) of each client that count."""
    from scipy.special import logsumexp

    with np.errstate(divide="ignore"):  # of a client without values
        total = logsumexp(values, axis=0, b=where)
    return np.asarray(np.maximum(total - np.log(np.maximum(where.sum(axis=0), 1)), _LEAST_LOG))
