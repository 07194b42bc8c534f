"""Ways to make a trained model forget clients that left."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from foltr_audit.core.plugins import RoundContext, WireMessages
from foltr_audit.core.records.interactions import GlobalModel
from foltr_audit.core.records.population import QueryAssignment
from foltr_audit.core.settings.unlearning import UnlearningMethod, UnlearningSpec
from foltr_audit.errors import UsageError
from foltr_audit.experiments.membership import QUERY_PURPOSES
from foltr_audit.experiments.stages import first_model
from foltr_audit.rng import Streams
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.setup import Setup
from foltr_audit.simulation.training import FedAvgServer
from foltr_audit.utils.arrays import Floats, Ints


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredRound:
    """One round as the server can store it: the context of its clients (C,), and their messages, (C, P)."""

    context: RoundContext
    wired: WireMessages

    @property
    def updates(self) -> Floats:
        """The change of the global model in each message, float64 (C, P)."""
        sent = self.wired.messages.astype(np.float64)
        return sent if self.context.message == "update" else sent - self.context.parameters

    def without(self, clients: Ints) -> StoredRound:
        """The same round without the messages of some clients."""
        return self.at(np.flatnonzero(~np.isin(self.context.clients, clients)))

    def at(self, rows: Ints) -> StoredRound:
        """The same round with the messages in `rows` only."""
        messages, survivors = self.wired.messages[rows], self.wired.survivors[rows]
        return StoredRound(
            context=self.context.at(rows), wired=replace(self.wired, messages=messages, survivors=survivors)
        )

    def with_updates(self, updates: Floats) -> StoredRound:
        """The same round with other updates (C, P)."""
        sent = updates if self.context.message == "update" else updates + self.context.parameters
        return replace(self, wired=replace(self.wired, messages=sent))


@dataclass(frozen=True, kw_only=True, eq=False)
class UpdateHistory:
    """All rounds of a training in order, its first and its trained model, float64 (P,)."""

    start: Floats
    rounds: tuple[StoredRound, ...]
    trained: Floats
    dtype: str

    def stored_bytes(self, rounds: slice) -> int:
        """Bytes of the messages of some rounds, and of the global model before each of them."""
        size = np.dtype(self.dtype).itemsize * self.start.size
        return sum(size * (one.context.clients.size + 1) for one in self.rounds[rounds])


NOBODY = np.empty(0, dtype=np.int64)
"""No client."""


class ReducedFederation:
    """The rounds of a Spec without some of its clients.

    A cohort is drawn from all clients, and those that left are taken out of it. So with the same random
    numbers the others take part in the same rounds whoever left.
    """

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.federation = Federation(setup)
        self.start = first_model(setup)
        if not isinstance(self.federation.training, FedAvgServer):
            raise UsageError(f"learner {setup.learner.name}: unlearning needs messages that are models")
        self.server = self.federation.training
        self.most = self.federation.clientele.most
        self._everybody = np.arange(setup.spec.population.clients)

    def streams(self, branch: str) -> Streams:
        """Random numbers of their own; what clients search for is the same in all branches."""
        spec = self.setup.spec
        return Streams(spec.seed, spec.repetition, branch=f"unlearning/{branch}", shared=QUERY_PURPOSES)

    def context(self, round_: int, clients: Ints, parameters: Floats, streams: Streams) -> RoundContext:
        """The context of clients in a round that starts from a model (P,)."""
        return replace(self.setup.context(round_, clients, self.most, parameters), source=streams)

    def asked(self, context: RoundContext, first: int | None = None) -> tuple[RoundContext, QueryAssignment]:
        """What clients ask, at most their `first` interactions, and the context with the number of these."""
        asked = self.federation.clientele.ask(context)
        if first is not None:
            queries = np.where(np.arange(asked.queries.shape[1]) < first, asked.queries, -1)
            asked = QueryAssignment(queries, asked.intents, asked.ways)
        return replace(context, counts=asked.counts), asked

    def train(self, streams: Streams, without: Ints = NOBODY) -> UpdateHistory:
        """Train the model of the Spec from the first one."""
        rounds, trained = self.play(streams, without, self.start, range(self.setup.spec.train.rounds))
        return UpdateHistory(
            start=self.start, rounds=rounds, trained=trained, dtype=self.setup.spec.trace.dtype
        )

    def play(
        self, streams: Streams, without: Ints, model: Floats, numbers: Iterable[int]
    ) -> tuple[tuple[StoredRound, ...], Floats]:
        """Rounds with these numbers from a model (P,), and the model after them."""
        cohorts = self.federation.setup.cohorts(self._everybody, streams)
        state, played = self.server.first(model), []
        for number in numbers:
            cohort = cohorts.cohort(number)
            here = self.context(number, cohort[~np.isin(cohort, without)], state.parameters, streams)
            here, asked = self.asked(here)
            wired = WireMessages(messages=np.empty((0, model.size)), survivors=np.empty(0, dtype=np.bool_))
            if here.clients.size:  # else everybody who would have played has left
                sent, state = self.server.play(asked, here, state)
                wired = sent.wired
            played.append(StoredRound(context=here, wired=wired))
        return tuple(played), state.parameters

    def aggregated(self, stored: StoredRound) -> Floats:
        """The change of the global model (P,) that the server makes of a round's messages."""
        before = GlobalModel(stored.context.parameters)
        after = self.server.aggregate(stored.wired, stored.context, before)
        return after.parameters - before.parameters

    def reversed_steps(self, round_: int, clients: Ints, model: Floats, streams: Streams) -> Floats:
        """The local steps of clients in a round from a model (P,), without any defense, reversed: (C, P)."""
        context, asked = self.asked(self.context(round_, clients, model, streams))
        local, _ = self.server.senders.clients.play(asked, context)
        return -local.steps


