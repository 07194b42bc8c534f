"""A server that chooses who takes part: the cohorts of two rounds in a row differ in one client."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import foltr_audit as fa
from foltr_audit.core.plugins import Server
from foltr_audit.core.plugins.registry import make
from foltr_audit.errors import PluginError
from foltr_audit.privacy.bounds import RunBound
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.setup import Setup
from foltr_audit.utils.arrays import Ints
from tests.fixtures.servers import CLIENTS, setup_of

COHORT = 6


def few(server: str) -> Setup:
    """Six of thirty clients in a round."""
    setup = setup_of(server)
    table = {**setup.spec.table(), "population": {"clients": CLIENTS, "cohort": COHORT}}
    return replace(setup, spec=fa.Spec(**table))


def cohorts(server: str, count: int = 20) -> list[Ints]:
    federation = Federation(few(server))
    return [federation.setup.cohort(number) for number in range(count)]


def test_the_second_of_two_rounds_lacks_one_client() -> None:
    honest, chosen = cohorts("honest"), cohorts("differencing")
    left_out = []
    for pair in range(10):
        first, second = chosen[2 * pair], chosen[2 * pair + 1]
        assert first.tolist() == honest[2 * pair].tolist()
        (one,) = set(first.tolist()) - set(second.tolist())
        assert second.tolist() == [client for client in first.tolist() if client != one]
        left_out.append(int(np.flatnonzero(first == one)[0]))
    assert left_out == [pair % COHORT for pair in range(10)]


def test_a_cohort_of_one_client_is_not_emptied() -> None:
    server = make(Server, "differencing")
    assert server.cohort(1, lambda _: np.array([4])).tolist() == [4]


def test_no_sample_of_clients_is_counted_on() -> None:
    """A client may take part in every round: what is proven of a run is the bound for one that does."""

    def run_bound(server: str) -> RunBound:
        noise = ["clip:norm=1.5,of=update,at=message,ord=1", "laplace:eps=1.2,sensitivity=3"]
        setup = few(server)
        table = setup.spec.table() | {"defense": noise, "trace": {"message": "update"}}
        table["train"] = {"rounds": 200, "server": server}
        bound = replace(setup, spec=fa.Spec(**table)).privacy.proven("individual").whole_run
        assert bound is not None
        return bound

    drawn, chosen = run_bound("honest"), run_bound("differencing")
    assert drawn.upper.epsilon < drawn.always.epsilon < np.inf
    assert chosen.upper.epsilon == chosen.always.epsilon == drawn.always.epsilon


class StrangerServer(Server):
    name = "stranger"

    def cohort(self, round_: int, drawn: Callable[[int], Ints]) -> Ints:
        return np.array([3, 3])


def test_cohorts_of_strangers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = few("honest")
    monkeypatch.setattr(Setup, "server", StrangerServer())
    with pytest.raises(PluginError, match="rising ids"):
        setup.cohort(0)
