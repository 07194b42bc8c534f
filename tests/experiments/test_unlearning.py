"""Unlearning: each method by another route, and a game that exact unlearning wins and doing nothing loses."""

from __future__ import annotations

import numpy as np
import pytest

from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.core.settings.unlearning import METHODS, UnlearningSpec
from foltr_audit.errors import UsageError
from foltr_audit.experiments.stages import first_model, judge_attacks
from foltr_audit.experiments.unlearning import METHODS as METHODS_BY_NAME
from foltr_audit.experiments.unlearning import (
    NOBODY,
    VIEWS,
    ReducedFederation,
    UnlearningRequest,
    UpdateHistory,
    ascended,
    fed_eraser,
    fed_remove,
    fine_tune,
    game_settings,
    gradient_ascent,
    history_leakage,
    play_game,
    projected,
    retrain,
    unlearn,
)
from foltr_audit.rng import Streams
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.recorder import record_rounds, trace_header
from foltr_audit.simulation.setup import Setup
from foltr_audit.utils.arrays import Floats, Ints
from foltr_audit.utils.progress import NO_TICK
from tests.fixtures.there import there
from tests.fixtures.tiny import tiny_collection

LAST = 4
"""The client with the largest id of a federation of five."""


def setup_of(
    *,
    clients: int = 5,
    cohort: int | None = None,
    rounds: int = 6,
    message: str = "model",
    defense: str = "none",
    poisoning: str | None = None,
    **protocol: object,
) -> Setup:
    """Small federations on tiny data."""
    table = {
        "defense": [defense],
        "data": {"source": "tiny", "normalise": "none"},
        "population": {"clients": clients, "cohort": cohort, "poisoning": poisoning},
        "train": {"rounds": rounds, "click_model": "informational"},
        "trace": {"message": message, "dtype": "float64"},
        "unlearning": protocol,
    }
    return Setup(Spec.parse(table), tiny_collection())


def request_of(setup: Setup, leaving: Ints | None = None, later: Streams | None = None) -> UnlearningRequest:
    """The training of a Spec, which its clients leave."""
    federation, settings = ReducedFederation(setup), setup.spec.unlearning or UnlearningSpec()
    clients = np.array(settings.clients)
    return UnlearningRequest(
        federation=federation,
        history=federation.train(setup.streams),
        streams=setup.streams,
        later=later or federation.streams("later"),
        leaving=clients if leaving is None else leaving,
        without=clients if leaving is None else leaving,
        settings=settings,
    )


def brute_force(history: UpdateHistory, leaving: Ints) -> Floats:
    """The first model plus each round's weighted mean of the others' updates, by loops."""
    model = history.start.copy()
    for one in history.rounds:
        total, weight = np.zeros_like(model), 0
        sent_by = zip(one.context.clients, one.context.counts, one.wired.messages, strict=True)
        for client, count, sent in sent_by:
            if client not in leaving:
                start = one.context.parameters if one.context.message == "model" else 0.0
                total += count * (sent - start)
                weight += count
        if weight:
            model += total / weight
    return model


# --- exact unlearning -----------------------------------------------------------------------------


@pytest.mark.parametrize("message", ["model", "update"])
def test_the_history_is_that_of_the_training(message: str) -> None:
    setup = setup_of(message=message, cohort=3)
    played = list(Federation(setup).rounds(first_model(setup)))
    history = ReducedFederation(setup).train(setup.streams)
    assert np.array_equal(history.trained, played[-1].aggregate)
    for stored, one in zip(history.rounds, played, strict=True):
        assert np.array_equal(stored.wired.messages, one.sent.messages)
        assert np.allclose(stored.updates, one.sent.updates)


def test_retraining_is_a_fresh_training_without_the_client_bit_for_bit() -> None:
    fewer = setup_of(clients=4)
    fresh = list(Federation(fewer).rounds(first_model(fewer)))
    request = request_of(setup_of(), leaving=np.array([LAST]))
    found = retrain(request)
    assert found.parameters.tobytes() == fresh[-1].aggregate.tobytes()
    assert found.parameters.tobytes() != request.history.trained.tobytes()
    assert (found.client_rounds, found.interactions, found.stored_bytes) == (4 * 6, 4 * 6 * 4, 0)


def test_whoever_stays_plays_the_same_rounds() -> None:
    setup = setup_of(cohort=2, rounds=12)
    federation = ReducedFederation(setup)
    every = federation.train(setup.streams).rounds
    fewer = federation.train(setup.streams, np.array([1, 3])).rounds
    for one, other in zip(every, fewer, strict=True):
        assert set(other.context.clients) == set(one.context.clients) - {1, 3}
    assert any(other.context.clients.size == 0 for other in fewer)


