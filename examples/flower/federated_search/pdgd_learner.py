"""Pairwise Differentiable Gradient Descent in NumPy, and the published defense of FPDGD.

Sources: Oosterhuis & de Rijke 2018, "Differentiable unbiased online learning to rank", section 4; Wang et al.
2021, "Effective and privacy-preserving federated online learning to rank", section 3.3.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class PairwiseLearner:
    """A linear ranker that learns by PDGD."""

    def __init__(self, learning_rate: float) -> None:
        self.learning_rate = learning_rate

    def scores(self, model: Floats, features: Floats) -> Floats:
        """Scores (n,) of documents with features (n, d) under a model (d,)."""
        return np.asarray(features @ model)

    def update(self, model: Floats, features: Floats, clicks: NDArray[np.bool_]) -> Floats:
        """The change (d,) of the model after a list with features (k, d) and clicks (k,)."""
        return pdgd_step(model, features, clicks, self.learning_rate)


def pdgd_step(model: Floats, features: Floats, clicks: NDArray[np.bool_], learning_rate: float) -> Floats:
    """The change (P,) of a linear model after a list with features (k, d) and clicks (k,).

    Every clicked document is preferred to every unclicked one; the model of the list runs over the shown
    documents.
    """
    scores = features @ model
    weights = np.exp(scores - scores.max())
    coefficients = np.zeros(scores.size)
    as_shown = log_probability(weights)
    for winner in np.flatnonzero(clicks):
        for loser in np.flatnonzero(~clicks):
            swapped = weights.copy()
            swapped[[winner, loser]] = swapped[[loser, winner]]
            rho = 1.0 / (1.0 + np.exp(as_shown - log_probability(swapped)))
            both = weights[winner] + weights[loser]
            pull = rho * weights[winner] * weights[loser] / both**2
            coefficients[winner] += pull
            coefficients[loser] -= pull
    return learning_rate * (coefficients @ features)


def log_probability(weights: Floats) -> float:
    """Log probability that Plackett-Luce shows documents with these weights in this order."""
    left = np.cumsum(weights[::-1])[::-1]
    return float(np.log(weights / left).sum())


def clipped(vector: Floats, norm: float) -> Floats:
    """The vector, scaled back to this L2 norm if it is longer."""
    size = float(np.linalg.norm(vector))
    return vector if size <= norm else vector * (norm / size)


def noise_share(size: int, clients: int, scale: float, rng: np.random.Generator) -> Floats:
    """One of `clients` shares of Laplace noise of this scale on each of `size` numbers."""
    gamma = rng.gamma(1.0 / clients, scale, size=(2, size))
    return np.asarray(gamma[0] - gamma[1])
