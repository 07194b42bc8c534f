"""Scores of a function's outputs, learned on trials of their own; higher = more like those with input 1."""

from __future__ import annotations

import numpy as np

from foltr_audit.auditing.function_outputs import FunctionOutputs, OutputTable
from foltr_audit.auditing.trial_scores import Pair, discriminant
from foltr_audit.utils.arrays import Floats

LINEAR_SCORES = ("projection", "discriminant")
"""Scores that are linear in the output, as `gaussian-dp` assumes."""

_RIDGE = 1e-9  # share of a squared difference that is added to a variance, to divide by it
_FARTHEST = 1e8  # in robust standard deviations; the square of what is farther could overflow
_MOST_CORRELATED = 500  # coordinates of a covariance
_MOST_COORDINATES = 8  # for nearest neighbours, which tell little in more dimensions, and take long
_LEVELS = 16
_MOST_LEARNED = 4000  # trials with each input among which neighbours are searched


def output_scores(outputs: FunctionOutputs, learning: int) -> dict[str, Pair]:
    """The scores (N,) of all trials by name, learned from the first `learning` trials with each input.

    - `projection`: onto the difference of the mean outputs, each coordinate in units of its variance.
    - `discriminant`: Fisher's, with the covariance of up to 500 coordinates.
    - `quadratic`: the log likelihood ratio of two normal laws with a mean and a variance for each coordinate,
      so that noise of different size is seen.
    - `neighbours`: which input the nearest learned outputs had, for up to 8 coordinates.
    - `frequency`: the log ratio of how often exactly this output occurred: for discrete outputs, and for
      noise that repeats.
    - `not finite`: the number of NaN and infinities in an output.

    In the first four, NaN and infinities count as the median.
    """
    zero, one = _standardised(outputs.zero.numbers, outputs.one.numbers, learning)
    found = {"projection": _projection(zero, one, learning)}
    if 1 < zero.shape[1] <= _MOST_CORRELATED:
        found["discriminant"] = discriminant(zero, one, learning)
    found["quadratic"] = _quadratic(zero, one, learning)
    if zero.shape[1] <= _MOST_COORDINATES:
        found["neighbours"] = _neighbours(zero, one, learning)
    found["frequency"] = _frequency(outputs.zero, outputs.one, learning)
    found["not finite"] = _not_finite(outputs.zero), _not_finite(outputs.one)
    return found


def in_levels(pair: Pair, trials: slice) -> Pair:
    """Scores in 16 levels, between quantiles of the scores of some trials with either input.

    All thresholds in a tail of a Laplace law show the same epsilon. Of many, the one that looks best by
    chance lies far out, where few evaluated trials are; of 15 none does.
    """
    pooled = np.concatenate([side[trials] for side in pair])
    edges = np.unique(np.quantile(pooled, np.arange(1, _LEVELS) / _LEVELS))
    zero, one = (np.searchsorted(edges, side, side="right").astype(np.float64) for side in pair)
    return zero, one


def _standardised(zero: Floats, one: Floats, learning: int) -> Pair:
    """Coordinates less their median, in units of their interquartile range or standard deviation."""
    learned = np.concatenate([zero[:learning], one[:learning]])
    with np.errstate(invalid="ignore", over="ignore"):
        learned = np.where(np.isfinite(learned), learned, np.nan)
        learned[:, np.isnan(learned).all(axis=0)] = 0.0
        low, median, high = np.nanquantile(learned, [0.25, 0.5, 0.75], axis=0)
        spread = high - low
        spread = np.where(spread > 0, spread, np.nanstd(learned, axis=0))
        spread = np.where((spread > 0) & np.isfinite(spread), spread, 1.0)

        def standardised(numbers: Floats) -> Floats:
            centred = np.where(np.isfinite(numbers), numbers, median) - median
            return np.asarray(np.clip(centred / spread, -_FARTHEST, _FARTHEST))

        return standardised(zero), standardised(one)


def _projection(zero: Floats, one: Floats, learning: int) -> Pair:
    first, second = zero[:learning], one[:learning]
    shift = second.mean(axis=0) - first.mean(axis=0)
    variance = 0.5 * (first.var(axis=0) + second.var(axis=0)) + _RIDGE * shift * shift
    weights = np.divide(shift, variance, out=np.zeros_like(shift), where=variance > 0)
    # `einsum`, not BLAS: its sums have one order, whatever the number of threads.
    return np.einsum("np,p->n", zero, weights), np.einsum("np,p->n", one, weights)


def _quadratic(zero: Floats, one: Floats, learning: int) -> Pair:
    means = [side[:learning].mean(axis=0) for side in (zero, one)]
    gap = (means[1] - means[0]) ** 2
    variances = [side[:learning].var(axis=0) for side in (zero, one)]
    ridge = _RIDGE * (gap + variances[0] + variances[1])
    known = ridge > 0
    widths = [np.where(known, variance + ridge, 1.0) for variance in variances]

    def ratio(seen: Floats) -> Floats:
        away = [(seen - mean) ** 2 / width for mean, width in zip(means, widths, strict=True)]
        terms = away[0] - away[1] - np.log(widths[1] / widths[0])
        return np.asarray(0.5 * np.where(known, terms, 0.0).sum(axis=1))

    return ratio(zero), ratio(one)


def _neighbours(zero: Floats, one: Floats, learning: int) -> Pair:
    """How many more of the k nearest learned outputs had input 1 than input 0.

    Coordinates are replaced by their ranks among the learned ones, and k is the root of the number of these.

    Source: Fix & Hodges 1951, "Discriminatory analysis, nonparametric discrimination".
    """
    from scipy.spatial import KDTree

    learned = [side[: min(learning, _MOST_LEARNED)] for side in (zero, one)]
    both = np.concatenate(learned)
    ordered = np.sort(both, axis=0)

    def ranks(seen: Floats) -> Floats:
        columns = [
            np.searchsorted(ordered[:, j], seen[:, j], side="left")
            + np.searchsorted(ordered[:, j], seen[:, j], side="right")
            for j in range(seen.shape[1])
        ]
        return np.stack(columns, axis=1).astype(np.float64)

    tree = KDTree(ranks(both))
    sign = np.repeat([-1.0, 1.0], [len(side) for side in learned])
    k = max(2, round(np.sqrt(len(both))))

    def score(seen: Floats) -> Floats:
        # The scores of learned outputs are not used: each would count itself.
        found = np.zeros(len(seen))
        _, nearest = tree.query(ranks(seen[learning:]), k=k)
        found[learning:] = sign[nearest].sum(axis=1)
        return found

    return score(zero), score(one)


def _frequency(zero: OutputTable, one: OutputTable, learning: int) -> Pair:
    size = 1 + int(max(zero.codes.max(), one.codes.max()))
    counts = [np.bincount(side.codes[:learning], minlength=size) for side in (zero, one)]
    ratio = np.log(counts[1] + 0.5) - np.log(counts[0] + 0.5)
    return ratio[zero.codes], ratio[one.codes]


def _not_finite(table: OutputTable) -> Floats:
    return np.asarray((~np.isfinite(table.numbers)).sum(axis=1), dtype=np.float64)
