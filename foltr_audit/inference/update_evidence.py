"""How well the change of a global model fits the update of one client, against what other clients explain."""

from __future__ import annotations

import numpy as np

from foltr_audit.utils.arrays import Floats


def update_evidence(changes: Floats, expected: Floats, baseline: Floats) -> Floats:
    """The log-likelihood ratio that a client's update is in a change of the global model.

    Changes with and without the client are taken to be Gaussian with the same covariance, their means one
    update apart. Then no statistic separates them better than the inner product of the change with the
    update, both multiplied by the inverse square root of the covariance (Neyman & Pearson 1933; Fisher 1936).
    The covariance is that of the federations, shrunk (`shrunk_covariance`), since there may be more
    parameters than federations. Changes of different rounds are taken to be independent.

    Args:
        changes: of the global model, float64 (K, T, P): K federations, T rounds, P parameters.
        expected: what each of M clients is expected to contribute to each change, float64 (M, T, P).
        baseline: what the client that takes its place is expected to contribute, float64 (T, P).

    Returns:
        The evidence of each federation for each client, float64 (K, M): 0 is none, above 0 is for membership.
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
    """How far to shrink the covariance of centred rows (K, P), and the variance to shrink it to.

    The shrunk covariance is `(1 - s) S + s m I`, S the mean of the outer products, m the mean of its
    diagonal.

    Source: Ledoit & Wolf 2004, "A well-conditioned estimator for large-dimensional covariance matrices",
    section 3.

    Returns:
        s, between 0 and 1, and m.
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
