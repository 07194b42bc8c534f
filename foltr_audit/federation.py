"""Federated rounds: a cohort learns locally, defends, sends; the server averages and evaluates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foltr_audit.client import Interaction, LocalModels, interact
from foltr_audit.errors import DataError
from foltr_audit.metrics import LIST_LENGTH, ideal_dcg, max_rr, mean_ndcg
from foltr_audit.plugins import RoundContext
from foltr_audit.records import Dataset
from foltr_audit.records.rounds import RoundRecord, RoundTruth
from foltr_audit.setup import Setup

TRAIN = 0
"""Index of the training part among the parts of a collection."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Sent:
    """What a cohort sent, before the server does anything with it.

    Attributes:
        messages: in the message kind and number format of the Spec, (C, P).
        received: the same as float64 after the wire stage, (C, P).
        survivors: which arrived, bool (C,).
        updates: what each client learnt, before any defense, float64 (C, P).
        interactions: one record per local step.
    """

    messages: NDArray[np.float32] | NDArray[np.float64]
    received: NDArray[np.float64]
    survivors: NDArray[np.bool_]
    updates: NDArray[np.float64]
    interactions: tuple[Interaction, ...]


def send(
    setup: Setup, local: LocalModels, context: RoundContext, interactions: tuple[Interaction, ...]
) -> Sent:
    """Message and wire stage: turns local models into messages.

    Raises:
        DataError: a message is not finite in its number format.
    """
    models = setup.chain.on_message(local.models, context)
    if setup.spec.trace.message == "update":
        models = models - context.parameters
    dtype = setup.spec.trace.dtype
    sent = _in_format(models, dtype, context.round)
    received, survivors = setup.chain.on_wire(sent.astype(np.float64), context)
    return Sent(
        messages=_in_format(received, dtype, context.round),
        received=received,
        survivors=survivors,
        updates=local.steps,
        interactions=interactions,
    )


def _in_format(
    values: NDArray[np.float64], dtype: str, round_: int
) -> NDArray[np.float32] | NDArray[np.float64]:
    with np.errstate(over="ignore"):
        messages = values.astype(dtype)
    if not np.all(np.isfinite(messages)):
        raise DataError(
            f"round {round_}: a client's model is too large for {dtype}; "
            "normalise the features, or lower the learning rate or the noise"
        )
    return messages


@dataclass(frozen=True, kw_only=True, eq=False)
class Origin:
    """Where the queries of a data set come from: their part and their index inside it, each (queries,)."""

    part: NDArray[np.int64]
    query: NDArray[np.int64]

    @classmethod
    def of_part(cls, part: int, data: Dataset) -> Origin:
        """Every query comes from one part, as it stands there."""
        return cls(part=np.full(data.n_queries, part), query=np.arange(data.n_queries))


def record_round(
    context: RoundContext,
    sent: Sent,
    aggregate: NDArray[np.float64],
    origin: Origin,
    metrics: dict[str, float],
    embedded: Dataset | None,
) -> tuple[RoundRecord, RoundTruth]:
    """The observed record and the truth of one round. Interactions are sorted by (slot, step).

    `embedded` is the data set whose feature rows are stored with the shown lists, if any.
    """

    def by_slot(name: str) -> NDArray[np.int64]:
        rows = np.stack([getattr(interaction, name) for interaction in sent.interactions], axis=1)
        return np.asarray(rows.reshape(-1, *rows.shape[2:]))

    clients, steps = context.clients.size, len(sent.interactions)
    asked, shown = by_slot("queries"), by_slot("shown")
    record = RoundRecord(
        round=context.round,
        parameters=context.parameters,
        aggregate=aggregate,
        shares=context.shares,
        survivors=sent.survivors,
        counts=context.counts,
        messages=sent.messages,
        slot=np.repeat(np.arange(clients), steps),
        step=np.tile(np.arange(steps), clients),
        part=origin.part[asked],
        query=origin.query[asked],
        shown=shown,
        features=None if embedded is None else embedded.shown_features(asked, shown),
    )
    truth = RoundTruth(
        clients=context.clients,
        updates=sent.updates,
        clicks=by_slot("clicks").astype(np.bool_),
        clipped=by_slot("clipped").astype(np.bool_),
        metrics=metrics,
    )
    return record, truth


