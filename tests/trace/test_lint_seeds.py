"""Seeds that come twice, or that a known generator makes of other seeds or of small numbers."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from foltr_audit.trace.lint import LintFinding, LintResult
from tests.fixtures.lint_traces import MESSAGES, done_with, header_of, outcome, record_of

ROUNDS = 3


def linted(draws: Callable[[int], Iterator[int]]) -> LintResult:
    """Rounds of clients, each of which sends the next of its own numbers as a seed in every round."""
    clients = [draws(client) for client in range(MESSAGES)]
    header = replace(header_of("update", noise=None, defense=[]), kind="es", knowledge={"width": 20})
    rng = np.random.default_rng(5)
    records = [
        record_of(
            header,
            number,
            rng.normal(size=(MESSAGES, 20)),
            seeds=np.array([next(client) for client in clients], dtype=np.uint64),
            state=np.empty(0),
        )
        for number in range(ROUNDS)
    ]
    return done_with(header, records)


def seed_findings(done: LintResult) -> list[LintFinding]:
    return [finding for finding in done.findings if finding.check == "reused-seeds"]


def numpy_chain(client: int) -> Iterator[int]:
    """A generator that is seeded by what it drew, which goes into the message, as FOLtR-ES was published."""
    state = np.random.RandomState(2**20 + client)
    while True:
        seed = int(state.randint(0, 2**32))
        state.seed(seed)
        yield seed
        state.uniform(size=client)


def python_chain(client: int) -> Iterator[int]:
    number = 2**25 + client
    while True:
        yield number
        number = random.Random(number).getrandbits(31)  # noqa: S311


def pcg_chain(client: int) -> Iterator[int]:
    number = 2**25 + client
    while True:
        yield number
        number = int(np.random.default_rng(number).integers(2**32))


def from_small_numbers(client: int) -> Iterator[int]:
    """A generator that is never seeded again: only its first number gives it away."""
    state = np.random.RandomState(client)
    while True:
        yield int(state.randint(0, 2**63))


def independent(client: int) -> Iterator[int]:
    rng = np.random.default_rng([9, client, 1])
    while True:
        yield int(rng.integers(2**32))


def independent_long(client: int) -> Iterator[int]:
    rng = np.random.default_rng([9, client, 1])
    while True:
        yield int(rng.integers(2**64, dtype=np.uint64))


@pytest.mark.parametrize(
    ("draws", "called", "messages"),
    [
        (numpy_chain, "RandomState of NumPy", MESSAGES * (ROUNDS - 1)),
        (python_chain, "random of Python", MESSAGES * (ROUNDS - 1)),
        (pcg_chain, "default_rng of NumPy", MESSAGES * (ROUNDS - 1)),
        (from_small_numbers, "RandomState of NumPy", MESSAGES),
    ],
)
def test_a_chain_of_seeds_is_found(draws: Callable[[int], Iterator[int]], called: str, messages: int) -> None:
    (finding,) = seed_findings(linted(draws))
    assert finding.severity == "leak"
    assert called in finding.text
    assert finding.messages == messages


@pytest.mark.parametrize("draws", [independent, independent_long])
def test_independent_seeds_are_clean_and_it_is_said_what_was_tried(
    draws: Callable[[int], Iterator[int]],
) -> None:
    done = linted(draws)
    assert not seed_findings(done)
    said = outcome(done, "reused-seeds")
    assert said.state == "clean"
    assert said.power is not None
    assert all(name in said.power for name in ("RandomState", "PyTorch", "random of Python", "default_rng"))


def test_a_few_hits_by_chance_are_no_finding() -> None:
    """One message of all follows from another one: as may happen where millions of numbers are compared."""

    def draws(client: int) -> Iterator[int]:
        yield 77 if client == 0 else next(independent(client))
        yield (
            int(np.random.RandomState(77).randint(0, 2**32))
            if client == 1
            else next(independent(1000 + client))
        )
        yield next(independent(2000 + client))

    assert not seed_findings(linted(draws))


def test_a_seed_that_comes_twice_is_found() -> None:
    def draws(client: int) -> Iterator[int]:
        yield from (
            int(number) for number in np.random.default_rng([3, client // 2, 1]).integers(2**32, size=ROUNDS)
        )

    (finding,) = seed_findings(linted(draws))
    assert "occur in several messages" in finding.text
    assert finding.messages == MESSAGES * ROUNDS
