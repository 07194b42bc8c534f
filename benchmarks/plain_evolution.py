"""FOLtR-ES as a careful researcher writes it in NumPy: one Python loop over clients and interactions.

Clients and server are one process, so perturbations are kept and never drawn a second time from a seed;
they are drawn as one matrix, and the gradient is one product with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.plain_loop import LIST_LENGTH
from benchmarks.plain_users import PlainUsers
from foltr_audit.utils.arrays import Floats


def reciprocal_rank(clicks: NDArray[np.bool_]) -> float:
    """One over the rank of the first click on a list (k,); 0 without a click.

    >>> reciprocal_rank(np.array([False, True, True])), reciprocal_rank(np.zeros(3, dtype=np.bool_))
    (0.5, 0.0)
    """
    first = int(clicks.argmax())
    return 1.0 / (first + 1) if clicks[first] else 0.0


def evolution_gradient(noise: Floats, metrics: Floats, sigma: float) -> Floats:
    """`sum_c z_c (m_c+ - m_c-) / (2 C sigma)`, (P,), of standard normal z (C, P) and mean metrics (C, 2)."""
    gradient: Floats = (metrics[:, 0] - metrics[:, 1]) @ noise / (2 * sigma * metrics.shape[0])
    return gradient


class AdamState(NamedTuple):
    """Steps taken, and the running means of gradients and of their squares, each (P,)."""

    steps: int
    mean: Floats
    square: Floats


def adam(parameters: Floats, state: AdamState, gradient: Floats, rate: float) -> tuple[Floats, AdamState]:
    """One ascending step with the usual decays .9 and .999.

    Source: Kingma & Ba 2015, "Adam: a method for stochastic optimization", algorithm 1.
    """
    t = state.steps + 1
    mean = 0.9 * state.mean + 0.1 * gradient
    square = 0.999 * state.square + 0.001 * gradient**2
    step = rate * (mean / (1 - 0.9**t)) / (np.sqrt(square / (1 - 0.999**t)) + 1e-8)
    return parameters + step, AdamState(t, mean, square)


@dataclass(frozen=True, eq=False)
class PlainEvolution:
    """FOLtR-ES with antithetic pairs, reciprocal ranks as metric, and Adam.

    Source: Kharitonov 2019, "Federated online learning to rank with evolution strategies", section 4.

    Attributes:
        users: what is searched, and how users click.
        clients, interactions: clients of a round, and interactions of each, an even number.
        sigma: standard deviation of a perturbation.
        learning_rate: step size of the server.
    """

    users: PlainUsers
    clients: int
    interactions: int
    sigma: float = 0.01
    learning_rate: float = 0.001

    def mean_metric(self, model: Floats, queries: NDArray[np.int64], rng: np.random.Generator) -> float:
        """Mean reciprocal rank of the first clicks on the best ten documents of each query under a model."""
        total = 0.0
        for query in queries:
            scores = self.users.features[query] @ model
            shown = np.argsort(-scores, kind="stable")[:LIST_LENGTH]
            total += reciprocal_rank(self.users.clicks(query, shown, rng))
        return total / queries.size

    def metrics(
        self, parameters: Floats, noise: Floats, queries: NDArray[np.int64], rng: np.random.Generator
    ) -> Floats:
        """Mean metrics (C, 2) at perturbed and mirrored models, of noise (C, P) and queries (C, B)."""
        half = queries.shape[1] // 2
        found = np.empty((queries.shape[0], 2))
        for client, move in enumerate(self.sigma * noise):
            asked = queries[client]
            found[client, 0] = self.mean_metric(parameters + move, asked[:half], rng)
            found[client, 1] = self.mean_metric(parameters - move, asked[half:], rng)
        return found

    def rounds(self, parameters: Floats, count: int, rng: np.random.Generator) -> Floats:
        """The global model (P,) after this many rounds."""
        state = AdamState(0, np.zeros_like(parameters), np.zeros_like(parameters))
        for _ in range(count):
            noise = rng.standard_normal((self.clients, parameters.size))
            queries = self.users.asked((self.clients, self.interactions), rng)
            found = self.metrics(parameters, noise, queries, rng)
            gradient = evolution_gradient(noise, found, self.sigma)
            parameters, state = adam(parameters, state, gradient, self.learning_rate)
        return parameters
