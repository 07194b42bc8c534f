"""Rounds in which the server receives the clicks themselves: central learners."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.click_models import declared_tables
from foltr_audit.core.plugins import CentralLearner, CentralResult, RoundContext, Users
from foltr_audit.core.plugins.answers import array_of, one_of
from foltr_audit.core.plugins.learner import BatchedSteps
from foltr_audit.core.ranking_metrics import LIST_LENGTH
from foltr_audit.core.records.interactions import GlobalModel
from foltr_audit.core.records.population import QueryAssignment
from foltr_audit.core.records.round_context import WireMessages
from foltr_audit.errors import UsageError
from foltr_audit.simulation.client import ClientRules, ClientSimulator, CohortInteractions
from foltr_audit.simulation.client_data import ClientData
from foltr_audit.simulation.rounds import CohortMessages
from foltr_audit.simulation.setup import Setup, learner_as
from foltr_audit.simulation.training.base import (
    check_finite,
    play_in_score_order,
    reported_clicks,
    to_format,
    unclipped,
)
from foltr_audit.utils.arrays import Bools, Floats, Ints

T = TypeVar("T", bound=np.generic)


def click_messages(dtype: str, done: CohortInteractions, context: RoundContext) -> CohortMessages:
    """The messages of interactions: one for each client, its reported clicks (C, B k) as 0 and 1."""
    C, B, k = done.clicks.shape
    reported, truth = (clicks.reshape(C, B * k).astype(np.float64) for clicks in (done.reported, done.clicks))
    messages = to_format(reported, dtype, context.round)
    wired = WireMessages(messages=reported, survivors=np.ones(C, dtype=np.bool_))
    return CohortMessages(messages=messages, wired=wired, updates=truth, interactions=done)


class ClickSenders:
    """Users of a server, who click on lists in score order of its model."""

    def __init__(self, setup: Setup, world: ClientData) -> None:
        self.ranker, self.chain, self.dtype = setup.ranker, setup.chain, setup.spec.trace.dtype
        self.world = world

    def send(self, asked: QueryAssignment, context: RoundContext) -> CohortMessages:
        """Clicks on lists for queries (C, B)."""
        model = context.parameters[np.newaxis]
        shown, clicks = play_in_score_order(self.ranker, self.world, asked, lambda _: model, context)
        reported = reported_clicks(self.chain, shown, clicks, context)
        return click_messages(self.dtype, unclipped(asked.queries, shown, clicks, reported), context)


class CentralServer:
    """A server that learns from the interactions of a round one after the other.

    It takes the first interaction of every client, then the second of every client, and so on.
    """

    def __init__(self, setup: Setup, world: ClientData) -> None:
        """Prepare the rounds.

        Raises:
            UsageError: the learner cannot learn from clicks of this model.
        """
        learner = learner_as(setup.learner, CentralLearner)
        self.dtype = setup.spec.trace.dtype
        self.learner = learner
        self.world = world
        own = learner.batched_steps
        self._steps = None if own is None else _ServerSteps.of(setup, own, world)
        self._tables = declared_tables(world.click_model, world.largest_label)
        if self._steps is None and self._tables is None:
            raise UsageError(
                f"learner {learner.name}: it learns from cascade click models, not {world.click_model.name}"
            )

    def first(self, parameters: Floats) -> GlobalModel:
        """The first model (P,), with the learner's first state."""
        state = self.learner.first_state(parameters.size)
        who = f"learner {self.learner.name}: first_state"
        return GlobalModel(parameters, array_of(who, state, (np.size(state),)))

    def play(
        self, asked: QueryAssignment, context: RoundContext, before: GlobalModel
    ) -> tuple[CohortMessages, GlobalModel]:
        places = _take_turns(asked.queries)
        queries, ways = (each[places.client, places.step] for each in (asked.queries, asked.ways))
        each = replace(context, clients=places.turn, counts=np.ones(queries.size, dtype=np.int64))
        state = np.empty(0) if before.state is None else before.state
        if not queries.size:
            parameters, lists = before.parameters, _InteractionRows.none()
        elif self._steps is not None:
            parameters, lists = self._steps.learn(queries, ways, each)
        else:
            learnt = one_of(
                f"learner {self.learner.name}: learn",
                self.learner.learn(self._users(each, ways), queries, before.parameters, state),
                CentralResult,
            )
            parameters, state, lists = learnt.parameters, learnt.state, _InteractionRows.of(learnt)
        shown, clicks = places.spread(lists.shown), places.spread(lists.clicks)
        reported = clicks if lists.reported is lists.clicks else places.spread(lists.reported)
        done = unclipped(asked.queries, shown, clicks, reported)
        return click_messages(self.dtype, done, context), GlobalModel(
            check_finite(parameters, context.round), state
        )

    def _users(self, context: RoundContext, ways: Ints) -> Users:
        world = self.world
        if self._tables is None:
            raise UsageError(f"click model {world.click_model.name}: expected a cascade")
        click, stop = self._tables
        return Users(
            data=world.data,
            grades=world.grades,
            lifts=world.lifts(ways),
            click=click,
            stop=stop,
            clicks=world.click_model.purpose,
            context=context,
        )


