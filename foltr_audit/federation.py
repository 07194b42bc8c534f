"""Federated rounds: a cohort learns locally, defends, sends; the server averages and evaluates."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from foltr_audit.client import Clients, Interactions, LocalModels
from foltr_audit.errors import DataError
from foltr_audit.metrics import LIST_LENGTH, ideal_dcg, mean_ndcg
from foltr_audit.played import Origin, Round, Sent, online_metrics
from foltr_audit.plugins import RoundContext
from foltr_audit.records.rounds import Payload
from foltr_audit.setup import Setup

TRAIN = 0
"""Index of the training part among the parts of a collection."""


def send(setup: Setup, local: LocalModels, context: RoundContext, interactions: Interactions) -> Sent:
    """Message and wire stage: turns local models into messages.

    What the wire stage encodes as integers is not rounded to another number format before.

    Raises:
        DataError: a message is not finite in its number format.
        UsageError: a message that the wire stage cannot encode.
    """
    models = setup.chain.on_message(local.models, context)
    if setup.spec.trace.message == "update":
        models = models - context.parameters
    dtype = setup.spec.trace.dtype if setup.chain.encoding is None else "float64"
    sent = _in_format(models, dtype, context.round)
    plain = sent.astype(np.float64)
    wired = setup.chain.on_wire(plain, context)
    messages: Payload = wired.messages
    if not wired.is_encoded:
        messages = sent if wired.messages is plain else _in_format(wired.messages, dtype, context.round)
    return Sent(messages=messages, wired=wired, updates=local.steps, interactions=interactions)


def _in_format(
    values: NDArray[np.float64] | NDArray[np.uint64], dtype: str, round_: int
) -> NDArray[np.float32] | NDArray[np.float64]:
    with np.errstate(over="ignore"):
        messages = values.astype(dtype)
    if not np.all(np.isfinite(messages)):
        raise DataError(
            f"round {round_}: a client's model is too large for {dtype}; "
            "normalise the features, or lower the learning rate or the noise"
        )
    return messages


class Federation:
    """The rounds of one experiment.

    Example:
        `for played in Federation(setup).rounds(start): print(played.metrics["offline_ndcg@10"])`
    """

    def __init__(self, setup: Setup) -> None:
        """Prepare the rounds of an experiment; nothing runs before `rounds` is iterated."""
        self.setup = setup
        rules = setup.rules(setup.spec.train.click_model, sampled=True)
        self.clients = Clients(rules, setup.collection.train)
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
        last = np.partition(tickets, population.cohort_size - 1)[population.cohort_size - 1]
        chosen, tied = np.flatnonzero(tickets < last), np.flatnonzero(tickets == last)
        return np.sort(np.concatenate([chosen, tied[: population.cohort_size - chosen.size]]))

    def rounds(self, parameters: NDArray[np.float64], first: int = 0) -> Iterator[Round]:
        """Play rounds first .. T-1 from a global model (P,)."""
        for round_ in range(first, self.setup.spec.train.rounds):
            played = self.play(parameters, round_)
            yield played
            parameters = played.aggregate

    def play(self, parameters: NDArray[np.float64], round_: int) -> Round:
        """One round from a global model (P,).

        Raises:
            DataError: the model has left the range of numbers.
        """
        setup, data = self.setup, self.setup.collection.train
        steps = setup.learner.interactions
        context = setup.context(round_, self.cohort(round_), steps, parameters)
        queries = setup.scenario.queries(data, steps, context)
        local, interactions = self.clients.play(queries, context)
        sent = send(setup, local, context, interactions)
        aggregate = self._aggregate(sent, context)
        metrics = online_metrics(interactions, data, self.train_ideal, setup.spec.train.no_relevant)
        metrics["offline_ndcg@10"] = self.evaluation.ndcg(aggregate) if self._evaluates(round_) else np.nan
        metrics |= sent.wired.costs
        return Round(
            context=context,
            sent=sent,
            aggregate=aggregate,
            metrics=metrics,
            origin=self.origin,
            embedded=data if setup.spec.trace.embed_features else None,
        )

    def _evaluates(self, round_: int) -> bool:
        train = self.setup.spec.train
        return (round_ + 1) % train.evaluate_every == 0 or round_ + 1 == train.rounds

    def _aggregate(self, sent: Sent, context: RoundContext) -> NDArray[np.float64]:
        mean = self.setup.chain.on_aggregate(sent.wired, context)
        if not sent.wired.survivors.any():
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
        return mean_ndcg(self.data, queries, shown, self.ideal, self.setup.spec.train.no_relevant)

    @property
    def ceiling(self) -> float:
        """The mean nDCG@10 that a perfect ranker would reach."""
        if self.setup.spec.train.no_relevant == "skip":
            return 1.0
        return float((self.ideal > 0).mean())