@dataclass(frozen=True, kw_only=True, eq=False)
class UnlearningRequest:
    """A training after which clients leave; `later` are the random numbers of rounds after it.

    The ids of those that leave are none where these clients never took part. Those `without` which it goes on
    take part in no further round.
    """

    federation: ReducedFederation
    history: UpdateHistory
    streams: Streams
    later: Streams
    leaving: Ints
    without: Ints
    settings: UnlearningSpec


@dataclass(frozen=True, kw_only=True, eq=False)
class UnlearnedModel:
    """What a method made of a request, float64 (P,), and what it took.

    That is how often a client computed a message, the interactions behind these messages, and the size of
    what the server must have stored of the training.
    """

    parameters: Floats
    client_rounds: int = 0
    interactions: int = 0
    stored_bytes: int = 0


def none(request: UnlearningRequest) -> UnlearnedModel:
    return UnlearnedModel(parameters=request.history.trained)


def retrain(request: UnlearningRequest) -> UnlearnedModel:
    """Train again from the first model without the clients, with the random numbers of the training.

    This is exact unlearning: the model has the law of one that never saw them.
    """
    found = request.federation.train(request.streams, request.without)
    return _computed(found.trained, found.rounds)


def fine_tune(request: UnlearningRequest) -> UnlearnedModel:
    """More rounds without the clients, from the trained model."""
    return _tuned(request, request.history.trained)


def fed_remove(request: UnlearningRequest) -> UnlearnedModel:
    """Add up the stored updates of the others, without any calibration.

    In each round the server aggregates the stored messages again without those of the clients that left.
    The updates of the others were computed at models that the clients had changed, and stay as they are.

    Source: the baseline FedAccum of Liu, Ma, Yang, Wang & Liu 2021, "FedEraser: enabling efficient
    client-level data removal from federated learning models", section IV.
    """
    history, federation = request.history, request.federation
    model = history.start
    for one in history.rounds:
        model = model + federation.aggregated(one.without(request.leaving))
    return UnlearnedModel(parameters=model, stored_bytes=history.stored_bytes(slice(None)))


