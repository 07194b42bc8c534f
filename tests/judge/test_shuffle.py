"""A round in another order of messages: nothing is lost, and nothing is told by a row's number."""

from __future__ import annotations

import numpy as np

from foltr_audit.judge.shuffle import reordered, shuffled
from foltr_audit.rng import Streams
from foltr_audit.simulation.federation import Federation
from tests.conftest import SetupOf
from tests.fixtures.intent_data import intent_collection
from tests.fixtures.tiny import FEATURES


def test_every_message_keeps_what_is_its_own(setup_of: SetupOf) -> None:
    scenario = "intent-skew+quantity-skew:batches=1/3"
    setup = setup_of(clients=14, scenario=scenario, data=intent_collection(), embed_features=True)
    record, truth = Federation(setup).play(np.zeros(FEATURES), 0).recorded()
    seen, told = shuffled(record, truth, Streams(4))
    assert sorted(told.clients.tolist()) == list(range(14))
    assert told.clients.tolist() != truth.clients.tolist()
    assert seen.features is not None
    assert record.features is not None
    assert told.intents is not None
    assert truth.intents is not None
    for place, client in enumerate(told.clients):
        assert np.array_equal(seen.messages[place], record.messages[client])
        assert seen.counts[place] == record.counts[client]
        assert np.array_equal(told.updates[place], truth.updates[client])
        here, there = seen.slot == place, record.slot == client
        for name in ("step", "part", "query", "shown"):
            assert np.array_equal(getattr(seen, name)[here], getattr(record, name)[there])
        assert np.array_equal(seen.features[here], record.features[there])
        assert np.array_equal(told.clicks[here], truth.clicks[there])
        assert np.array_equal(told.intents[here], truth.intents[there])
    back, _ = reordered(seen, told, np.argsort(told.clients))
    assert back.messages.tobytes() == record.messages.tobytes()


def test_the_order_is_another_one_in_every_round(setup_of: SetupOf) -> None:
    federation = Federation(setup_of(clients=40))
    orders = [
        shuffled(*federation.play(np.zeros(FEATURES), number).recorded(), Streams(4))[1].clients.tolist()
        for number in (0, 1)
    ]
    assert orders[0] != orders[1]
