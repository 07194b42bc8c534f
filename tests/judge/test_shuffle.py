"""A round in another order of messages: nothing is lost, and nothing is told by a row's number."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from foltr_audit.judge.pieces import reordered, shuffled
from foltr_audit.rng import Streams
from foltr_audit.simulation.federation import Federation
from tests.conftest import SetupOf
from tests.fixtures.intent_data import intent_collection
from tests.fixtures.there import there
from tests.fixtures.tiny import FEATURES


def test_every_message_keeps_what_is_its_own(setup_of: SetupOf) -> None:
    scenario = "intent-skew+quantity-skew:batches=1/3"
    setup = setup_of(clients=14, scenario=scenario, data=intent_collection(), embed_features=True)
    record, truth = Federation(setup).play(np.zeros(FEATURES), 0).recorded()
    seen, told = shuffled(record, truth, Streams(4))
    assert sorted(told.clients.tolist()) == list(range(14))
    assert told.clients.tolist() != truth.clients.tolist()
    for place, client in enumerate(told.clients):
        assert np.array_equal(seen.messages[place], record.messages[client])
        assert seen.counts[place] == record.counts[client]
        assert np.array_equal(told.updates[place], truth.updates[client])
        here, before = seen.slot == place, record.slot == client
        for name in ("step", "part", "query", "shown", "features"):
            assert np.array_equal(getattr(seen, name)[here], getattr(record, name)[before])
        for name in ("clicks", "intents"):
            assert np.array_equal(getattr(told, name)[here], getattr(truth, name)[before])
    back, _ = reordered(seen, told, np.argsort(told.clients))
    assert back.messages.tobytes() == record.messages.tobytes()


def test_the_order_is_another_one_in_every_round(setup_of: SetupOf) -> None:
    federation = Federation(setup_of(clients=40))
    orders = [
        shuffled(*federation.play(np.zeros(FEATURES), number).recorded(), Streams(4))[1].clients.tolist()
        for number in (0, 1)
    ]
    assert orders[0] != orders[1]


def test_what_only_recorders_know_goes_along(setup_of: SetupOf) -> None:
    """Senders, sizes, numbers in clear, buffers, candidates and unknown clicks stay with their message."""
    federation = Federation(setup_of(clients=9, embed_features=True))
    record, truth = federation.play(np.zeros(FEATURES), 0).recorded()
    M, lists = record.n_messages, np.arange(record.n_interactions)
    sizes, reals = 50 + lists % 3, np.arange(M, dtype=np.float64)
    record = replace(
        record,
        senders=np.arange(M, dtype=np.uint64) + 100,
        sizes=np.arange(M) + 7,
        sent_at=reals + 0.5,
        clear={"loss": reals * 2.0},
        buffers=(np.arange(M)[:, np.newaxis],),
        candidates=np.repeat(lists, sizes)[:, np.newaxis] * np.ones(FEATURES),
        n_candidates=sizes,
    )
    truth = replace(truth, clipped=np.empty(0, dtype=np.bool_), known=lists % 2 == 0)
    order = np.random.default_rng(1).permutation(M)
    seen, told = reordered(record, truth, order)
    came = np.concatenate([np.flatnonzero(record.slot == message) for message in order])
    candidates = np.asarray(seen.candidates)[:, 0]
    for found, expected in (
        (seen.senders, order + 100),
        (seen.sizes, order + 7),
        (seen.sent_at, order + 0.5),
        (seen.clear["loss"], order * 2.0),
        (seen.buffers[0][:, 0], order),
        (seen.n_candidates, sizes[came]),
        (candidates, np.repeat(came, sizes[came])),
        (told.known, came % 2 == 0),
    ):
        assert there(found).tolist() == expected.tolist()
    assert not told.knows_clips
