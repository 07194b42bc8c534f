"""The law of the noise, from what the shown documents cannot explain of an update.

An update of a linear ranker is a sum of feature rows of the documents that were shown, and of the global
model where a clip shrinks it. Whatever is at right angles to these is noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from foltr_audit.core.records.view import View
from foltr_audit.inference.linear_systems import rounding_fit, with_model_column
from foltr_audit.judge.fact_inference.estimate import FactEstimate, Surety, cannot_tell
from foltr_audit.privacy.noise import GammaShare, Gaussian
from foltr_audit.privacy.noise.parse import law_text
from foltr_audit.utils.arrays import Floats

_FEWEST = 30  # messages, and numbers beyond the documents, that an estimate needs
_NONE = 1e-5  # residuals below this share of the updates are no noise
_SPARSE = 0.5  # of the numbers left nearly alone by noise that comes in shares
_TINY = 1e-3  # of the largest residual: smaller ones count as left alone
_BEYOND = 3  # numbers of a message that documents must leave free
_LAPLACE = 3.0  # excess kurtosis of Laplace noise; of one of n shares it is 3 n
_SURE = 4.0  # standard errors
_UNEVEN = 4.0  # times the variance that one law for all numbers gives: noise that differs among them


class _Residuals(NamedTuple):
    """What is left of n updates: by least squares, and by least absolute deviations.

    Attributes:
        squares: residuals, (n, P); zero of messages whose documents leave too little free.
        absolute: those of least absolute deviations, (n, P).
        free: dimensions that the documents leave, (n,).
        share: `M_ii` of the projection M of each message: the share of each number left free, (n, P).
        weight: `sum_i M_ii^2` and `sum_ij M_ij^4` of it, (n, 2).
        update: root mean square of each update, (n,).
        noisy: whether the residual is more than rounding, (n,).
    """

    squares: Floats
    absolute: Floats
    free: Floats
    share: Floats
    weight: Floats
    update: Floats
    noisy: Floats


def noise_estimate(views: Sequence[View]) -> FactEstimate:
    """The fact `noise`, from messages with their lists."""
    if not views or views[0].knowledge.ranker != "linear":
        return cannot_tell("noise", "only the documents of linear rankers span their updates")
    found = _joined([_residuals(view) for view in views])
    n, P = found.squares.shape
    free = found.free >= _BEYOND
    if free.sum() < _FEWEST:
        why = (
            f"{free.sum()} of {n} messages have {_BEYOND} dimensions beyond their documents, {_FEWEST} needed"
        )
        return cannot_tell("noise", why)
    beyond = (
        f"{int(np.median(found.free[free]))} of {P} dimensions beyond the documents, {free.sum()} messages"
    )
    left, size = np.sqrt((found.squares[free] ** 2).mean()), float(np.median(found.update[free]))
    if not size:
        return cannot_tell("noise", "most messages do not change the model")
    if not found.noisy[free].any() or left <= _NONE * size:
        sure: Surety = "certain" if not found.noisy[free].any() else "likely"
        return FactEstimate("noise", sure, f"nothing is left but rounding: {beyond}", "none")
    kept = _Residuals(*(each[free] for each in found))
    if _left_alone(kept) <= _SPARSE:
        return _of_dense(kept, beyond)
    if np.median(kept.free) < P / 2:
        return cannot_tell("noise", f"sparse noise, and only {beyond}: too few to see how sparse")
    return _of_shares(kept, beyond)


def _is_uneven(values: Floats, expected: Floats, spread: float) -> bool:
    """Whether sums of values (n, P), by row or by column, vary more than one law for all of them allows.

    A value of expectation e has the variance e^2 spread, at most.
    """
    off = values - expected
    return any(
        float((off.sum(axis=axis) ** 2).sum()) > _UNEVEN * spread * float((expected**2).sum())
        for axis in (0, 1)
    )


def _left_alone(found: _Residuals) -> float:
    """The share of numbers, beyond those that a fit makes 0 itself, that noise leaves nearly alone."""
    small = np.abs(found.absolute) <= _TINY * np.sqrt((found.absolute**2).mean())
    fitted = found.absolute.shape[1] - found.free
    return float(np.mean((small.sum(axis=1) - fitted) / found.free))


def _of_dense(found: _Residuals, beyond: str) -> FactEstimate:
    """Normal, Laplace or shares of Laplace noise, by variance and kurtosis of what is left.

    The fourth moment of a residual `M z` is `3 s^4 sum M_ii^2 + k s^4 sum M_ij^4` with excess kurtosis k.
    """
    squares, fourth = (found.squares**2).sum(axis=1), (found.squares**4).sum(axis=1)
    flat, steep = found.weight[:, 0], found.weight[:, 1]
    variance = float(squares.sum() / found.free.sum())
    off = (squares - variance * found.free) / (variance * found.free.sum())
    kurtosis = float((fourth.sum() / variance**2 - 3.0 * flat.sum()) / steep.sum())
    shift = fourth / variance**2 - 3.0 * flat - kurtosis * steep - 2.0 * fourth.sum() / variance**2 * off
    error, spread = float(np.sqrt((off**2).sum())), float(np.sqrt((shift**2).sum()) / steep.sum())
    scale = float(np.sqrt(variance))
    how = f"{beyond}; scale +- {50 * error:.2g} %, excess kurtosis {kurtosis:.2g} +- {spread:.1g}"
    within = 0.5 * _SURE * error + 0.01
    if _is_uneven(found.squares**2 / variance, found.share, 2.0 + max(0.0, kurtosis)):
        return cannot_tell("noise", f"noise that differs among messages or numbers: {how}")
    nearest = 0.0 if kurtosis < _LAPLACE / 2 else _LAPLACE * max(1, round(kurtosis / _LAPLACE))
    if abs(kurtosis - nearest) > _SURE * spread + 0.1:
        return cannot_tell("noise", f"no known law fits noise of standard deviation {scale:.3g}: {how}")
    if kurtosis < _LAPLACE / 2:
        return FactEstimate("noise", "likely", how, Gaussian(sigma=_short(scale, error)).text, within)
    shares = max(1, round(kurtosis / _LAPLACE))
    law = GammaShare(n=shares, scale=_short(scale * float(np.sqrt(shares / 2.0)), error))
    return FactEstimate("noise", "likely", how, law_text(law), within)


def _of_shares(found: _Residuals, beyond: str) -> FactEstimate:
    """One of n Gamma shares, by the likelihood of all residuals above a threshold and the number below it."""
    sizes = np.abs(found.absolute).reshape(-1)
    least = _TINY * float(sizes.max())
    above = sizes[sizes > least]
    if above.size < _FEWEST:
        return cannot_tell("noise", f"{above.size} numbers with noise, {_FEWEST} needed: {beyond}")
    below = sizes.size - above.size
    hits = np.abs(found.absolute) > least
    if _is_uneven(hits / hits.mean(), np.ones(hits.shape), float(1.0 / hits.mean() - 1.0)):
        return cannot_tell("noise", f"noise that differs among messages or numbers: {beyond}")
    numbers = np.unique(np.round(np.geomspace(2, 1e5, 60)).astype(np.int64))
    scales = float(sizes.max()) * np.geomspace(0.05, 2.0, 60)
    fits = np.empty((numbers.size, scales.size))
    for i, n in enumerate(numbers.tolist()):
        law = GammaShare(n=n, scale=1.0)
        inside = law.probability_within(least / scales)
        inside = np.ones(scales.size) if inside is None else np.clip(inside, 1e-300, 1.0)
        density = law.log_density(above / scales[:, np.newaxis]).sum(axis=1) - above.size * np.log(scales)
        fits[i] = density + below * np.log(inside)
    best = np.unravel_index(int(fits.argmax()), fits.shape)
    near = fits >= fits.max() - 0.5 * _SURE**2
    n_range, s_range = numbers[near.any(axis=1)], scales[near.any(axis=0)]
    n, scale = int(numbers[best[0]]), float(scales[best[1]])
    how = (
        f"{beyond}; n {n_range[0]} to {n_range[-1]}, scale {s_range[0]:.2g} to {s_range[-1]:.2g}, "
        f"from {above.size} numbers with noise"
    )
    error = float(s_range[-1] / s_range[0] - 1.0) / 2.0
    law = GammaShare(n=_round_count(n, n_range[-1] / n_range[0]), scale=_short(scale, error))
    return FactEstimate("noise", "likely", how, law.text, 2.0 * error)


def _round_count(n: int, spread: float) -> int:
    """A number with as many digits as its spread allows."""
    digits = 1 if spread > 1.5 else 2 if spread > 1.1 else 3
    return max(1, int(float(f"{n:.{digits}g}")))


def _short(value: float, error: float) -> float:
    """A number with as many digits as its relative error allows, and one more."""
    digits = 1 if error > 0.05 else 2 if error > 0.005 else 3
    return float(f"{value:.{digits + 1}g}")


def _residuals(view: View) -> _Residuals:
    from foltr_audit.kernels.lad import least_absolute

    columns = with_model_column(view)
    _, P, m = columns.shape
    weights = least_absolute(columns, view.updates)
    absolute = view.updates - np.einsum("npm,nm->np", columns, weights)
    sizes = np.linalg.norm(columns, axis=1, keepdims=True)
    scaled = np.divide(columns, sizes, out=np.zeros_like(columns), where=sizes > 0)
    U, s, _ = np.linalg.svd(scaled, full_matrices=False)
    inside = U * (s > 1e-10 * s.max(axis=1, keepdims=True, initial=0.0))[:, np.newaxis]
    beyond = np.eye(P) - inside @ inside.transpose(0, 2, 1)
    free = np.round(np.trace(beyond, axis1=1, axis2=2))
    diagonal = np.diagonal(beyond, axis1=1, axis2=2)
    fit = rounding_fit(view, columns, weights[:, : m - 1])
    return _Residuals(
        squares=np.einsum("npq,nq->np", beyond, view.updates),
        absolute=absolute,
        free=free,
        share=diagonal,
        weight=np.stack([(diagonal**2).sum(axis=1), (beyond**4).sum(axis=(1, 2))], axis=1),
        update=np.sqrt((view.updates**2).mean(axis=1)),
        noisy=fit.noisy.astype(np.float64),
    )


def _joined(pieces: Sequence[_Residuals]) -> _Residuals:
    return _Residuals(*(np.concatenate(several) for several in zip(*pieces, strict=True)))
