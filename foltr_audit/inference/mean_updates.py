"""Mean update of each client, by least squares from the sums of rounds and from who took part in them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from foltr_audit.core.records.participation import Participation
from foltr_audit.utils.arrays import Floats

_PENALTIES = np.geomspace(1e-12, 1e4, 65)
"""Penalties that are compared, relative to the largest squared singular value."""

_NOTHING = 1e-10  # singular values below this, relative to the largest, are rounding
_FARTHEST = 1e140  # sums are clipped to this size, so that their squares are finite


class _Spectrum(NamedTuple):
    """The sums in coordinates in which each has one unknown.

    Attributes:
        singular: r singular values of the design.
        right: directions of clients, (N, r).
        along: sums along the directions that the design reaches, (r, P).
        rest: sum of squares of what it does not reach, (P,).
        rows: number of independent rows.
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

    Args:
        sums: sum of the updates in each of R rounds, weighted as in `taking_part`, float64 (R, P).
        taking_part: who took part.
        drift: degree of the polynomial; a lower one for few rounds.

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
    own = squares.T @ ((left - common) / squares.sum(axis=1, keepdims=True)) / _nonzero(matrix.sum(axis=0))
    size = matrix.sum(axis=1)
    return np.asarray(deviations + own + (size @ common) / (size @ size))


def _nonzero(weights: Floats) -> Floats:
    """Total weights (N,) as divisors, (N, 1); 1 for a client who takes part in no round."""
    return np.where(weights > 0, weights, 1.0)[:, np.newaxis]


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