# --- approximate unlearning -----------------------------------------------------------------------


@pytest.mark.parametrize("message", ["model", "update"])
@pytest.mark.parametrize("leaving", [[LAST], [0, 2]])
def test_fed_remove_is_the_sum_of_the_others_updates(message: str, leaving: list[int]) -> None:
    setup = setup_of(message=message, cohort=3, rounds=12)
    request = request_of(setup, leaving=np.array(leaving))
    found = fed_remove(request)
    assert np.allclose(found.parameters, brute_force(request.history, request.leaving), atol=1e-12)
    assert found.stored_bytes == 12 * (3 + 1) * request.history.start.size * 8
    assert np.allclose(fed_remove(request_of(setup, leaving=NOBODY)).parameters, request.history.trained)


def test_fed_remove_uses_the_servers_rule() -> None:
    request = request_of(setup_of(defense="median"), leaving=np.array([LAST]))
    model = request.history.start
    for one in request.history.rounds:
        model = model + np.median(one.updates[:LAST], axis=0)
    assert np.allclose(fed_remove(request).parameters, model, atol=1e-12)


def test_fed_eraser_that_forgets_nobody_gives_the_trained_model() -> None:
    """With all rounds, all interactions and the same draws, calibrated updates are the stored ones."""
    setup = setup_of(calibrate_every=1, calibration_interactions=4)
    request = request_of(setup, leaving=NOBODY, later=setup.streams)
    assert np.allclose(fed_eraser(request).parameters, request.history.trained, atol=1e-9)
    other = request_of(setup, leaving=NOBODY)  # other draws: other directions
    assert not np.allclose(fed_eraser(other).parameters, request.history.trained, atol=1e-3)


def test_calibrated_updates_have_the_stored_length_and_the_new_direction() -> None:
    """Two rounds, computed by hand: the first as it was stored, the second from the model after it."""
    setup = setup_of(rounds=2, calibrate_every=1, calibration_interactions=2)
    request = request_of(setup, leaving=np.array([LAST]))
    federation, (first, second) = request.federation, request.history.rounds
    model = request.history.start + first.updates[:LAST].mean(axis=0)
    context = federation.context(1, np.arange(LAST), model, request.later)
    context, asked = federation.asked(context, 2)
    new = federation.server.senders.send(asked, context).wired.messages - model
    lengths = np.linalg.norm(second.updates[:LAST], axis=1)
    sizes = np.linalg.norm(new, axis=1)
    assert (asked.queries[:, :2] >= 0).all()
    assert (asked.queries[:, 2:] == -1).all()
    steps = [new[c] * lengths[c] / sizes[c] if sizes[c] else 0.0 * new[c] for c in range(LAST)]
    found = fed_eraser(request)
    assert np.allclose(found.parameters, model + np.mean(steps, axis=0), atol=1e-12)
    assert (found.client_rounds, found.interactions) == (LAST, 2 * LAST)


def test_fed_eraser_stores_every_kth_round_only() -> None:
    request = request_of(setup_of(calibrate_every=3), leaving=np.array([LAST]))
    found = fed_eraser(request)
    assert found.stored_bytes == 2 * (5 + 1) * request.history.start.size * 8
    assert found.client_rounds == LAST


def test_fine_tuning_goes_on_without_the_client() -> None:
    request = request_of(setup_of(fine_tune_rounds=8), leaving=np.array([LAST]))
    found = fine_tune(request)
    model = request.history.trained
    for number in (4, 5, 0, 1, 2, 3, 4, 5):  # of six rounds the last eight, over again
        played, model = request.federation.play(request.later, request.leaving, model, [number])
        assert LAST not in played[0].context.clients
    assert np.array_equal(found.parameters, model)
    assert (found.client_rounds, found.interactions) == (8 * LAST, 8 * LAST * 4)


def test_gradient_ascent_stays_within_the_ball() -> None:
    for ball, rounds in ((0.05, 30), (10.0, 1)):
        request = request_of(setup_of(ball=ball, ascent_rounds=rounds), leaving=np.array([LAST]))
        history = request.history
        reference = history.rounds[-1].wired.messages[:LAST].mean(axis=0)
        radius = ball * np.linalg.norm(reference - history.start)
        away = np.linalg.norm(ascended(request) - reference)
        assert away <= radius * (1 + 1e-12)
        if ball == 10.0:  # one round inside of the ball reverses the step of one round
            step = request.federation.reversed_steps(0, request.leaving, reference, request.later)[0]
            assert np.allclose(ascended(request), reference + step)
        else:
            assert away == pytest.approx(radius)
    assert gradient_ascent(request).client_rounds == 10 * LAST + 1
    nobody = request_of(setup_of(), leaving=NOBODY)
    assert np.array_equal(ascended(nobody), nobody.history.trained)