class _PlayOrder(NamedTuple):
    """The interactions of a round in the order in which they are played, N in all.

    Attributes:
        client, step: the client of each, and its number among the client's, int64 (N,).
        turn: the number of each as if all clients had equally many, int64 (N,).
        shape: clients and steps.
    """

    client: Ints
    step: Ints
    turn: Ints
    shape: tuple[int, int]

    def spread(self, lists: NDArray[T]) -> NDArray[T]:
        """Lists (N, k) as (C, B, k), padded where there was no query."""
        C, B = self.shape
        if self.client.size == C * B:  # the first of every client, the second of every client, and so on
            return np.ascontiguousarray(lists.reshape(B, C, LIST_LENGTH).transpose(1, 0, 2))
        out = np.full((*self.shape, LIST_LENGTH), -1 if lists.dtype == np.int64 else 0, dtype=lists.dtype)
        out[self.client, self.step] = lists
        return out


def _take_turns(queries: Ints) -> _PlayOrder:
    """The first interaction of every client, then the second of every client, and so on."""
    step, client = np.nonzero(queries.T >= 0)
    # Turns name random streams: interactions that are left out must not rename those of others.
    return _PlayOrder(client, step, step * queries.shape[0] + client, (queries.shape[0], queries.shape[1]))


class _InteractionRows(NamedTuple):
    """Lists, clicks and reported clicks of N interactions, each (N, k)."""

    shown: Ints
    clicks: Bools
    reported: Bools

    @classmethod
    def of(cls, learnt: CentralResult) -> _InteractionRows:
        """The lists of a learner that saw the clicks themselves."""
        return cls(learnt.shown, learnt.clicks, learnt.clicks)

    @classmethod
    def none(cls) -> _InteractionRows:
        clicks = np.empty((0, LIST_LENGTH), dtype=np.bool_)
        return cls(np.empty(clicks.shape, dtype=np.int64), clicks, clicks)


class _ServerSteps(NamedTuple):
    """Steps on one model: the local steps of a single client, or summed steps of the clients of a batch."""

    clients: ClientSimulator
    batch: int

    @classmethod
    def of(cls, setup: Setup, own: BatchedSteps, world: ClientData) -> _ServerSteps:
        """Check the batch and make the steps on the training split.

        Raises:
            UsageError: a batch larger than a round.
        """
        played = setup.spec.population.cohort_size * setup.learner.interactions
        if own.batch > played:
            raise UsageError(
                f"learner {setup.learner.name}: batch={own.batch}, but a round has {played} interactions; "
                "expected at most as many"
            )
        rules = ClientRules(
            ranker=setup.ranker,
            learner=own.learner,
            chain=setup.chain,
            click_model=world.click_model,
            largest_label=setup.collection.largest_label,
            sampled=True,
            acts_without_pairs=True,
        )
        return cls(ClientSimulator(rules, world), own.batch)

    def learn(self, queries: Ints, ways: Ints, context: RoundContext) -> tuple[Floats, _InteractionRows]:
        """The model (P,) and the lists after interactions with queries (N,) and ways to click (N,)."""
        if self.batch == 1:  # one client that takes all local steps in a row: the kernel plays them at once
            alone = replace(context, clients=np.zeros(1, dtype=np.int64), counts=np.array([queries.size]))
            local, done = self.clients.play(_asked(queries[np.newaxis], ways[np.newaxis]), alone)
            clicks = done.clicks[0]
            reported = clicks if done.reported is done.clicks else done.reported[0]
            return local.models[0], _InteractionRows(done.shown[0], clicks, reported)
        everybody = _asked(queries[:, np.newaxis], ways[:, np.newaxis])
        parameters, done = self.clients.play_in_turns(everybody, context, self.batch)
        clicks = done.clicks[:, 0]
        reported = clicks if done.reported is done.clicks else done.reported[:, 0]
        return parameters, _InteractionRows(done.shown[:, 0], clicks, reported)


def _asked(queries: Ints, ways: Ints) -> QueryAssignment:
    """Queries with their click models, (C, B); a server that learns from clicks does not need the intents."""
    return QueryAssignment(queries, np.zeros_like(queries), ways)
