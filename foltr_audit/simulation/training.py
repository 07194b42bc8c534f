"""Rounds in which clients send models or clicks: local steps, the chain, FedAvg, central learners.

`evolution.py` has those in which they send online metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.click_models import Tables, declared_tables
from foltr_audit.core.defense_chain import DefenseChain
from foltr_audit.core.plugins import (
    Broadcast,
    CentralLearner,
    CentralResult,
    ClickModel,
    RoundContext,
    Users,
    WireMessages,
)
from foltr_audit.core.plugins.answers import array_of, clicks_of, one_of
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.rankers import Ranker
from foltr_audit.core.ranking_metrics import LIST_LENGTH
from foltr_audit.core.records.interactions import GlobalModel, Payload
from foltr_audit.core.records.population import QueryAssignment
from foltr_audit.core.records.round_context import Delivery
from foltr_audit.core.settings.defaults import SERVER_CLICKS
from foltr_audit.core.shown_lists import TIES, lists_in_score_order
from foltr_audit.errors import DataError, UsageError
from foltr_audit.simulation.client import ClientData, ClientRules, ClientSimulator, CohortInteractions
from foltr_audit.simulation.setup import Setup, learner_as
from foltr_audit.utils.arrays import Bools, Floats, Ints


@dataclass(frozen=True, kw_only=True, eq=False)
class CohortMessages:
    """The messages of a cohort, before the server does anything with them.

    Attributes:
        wired: what the server receives, in the message kind and number format of the Spec, or encoded as
            integers.
        updates: what each client would send without any defense (the change of a model), float64 (C, P).
        interactions: what the clients did.
        broadcast: what the server sent to whom; None of an honest server.
        seeds: seed of each client's perturbation, uint64 (C,), if clients perturb models.
    """

    wired: WireMessages
    updates: Floats
    interactions: CohortInteractions
    broadcast: Broadcast | None = None
    seeds: NDArray[np.uint64] | None = None

    @property
    def messages(self) -> Payload:
        """The messages as the server receives them, (C, W)."""
        return self.wired.messages


class Senders(Protocol):
    """Clients that search one data set and send messages."""

    def send(self, asked: QueryAssignment, context: RoundContext) -> CohortMessages:
        """Play the queries (C, B) of every client; each sends one message.

        Raises:
            DataError: a message is not finite in its number format.
        """


class TrainingServer(Protocol):
    """The rounds of one learner on the training split."""

    def first(self, parameters: Floats) -> GlobalModel:
        """The server's first state, from a first model (P,)."""

    def play(
        self, asked: QueryAssignment, context: RoundContext, before: GlobalModel
    ) -> tuple[CohortMessages, GlobalModel]:
        """Play one round of queries (C, B): the cohort's messages, and the server's state after it.

        Raises:
            DataError: a message or the global model is not finite.
        """


def to_format(values: Payload | Bools, dtype: str, round_: int) -> NDArray[np.float32] | Floats:
    """Convert messages to their number format.

    Raises:
        DataError: one is not finite.
    """
    # What overflows becomes infinite, and is reported below with a remedy instead of a warning.
    with np.errstate(over="ignore"):
        messages = values.astype(dtype)
    if not np.all(np.isfinite(messages)):
        raise DataError(
            f"round {round_}: a client's model is too large for {dtype}; "
            "normalise the features, or lower the learning rate or the noise"
        )
    return messages


