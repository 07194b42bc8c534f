"""Rounds in which the server gets the clicks themselves: central learners."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from foltr_audit.clicks import Cascade
from foltr_audit.client import ClientRules, Clients, Interactions
from foltr_audit.errors import UsageError
from foltr_audit.learners.pdgd_central import PDGD
from foltr_audit.played import Sent
from foltr_audit.plugins import CentralLearner, Learnt, RoundContext, Users
from foltr_audit.records import Dataset
from foltr_audit.records.rounds import GlobalModel
from foltr_audit.records.wired import Wired
from foltr_audit.setup import Setup
from foltr_audit.training.base import finite, in_format, not_clipped, play_in_score_order, reported_clicks

T = TypeVar("T", bound=np.generic)


def sent_clicks(setup: Setup, done: Interactions, context: RoundContext) -> Sent:
    """What the server sees of interactions: one message a client, its reported clicks (C, B k) as 0 and 1."""
    C, B, k = done.clicks.shape
    reported, truth = (clicks.reshape(C, B * k).astype(np.float64) for clicks in (done.reported, done.clicks))
    messages = in_format(reported, setup.spec.trace.dtype, context.round)
    wired = Wired(messages=reported, survivors=np.ones(C, dtype=np.bool_))
    return Sent(messages=messages, wired=wired, updates=truth, interactions=done)


class ClickSenders:
    """Users of a server who are shown the lists of its model in score order, and click."""

    def __init__(self, setup: Setup, click_model: str, data: Dataset) -> None:
        """Nothing is played yet."""
        self.setup = setup
        self.click_model = setup.click_model(click_model)
        self.data = data

    def send(self, queries: NDArray[np.int64], context: RoundContext) -> Sent:
        """The clicks of users who ask queries (C, B)."""
        model = context.parameters[np.newaxis]
        shown, clicks = play_in_score_order(
            self.setup, self.click_model, self.data, queries, lambda _: model, context
        )
        reported = reported_clicks(self.setup.chain, shown, clicks, context)
        return sent_clicks(self.setup, not_clipped(queries, shown, clicks, reported), context)


class Central:
    """A server that learns from the interactions of a round one after the other.

    It takes the first interaction of every client, then the second of every client, and so on.
    """

    def __init__(self, setup: Setup) -> None:
        """Nothing is played yet.

        Raises:
            UsageError: the learner cannot learn from clicks of this model.
        """
        learner = setup.learner
        if not isinstance(learner, CentralLearner):
            raise UsageError(f"learner {learner.name}: expected one that learns from clicks themselves")
        self.setup = setup
        self.learner = learner
        self.click_model = setup.click_model(setup.spec.train.click_model)
        self._steps = _Steps.of(setup, learner) if isinstance(learner, PDGD) else None
        if self._steps is None and not isinstance(self.click_model, Cascade):
            raise UsageError(
                f"learner {learner.name}: it learns from cascade click models, not {self.click_model.name}"
            )

    def first(self, parameters: NDArray[np.float64]) -> GlobalModel:
        """The first model (P,), with what the learner remembers."""
        return GlobalModel(parameters, self.learner.first_state(parameters.size))

    def play(
        self, queries: NDArray[np.int64], context: RoundContext, before: GlobalModel
    ) -> tuple[Sent, GlobalModel]:
        """See `Training.play`."""
        C, B = queries.shape
        asked = np.ascontiguousarray(queries.T.reshape(-1))
        each = replace(context, clients=np.arange(C * B), counts=np.ones(C * B, dtype=np.int64))
        state = np.empty(0) if before.state is None else before.state
        if self._steps is not None:
            parameters, lists = self._steps.learn(asked, each)
        else:
            learnt = self.learner.learn(self._users(each), asked, before.parameters, state)
            parameters, state, lists = learnt.parameters, learnt.state, _Lists.of(learnt)
        done = not_clipped(
            queries,
            _by_client(lists.shown, C, B),
            _by_client(lists.clicks, C, B),
            _by_client(lists.reported, C, B),
        )
        return sent_clicks(self.setup, done, context), GlobalModel(finite(parameters, context.round), state)

    def _users(self, context: RoundContext) -> Users:
        model = self.click_model
        if not isinstance(model, Cascade):
            raise UsageError(f"click model {model.name}: expected a cascade")
        click, stop = model.tables(self.setup.collection.largest_label)
        data = self.setup.collection.train
        return Users(data=data, click=click, stop=stop, clicks=model.purpose, context=context)


class _Lists(NamedTuple):
    """What was shown, clicked and reported of N interactions, each (N, k)."""

    shown: NDArray[np.int64]
    clicks: NDArray[np.bool_]
    reported: NDArray[np.bool_]

    @classmethod
    def of(cls, learnt: Learnt) -> _Lists:
        """Lists whose clicks the server saw as they were."""
        return cls(learnt.shown, learnt.clicks, learnt.clicks)


def _by_client(lists: NDArray[T], clients: int, interactions: int) -> NDArray[T]:
    """Lists of interactions in the order in which they were played, as (C, B, k)."""
    return np.ascontiguousarray(lists.reshape(interactions, clients, -1).swapaxes(0, 1))


class _Steps(NamedTuple):
    """PDGD on one model: the local steps of a single client, or summed steps of the clients of a batch."""

    clients: Clients
    batch: int

    @classmethod
    def of(cls, setup: Setup, learner: PDGD) -> _Steps:
        """The steps of a learner on the training part.

        Raises:
            UsageError: a batch larger than a round.
        """
        played = setup.spec.population.cohort_size * learner.interactions
        if learner.batch > played:
            raise UsageError(
                f"learner pdgd: batch={learner.batch}, but a round has {played} interactions; "
                "expected at most as many"
            )
        rules = ClientRules(
            ranker=setup.ranker,
            learner=learner.steps,
            chain=setup.chain,
            click_model=setup.click_model(setup.spec.train.click_model),
            largest_label=setup.collection.largest_label,
            sampled=True,
            acts_without_pairs=True,
        )
        return cls(Clients(rules, setup.collection.train), learner.batch)

    def learn(self, queries: NDArray[np.int64], context: RoundContext) -> tuple[NDArray[np.float64], _Lists]:
        """The model (P,) after interactions that ask queries (N,), and what these were."""
        if self.batch == 1:
            alone = replace(context, clients=np.zeros(1, dtype=np.int64), counts=np.array([queries.size]))
            local, done = self.clients.play(queries[np.newaxis], alone)
            return local.models[0], _Lists(done.shown[0], done.clicks[0], done.reported[0])
        parameters, pieces = context.parameters, []
        for first in range(0, queries.size, self.batch):
            rows = slice(first, first + self.batch)
            some = replace(
                context,
                parameters=parameters,
                clients=context.clients[rows],
                counts=context.counts[rows],
            )
            local, done = self.clients.play(queries[rows, np.newaxis], some)
            parameters = parameters + local.steps.sum(axis=0)
            pieces.append(_Lists(done.shown[:, 0], done.clicks[:, 0], done.reported[:, 0]))
        return parameters, _Lists(*(np.concatenate(parts) for parts in zip(*pieces, strict=True)))
