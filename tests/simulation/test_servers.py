"""Servers that isolate one client in the sum of a round, and what stops them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from foltr_audit.defenses.guard import Guard

from foltr_audit.core.records.round_context import LARGEST_SENT, Broadcast, Delivery
from foltr_audit.errors import UsageError
from foltr_audit.experiments.stages import train
from foltr_audit.simulation.setup import Setup
from tests.fixtures.servers import ROUNDS, exact, rounds, spec
from tests.fixtures.tiny import context

ISOLATING = ("saturate", "flatten")


@pytest.mark.parametrize("server", ISOLATING)
def test_the_sum_of_a_round_is_the_update_of_its_target(server: str) -> None:
    for played in rounds(server):
        assert played.sent.broadcast is not None
        target, messages = played.sent.broadcast.target, np.asarray(played.sent.messages)
        assert target is not None
        alone = messages.sum(axis=0) - messages[target]
        # Flat lists have no pairs that differ; under the large model near documents may keep a weight.
        most = 0.0 if server == "flatten" else 0.02 * np.abs(messages[target]).max()
        assert np.abs(alone).max() <= most
        assert np.abs(messages[target]).max() > 0


def test_an_honest_server_has_no_target() -> None:
    for played in rounds("honest"):
        messages = np.asarray(played.sent.messages)
        assert played.sent.broadcast is None
        assert (np.abs(messages).max(axis=1) > 0).mean() > 0.9


@pytest.mark.parametrize("server", ISOLATING)
def test_a_target_learns_as_under_an_honest_server(server: str) -> None:
    """It receives the model, ranks, clicks and sends as it would: only the others differ."""
    honest, other = rounds("honest")[0], rounds(server)[0]
    assert other.sent.broadcast is not None
    target = other.sent.broadcast.target
    assert np.array_equal(other.sent.messages[target], honest.sent.messages[target])
    assert np.array_equal(other.sent.interactions.clicks[target], honest.sent.interactions.clicks[target])


@pytest.mark.parametrize("server", ISOLATING)
def test_lists_of_the_target_are_read_from_a_secure_sum(server: str) -> None:
    found = exact(server, "secure-aggregation")
    assert found["olsr"][0] >= 0.75
    assert found["olsr"][1] <= ROUNDS
    assert exact("honest", "secure-aggregation")["olsr"][0] <= 0.1


def test_masks_that_depend_on_the_model_stop_saturation_alone() -> None:
    assert exact("saturate", "secure-aggregation:bind=true")["olsr"][0] == 0.0
    assert exact("flatten", "secure-aggregation:bind=true")["olsr"][0] >= 0.75
    honest = exact("honest", "secure-aggregation:bind=true")
    assert honest == exact("honest", "secure-aggregation")


@pytest.mark.parametrize(
    ("server", "guard"),
    [
        ("saturate", "guard:max_norm=10,contrast=false"),
        ("flatten", "guard:max_norm=1e9"),
        ("flatten", "guard"),
    ],
)
def test_a_guard_opens_no_sum(server: str, guard: str) -> None:
    played = rounds(server, guard, "secure-aggregation")
    assert all(one.sent.wired.aborted and one.sent.wired.sum is None for one in played)
    with pytest.raises(UsageError, match="no round in which a message arrived or a sum was opened"):
        exact(server, guard, "secure-aggregation")


def test_a_guard_without_secure_aggregation_leaves_the_target_alone() -> None:
    for played in rounds("saturate", "guard"):
        assert played.sent.broadcast is not None
        assert np.flatnonzero(played.sent.wired.survivors).tolist() == [played.sent.broadcast.target]


def test_a_guard_changes_nothing_under_an_honest_server() -> None:
    plain, guarded = rounds("honest"), rounds("honest", "guard")
    assert all(np.array_equal(a.aggregate, b.aggregate) for a, b in zip(plain, guarded, strict=True))


def test_a_guard_measures_models_whose_squares_overflow() -> None:
    received = np.array([np.full(6, 1e200), np.ones(6)])
    there = replace(context([0, 1]), received=received)
    assert Guard().accepted(there).tolist() == [False, True]


def test_no_model_is_so_large_that_noise_is_lost_next_to_it() -> None:
    assert np.spacing(LARGEST_SENT) < 1e-9
    with pytest.raises(UsageError, match="norm"):
        spec("saturate:norm=1e7")
    for largest in (1e7, np.nan):
        sent = Broadcast(deliveries=(Delivery(rows=np.array([0]), parameters=np.array([1.0, -largest])),))
        with pytest.raises(UsageError, match="noise is lost"):
            sent.checked(context([0], P=2))


def test_a_broadcast_reaches_every_client_once() -> None:
    model = np.zeros(2)
    with pytest.raises(UsageError, match="one delivery for each client"):
        Broadcast(deliveries=(Delivery(rows=np.array([0, 0]), parameters=model),), target=0)
    with pytest.raises(UsageError, match="a target among them"):
        Broadcast(deliveries=(Delivery(rows=np.array([0, 1]), parameters=model),), target=2)


def test_training_under_a_server_repeats_itself() -> None:
    from foltr_audit.data.load import load_collection

    made = spec("saturate", "secure-aggregation")
    data = load_collection(made.data, made.seed)
    first, second = (train(Setup(made, data)).parameters for _ in range(2))
    assert np.array_equal(first, second)
