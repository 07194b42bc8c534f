"""Federated rounds: a cohort learns locally, defends, sends; the server averages and evaluates."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from foltr_audit.evaluation import Evaluation, not_evaluated
from foltr_audit.metrics import ideal_dcg
from foltr_audit.played import Origin, Round, online_metrics
from foltr_audit.records.rounds import GlobalModel
from foltr_audit.setup import Setup
from foltr_audit.training import training

TRAIN = 0
"""Index of the training part among the parts of a collection."""


class Federation:
    """The rounds of one experiment.

    Example:
        `for played in Federation(setup).rounds(start): print(played.metrics["offline_ndcg@10"])`
    """

    def __init__(self, setup: Setup) -> None:
        """Prepare the rounds of an experiment; nothing runs before `rounds` is iterated."""
        self.setup = setup
        self.training = training(setup)
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

    def rounds(self, start: NDArray[np.float64] | GlobalModel, first: int = 0) -> Iterator[Round]:
        """Play rounds first .. T-1 from a first model (P,), or from what the server has."""
        for round_ in range(first, self.setup.spec.train.rounds):
            played = self.play(start, round_)
            yield played
            start = played.after

    def play(self, start: NDArray[np.float64] | GlobalModel, round_: int) -> Round:
        """One round from a first model (P,), or from what the server has.

        Raises:
            DataError: the model has left the range of numbers.
        """
        before = start if isinstance(start, GlobalModel) else self.training.first(start)
        setup, data = self.setup, self.setup.collection.train
        steps = setup.learner.interactions
        context = setup.context(round_, self.cohort(round_), steps, before.parameters)
        queries = setup.scenario.queries(data, steps, context)
        sent, after = self.training.play(queries, context, before)
        metrics = online_metrics(sent.interactions, data, self.train_ideal, setup.spec.train.no_relevant)
        metrics |= self.evaluation.metrics(after.parameters) if self._evaluates(round_) else not_evaluated()
        metrics |= sent.wired.costs
        return Round(
            context=context,
            sent=sent,
            after=after,
            metrics=metrics,
            origin=self.origin,
            embedded=data if setup.spec.trace.embed_features else None,
        )

    def _evaluates(self, round_: int) -> bool:
        train = self.setup.spec.train
        return (round_ + 1) % train.evaluate_every == 0 or round_ + 1 == train.rounds
