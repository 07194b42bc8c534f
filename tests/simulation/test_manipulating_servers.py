"""Servers that change the features on which clients train, and clients that compare them."""

from __future__ import annotations

import numpy as np
import pytest

import foltr_audit as fa
from foltr_audit.core.records import Dataset
from foltr_audit.rng import Streams
from foltr_audit.simulation.federation import RoundResult
from foltr_audit.simulation.setup import Setup
from tests.fixtures import foreign_trace
from tests.fixtures.servers import exact, rounds, setup_of

KINDS = ("random", "blocks", "superincreasing")


def served(text: str) -> tuple[Dataset, tuple[Dataset, ...]]:
    """The documents of a training, and those on which its clients train."""
    from foltr_audit.simulation.federation import Federation

    world = Federation(setup_of(text)).clientele.world
    return world.data, world.trained


def step_by_hand(played: RoundResult, setup: Setup, client: int, *, changed: bool) -> np.ndarray:
    """The first local step of a client, pair by pair: Pham's PDGD on a linear ranker."""
    record, truth = played.recorded()
    row = np.flatnonzero(record.slot == client)[0]
    assert record.features is not None
    part = setup.collection.train
    true = part.shown_features(record.query[[row]], record.shown[[row]])[0]
    features = (record.features[row] if changed else true).astype(np.float64)
    there, scores = record.shown[row] >= 0, features @ record.parameters
    return foreign_trace.gradient(scores[there], 0.0, truth.clicks[row][there], features[there], "all")


@pytest.mark.parametrize("kind", KINDS)
def test_lists_and_clicks_stay_and_steps_follow_the_changed_features(kind: str) -> None:
    text = f"manipulate:features={kind}"
    setup, played, honest = setup_of(text), rounds(text)[0], rounds("honest")[0]
    assert np.array_equal(played.sent.interactions.shown, honest.sent.interactions.shown)
    assert np.array_equal(played.sent.interactions.clicks, honest.sent.interactions.clicks)
    for client in range(3):
        sent = played.sent.updates[client]
        expected = step_by_hand(played, setup, client, changed=True) * 0.1
        assert np.allclose(sent, expected, rtol=1e-5, atol=1e-9)
        assert not np.allclose(sent, step_by_hand(played, setup, client, changed=False) * 0.1, rtol=1e-2)


def test_random_features_replace_a_share_of_the_columns() -> None:
    data, (changed,) = served("manipulate:features=random,alpha=.5,sd=.1")
    half = data.n_features // 2
    assert np.array_equal(changed.features[:, half:], data.features[:, half:])
    drawn = changed.features[:, :half]
    # Of a normal sample the mean and deviation are within 5 standard errors with all but 1e-6 of the seeds.
    assert abs(drawn.mean()) < 5 * 0.1 / np.sqrt(drawn.size)
    assert abs(drawn.std() - 0.1) < 5 * 0.1 / np.sqrt(2 * drawn.size)


def test_blocks_do_not_overlap_and_cover_all_columns() -> None:
    _, blocks = served("manipulate:features=blocks,blocks=8")
    used = np.stack([one.features.any(axis=0) for one in blocks])
    assert len(blocks) == 8
    assert (used.sum(axis=0) == 1).all()


def test_any_sum_of_powers_says_which_documents_it_holds() -> None:
    data, blocks = served("manipulate:features=superincreasing,blocks=4")
    rows = slice(*data.offsets[:2])
    for block in blocks:
        column = block.features[rows][:, block.features[rows].any(axis=0)]
        for values in column.T:
            powers = np.sort(values[values > 0])
            assert powers.size <= 20
            # Each is larger than the sum of all smaller ones, exactly in float32.
            below = np.cumsum(np.append(0.0, powers[:-1].astype(np.float64)))
            assert (powers > below * (1 - 1e-12)).all()
            assert np.float32(powers.sum(dtype=np.float64)) == powers.sum(dtype=np.float64)


def test_a_guard_refuses_changed_features_only() -> None:
    for server, answered in (("manipulate:features=random", 0), ("honest", 30)):
        assert all(played.sent.wired.survivors.sum() == answered for played in rounds(server, "guard"))
    unchecked = rounds("manipulate:features=random", "guard:contrast=false")
    assert all(played.sent.wired.survivors.all() for played in unchecked)


def fresh(server: str) -> float:
    """Share of lists of fresh clients that are read."""
    table = {"data": {"source": "synthetic:mq2007:60"}, "population": {"clients": 5}}
    attack = {"methods": ["map"], "click_models": ["informational"]}
    made = fa.Spec(**table, train={"rounds": 2, "server": server}, attack=attack)
    (found,) = (row.number("exact") for row in fa.attack(made).results if row["method"] == "map")
    return found


def test_attacks_know_the_changed_features() -> None:
    for kind in ("honest", *(f"manipulate:features={kind}" for kind in KINDS)):
        assert fresh(kind) >= 0.9
    # Sums of rounds are attacked as they are, too.
    assert exact("manipulate:features=random")["olsr"][1] == exact("honest")["olsr"][1]


def test_features_follow_from_the_document_and_the_seed() -> None:
    first, again = (served("manipulate:features=random")[1][0].features for _ in range(2))
    assert np.array_equal(first, again)
    setup = setup_of("manipulate:features=random")
    data = setup.collection.train
    few = data.select(np.arange(3))
    streams = Streams(setup.spec.seed, setup.spec.repetition)
    draws = streams.clients("server/features", 0, np.arange(few.n_documents))
    alone = setup.server.training_features(few, draws)[0]
    assert np.array_equal(alone.astype(np.float32), first[: few.n_documents])
