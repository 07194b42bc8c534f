"""Fresh clients: which queries they ask, what they show, and what must not change their draws."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from foltr_audit.core.records import Collection
from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.errors import DataError
from foltr_audit.privacy.noise import GammaShare
from foltr_audit.simulation.fresh_clients import FreshClients
from foltr_audit.utils.arrays import Floats
from tests.conftest import SetupOf
from tests.fixtures.tiny import FEATURES, LENGTHS, Entry, ToyMessage, ToyStep
from tests.simulation.test_training import clicked

PHAM = "fpdgd:pairs=all,normaliser=shown"
MODEL = np.linspace(-0.4, 0.5, FEATURES)


def fresh(setup_of: SetupOf, attack: dict[str, Any] | None = None, **changes: Any) -> FreshClients:
    """Fresh clients of a small experiment."""
    setup = setup_of(attack=attack or {}, **{"learner": PHAM, **changes})
    assert setup.spec.attack is not None
    return FreshClients(setup, setup.spec.attack)


def repeats(
    clients: FreshClients, click_model: str = "informational", model: Floats = MODEL, first: int = 0
) -> list[tuple[RoundRecord, RoundTruth]]:
    return [played.recorded() for played in clients.rounds(model, click_model, first)]


def by_query(record: RoundRecord) -> dict[tuple[int, int], int]:
    """Row of each attacked query, by part and index."""
    return {key: row for row, key in enumerate(zip(record.part.tolist(), record.query.tolist(), strict=True))}


# --- which queries --------------------------------------------------------------------------------


@pytest.mark.parametrize("least", [1, 10, 13, 14])
@pytest.mark.parametrize("on", [["vali", "test"], ["test"], ["train", "vali"], ["test", "vali"]])
def test_only_queries_with_enough_documents(least: int, on: list[str], setup_of: SetupOf) -> None:
    clients = fresh(setup_of, {"on": on, "min_documents": least})
    record, _ = repeats(clients)[0]
    expected = [
        (part, query)
        for part, name in enumerate(("train", "vali", "test"))
        if name in on
        for query, length in enumerate(LENGTHS[name])
        if length >= least
    ]
    assert list(by_query(record)) == expected
    assert clients.too_short == sum(len(LENGTHS[name]) for name in on) - len(expected)
    assert record.n_messages == record.n_interactions == len(expected)
    assert np.array_equal(record.slot, np.arange(len(expected)))
    assert not record.step.any()
    assert (record.counts == 1).all()


def test_no_query_long_enough_is_refused(setup_of: SetupOf) -> None:
    clients = fresh(setup_of, {"min_documents": 15})
    said = r"--min-documents: no query of vali, test has 15 documents; .*other parts"
    with pytest.raises(DataError, match=said):
        _ = clients.queries


# --- what they show and send ----------------------------------------------------------------------


def test_lists_follow_the_scores_and_clicks_the_numbers_of_fresh_clients(
    setup_of: SetupOf, collection: Collection
) -> None:
    clients = fresh(setup_of, {"min_documents": 2}, defense=("clip:norm=0.1",))
    record, truth = repeats(clients)[0]
    draws = clients.setup.streams.clients("fresh/clicks/informational", 0, truth.clients).uniform(20)
    for (part, query), row in by_query(record).items():
        data = collection.part(("train", "vali", "test")[part])
        features = data.features[data.offsets[query] : data.offsets[query + 1]]
        scores = (features.astype(np.float64) * MODEL).sum(axis=1)
        best = [i for _, i in sorted(zip((-scores).tolist(), range(scores.size), strict=True))][:10]
        assert record.shown[row].tolist() == best + [-1] * (10 - len(best))
        labels = data.labels[data.offsets[query] + np.array(best)]
        assert truth.clicks[row].tolist() == clicked(clients.setup, labels, draws[row]).tolist()


def test_every_repeat_shows_the_same_and_draws_anew(setup_of: SetupOf) -> None:
    clients = fresh(setup_of, {"repeats": 3}, defense=("gamma-laplace:eps=1,sensitivity=3",), clients=1)
    rounds = repeats(clients)
    assert [record.round for record, _ in rounds] == [0, 1, 2]
    for record, truth in rounds[1:]:
        assert np.array_equal(record.shown, rounds[0][0].shown)
        assert not np.array_equal(truth.clicks, rounds[0][1].clicks)
        noise = rounds[0][0].messages - rounds[0][1].updates
        assert not np.array_equal(record.messages - truth.updates, noise)
    for mine, other in zip(repeats(clients, first=1), rounds[1:], strict=True):
        assert mine[0].messages.tobytes() == other[0].messages.tobytes()
        assert mine[1].clicks.tobytes() == other[1].clicks.tobytes()


def test_a_message_is_the_model_after_one_step(setup_of: SetupOf) -> None:
    models, truth = repeats(fresh(setup_of))[0]
    updates, _ = repeats(fresh(setup_of, message="update"))[0]
    np.testing.assert_allclose(models.messages, MODEL + truth.updates, rtol=0, atol=1e-15)
    np.testing.assert_allclose(updates.messages, truth.updates, rtol=0, atol=1e-15)
    moved = truth.updates.any(axis=1)
    some = truth.clicks.any(axis=1) & ~truth.clicks.all(axis=1)
    assert np.array_equal(moved, some), "all clicked and none clicked teach nothing"


def test_step_and_message_stage_act_once(setup_of: SetupOf, journal: list[Entry]) -> None:
    clients = fresh(setup_of, chain=(ToyMessage(), ToyStep()))
    repeats(clients)
    assert [entry.stage for entry in journal] == ["step", "message"]
    assert all(entry.saw.shape == (clients.queries.size, FEATURES) for entry in journal)


# --- what must not change the draws ---------------------------------------------------------------


def shared_rows(a: RoundRecord, b: RoundRecord) -> tuple[list[int], list[int]]:
    """Rows of the queries that both attack."""
    mine, other = by_query(a), by_query(b)
    both = [key for key in mine if key in other]
    assert both
    return [mine[key] for key in both], [other[key] for key in both]


@pytest.mark.parametrize(
    "other",
    [
        {"on": ["test"]},
        {"on": ["train", "vali", "test"]},
        {"min_documents": 12},
        {"methods": ["higher-score", "max-gain"]},
        {"click_models": ["perfect", "informational"]},
        {"repeats": 2},
    ],
)
def test_a_client_does_the_same_whatever_else_is_attacked(other: dict[str, Any], setup_of: SetupOf) -> None:
    defense = ("gamma-laplace:eps=1,sensitivity=3",)
    record, truth = repeats(fresh(setup_of, {"on": ["vali", "test"]}, defense=defense, clients=3))[0]
    again, also = repeats(fresh(setup_of, {"on": ["vali", "test"], **other}, defense=defense, clients=3))[0]
    mine, theirs = shared_rows(record, again)
    assert truth.clicks[mine].tobytes() == also.clicks[theirs].tobytes()
    assert record.messages[mine].tobytes() == again.messages[theirs].tobytes()
    assert np.array_equal(truth.clients[mine], also.clients[theirs])
    assert truth.clicks.any()


def test_clients_of_different_parts_are_different_clients(setup_of: SetupOf) -> None:
    _, truth = repeats(fresh(setup_of, {"on": ["train", "vali", "test"], "min_documents": 1}))[0]
    assert np.unique(truth.clients).size == truth.clients.size == sum(map(len, LENGTHS.values()))
    assert truth.clients.max() < 2**32, "the counter of the streams holds 32 bits"


def test_a_lonely_client_adds_the_share_of_a_whole_cohort(setup_of: SetupOf) -> None:
    clients = fresh(setup_of, clients=900, cohort=500, defense=("gamma-laplace:eps=1,sensitivity=3",))
    record, truth = repeats(clients)[0]
    assert record.shares == 500 > record.n_messages
    streams = clients.setup.streams.clients("fresh/defense/0/gamma-laplace", 0, truth.clients)
    share = GammaShare(n=500, scale=3.0).sample(streams, FEATURES)
    np.testing.assert_allclose(record.messages, MODEL + truth.updates + share, rtol=0, atol=1e-12)


def test_acts_without_pairs_is_the_learners_choice(setup_of: SetupOf) -> None:
    for clips in ("true", "false"):
        train = {"learner": f"{PHAM},clip_without_pairs={clips}", "click_model": "perfect"}
        clients = fresh(setup_of, {"min_documents": 1}, defense=("clip:norm=0.01",), **train)
        record, truth = repeats(clients, "perfect")[0]
        silent = ~truth.clicks.any(axis=1)
        assert silent.any()
        assert truth.clipped[silent].all() == (clips == "true")
        assert truth.clipped[truth.updates.any(axis=1)].all()
        stayed = np.array_equal(record.messages[silent], np.tile(MODEL, (silent.sum(), 1)))
        assert stayed == (clips == "false")


# --- as many as a cohort --------------------------------------------------------------------------


@pytest.mark.parametrize("cohort", [3, 7, 40])
def test_a_cohort_of_fresh_clients_asks_every_query(cohort: int, setup_of: SetupOf) -> None:
    alone = fresh(setup_of, {"min_documents": 9}, clients=cohort)
    together = fresh(setup_of, {"min_documents": 9, "view": "cohort"}, clients=cohort)
    queries, rounds = alone.queries.size, repeats(together)
    assert len(rounds) == together.n_rounds == -(-queries // cohort)
    asked = [key for record, _ in rounds for key in zip(record.part, record.query, strict=True)]
    assert len(asked) == len(rounds) * cohort
    times = Counter(asked)
    assert len(times) == queries
    assert max(times.values()) - min(times.values()) <= 1
    for record, truth in rounds:
        assert record.n_messages == len(set(truth.clients.tolist())) == cohort
    (record, truth), (own, its) = rounds[0], repeats(alone)[0]
    same = min(cohort, queries)
    assert np.array_equal(record.messages[:same], own.messages[:same])
    assert np.array_equal(truth.clicks[:same], its.clicks[:same])


def test_a_second_client_of_a_query_clicks_anew(setup_of: SetupOf) -> None:
    together = fresh(setup_of, {"min_documents": 9, "view": "cohort"}, clients=40)
    ((_, truth),) = repeats(together)
    each = truth.clicks.reshape(-1, truth.clicks.shape[-1])
    queries = together.queries.size
    assert any(not np.array_equal(each[i], each[i + queries]) for i in range(40 - queries))
