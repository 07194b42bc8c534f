"""A round in another order of messages: nothing is lost, and nothing is told by a row's number."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from foltr_audit.judge.pieces import reordered, shuffled
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


def test_what_only_recorders_know_goes_along(setup_of: SetupOf) -> None:
    """Senders, sizes, numbers in clear, buffers, candidates and unknown clicks stay with their message."""
    record, truth = (
        Federation(setup_of(clients=9, embed_features=True)).play(np.zeros(FEATURES), 0).recorded()
    )
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
    assert seen.senders is not None
    assert seen.sizes is not None
    assert seen.sent_at is not None
    assert seen.n_candidates is not None
    assert seen.candidates is not None
    assert told.known is not None
    assert seen.senders.tolist() == (order + 100).tolist()
    assert seen.sizes.tolist() == (order + 7).tolist()
    assert seen.sent_at.tolist() == (order + 0.5).tolist()
    assert seen.clear["loss"].tolist() == (order * 2.0).tolist()
    assert seen.buffers[0][:, 0].tolist() == order.tolist()
    came = np.concatenate([np.flatnonzero(record.slot == message) for message in order])
    assert seen.n_candidates.tolist() == sizes[came].tolist()
    assert seen.candidates[:, 0].tolist() == np.repeat(came, sizes[came]).tolist()
    assert told.known.tolist() == (came % 2 == 0).tolist()
    assert not told.knows_clips