def play_in_score_order(
    ranker: Ranker,
    world: ClientData,
    asked: QueryAssignment,
    models: Callable[[int], Floats],
    context: RoundContext,
) -> tuple[Ints, Bools]:
    """Lists in score order and clicks on them, both (C, B, k), for queries (C, B).

    `models` returns what ranks the lists of a step: one model for every client, or one each, (1 or C, P).
    """
    shown = np.full((*asked.queries.shape, LIST_LENGTH), -1, dtype=np.int64)
    clicks = np.zeros(shown.shape, dtype=np.bool_)
    click_model, largest = world.click_model, world.largest_label
    streams, ties = context.streams(click_model.purpose), context.streams(TIES)
    for step in range(shown.shape[1]):
        rows = np.flatnonzero(asked.queries[:, step] >= 0)
        queries, every = asked.queries[rows, step], models(step)
        mine = every if len(every) == 1 else every[rows]
        scores, starts = ranker.scores(mine, world.data, queries)
        shown[rows, step] = lists_in_score_order(scores, starts, world.data, queries, ties)
        labels = world.clicked_grades(queries, asked.ways[rows, step], shown[rows, step])
        clicks[rows, step] = clicks_of(click_model, labels, largest, streams.at(rows), step)
    return shown, clicks


def reported_clicks(chain: DefenseChain, shown: Ints, clicks: Bools, context: RoundContext) -> Bools:
    """Clicks (C, B, k) on lists (C, B, k) after the click stage, one interaction after the other.

    These clicks themselves where nothing acts on them.
    """
    if not chain.links("click"):
        return clicks
    steps = range(clicks.shape[1])
    return np.stack([chain.on_clicks(clicks[:, i], shown[:, i], i, context) for i in steps], axis=1)


def unclipped(queries: Ints, shown: Ints, clicks: Bools, reported: Bools) -> CohortInteractions:
    """Interactions of clients without local steps: queries (C, B), lists and clicks (C, B, k)."""
    nothing = np.zeros(queries.shape, dtype=np.bool_)
    return CohortInteractions(queries=queries, shown=shown, clicks=clicks, reported=reported, clipped=nothing)


def check_finite(parameters: Floats, round_: int) -> Floats:
    """Check a global model (P,).

    Raises:
        DataError: it is not finite.
    """
    if not np.all(np.isfinite(parameters)):
        raise DataError(
            f"round {round_}: the global model is not finite; "
            "normalise the features, or lower the learning rate"
        )
    return parameters


_CONVERTED = 4_000_000
"""Numbers of messages that are converted to float64 at once."""


def weighted_mean(wired: WireMessages, counts: Ints) -> tuple[Floats, Floats]:
    """FedAvg: the mean (P,) of the messages that arrived, and the weights (C,) of all, 0 for those lost.

    Messages (C, P) are weighted by the interactions `counts` (C,) of their clients; weights sum to 1. Encoded
    messages are averaged from their sum. Without any message the mean is NaN.

    Source: McMahan et al. 2017, "Communication-efficient learning of deep networks from decentralized data",
    algorithm 1.
    """
    weights = np.where(wired.survivors, counts, 0).astype(np.float64)
    total = weights.sum()
    weights = weights / total if total > 0 else weights
    if not total > 0 or (wired.is_encoded and wired.sum is None):
        mean = np.full(wired.messages.shape[1], np.nan)
    elif wired.sum is not None:
        mean = np.asarray(wired.sum / total)
    else:
        mean = _weighted_sum(wired.messages, weights)
    return mean, weights


