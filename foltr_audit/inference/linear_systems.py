"""Systems of linear equations behind a message, with documents as unknowns, and their rounding errors."""

from __future__ import annotations

import hashlib
from functools import cache
from typing import NamedTuple

import numpy as np

from foltr_audit.core.records.view import Inference, View
from foltr_audit.utils.array_memo import remembered
from foltr_audit.utils.arrays import Bools, Floats, Ints

_ARITHMETIC = 2.0**-50  # of a sum of float64 products, relative to its terms
_SURE = 4.0  # rounding errors (standard deviations) that a weight must exceed
_NOISE = 16.0  # rounding errors that a residual exceeds only by noise
_GAP, _FAINT = 1e3, 1e-4  # least ratio of the weights around a gap; most of the lower one to the largest


def with_model_column(view: View) -> Floats:
    """Jacobian columns of a message's documents and, last, the global model: float64 (n, P, B k + 1).

    An active clip shrinks the model, which adds a multiple of it to the update.
    """
    return np.concatenate([view.columns, view.parameters[:, :, np.newaxis]], axis=2)


class LeastSquaresFit(NamedTuple):
    """A least-squares fit of each of n systems.

    The shortest solution, (n, m); the standard deviation of each weight from rounding alone, of the values
    and while solving, (n, m); and whether the residual is larger than rounding explains, bool (n,).
    """

    weights: Floats
    errors: Floats
    noisy: Bools


def least_squares(columns: Floats, values: Floats, roundings: Floats, off: float = 0.0) -> LeastSquaresFit:
    """The shortest least-squares solution of each of n systems: columns (n, P, m) of unknowns, values (n, P).

    `roundings` are errors of the values, (n, P), and `off` is the relative error of the numbers in the
    columns. Singular values below `max(P, m) * 2.2e-16` of the largest count as zero, so identical documents
    share their weight, and a system without columns gives zeros.
    """
    if not columns.size:
        nothing = np.zeros((columns.shape[0], columns.shape[2]))
        return LeastSquaresFit(nothing, nothing, np.zeros(len(columns), dtype=np.bool_))
    # Not `np.linalg.lstsq` or `pinv`: singular values and vectors also give the errors of the weights.
    U, s, Vt = singular_vectors(columns)
    floor = np.finfo(np.float64).eps * max(columns.shape[1:]) * s.max(axis=-1, keepdims=True, initial=0.0)
    inverse = np.divide(1.0, s, out=np.zeros_like(s), where=s > floor)
    weights = np.einsum("nrm,nr->nm", Vt, inverse * np.einsum("npr,np->nr", U, values))
    solving = (_ARITHMETIC + off) * entering(columns, weights)
    spread = roundings.max(axis=1, keepdims=True, initial=0.0) + solving.max(axis=1, keepdims=True)
    left = np.abs(values - np.einsum("npm,nm->np", columns, weights)).max(axis=1, initial=0.0)
    errors = spread * np.sqrt(np.einsum("nrm,nr->nm", Vt**2, inverse**2))
    return LeastSquaresFit(weights, errors, left > _NOISE * spread[:, 0])


def singular_vectors(columns: Floats) -> tuple[Floats, Floats, Floats]:
    """The singular value decomposition U, s, Vt of each of n matrices (n, P, m).

    Several attacks need the same one of a view, and views under several click models often show the same
    lists; where memory is kept, it is found by a digest of the columns.
    """
    svd = cache(lambda: np.linalg.svd(columns, full_matrices=False))
    digest = cache(lambda: hashlib.sha256(np.ascontiguousarray(columns).data).digest())

    def part(place: int) -> Floats:
        return remembered(lambda: ("svd", place, columns.shape, digest()), lambda: svd()[place])

    return part(0), part(1), part(2)


def clicks_in_box(view: View, columns: Floats, *, absolute: bool, values: Floats | None = None) -> Floats:
    """Clicks (n, B k) between 0 and 1 that explain the updates best by the columns of a client step.

    Where a list's clicks are known up to a common part only, as under a listwise loss, few such clicks lie
    between 0 and 1. The last of the columns (n, P, B k + 1) is the global model's; they explain the `values`
    (n, P), by default `View.click_updates`. The sum of absolute residuals is minimised, or of their squares.
    """
    from foltr_audit.kernels.regression import box_least_absolute, box_least_squares

    upper = np.ones((columns.shape[0], columns.shape[2]))
    upper[:, :-1] = view.is_document.reshape(len(view), -1)
    # The last unknown is how much of the model a clip takes away, none without a clip.
    upper[:, -1] = view.knowledge.clip is not None
    signed = np.concatenate([columns[:, :, :-1], -columns[:, :, -1:]], axis=2)
    solve = box_least_absolute if absolute else box_least_squares
    given = view.click_updates if values is None else values
    found: Floats = solve(signed, np.ascontiguousarray(given), upper)
    return found[:, :-1]


