"""Real users as clients: their own queries in their own order, and the clicks that they really made."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import foltr_audit as fa
from foltr_audit.core.records import Collection
from foltr_audit.core.records.dataset import joined
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.errors import UsageError
from foltr_audit.simulation.client_population import SearchHistory
from foltr_audit.simulation.federation import Federation, RoundResult
from foltr_audit.simulation.fresh_clients import FreshClients
from foltr_audit.simulation.setup import Setup
from tests.fixtures.search_logs import searches, write_log
from tests.fixtures.tiny import dataset

USERS = 4


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    rows = searches(USERS, count=30, documents=12, features=3)
    return fa.load_data(write_log(tmp_path_factory.mktemp("log"), rows))


def setup_of(data: Collection, *, interactions: int = 3, rounds: int = 3, **population: object) -> Setup:
    table = {
        "population": {"clients": USERS, **population},
        "train": {"learner": f"fpdgd:interactions={interactions}", "rounds": rounds},
    }
    return Setup(Spec.parse(table), data)


def played(setup: Setup) -> list[RoundResult]:
    return list(Federation(setup).rounds(np.zeros(setup.ranker.n_parameters)))


def own(data: Collection, user: int) -> list[int]:
    assert data.train.users is not None
    return np.flatnonzero(data.train.users == user).tolist()


@given(st.lists(st.integers(0, 4), min_size=5, max_size=30), st.integers(0, 50), st.integers(1, 7))
def test_users_ask_their_queries_in_order_again_and_again(whose: list[int], first: int, count: int) -> None:
    whose = [0, 1, 2, 3, 4, *whose]
    data = replace(dataset([1] * len(whose), seed=1), users=np.array(whose))
    found = SearchHistory.of(data)
    assert found is not None
    clients = np.array([3, 0, 3, 4])
    asked = found.asked(clients, np.array([first, 0, first + 1, 2]), count)
    for client, start, row in zip(clients.tolist(), (first, 0, first + 1, 2), asked.tolist(), strict=True):
        mine = [query for query, user in enumerate(whose) if user == client]
        assert row == [mine[(start + step) % len(mine)] for step in range(count)]


def test_queries_of_nobody_have_no_users() -> None:
    assert SearchHistory.of(dataset([1, 2], seed=1)) is None


@pytest.mark.parametrize(
    "more", [{}, {"cohort": 2}, {"clients": 2}, {"scenario": "quantity-skew:batches=1/2"}]
)
def test_round_t_is_the_next_batch_of_each_users_queries(log: Collection, more: dict[str, Any]) -> None:
    """Whoever else takes part; the most active users are the first clients."""
    for number, round_ in enumerate(played(setup_of(log, **more))):
        for user, queries in zip(round_.context.clients.tolist(), round_.asked.queries, strict=True):
            mine, size = own(log, user), 1 + user % 2 if "scenario" in more else 3
            expected = [mine[(size * number + b) % len(mine)] for b in range(size)]
            assert queries[queries >= 0].tolist() == expected
    assert len(own(log, 0)) >= len(own(log, 1)) >= len(own(log, 2))


@pytest.mark.parametrize(
    ("interactions", "rounds", "more"),
    [
        (1, 20, {}),
        (3, 20, {}),
        (9, 7, {}),
        (2, 12, {"cohort": 2}),
        (1, 24, {"cohort": 1, "separation": 3}),
        (2, 9, {"scenario": "quantity-skew:batches=1/2/4"}),
    ],
)
def test_no_click_is_learnt_from_in_more_rounds_than_is_counted(
    log: Collection, interactions: int, rounds: int, more: dict[str, object]
) -> None:
    """A click that is logged once is learnt from again after the last search of its user."""
    setup = setup_of(log, interactions=interactions, rounds=rounds, **more)
    asked = [np.unique(one.asked.queries[one.asked.queries >= 0]) for one in played(setup)]
    learnt = np.bincount(np.concatenate(asked), minlength=log.train.n_queries)
    often = max(
        np.unique(row[row >= 0], return_counts=True)[1].max()
        for one in played(setup)
        for row in one.asked.queries
    )
    situation = setup.privacy.situation("individual", "click", rounds=rounds)
    assert learnt.max() <= situation.uses
    counted = setup.privacy.situation("individual", "click", rounds=None)
    assert learnt.max() <= min(counted.uses, rounds)
    assert often <= counted.repeats
    assert learnt.max() <= counted.touched
    if not more:
        assert learnt.max() == counted.touched > 1
        assert often == counted.repeats


def test_perfect_users_click_what_they_clicked_where_it_is_shown(log: Collection) -> None:
    seen = 0
    for round_ in played(setup_of(log)):
        record, truth = round_.recorded()
        for query, shown, clicks in zip(record.query, record.shown, truth.clicks, strict=True):
            labels = log.train.shown_labels(np.array([query]), shown[np.newaxis])[0]
            assert clicks.tolist() == (labels == 1).tolist()
            seen += int(clicks.sum())
    assert 0 < seen < 3 * 3 * USERS  # lists show ten of twelve documents


def test_another_click_model_clicks_on_the_same_lists(log: Collection) -> None:
    setup = setup_of(log, interactions=1, rounds=1)
    table = setup.spec.table()
    table["train"] = {**table["train"], "click_model": "informational"}  # type: ignore[dict-item]
    (mine, real), (theirs, simulated) = (
        played(one)[0].recorded() for one in (setup, Setup(Spec.parse(table), log))
    )
    np.testing.assert_array_equal(mine.shown, theirs.shown)
    assert simulated.clicks.sum() > real.clicks.sum()


def test_more_clients_than_users_and_held_documents_are_refused(log: Collection) -> None:
    said = "clients: 5 clients, but the training split has 4 users; expected at most 4"
    with pytest.raises(UsageError, match=said):
        played(setup_of(log, clients=5))
    with pytest.raises(UsageError, match=r"scenario: clients hold documents .* lists of real users"):
        played(setup_of(log, scenario="label-skew"))


def test_fresh_clients_ask_only_what_one_user_asked(log: Collection) -> None:
    clients = FreshClients(setup_of(log), AttackSpec(on=("train",), interactions=4))
    assert log.train.users is not None
    often = np.bincount(log.train.users)[log.train.users] >= 4
    assert clients.queries.tolist() == np.flatnonzero(often).tolist()
    assert clients.too_short == log.train.n_queries - clients.queries.size > 0
    (one,) = clients.rounds(np.zeros(3), "perfect")
    for query, row in zip(clients.queries.tolist(), one.asked.queries.tolist(), strict=True):
        assert row[0] == query
        assert len(set(row)) == 4
        assert {int(log.train.users[other]) for other in row} == {int(log.train.users[query])}


def test_parts_that_are_joined_keep_their_users(log: Collection) -> None:
    both = joined([log.train, log.test])
    assert both.users is not None
    assert both.users.tolist() == [*log.train.users.tolist(), *log.test.users.tolist()]  # type: ignore[union-attr]
