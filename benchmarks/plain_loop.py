"""FPDGD as a careful researcher writes it in NumPy: one Python loop over clients and interactions.

It is what the engine is compared with, so it is as simple as it can be without being slowed down:
float64 features from the start, no copies, BLAS for every product, nothing computed that is not used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.records import Dataset
from foltr_audit.utils.arrays import Floats

LIST_LENGTH = 10


def sample_list(scores: Floats, rng: np.random.Generator) -> NDArray[np.int64]:
    """Positions of up to ten documents from Plackett-Luce without replacement, by Gumbel variates."""
    return np.argsort(-(scores + rng.gumbel(size=scores.size)))[:LIST_LENGTH]


def cascade_clicks(
    labels: NDArray[np.int64], click: Floats, stop: Floats, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Clicks on a list of grades (k,), down to the first one after which the user stops."""
    clicks = rng.random(labels.size) < click[labels]
    stops = np.flatnonzero(clicks & (rng.random(labels.size) < stop[labels]))
    if stops.size:
        clicks[stops[0] + 1 :] = False
    return clicks


def pdgd_coefficients(scores: Floats, shown: NDArray[np.int64], clicks: NDArray[np.bool_]) -> Floats | None:
    """What each shown document's gradient counts in the PDGD gradient, (k,); None without a pair.

    A pair is a clicked document over an unclicked one down to one place below the last click. As in the
    textbook, a difference of exponentials cancels where scores lie more than about 30 apart.

    Source: Oosterhuis & de Rijke 2018, "Differentiable unbiased online learning to rank", eq. 5-7.
    """
    clicked = np.flatnonzero(clicks)
    if not clicked.size:
        return None
    observed = clicks[: clicked[-1] + 2]
    i, j = np.nonzero(observed[:, np.newaxis] & ~observed)
    if not i.size:
        return None
    weights = np.exp(scores - scores.max())
    e = weights[shown]
    weights[shown] = 0.0
    left = weights.sum() + np.cumsum(e[::-1])[::-1]  # the Plackett-Luce denominator of each position
    upper, lower = np.minimum(i, j)[:, np.newaxis], np.maximum(i, j)[:, np.newaxis]
    position = np.arange(e.size)
    between = (upper < position) & (position <= lower)
    swapped = np.where(between, left + e[upper] - e[lower], left)
    odds = np.prod(left / swapped, axis=1)  # P(swapped list) / P(list)
    rho = odds / (1.0 + odds)
    weight = rho * e[i] * e[j] / (e[i] + e[j]) ** 2
    coefficients: Floats = np.subtract(np.bincount(i, weight, e.size), np.bincount(j, weight, e.size))
    return coefficients


def pdgd_gradient(
    X: Floats, scores: Floats, shown: NDArray[np.int64], clicks: NDArray[np.bool_]
) -> Floats | None:
    """The PDGD gradient (P,) of one list of a query with features X (n, P); None without a pair."""
    coefficients = pdgd_coefficients(scores, shown, clicks)
    return None if coefficients is None else coefficients @ X[shown]


@dataclass(frozen=True, eq=False)
class PlainLoop:
    """Federated rounds over queries that are given as separate arrays.

    Attributes:
        features: float64 (documents, P) of each query.
        labels: grades of each query's documents.
        click, stop: P(click | grade) and P(stop | click, grade).
        clients, interactions: clients of a round, and local steps of each.
        learning_rate: step size.
        clip: radius of the L2 ball that local models are kept in; None for no clip.
        noise: scale of the Laplace noise that the clients' Gamma shares sum to; 0 for none.
    """

    features: list[Floats]
    labels: list[NDArray[np.int64]]
    click: Floats
    stop: Floats
    clients: int
    interactions: int
    learning_rate: float = 0.1
    clip: float | None = None
    noise: float = 0.0

    @staticmethod
    def queries_of(data: Dataset) -> tuple[list[Floats], list[NDArray[np.int64]]]:
        """Features and labels of each query of a data set."""
        cuts = data.offsets[1:-1]
        return np.split(data.features.astype(np.float64), cuts), np.split(data.labels, cuts)

    def step(self, model: Floats, query: int, rng: np.random.Generator) -> Floats:
        """The local model (P,) after one interaction, before any clip."""
        X = self.features[query]
        scores = X @ model
        shown = sample_list(scores, rng)
        clicks = cascade_clicks(self.labels[query][shown], self.click, self.stop, rng)
        gradient = pdgd_gradient(X, scores, shown, clicks)
        return model if gradient is None else model + self.learning_rate * gradient

    def interact(self, model: Floats, query: int, rng: np.random.Generator) -> Floats:
        """The local model (P,) after one interaction."""
        model = self.step(model, query, rng)
        if self.clip is not None:
            length = np.sqrt(model @ model)
            if length > self.clip:
                model = model * (self.clip / length)
        return model

    def round(self, parameters: Floats, rng: np.random.Generator) -> Floats:
        """The global model (P,) after one round: the mean of what the clients send."""
        total = np.zeros_like(parameters)
        for _ in range(self.clients):
            model = parameters
            for query in rng.integers(len(self.features), size=self.interactions):
                model = self.interact(model, query, rng)
            if self.noise:
                shares = rng.gamma(1.0 / self.clients, self.noise, size=(2, model.size))
                model = model + shares[0] - shares[1]
            total += model
        return total / self.clients

    def rounds(self, parameters: Floats, count: int, rng: np.random.Generator) -> Floats:
        """The global model (P,) after this many rounds."""
        for _ in range(count):
            parameters = self.round(parameters, rng)
        return parameters
