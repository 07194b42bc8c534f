"""Ways to make a trained model forget clients that left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from foltr_audit.core.settings.unlearning import UnlearningMethod, UnlearningSpec
from foltr_audit.experiments.unlearning.reduced_federation import ReducedFederation
from foltr_audit.experiments.unlearning.update_history import StoredRound, UpdateHistory
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Floats, Ints


@dataclass(frozen=True, kw_only=True, eq=False)
class UnlearningRequest:
    """A training after which clients leave.

    Attributes:
        federation: plays rounds.
        history: the training.
        streams: its random numbers.
        later: random numbers of rounds after it.
        leaving: ids of the clients that leave; none where these clients never took part.
        without: ids of the clients that take part in no further round.
        settings: of the methods.
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
    """What a method made of a request, and what it took.

    Attributes:
        parameters: the model, float64 (P,).
        client_rounds: how often a client computed a message for it.
        interactions: interactions behind these messages.
        stored_bytes: size of what the server must have stored of the training.
    """

    parameters: Floats
    client_rounds: int = 0
    interactions: int = 0
    stored_bytes: int = 0


def none(request: UnlearningRequest) -> UnlearnedModel:
    """The trained model as it is."""
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
