"""Servers that subtract from a sum what they know: their own clients, or a second sum of its messages."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import foltr_audit as fa
from foltr_audit.core.records.interactions import RoundRecord
from foltr_audit.errors import TraceError
from foltr_audit.judge.round_sums import SumObserver, summed
from foltr_audit.simulation.recorder import trace_header
from foltr_audit.trace import TraceHeader
from tests.fixtures.servers import CLIENTS, exact, rounds, setup_of

TWICE = "secure-aggregation:once=false"


def recorded(server: str, *defense: str) -> tuple[TraceHeader, RoundRecord]:
    """The first round of a training."""
    record, _ = rounds(server, *defense)[0].recorded()
    return trace_header(setup_of(server, *defense), None, CLIENTS), record


def left(record: RoundRecord) -> list[int]:
    subtracted = record.facts["subtracted"]
    assert isinstance(subtracted, list)
    return sorted(set(range(CLIENTS)) - {int(place) for place in subtracted})


def test_own_clients_send_no_change_and_others_what_they_always_do() -> None:
    noise = "laplace:eps=1,sensitivity=1"
    honest, played = (rounds(server, noise)[0] for server in ("honest", "sybils:share=.9"))
    record, _ = played.recorded()
    messages, others = np.asarray(record.messages), left(record)
    assert len(others) == 3
    assert np.array_equal(messages[others], np.asarray(honest.sent.messages)[others])
    assert not np.delete(messages, others, axis=0).any()


def test_one_client_is_never_the_servers_own() -> None:
    assert all(len(left(played.recorded()[0])) == 1 for played in rounds("sybils:share=.999"))


@pytest.mark.parametrize(
    "defense", [(), ("secure-aggregation:bind=true",), ("guard", "secure-aggregation:threshold=20")]
)
def test_a_client_among_the_servers_own_is_read(defense: tuple[str, ...]) -> None:
    assert exact("sybils:share=.999", *defense)["olsr"][0] >= 0.75


@pytest.mark.parametrize(
    ("server", "defense"), [("sybils:share=.9", "secure-aggregation"), ("replay", TWICE)]
)
def test_what_is_left_of_a_sum_is_that_of_the_other_clients(server: str, defense: str) -> None:
    header, record = recorded(server, defense)
    plain = np.asarray(rounds(server)[0].sent.messages)[left(record)]
    found = summed(record, header)
    assert found.clients == len(plain)
    assert np.abs(found.messages[0] - plain.sum(axis=0)).max() <= len(plain) * 2.0**-25


@pytest.mark.parametrize(("server", "clients"), [("sybils:share=.9", 3), ("replay", 1)])
def test_only_noise_of_those_that_are_left_is_in_it(server: str, clients: int) -> None:
    noise = "gamma-laplace:eps=1,sensitivity=1"
    header, record = recorded(server, noise)
    known = SumObserver(header, None).knowledge(summed(record, header))
    honest = SumObserver(header, None).knowledge(summed(replace(record, facts={}), header))
    assert known.noise == f"gamma-share:n={CLIENTS},scale=1,count={clients}".replace(",count=1", "")
    assert honest.noise != known.noise


def test_clients_that_open_a_sum_once_stop_a_replay() -> None:
    assert exact("replay", TWICE + ",bind=true")["olsr"][0] >= 0.75
    assert exact("replay", "secure-aggregation") == exact("honest", "secure-aggregation")
    assert fa.Spec(defense=["secure-aggregation:once=true"]) == fa.Spec(defense=["secure-aggregation"])


@pytest.mark.parametrize(
    ("facts", "what"),
    [
        ({"subtracted": [str(CLIENTS)]}, "expected messages of the round"),
        ({"subtracted": "all"}, "expected messages of the round"),
        ({"subtracted": ["0"], "second_total": ["1"]}, "expected as many as a sum"),
        ({"subtracted": ["0"], "second_total": ["-1"] * 46}, "expected a sum"),
    ],
)
def test_a_record_that_cannot_be_subtracted_is_refused(facts: dict[str, object], what: str) -> None:
    header, record = recorded("honest", "secure-aggregation")
    with pytest.raises(TraceError, match=what):
        summed(replace(record, facts=facts), header)