def online_metrics(
    interactions: tuple[Interaction, ...], ideal: NDArray[np.float64], no_relevant: str
) -> dict[str, float]:
    """Mean online nDCG@10 and MaxRR of some interactions, and the share of clipped steps."""
    labels = np.concatenate([interaction.labels for interaction in interactions])
    queries = np.concatenate([interaction.queries for interaction in interactions])
    clicks = np.concatenate([interaction.clicks for interaction in interactions])
    clipped = np.concatenate([interaction.clipped for interaction in interactions])
    return {
        "online_ndcg@10": mean_ndcg(labels, ideal[queries], no_relevant),
        "maxrr": float(max_rr(clicks).mean()),
        "clipped": float(clipped.mean()),
    }


class Federation:
    """The rounds of one experiment.

    Example:
        `for record, truth in Federation(setup).rounds(): print(truth.metrics["offline_ndcg@10"])`
    """

    def __init__(self, setup: Setup) -> None:
        """Prepare the rounds of an experiment; nothing runs before `rounds` is iterated."""
        self.setup = setup
        self.rules = setup.rules(setup.spec.train.click_model, sampled=True)
        self.train_ideal = ideal_dcg(setup.collection.train)
        self.origin = Origin.of_part(TRAIN, setup.collection.train)
        self.evaluation = Evaluation(setup)

    def cohort(self, round_: int) -> NDArray[np.int64]:
        """Ids of the clients that play a round, rising; a uniform sample without replacement."""
        population = self.setup.spec.population
        everybody = np.arange(population.clients)
        if population.cohort_size == population.clients:
            return everybody
        tickets = self.setup.streams.clients("cohort", round_, everybody).uniform(1)[:, 0]
        return np.sort(np.argsort(tickets, kind="stable")[: population.cohort_size])

    def rounds(
        self, parameters: NDArray[np.float64], first: int = 0
    ) -> Iterator[tuple[RoundRecord, RoundTruth]]:
        """Play rounds first .. T-1 from a global model (P,), yielding each one's record and truth."""
        for round_ in range(first, self.setup.spec.train.rounds):
            record, truth = self.play(parameters, round_)
            yield record, truth
            parameters = record.aggregate

    def play(self, parameters: NDArray[np.float64], round_: int) -> tuple[RoundRecord, RoundTruth]:
        """One round from a global model (P,).

        Raises:
            DataError: the model has left the range of numbers.
        """
        setup, data = self.setup, self.setup.collection.train
        steps = setup.learner.interactions
        context = setup.context(round_, self.cohort(round_), steps, parameters)
        queries = setup.scenario.queries(data, steps, context)
        local = LocalModels.start(parameters, context.clients.size)
        interactions = []
        for step in range(steps):
            asked = np.ascontiguousarray(queries[:, step])
            local, interaction = interact(self.rules, local, data, asked, step, context)
            interactions.append(interaction)
        sent = send(setup, local, context, tuple(interactions))
        aggregate = self._aggregate(sent, context)
        no_relevant = setup.spec.train.no_relevant
        metrics = online_metrics(sent.interactions, self.train_ideal, no_relevant)
        metrics["offline_ndcg@10"] = self.evaluation.ndcg(aggregate)
        embedded = data if setup.spec.trace.embed_features else None
        return record_round(context, sent, aggregate, self.origin, metrics, embedded)

    def _aggregate(self, sent: Sent, context: RoundContext) -> NDArray[np.float64]:
        mean = self.setup.chain.on_aggregate(sent.received, sent.survivors, context)
        if not sent.survivors.any():
            return context.parameters
        after = context.parameters + mean if self.setup.spec.trace.message == "update" else mean
        if not np.all(np.isfinite(after)):
            raise DataError(f"round {context.round}: the global model is not finite; normalise the features")
        return after


class Evaluation:
    """Offline nDCG@10 of a global model on the test part, lists in score order."""

    def __init__(self, setup: Setup) -> None:
        """Prepare the ideal lists of the test part."""
        self.setup = setup
        self.data = setup.collection.test
        self.ideal = ideal_dcg(self.data)

    def ndcg(self, parameters: NDArray[np.float64]) -> float:
        """Mean nDCG@10 of a model (P,) over the test queries."""
        from foltr_audit.kernels.ranking import top_lists

        queries = np.arange(self.data.n_queries)
        scores, starts = self.setup.ranker.scores(parameters[np.newaxis], self.data, queries)
        shown = top_lists(scores, starts, LIST_LENGTH)
        labels = self.data.shown_labels(queries, shown)
        return mean_ndcg(labels, self.ideal, self.setup.spec.train.no_relevant)

    @property
    def ceiling(self) -> float:
        """The mean nDCG@10 that a perfect ranker would reach."""
        if self.setup.spec.train.no_relevant == "skip":
            return 1.0
        return float((self.ideal > 0).mean())