def fed_eraser(request: UnlearningRequest) -> UnlearnedModel:
    """Calibrate the stored updates of every K-th round: new steps give direction, the stored update length.

    The other clients of each stored round take fewer local steps from the model that is being rebuilt. The
    direction of the new update and the L2 norm of the stored one make the update that is aggregated. A
    client whose new steps do not move the model moves it by nothing. The first round is not calibrated,
    since its clients started from a model that nobody had changed.

    Source: Liu, Ma, Yang, Wang & Liu 2021, "FedEraser: enabling efficient client-level data removal from
    federated learning models", section III.
    """
    history, federation, settings = request.history, request.federation, request.settings
    every = settings.calibrate_every
    first = settings.calibration_interactions or max(1, federation.most // 2)
    model, client_rounds, interactions = history.start, 0, 0
    for number, stored in enumerate(history.rounds[::every]):
        one = stored.without(request.leaving)
        if number and one.context.clients.size:
            one, asked = _calibrated(request, one, model, first)
            client_rounds += one.context.clients.size
            interactions += asked
        model = model + federation.aggregated(one)
    return UnlearnedModel(
        parameters=model,
        client_rounds=client_rounds,
        interactions=interactions,
        stored_bytes=history.stored_bytes(slice(None, None, every)),
    )


def gradient_ascent(request: UnlearningRequest) -> UnlearnedModel:
    """The clients take reversed steps inside a ball around a reference model; rounds without them follow.

    The reference is what the last round gives without the messages of these clients. After each round of
    reversed steps the model is projected onto the L2 ball around it. Its radius is a share of the distance
    from the first model to the reference, where the source takes that from random models.

    Source: Halimi, Kadhe, Rawat & Baracaldo 2022, "Federated unlearning: how to efficiently erase a client in
    FL?", section 3.
    """
    return _tuned(request, ascended(request), ascent=True)


def ascended(request: UnlearningRequest) -> Floats:
    """The model (P,) of gradient ascent before the rounds that follow it."""
    history, settings = request.history, request.settings
    if not request.leaving.size:
        return history.trained
    last = history.rounds[-1]
    reference = last.context.parameters + request.federation.aggregated(last.without(request.leaving))
    radius = settings.ball * float(np.linalg.norm(reference - history.start))
    model, rounds = reference, len(history.rounds)
    for number in range(settings.ascent_rounds):
        steps = request.federation.reversed_steps(number % rounds, request.leaving, model, request.later)
        model = projected(model + steps.mean(axis=0), reference, radius)
    return model


def projected(model: Floats, centre: Floats, radius: float) -> Floats:
    """The point of an L2 ball that is nearest to a model (P,)."""
    away = model - centre
    length = float(np.linalg.norm(away))
    return model if length <= radius else np.asarray(centre + away * (radius / length))


def _tuned(request: UnlearningRequest, model: Floats, *, ascent: bool = False) -> UnlearnedModel:
    """Rounds without the clients from a model; they ask again what they asked in the last rounds."""
    rounds, count = len(request.history.rounds), request.settings.fine_tune_rounds
    numbers = [(rounds - count + number) % rounds for number in range(count)]
    played, tuned = request.federation.play(request.later, request.without, model, numbers)
    found = _computed(tuned, played)
    if not ascent:
        return found
    ascents = request.settings.ascent_rounds * request.leaving.size
    return UnlearnedModel(
        parameters=tuned,
        client_rounds=found.client_rounds + ascents,
        interactions=found.interactions + ascents * request.federation.most,
        stored_bytes=request.history.stored_bytes(slice(-1, None)),
    )


def _computed(model: Floats, rounds: tuple[StoredRound, ...]) -> UnlearnedModel:
    """A model that was trained in some rounds."""
    return UnlearnedModel(
        parameters=model,
        client_rounds=sum(one.context.clients.size for one in rounds),
        interactions=sum(int(one.context.counts.sum()) for one in rounds),
    )


def _calibrated(
    request: UnlearningRequest, stored: StoredRound, model: Floats, first: int
) -> tuple[StoredRound, int]:
    """A stored round at a model (P,) with calibrated updates, and the interactions that this took."""
    federation, there = request.federation, stored.context
    context = federation.context(there.round, there.clients, model, request.later)
    context, asked = federation.asked(context, first)
    sent = federation.server.senders.send(asked, context)
    fresh = StoredRound(context=context, wired=sent.wired)
    new, lengths = fresh.updates, np.linalg.norm(stored.updates, axis=1)
    sizes = np.linalg.norm(new, axis=1)
    scale = np.divide(lengths, sizes, out=np.zeros_like(sizes), where=sizes > 0)
    # The weights of the average are those of the stored messages.
    kept = replace(stored, context=replace(there, parameters=model))
    return kept.with_updates(new * scale[:, np.newaxis]), int(context.counts.sum())


METHODS: dict[UnlearningMethod, Callable[[UnlearningRequest], UnlearnedModel]] = {
    "none": none,
    "retrain": retrain,
    "fed-eraser": fed_eraser,
    "fed-remove": fed_remove,
    "fine-tune": fine_tune,
    "gradient-ascent": gradient_ascent,
}
"""Every method by its name."""