def _weighted_sum(messages: Floats | NDArray[np.float32] | NDArray[np.uint64], weights: Floats) -> Floats:
    """The weighted sum (P,) of messages (C, P), in float64.

    Each parameter is summed on its own, so that only some columns are converted at once.
    """
    from foltr_audit.kernels.messages import weighted_sum

    C, P = messages.shape
    width = P if messages.dtype == np.float64 else max(1, _CONVERTED // max(1, C))
    parts = [
        weighted_sum(messages[:, first : first + width].astype(np.float64, copy=False), weights)
        for first in range(0, P, max(1, width))
    ]
    return np.concatenate([np.zeros(0), *parts])


_UNDER = "server-queries/"


@dataclass(frozen=True, eq=False)
class ServerLearning:
    """A server that learns as one client would, without defenses, from queries that it has labelled.

    Attributes:
        setup: the experiment; its defenses say how many queries the server owns.
    """

    setup: Setup

    @cached_property
    def queries(self) -> Ints:
        """The queries of the training split that the server owns, rising, int64; drawn once."""
        every = self.setup.collection.train.n_queries
        draws = self.setup.streams.clients(f"{_UNDER}owned", 0, np.zeros(1, dtype=np.int64)).uniform(every)
        return np.sort(np.argsort(draws[0], kind="stable")[: self.setup.chain.server_queries])

    @cached_property
    def _learner(self) -> ClientSimulator:
        collection = self.setup.collection
        clicks = make(ClickModel, SERVER_CLICKS)
        rules = replace(self.setup.rules(clicks, sampled=True), chain=DefenseChain(()))
        return ClientSimulator(rules, ClientData.alike(collection.train, clicks, collection.largest_label))

    def update(self, context: RoundContext) -> Floats | None:
        """The server's update of the global model in a round, float64 (P,); None without queries."""
        if not self.queries.size:
            return None
        steps = self.setup.clients.interactions
        server = self.setup.context(
            context.round, np.zeros(1, dtype=np.int64), steps, context.parameters, _UNDER
        )
        drawn = np.floor(server.streams("queries").uniform(steps) * self.queries.size).astype(np.int64)
        models, _, _ = self._learner.play(QueryAssignment.alike(self.queries[drawn]), server)
        return np.asarray(models[0] - context.parameters)


BLOCK_NUMBERS = 500_000
"""Parameters of the local models that are in memory at once: 4 MB in each array of them."""


class ModelSenders:
    """Clients that take local steps, defend their model and send it."""

    def __init__(
        self,
        setup: Setup,
        world: ClientData,
        *,
        sampled: bool = True,
        fresh: bool = False,
        alone: bool = False,
    ) -> None:
        """The clients of training, or `fresh` ones: of an honest server and honest themselves.

        `alone`: each client is played as the only one of a cohort of its own.
        """
        self.setup = setup
        self.alone = alone
        self.server = None if fresh else setup.server
        self.malicious = None if fresh else setup.malicious
        self.clients = ClientSimulator(setup.rules(world.click_model, sampled=sampled), world)

    @cached_property
    def _without_contrast(self) -> ClientSimulator:
        """The same clients, to whom all documents are sent with the same features."""
        world = self.clients.world
        flat = replace(world.data, features=np.ones_like(world.data.features))
        return ClientSimulator(self.clients.rules, replace(world, data=flat))

    def send(self, asked: QueryAssignment, context: RoundContext) -> CohortMessages:
        """Local steps, message and wire stage of clients that ask queries (C, B).

        Messages that the wire stage encodes as integers are not rounded to another number format first.

        Raises:
            DataError: a message is not finite in its number format.
            UsageError: the wire stage cannot encode a message.
        """
        chain, trace = self.setup.chain, self.setup.spec.trace
        # Facts of the wire stage: noise that went by them could not be tested by calls without them.
        wire = context.having(manipulated=bool(self.clients.world.trained))
        context = context.having(sums_only=False)
        broadcast = None if self.server is None else self.server.send(context)
        if broadcast is not None:
            broadcast.checked(context)
            wire = replace(
                wire, received=broadcast.received, contrast=broadcast.contrast, reopened=broadcast.reopened
            )
        # The server works with what was really sent, so the number format rounds before anything is summed.
        dtype = trace.dtype if chain.encoding is None else "float64"
        shape = context.clients.size, context.parameters.size
        sent, updates = np.empty(shape, dtype=dtype), np.empty(shape)
        groups, played = list(self._groups(broadcast, context)), []
        for one in groups:
            rows: Ints | slice = one.rows
            some, here = asked, context
            if len(groups) > 1:
                some, here = asked.at(one.rows), context.at(one.rows)
            else:  # without copies
                rows = slice(None)
            here = here.having(parameters=one.parameters)
            clients = self.clients if one.contrast else self._without_contrast
            local = clients.play(some, here)
            models = self.sent_of(local.models, here)
            if one.own:  # the server's own clients only seem to take part
                models = np.tile(one.parameters, (one.rows.size, 1))
            changed = models - one.parameters if trace.message == "update" else models
            sent[rows] = to_format(changed, dtype, context.round)
            updates[rows] = local.updates
            played.append(local.interactions)
        order = slice(None) if broadcast is None else np.argsort(np.concatenate([one.rows for one in groups]))
        wired = chain.on_wire(sent, wire, alone=self.alone)
        if not wired.is_encoded and wired.messages is not sent:
            wired = replace(wired, messages=to_format(wired.messages, dtype, context.round))
        return CohortMessages(
            wired=wired,
            updates=updates,
            interactions=CohortInteractions.joined(played, order),
            broadcast=broadcast,
        )

    def _groups(self, broadcast: Broadcast | None, context: RoundContext) -> Iterable[Delivery]:
        """Clients that are played at once: those that receive the same, or a block of honest ones.

        What a client does depends on no other client, but malicious clients may see each other. So a large
        cohort needs its messages once, in their own format, and no copy in float64 of all of them.
        """
        if broadcast is not None:
            return broadcast.deliveries
        C, parameters = context.clients.size, context.parameters
        together = self.malicious is not None and self.malicious.poisoning.sends_otherwise
        size = max(1, C if together else BLOCK_NUMBERS // max(1, parameters.size))
        return [
            Delivery(rows=np.arange(first, min(first + size, C)), parameters=parameters)
            for first in range(0, max(1, C), size)
        ]

    def sent_of(self, local: Floats, context: RoundContext) -> Floats:
        """The models (C, P) that clients send of their local ones."""
        models = self.setup.chain.on_message(local, context)
        if self.malicious is not None and self.malicious.poisoning.sends_otherwise:
            models = self.malicious.poisoned(models, local, context)
        return models


class FedAvgServer:
    """A server that aggregates the models of its cohort."""

    def __init__(self, setup: Setup, world: ClientData, senders: ModelSenders | None = None) -> None:
        self.setup = setup
        self.own = ServerLearning(setup)
        self.senders = senders or ModelSenders(setup, world)

    def first(self, parameters: Floats) -> GlobalModel:
        """The first model (P,), without other state."""
        return GlobalModel(parameters)

    def play(
        self, asked: QueryAssignment, context: RoundContext, before: GlobalModel
    ) -> tuple[CohortMessages, GlobalModel]:
        """See `TrainingServer.play`. Without any message or any query the model stays as it is."""
        sent = self.senders.send(asked, context)
        return sent, self.aggregate(sent.wired, context.having(sums_only=False), before)

    def aggregate(self, wired: WireMessages, context: RoundContext, before: GlobalModel) -> GlobalModel:
        """The global model after messages (C, P) of clients with `context.counts` interactions.

        Raises:
            DataError: it is not finite.
        """
        if not context.counts[wired.survivors].any():
            return before
        average, weights = weighted_mean(wired, context.counts)
        learnt = self.own.update(context)
        informed = context if learnt is None else context.having(server_update=learnt)
        mean = self.setup.chain.on_aggregate(average, wired, weights, informed)
        after = before.parameters + mean if self.setup.spec.trace.message == "update" else mean
        return GlobalModel(check_finite(after, context.round))


def click_messages(dtype: str, done: CohortInteractions, context: RoundContext) -> CohortMessages:
    """The messages of interactions: one for each client, its reported clicks (C, B k) as 0 and 1."""
    C, B, k = done.clicks.shape
    reported, truth = (clicks.reshape(C, B * k) for clicks in (done.reported, done.clicks))
    wired = WireMessages(
        messages=to_format(reported, dtype, context.round), survivors=np.ones(C, dtype=np.bool_)
    )
    return CohortMessages(wired=wired, updates=truth.astype(np.float64), interactions=done)


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


Learnt = tuple[CentralResult, Bools]
"""What N interactions give a central learner, and the clicks that it learnt from, (N, k)."""


class CentralServer:
    """A server that learns from the interactions of a round one after the other.

    It takes the first interaction of every client, then the second of every client, and so on.
    """

    def __init__(self, setup: Setup, world: ClientData) -> None:
        """Prepare the rounds.

        Raises:
            UsageError: the learner cannot learn from clicks of this model, or from so few in a round.
        """
        learner = learner_as(setup.learner, CentralLearner)
        self.dtype, self.learner, self.world = setup.spec.trace.dtype, learner, world
        steps, tables = learner.batched_steps, declared_tables(world.click_model, world.largest_label)
        self._learn: Callable[[QueryAssignment, RoundContext, Floats], Learnt]
        if steps is not None:
            played = setup.spec.population.cohort_size * learner.interactions
            if steps.batch > played:
                raise UsageError(
                    f"learner {learner.name}: batch={steps.batch}, but a round has {played} interactions; "
                    "expected at most as many"
                )
            rules = ClientRules(
                ranker=setup.ranker,
                learner=steps.learner,
                chain=setup.chain,
                click_model=world.click_model,
                largest_label=setup.collection.largest_label,
                sampled=True,
                acts_without_pairs=True,
            )
            self._learn = partial(_by_steps, ClientSimulator(rules, world), steps.batch)
        elif tables is not None:
            self._learn = partial(self._from_clicks, tables)
        else:
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
        step, client = np.nonzero(asked.queries.T >= 0)
        every = QueryAssignment(*(values[client, step] for values in asked))
        # Turns name random streams: interactions that are left out must not rename those of others.
        turns, ones = step * asked.queries.shape[0] + client, np.ones(step.size, dtype=np.int64)
        parameters = before.parameters
        state = np.empty(0) if before.state is None else before.state
        shown = np.full((*asked.queries.shape, LIST_LENGTH), -1, dtype=np.int64)
        clicks, reported = np.zeros(shown.shape, dtype=np.bool_), np.zeros(shown.shape, dtype=np.bool_)
        if step.size:
            here = context.having(clients=turns, counts=ones, parameters=parameters)
            learnt, reports = self._learn(every, here, state)
            parameters, state = learnt.parameters, learnt.state
            shown[client, step], clicks[client, step] = learnt.shown, learnt.clicks
            reported[client, step] = reports
        done = unclipped(asked.queries, shown, clicks, reported)
        after = GlobalModel(check_finite(parameters, context.round), state)
        return click_messages(self.dtype, done, context), after

    def _from_clicks(
        self, tables: Tables, every: QueryAssignment, context: RoundContext, state: Floats
    ) -> Learnt:
        world, (click, stop) = self.world, tables
        users = Users(
            data=world.data,
            grades=world.grades,
            lifts=world.lifts(every.ways),
            click=click,
            stop=stop,
            clicks=world.click_model.purpose,
            context=context,
        )
        found = self.learner.learn(users, every.queries, context.parameters, state)
        learnt = one_of(f"learner {self.learner.name}: learn", found, CentralResult)
        return learnt, learnt.clicks


def _by_steps(
    clients: ClientSimulator, batch: int, every: QueryAssignment, context: RoundContext, state: Floats
) -> Learnt:
    """Steps on one model: those of a single client, or summed steps of the clients of a batch."""
    N = every.queries.size
    if batch == 1:  # one client that takes all local steps in a row: the kernel plays them at once
        alone = context.having(clients=np.zeros(1, dtype=np.int64), counts=np.array([N]))
        models, _, done = clients.play(QueryAssignment(*(values[np.newaxis] for values in every)), alone)
        parameters = models[0]
    else:
        everybody = QueryAssignment(*(values[:, np.newaxis] for values in every))
        parameters, done = clients.play_in_turns(everybody, context, batch)
    shape = N, LIST_LENGTH
    learnt = CentralResult(
        parameters=parameters,
        state=state,
        shown=done.shown.reshape(shape),
        clicks=done.clicks.reshape(shape),
    )
    return learnt, done.reported.reshape(shape)