def test_the_projection_is_the_nearest_point() -> None:
    rng = np.random.default_rng(1)
    centre, far = rng.normal(size=(2, 6))
    found = projected(far, centre, 0.5)
    assert np.linalg.norm(found - centre) == pytest.approx(0.5)
    directions = rng.normal(size=(500, 6))
    others = centre + 0.5 * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    assert np.linalg.norm(found - far) <= np.linalg.norm(others - far, axis=1).min()
    assert projected(far, centre, 100.0) is far


# --- the game -------------------------------------------------------------------------------------


def test_exact_unlearning_leaves_nothing_and_doing_nothing_leaves_much() -> None:
    """One of three clients clicks the other way round, so that what it leaves shows in few trainings."""
    setup = setup_of(clients=3, rounds=4, poisoning="reversed-clicks:share=0.34", trials=100)
    assert setup.malicious is not None
    settings = UnlearningSpec(clients=setup.malicious.ids.tolist(), methods=("none", "retrain"), trials=100)
    spec = setup.spec.model_copy(update={"unlearning": settings})
    nothing, exact = unlearn(Setup(spec, setup.collection)).findings
    assert nothing.game.lower.epsilon > 1
    assert exact.game.lower.epsilon == 0
    assert nothing.relative.value == pytest.approx(1)
    assert exact.distance.value == 0
    assert (nothing.client_rounds, exact.client_rounds) == (0, 2 * 4)
    assert (nothing.trainings, nothing.game.lower.trials) == (210, 100)


def test_every_method_makes_a_model() -> None:
    found = {name: METHODS_BY_NAME[name](request_of(setup_of(rounds=3))) for name in METHODS}
    assert len({one.parameters.tobytes() for one in found.values()}) == len(METHODS)


@pytest.mark.slow
def test_the_bound_holds_in_the_shares_of_games_that_it_promises() -> None:
    """One coordinate of Laplace noise of scale 1 / eps: the true epsilon is known."""
    audit = game_settings(UnlearningSpec(trials=400, confidence=0.9), 1)
    rng = np.random.default_rng(5)
    for truth, least in ((0.0, 0.0), (1.0, 0.1)):
        bounds = []
        for _ in range(40):
            noise = rng.laplace(size=(2, audit.calls, 3))
            noise[1, :, 0] += truth
            bounds.append(play_game(noise[0], noise[1], audit).lower.epsilon)
        assert np.mean(np.array(bounds) > truth) <= 0.25  # 4 expected of 40; 10 in one run of 600
        assert np.mean(bounds) >= least


def test_without_a_protocol_nothing_is_trained_again() -> None:
    setup = setup_of()
    assert unlearn(Setup(setup.spec.only_trained, setup.collection)).findings == ()


def test_the_history_is_attacked_as_a_recorded_training_is() -> None:
    """Single messages tell more clicks than the sums of five."""
    setup = setup_of(rounds=4, methods=["none"], trials=100)
    header = trace_header(setup, "informational", 5)
    play = Federation(setup).rounds(first_model(setup))
    recording = record_rounds(
        lambda *_: play, header, None, setup.collection, resume=False, keep=True, tick=NO_TICK
    )
    leaks = history_leakage(setup, recording)
    for view, found in leaks.items():
        protocol = AttackSpec(methods=("olsr",), target="training", view=view)
        judged = there(judge_attacks(recording, setup.collection, protocol, setup.streams).clicks)
        for label, answer in judged.guessed.items():
            assert np.array_equal(found.guessed[label].guess, answer.guess)
    right = [(leaks[view].guessed["olsr"].guess == leaks[view].clicks).mean() for view in VIEWS]
    assert right[0] > right[1]
    hidden = setup_of(defense="secure-aggregation", methods=["none"])
    assert history_leakage(hidden, recording) == history_leakage(setup, None) == {}


# --- what cannot be meant -------------------------------------------------------------------------


def test_secure_aggregation_leaves_what_needs_no_messages() -> None:
    hidden = Spec(defense=("secure-aggregation",), unlearning={})
    assert hidden.population.clients == 20
    assert UnlearningSpec().chosen(hidden=True) == ("none", "retrain", "fine-tune")
    for name in ("fed-eraser", "fed-remove", "gradient-ascent"):
        with pytest.raises(UsageError, match=f"{name}: secure aggregation hides"):
            Spec(defense=("secure-aggregation",), unlearning={"methods": [name]})
