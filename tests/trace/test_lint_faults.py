"""Noise that is weaker than declared, or used again, at the size of a real run: 20 rounds, 200 clients.

Every fault here was called "nothing found" once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np
import pytest

from foltr_audit.core.defense_chain import DefenseChain
from foltr_audit.core.plugins import Defense, RoundContext
from foltr_audit.privacy.noise import AdditiveNoise, GammaShare, parse_law
from foltr_audit.rng import ClientStreams
from foltr_audit.trace.lint import LintFinding, LintResult
from foltr_audit.utils.arrays import Floats
from tests.fixtures import lint_traces
from tests.fixtures.lint_traces import leaks, only, outcome
from tests.fixtures.there import there

CLIENTS, P, ROUNDS = 200, 46, 20
SKELLAM, DISCRETE = "skellam:sigma=0.85,step=0.25", "discrete-gaussian:sigma=0.85,step=0.25"
FINE, SHARES = "skellam:sigma=0.85,step=0.0009765625", "gamma-share:n=200,scale=2.5"
NARROW = "gamma-share:n=1000,scale=2.5"
LAPLACE, GAUSSIAN = "gamma-share:n=1,scale=2.5", "gaussian:sigma=0.85"
WHOLE = (LAPLACE, GAUSSIAN, SKELLAM, FINE, DISCRETE)

Streamed = Callable[[ClientStreams], ClientStreams]


class Noise(Defense):
    """Noise by other people: what it declares, less of it, or from other streams; on the law's grid."""

    name: ClassVar[str] = "noise-by-others"
    text_of_law: str = LAPLACE
    factor: float = 1.0
    streamed: Streamed = lambda streams: streams
    turned: str = "nobody"

    def law(self, context: RoundContext) -> AdditiveNoise:
        del context
        return there(parse_law(self.text_of_law))

    def on_message(self, models: Floats, context: RoundContext) -> Floats:
        declared = self.law(context)
        name = "scale" if isinstance(declared, GammaShare) else "sigma"
        law = replace(declared, **{name: getattr(declared, name) * self.factor})
        step = law.grid
        kept = step * np.rint(models / step) if step else models
        noise = law.sample(self.streamed(context.streams("noise")), models.shape[1])
        odd = {"nobody": 0 * context.clients, "round": context.round % 2, "clients": context.clients % 2}
        sign = 1 - 2 * np.broadcast_to(np.asarray(odd[self.turned]), len(models))
        return np.asarray(kept + sign[:, np.newaxis] * noise)


def traced(
    text: str, factor: float = 1.0, streamed: Streamed = lambda streams: streams, *, rounds: int = ROUNDS,
    clients: int = CLIENTS, size: float = 0.15, turned: str = "nobody",
) -> LintResult:  # fmt: skip
    """What the lint says of clients who change models by about `size`, and of a header with events alone."""
    chain = DefenseChain((Noise(text_of_law=text, factor=factor, streamed=streamed, turned=turned),))
    return lint_traces.of_chain(
        chain, rounds=rounds, clients=clients, parameters=P, size=size, dtype="float32"
    )


def reused(done: LintResult) -> list[LintFinding]:
    return [finding for finding in done.findings if finding.check == "reused-noise"]


def _every(rounds: int, streams: ClientStreams) -> ClientStreams:
    return replace(streams, round=streams.round % rounds)


def _of_another(one: int, other: int, streams: ClientStreams) -> ClientStreams:
    return replace(streams, clients=np.where(streams.clients == one, other, streams.clients))


# --- sound noise ----------------------------------------------------------------------------------


@pytest.mark.parametrize("text", WHOLE)
def test_sound_noise_by_other_people_is_clean(text: str) -> None:
    done = traced(text)
    assert leaks(done.findings) == set()
    assert outcome(done, "weak-noise").state == outcome(done, "reused-noise").state == "clean"
    assert done.clean


# --- weaker noise ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "factor"), [*((text, 0.85) for text in WHOLE), (LAPLACE, math.sqrt(0.5)), (FINE, math.sqrt(0.5))]
)
def test_less_noise_than_declared_is_found(text: str, factor: float) -> None:
    """15 % less, and half the variance: no test by the law ran for noise on a grid or by other people."""
    assert "weak-noise" in leaks(traced(text, factor).findings)


def test_half_the_variance_of_narrow_shares_is_found() -> None:
    """Nearly all of their noise is next to 0: only windows far out tell."""
    assert "weak-noise" in leaks(traced(SHARES, math.sqrt(0.5)).findings)


def test_what_too_few_numbers_cannot_tell_is_named() -> None:
    """184,000 numbers of 1/1,000 shares do not tell half the variance; one message tells nothing."""
    shares, narrow = outcome(traced(SHARES), "weak-noise"), outcome(traced(NARROW), "weak-noise")
    assert [gap.part for gap in shares.not_looked_at] == ["noise missing in one message"]
    assert there(shares.power).endswith("of the declared variance in all numbers would have been found")
    assert [gap.part for gap in narrow.not_looked_at] == [
        "noise missing in one message",
        "noise of half the declared variance",
    ]
    assert "184,000 numbers are too few" in narrow.not_looked_at[1].why
    assert (narrow.power, shares.state, narrow.state) == (None, "not looked", "not looked")


