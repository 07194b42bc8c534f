"""One round of a client: a user searches, the client learns, and what it sends is clipped and noised."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np
from flwr.app import Context
from foltr_audit_recorder import ShownList
from numpy.typing import NDArray

from federated_search.letor_data import load_queries
from federated_search.pdgd_learner import Floats, clipped, noise_share
from federated_search.searching_user import SearchSession, search


def shown_list(session: SearchSession) -> ShownList:
    """A session as the recorder takes it."""
    return ShownList(
        features=session.features, shown=session.shown, query=session.query, clicks=session.clicks
    )


class LocalLearner(Protocol):
    """A ranker on a client, with P parameters."""

    def scores(self, model: Floats, features: Floats) -> Floats:
        """Scores (n,) of documents with features (n, d) under a model (P,)."""

    def update(self, model: Floats, features: Floats, clicks: NDArray[np.bool_]) -> Floats:
        """The change (P,) of the model after a list with features (k, d) and clicks (k,)."""


class LocalRound(NamedTuple):
    """What a client did in a round.

    Attributes:
        session: the query, the list and the clicks.
        update: the change of the model before clip and noise, (P,).
        message: the local model that is sent, (P,) float32.
    """

    session: SearchSession
    update: Floats
    message: NDArray[np.float32]


def play_round(model: Floats, learner: LocalLearner, context: Context, number: int) -> LocalRound:
    """Round `number` of this client, which starts from the global model (P,)."""
    config = context.run_config
    client = int(context.node_config["partition-id"])
    # Fixed seeds repeat a laboratory run. In production, noise comes from a generator that nobody can guess.
    rng = np.random.default_rng([int(config["seed"]), client, number])
    queries = load_queries(str(config["data"]))
    query = queries[rng.integers(len(queries))]
    scores = learner.scores(model, query.features.astype(np.float64))
    session = search(query, scores, str(config["click-model"]), int(config["list-length"]), rng)
    update = learner.update(model, session.features.astype(np.float64), session.clicks)
    return LocalRound(session, update, defended(model + update, context, rng).astype(np.float32))


def defended(local: Floats, context: Context, rng: np.random.Generator) -> Floats:
    """The local model after the clip and the noise share of FPDGD; as it is where epsilon is 0."""
    config = context.run_config
    epsilon, sensitivity = float(config["epsilon"]), float(config["sensitivity"])
    if epsilon <= 0 or math.isinf(epsilon):
        return local
    clients = int(config["noise-clients"])
    return clipped(local, sensitivity / 2) + noise_share(local.size, clients, sensitivity / epsilon, rng)