def entering(columns: Floats, weights: Floats) -> Floats:
    """Sum of the absolute terms of each number of a message, (n, P), for weights (n, m)."""
    return np.asarray(np.einsum("npm,nm->np", np.abs(columns), np.abs(weights)))


def rounding_fit(view: View, columns: Floats, weights: Floats) -> LeastSquaresFit:
    """Weights (n, B k) that another solver found on columns (n, P, B k + ...), with their rounding errors.

    The effect of rounding the features is computed with these weights, since least-squares weights follow
    the noise.
    """
    m = weights.shape[1]
    known = roundings(view) + view.feature_resolution * entering(columns[:, :, :m], weights)
    fit = least_squares(columns, view.click_updates, known)
    return LeastSquaresFit(weights, fit.errors[:, :m], fit.noisy)


def name_by_weight(view: View, fit: LeastSquaresFit, tolerance: float | None) -> Inference:
    """The answer that names documents with a positive weight: weights (n, B k) are the scores.

    A weight counts as 0 up to `tolerance` times the message's largest absolute one; where that is None, up
    to four times its rounding error.
    """
    largest = np.abs(fit.weights).max(axis=1, keepdims=True, initial=0.0)
    return _named_above(view, fit, _SURE * fit.errors if tolerance is None else tolerance * largest)


def name_above_gap(view: View, fit: LeastSquaresFit) -> Inference:
    """The answer that names documents with a positive weight above rounding and above a gap in the weights.

    For fits that are robust against noise in a minority of the numbers.
    """
    return _named_above(view, fit, np.maximum(_SURE * fit.errors, _below_gap(fit)))


def _named_above(view: View, fit: LeastSquaresFit, least: Floats) -> Inference:
    if view.knowledge.client_step is not None:
        least = np.maximum(least, _half_a_click(view, fit))
    named = (fit.weights > least).reshape(view.shown.shape)
    return Inference(scores=fit.weights.reshape(view.shown.shape), guess=named & view.is_document)


def _half_a_click(view: View, fit: LeastSquaresFit) -> Floats:
    """Half of what a click weighs in each message, (n, 1).

    The columns of a client step are single clicks: a click weighs 1, or less where an update is clipped or a
    loss divides by the number of clicks, but all clicks of a message weigh about the same.
    """
    largest = fit.weights.max(axis=1, keepdims=True, initial=0.0)
    return np.asarray(np.maximum(largest, 1.0 / max(1, view.shown.shape[2])) / 2.0)


def _below_gap(fit: LeastSquaresFit) -> Floats:
    """The largest weight below the widest gap of a noisy message's positive weights, (n, 1); else 0.

    Most shares of sparse noise are tiny but not 0. They change a weight of 0 by more than rounding does, but
    by orders of magnitude less than a click.
    """
    found = np.where(fit.weights > _SURE * fit.errors, fit.weights, 0.0)
    falling = -np.sort(-found, axis=1)
    above, below = falling[:, :-1], falling[:, 1:]
    small = (below > 0.0) & (below < _FAINT * falling[:, :1]) & fit.noisy[:, np.newaxis]
    ratios = np.divide(above, below, out=np.zeros_like(above), where=small)
    widest = (ratios > _GAP) & (ratios == ratios.max(axis=1, keepdims=True, initial=0.0))
    return np.asarray(np.max(below, axis=1, keepdims=True, initial=0.0, where=widest))


def roundings(view: View) -> Floats:
    """Rounding error of the numbers of a message: float64 (n, P).

    A message is rounded to its number format, or encoded as integers; a client computes in float64 at the
    size of its model. The effect of rounding the features depends on the weights: see `rounding_fit`.
    """
    known = view.knowledge
    rounded = known.resolution * np.abs(view.messages) + _ARITHMETIC * np.abs(view.parameters)
    return np.asarray(rounded + known.encoding_error)


def observed_lengths(view: View) -> Ints:
    """Estimate of how many top documents of each list take part in pairs, int64 (n, B).

    All of them where all form pairs; else the documents down to the last one with a nonzero coefficient in
    the least-absolute-deviations fit, since later ones have 0 up to rounding.
    """
    from foltr_audit.kernels.regression import least_absolute

    n, B, k = view.shown.shape
    lengths: Ints = view.is_document.sum(axis=2)
    if view.knowledge.pairs != "last-click+1" or not view.shown.size:
        return lengths
    columns = with_model_column(view)
    fit = rounding_fit(view, columns, least_absolute(columns, view.click_updates)[:, :-1])
    there = (np.abs(fit.weights) > _SURE * fit.errors).reshape(n, B, k)
    last = np.where(there, np.arange(k), -1).max(axis=2)
    return np.asarray(np.minimum(last + 1, lengths))