def test_changes_that_hide_missing_noise_are_named() -> None:
    done = traced(LAPLACE, size=500.0, rounds=3)
    weak, reused = outcome(done, "weak-noise"), outcome(done, "reused-noise")
    assert "noise of half the declared variance" in [gap.part for gap in weak.not_looked_at]
    assert {gap.part for gap in reused.not_looked_at} >= {
        "noise that all messages of a round share",
        "noise that all rounds share",
    }
    assert not leaks(traced(LAPLACE, 0.5, size=500.0, rounds=3).findings) & {"weak-noise", "reused-noise"}


# --- noise that is used again ---------------------------------------------------------------------


@pytest.mark.parametrize("text", [LAPLACE, DISCRETE, SHARES])
def test_the_same_noise_in_every_round_is_found(text: str) -> None:
    first = reused(traced(text, streamed=lambda streams: replace(streams, round=0)))[0]
    assert first.text.startswith("messages of the same place in successive rounds")


@pytest.mark.parametrize("text", [LAPLACE, SKELLAM])
@pytest.mark.parametrize(
    ("what", "where"),
    [("round", "messages of the same place in successive rounds"), ("clients", "messages of one round")],
)
def test_noise_that_comes_again_with_the_opposite_sign_is_found(text: str, what: str, where: str) -> None:
    """Only differences were looked at; the sum of two such messages has no noise at all."""

    def even(streams: ClientStreams) -> ClientStreams:
        number = getattr(streams, what)
        return replace(streams, **{what: number - number % 2})

    found = only(traced(text, streamed=even, turned=what).findings, "reused-noise")
    assert found.text.startswith(where)
    assert "their sums are free of it" in found.text


@pytest.mark.parametrize("text", [LAPLACE, SKELLAM, SHARES])
def test_noise_that_returns_after_some_rounds_is_found(text: str) -> None:
    """Only successive rounds were compared."""
    for rounds in (2, 7):
        again = only(traced(text, streamed=partial(_every, rounds)).findings, "reused-noise")
        assert again.text.startswith(f"messages of the same place {rounds} rounds apart")


@pytest.mark.parametrize("text", [LAPLACE, FINE, SHARES])
def test_noise_that_every_third_client_shares_is_found(text: str) -> None:
    """All messages were compared with the first one of the round alone."""

    def every_third(streams: ClientStreams) -> ClientStreams:
        return replace(streams, clients=streams.clients % 3)

    first = reused(traced(text, streamed=every_third, rounds=4))[0]
    assert first.text.startswith("messages of one round, 3 places apart")


@pytest.mark.parametrize("text", [GAUSSIAN, FINE])
def test_two_clients_with_the_same_noise_are_found(text: str) -> None:
    """Two of 200 clients, neither of them the first; among all 4,000 messages of the trace."""
    found = only(traced(text, streamed=partial(_of_another, 17, 5), size=0.08).findings, "reused-noise")
    assert found.messages >= 15
    assert re.search(r"message 17, with round .* message 5$", there(found.example))


def test_one_noise_for_another_client_in_another_round_is_found() -> None:
    """Client 150 takes in round 9 what client 3 took in round 2: one pair of 8 million."""

    def one_pair(streams: ClientStreams) -> ClientStreams:
        if streams.round != 9:
            return streams
        clients = np.where(streams.clients == 150, 3, streams.clients + 1000)
        return replace(streams, round=2, clients=clients)

    found = only(traced(LAPLACE, streamed=one_pair).findings, "reused-noise")
    assert (found.messages, found.example) == (1, "round 9, message 150, with round 2, message 3")


def test_pairs_of_narrow_shares_are_said_not_to_be_looked_at() -> None:
    done = traced(SHARES, streamed=partial(_of_another, 17, 5))
    assert "reused-noise" not in leaks(done.findings)
    (gap,) = outcome(done, "reused-noise").not_looked_at
    assert gap.part.startswith("noise that two single messages")
    assert outcome(done, "reused-noise").state == "not looked"


def test_noise_that_repeats_within_a_message_is_found() -> None:
    """Coordinates 23 apart share their noise; only those next to the first one were compared."""

    class Tiled(Noise):
        name: ClassVar[str] = "tiled"

        def on_message(self, models: Floats, context: RoundContext) -> Floats:
            half = self.law(context).sample(context.streams("noise"), P // 2)
            return np.asarray(models + np.tile(half, (1, 2)))

    done = lint_traces.of_chain(DefenseChain((Tiled(),)), rounds=3, clients=40, parameters=P)
    assert only(done.findings, "reused-noise").text.startswith("coordinates of one message, 23 places apart")
