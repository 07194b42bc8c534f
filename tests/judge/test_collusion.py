"""Clients that tell the server what they sent: what is left of a sum is that of the others."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import foltr_audit as fa
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.errors import UsageError
from foltr_audit.judge.observer import Observer
from foltr_audit.judge.protocol import without_colluders
from foltr_audit.judge.round_sums import seen_as_sums
from foltr_audit.report.results.attack import AttackReport
from foltr_audit.rng import Streams
from tests.conftest import SetupOf
from tests.fixtures.client_recordings import DATA, recorded

CLIENTS = 6


def test_a_sum_less_all_other_messages_is_the_message(setup_of: SetupOf) -> None:
    recording = recorded(setup_of, rounds=2, intents=[0, 1] * 3)
    left = without_colluders(recording, CLIENTS - 1, Streams(4))
    sums, observer = seen_as_sums(left, Observer(recording.header, DATA))
    target = {int(truth.members[0]) for truth in sums.truths()}
    assert len(target) == 1, "the same client in every round"
    (place,) = target
    for summed, record in zip(sums.rounds(), recording.records, strict=True):
        everybody = record.messages.sum(axis=0)
        others = np.delete(record.messages, place, axis=0).sum(axis=0)
        np.testing.assert_allclose(summed.messages[0], record.messages[place], rtol=1e-12)
        np.testing.assert_allclose(summed.messages[0], everybody - others, atol=1e-12)
        (seen,) = observer.views(summed)
        assert seen.view.observer == "individual"
        alone = next(Observer(recording.header, DATA).views(record)).view
        assert seen.view.knowledge.noise == alone.knowledge.noise, "the noise of one client"


def test_more_colluders_are_the_same_ones_and_others(setup_of: SetupOf) -> None:
    recording = recorded(setup_of, rounds=1, intents=[0, 1] * 3)
    stores = [without_colluders(recording, number, Streams(4)) for number in range(1, CLIENTS)]
    left = [set(np.flatnonzero(next(store.rounds()).survivors)) for store in stores]
    assert [len(some) for some in left] == [5, 4, 3, 2, 1]
    assert all(fewer < more for more, fewer in pairwise(left))
    assert without_colluders(recording, None, Streams(4)) is recording


def test_who_cannot_collude(setup_of: SetupOf) -> None:
    recording = recorded(setup_of, rounds=1, intents=[0, 1] * 3)
    with pytest.raises(UsageError, match=r"--colluders: 6 of 6 clients that send; expected at most 5"):
        without_colluders(recording, CLIENTS, Streams(4))
    with pytest.raises(ValueError, match="expected target training and view aggregate"):
        AttackSpec(colluders=1)
    assert AttackSpec(target="training", view="aggregate", colluders=0).colluders is None


def attacked(colluders: int, *defense: str) -> AttackReport:
    learner = "fpdgd:interactions=1,pairs=all,normaliser=shown"
    attack = {"methods": ["olsr"], "target": "training", "view": "aggregate", "colluders": colluders}
    spec = fa.Spec(
        data={"source": "synthetic:mq2007:60"},
        population={"clients": 12},
        train={"rounds": 3, "learner": learner},
        defense=list(defense) or ["none"],
        trace={"message": "update", "dtype": "float64"},
        attack=attack,
    )
    return fa.attack(spec)


def test_lists_of_the_last_honest_client_are_read() -> None:
    exact = {}
    for colluders in (0, 11):
        rows = {row.method: row.found for row in attacked(colluders).results}
        exact[colluders] = rows["olsr"].exact.value
        assert rows["olsr"].lists <= 3 * (12 - colluders)
    assert exact[11] == 1.0
    assert exact[0] < 0.5
    with pytest.raises(UsageError, match="colluders: messages are masked"):
        attacked(11, "secure-aggregation")
