"""Learners in the centre as a careful researcher writes them in NumPy: a Python loop over interactions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from benchmarks.plain_interleaving import prefers, prefers_team, probabilistic, team_draft
from benchmarks.plain_loop import LIST_LENGTH, pdgd_gradient, sample_list
from benchmarks.plain_users import PlainUsers
from foltr_audit.utils.arrays import Bools, Floats, Ints


@dataclass(frozen=True, eq=False)
class PlainPDGD:
    """PDGD that steps after every `batch` interactions, by the sum of their gradients.

    Source: Oosterhuis & de Rijke 2018, "Differentiable unbiased online learning to rank", algorithm 1.

    Attributes:
        users: what is searched, and how users click.
        per_round: interactions of a round.
        batch: interactions of a step.
        learning_rate: step size.
    """

    users: PlainUsers
    per_round: int
    batch: int = 1
    learning_rate: float = 0.1

    def gradient(self, model: Floats, query: int, rng: np.random.Generator) -> Floats | None:
        """The gradient (P,) of one interaction; None where there is no pair."""
        X = self.users.features[query]
        scores = X @ model
        shown = sample_list(scores, rng)
        return pdgd_gradient(X, scores, shown, self.users.clicks(query, shown, rng))

    def learn(self, model: Floats, queries: Ints, rng: np.random.Generator) -> Floats:
        """The model (P,) after interactions that ask queries (N,)."""
        if self.batch == 1:
            for query in queries:
                gradient = self.gradient(model, query, rng)
                if gradient is not None:
                    model = model + self.learning_rate * gradient
            return model
        for first in range(0, queries.size, self.batch):
            total = np.zeros_like(model)
            for query in queries[first : first + self.batch]:
                gradient = self.gradient(model, query, rng)
                if gradient is not None:
                    total += gradient
            model = model + self.learning_rate * total
        return model

    def rounds(self, parameters: Floats, count: int, rng: np.random.Generator) -> Floats:
        """The model (P,) after this many rounds."""
        for _ in range(count):
            parameters = self.learn(parameters, self.users.asked(self.per_round, rng), rng)
        return parameters


@dataclass(frozen=True, eq=False)
class PlainDBGD:
    """Dueling bandit gradient descent.

    Source: Yue & Joachims 2009, "Interactively optimizing information retrieval systems as a dueling bandits
    problem", section 4.

    Attributes:
        users: what is searched, and how users click.
        per_round: interactions of a round.
        probabilistic: probabilistic interleaving instead of a team draft.
        delta: distance of the candidate from the model.
        learning_rate: step size after a win.
    """

    users: PlainUsers
    per_round: int
    probabilistic: bool = False
    delta: float = 1.0
    learning_rate: float = 0.01

    def rankings(self, model: Floats, u: Floats, query: int) -> Ints:
        """All documents of a query as the model and the candidate in direction u (P,) rank them, (2, n)."""
        models = np.stack([model, model + self.delta * u])
        return np.argsort(-(models @ self.users.features[query].T), axis=1, kind="stable")

    def interact(self, model: Floats, query: int, rng: np.random.Generator) -> Floats:
        """The model (P,) after one interaction."""
        u = rng.standard_normal(model.size)
        u /= np.sqrt(u @ u)
        rankings = self.rankings(model, u, query)
        if self.probabilistic:
            shown, odds = probabilistic(rankings, rng)
            won = prefers(odds, self.users.clicks(query, shown, rng))
        else:
            shown, teams = team_draft(rankings, rng.random(LIST_LENGTH // 2) < 0.5)
            won = prefers_team(teams, self.users.clicks(query, shown, rng))
        return model + self.learning_rate * u if won else model

    def rounds(self, parameters: Floats, count: int, rng: np.random.Generator) -> Floats:
        """The model (P,) after this many rounds."""
        for _ in range(count):
            for query in self.users.asked(self.per_round, rng):
                parameters = self.interact(parameters, query, rng)
        return parameters


def costs_of(clicks: Bools) -> Floats:
    """1 for each unclicked document above the last click of a list (k,), else 0, (k,)."""
    clicked = np.flatnonzero(clicks)
    costs = np.zeros(clicks.size)
    if clicked.size:
        costs[: clicked[-1]] = ~clicks[: clicked[-1]]
    return costs


def pessimistic(weights: Floats, costs: Floats, gamma: float) -> Floats:
    """`SNIPS + gamma sqrt(Var / k)` of rankers with importance weights (M, k), (M,)."""
    kinds = np.stack([costs, 1.0 - costs], axis=1)
    sums, squares = weights @ kinds, weights**2 @ kinds
    snips = sums[:, 0] / (sums[:, 0] + sums[:, 1])
    spread = (1.0 - snips) ** 2 * squares[:, 0] + snips**2 * squares[:, 1]
    variance = spread / (squares[:, 0] + squares[:, 1])
    bounds: Floats = snips + gamma * np.sqrt(variance / costs.size)
    return bounds


class COLTRMemory(NamedTuple):
    """The model (P,), its updates so far, and the directions of the last winners (W, P)."""

    model: Floats
    updates: int
    winners: Floats


@dataclass(frozen=True, eq=False)
class PlainCOLTR:
    """Counterfactual online learning to rank.

    The normalisers of both softmaxes cancel in the self-normalised estimate and are not computed; nothing
    is drawn where no shown document has a cost, as no candidate can be better there.

    Source: Zhuang & Zuccon 2020, "Counterfactual online learning to rank", section 3.

    Attributes:
        users: what is searched, and how users click.
        per_round: interactions of a round.
        candidates: candidate rankers of an interaction.
        step: their distance from the model.
        learning_rate, decay: first step size, and what each update multiplies it by.
        gamma: weight of the estimate's standard error.
        tau: temperature of the sampled lists.
    """

    users: PlainUsers
    per_round: int
    candidates: int = 499
    step: float = 1.0
    learning_rate: float = 0.1
    decay: float = 0.99966
    gamma: float = 1.0
    tau: float = 1.0

    def directions(self, winners: Floats, rng: np.random.Generator) -> Floats:
        """Unit vectors (M, P): the last winners (W, P), then new ones."""
        fresh = rng.standard_normal((self.candidates - winners.shape[0], winners.shape[1]))
        fresh /= np.sqrt(np.einsum("mp,mp->m", fresh, fresh))[:, np.newaxis]
        return np.concatenate([winners, fresh])

    def wins(self, directions: Floats, X: Floats, costs: Floats) -> Bools:
        """Which candidates (M,) are below the model, by shown documents X (k, P) with costs (k,)."""
        logarithms = directions @ (self.step * X.T)
        weights = np.exp(logarithms - logarithms.max(axis=1, keepdims=True))
        bound = pessimistic(np.ones((1, costs.size)), costs, self.gamma)
        below: Bools = pessimistic(weights, costs, self.gamma) < bound
        return below

    def moved(self, memory: COLTRMemory, directions: Floats, wins: Bools) -> COLTRMemory:
        """The memory after a list that some candidates have won, or none."""
        if not wins.any():
            return memory
        winners = directions[wins]
        rate = self.learning_rate * self.decay**memory.updates
        return COLTRMemory(memory.model + rate * winners.mean(axis=0), memory.updates + 1, winners)

    def interact(self, memory: COLTRMemory, query: int, rng: np.random.Generator) -> COLTRMemory:
        """The memory after one interaction."""
        X = self.users.features[query]
        shown = sample_list(X @ memory.model / self.tau, rng)
        costs = costs_of(self.users.clicks(query, shown, rng))
        if not costs.any():
            return memory
        directions = self.directions(memory.winners, rng)
        return self.moved(memory, directions, self.wins(directions, X[shown], costs))

    def rounds(self, parameters: Floats, count: int, rng: np.random.Generator) -> Floats:
        """The model (P,) after this many rounds."""
        memory = COLTRMemory(parameters, 0, np.empty((0, parameters.size)))
        for _ in range(count):
            for query in self.users.asked(self.per_round, rng):
                memory = self.interact(memory, query, rng)
        return memory.model
