"""Plug-ins that do what they declare in a part of their range only are found; true ones are not accused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace

import numpy as np
import pytest

from foltr_audit.auditing.declarations import DeclarationCheck, LinkTestInput, check_declarations
from foltr_audit.auditing.scripted import GameClients
from foltr_audit.core.plugins import Defense, PrivacyEvent, RoundContext
from foltr_audit.privacy.events import ClickRandomization, CorrelatedNoise, NoiseAddition, NormScaling
from foltr_audit.privacy.noise import GammaShare
from foltr_audit.rng import Streams
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.setup import Setup
from foltr_audit.utils.arrays import Bools, Floats, Ints
from tests.conftest import SetupOf
from tests.fixtures.audits import ToyClip, findings
from tests.fixtures.tiny import FEATURES

LAW = GammaShare(n=1, scale=2.5)
MODEL = np.linspace(-0.03, 0.03, FEATURES)
ROUNDS, CLIENTS, STEPS = 100, 60, 3

Noise = Callable[[Floats, Floats, RoundContext], Floats]
"""What a broken plug-in adds, of what it should add, the models and the context."""


def declared(setup: Setup, interactions: int = STEPS) -> DeclarationCheck:
    clients = GameClients(setup, setup.collection.test, MODEL)
    learnt = np.stack([MODEL + 0.02 * np.cos(np.arange(FEATURES)), 1.5 * MODEL])
    other = LinkTestInput(clients=clients, models=learnt, where=["one", "another"])
    inputs = [LinkTestInput.resting("first", clients), other]
    return check_declarations(setup.privacy.acts(), clients, inputs, interactions)


def drawn(context: RoundContext, size: int) -> Floats:
    return LAW.sample(context.streams("noise"), size)


def signs(noise: Floats) -> Floats:
    return np.where(noise < 0, -1.0, 1.0)


def as_in_round_40(noise: Floats, context: RoundContext) -> Floats:
    reused = drawn(replace(context, round=40), noise.shape[1])
    return reused if 41 <= context.round <= 60 else noise


def product_of_signs(noise: Floats, last: Floats) -> Floats:
    """All numbers but that the first one has the sign of a product."""
    return np.column_stack([np.abs(noise[:, 0]) * last, noise[:, 1:]])


def in_twos(noise: Floats, context: RoundContext) -> Floats:
    """The product of all signs is the same for a client with an odd id and the one before it."""
    even = drawn(replace(context, clients=context.clients - context.clients % 2), noise.shape[1])
    odd = (context.clients % 2 == 1)[:, np.newaxis]
    rest = signs(noise)[:, 1:].prod(axis=1) * signs(even).prod(axis=1)
    return np.where(odd, product_of_signs(noise, rest), noise)


BROKEN: dict[str, Noise] = {
    "rounded to .001": lambda noise, *_: np.round(noise, 3),
    "half precision": lambda noise, *_: noise.astype(np.float16).astype(np.float64),
    "single precision": lambda noise, *_: noise.astype(np.float32).astype(np.float64),
    "on a fine grid": lambda noise, *_: np.round(noise * 1e11) / 1e11,
    "none in rounds 35-64": lambda noise, _, context: noise * (not 35 <= context.round < 65),
    "none in three rounds": lambda noise, _, context: noise * (not 60 <= context.round < 63),
    "half of it in rounds 60-69": lambda noise, _, context: (
        noise * (0.5 if 60 <= context.round < 70 else 1.0)
    ),
    "that of round 40 in rounds 41-60": lambda noise, _, context: as_in_round_40(noise, context),
    "and with the opposite sign": lambda noise, _, context: -as_in_round_40(noise, context),
    "in audits only": lambda noise, _, context: noise * context.prefix.startswith("audit"),
    "for many clients only": lambda noise, _, context: noise * (len(noise) > context.shares),
    "for ids beyond the population": lambda noise, _, context: noise * (context.clients >= CLIENTS)[:, None],
    "after the last round": lambda noise, _, context: noise * (context.round >= ROUNDS),
    "for equal models": lambda noise, models, _: noise * bool((models == models[0]).all()),
    "unless the cohort is whole": lambda noise, _, context: noise * (len(noise) != context.shares),
    "unless a client is alone": lambda noise, *_: noise * (len(noise) != 1),
    "none for every 20th client": lambda noise, _, context: noise * (context.clients % 20 != 0)[:, None],
    "a parity of all signs": lambda noise, *_: product_of_signs(noise, signs(noise)[:, 1:].prod(axis=1)),
    "a parity of three signs": lambda noise, *_: product_of_signs(noise, signs(noise)[:, 1:3].prod(axis=1)),
    "a parity of four signs": lambda noise, *_: product_of_signs(noise, signs(noise)[:, 1:4].prod(axis=1)),
    "a parity of two messages": lambda noise, _, context: in_twos(noise, context),
    "that cancels in whole cohorts": lambda noise, _, context: (
        noise - noise.mean(axis=0) * (len(noise) == context.shares)
    ),
    "of a seed of its own": lambda noise, _, context: drawn(
        replace(context, source=Streams(7)), noise.shape[1]
    ),
    "of 2^16 seeds": lambda noise, _, context: np.stack(
        [
            LAW.sample(Streams(int(seed)).clients("own", 0, np.zeros(1, np.int64)), noise.shape[1])[0]
            for seed in 2**16 * context.streams("seeds").uniform(1)[:, 0]
        ]
    ),
}


class OwnNoise(Defense):
    """Laplace noise on every message, or what `BROKEN` makes of it."""

    name = "toy-noise"
    fault: str = ""

    def on_message(self, models: Floats, context: RoundContext) -> Floats:
        noise = drawn(context, models.shape[1])
        return models + (BROKEN[self.fault](noise, models, context) if self.fault else noise)

    def events(self, context: RoundContext) -> tuple[PrivacyEvent, ...]:
        return (NoiseAddition(law=LAW),)


@pytest.mark.parametrize("fault", BROKEN)
def test_noise_that_is_as_declared_in_a_part_of_its_range_is_found(fault: str, setup_of: SetupOf) -> None:
    """Most of these were proven by audits."""
    setup = setup_of(chain=(ToyClip(), OwnNoise(fault=fault)), clients=CLIENTS, rounds=ROUNDS)
    assert list(declared(setup).broken) == ["toy-noise"]


class InSinglePrecision(OwnNoise):
    """The same, of which a whole message is rounded to float32: the noise shows no digits of the model."""

    name = "toy-single"

    def on_message(self, models: Floats, context: RoundContext) -> Floats:
        return super().on_message(models, context).astype(np.float32).astype(np.float64)


def test_a_proof_by_a_plug_in_is_proven_if_it_does_as_it_says(setup_of: SetupOf) -> None:
    """A message in float32 is no noise in float32."""
    for link in (OwnNoise(), InSinglePrecision()):
        setup = setup_of(chain=(ToyClip(), link), clients=CLIENTS, rounds=ROUNDS)
        assert declared(setup).state == "as declared", declared(setup).why
        (found,) = findings(
            setup, MODEL, units=("client",), canaries=("message",), views=("individual",), claim=1.3
        )
        assert found.verdict == "proven"
        assert link.name in found.why


Lies = Callable[[Bools, Bools, Ints, int, RoundContext], Bools]
"""What a broken plug-in lies about, of what it should lie about, clicks, lists, step and context."""


def honest(where: Callable[[Bools, Ints, int, RoundContext], object]) -> Lies:
    def lies(flips: Bools, clicks: Bools, shown: Ints, step: int, context: RoundContext) -> Bools:
        left_out = np.broadcast_to(np.asarray(where(clicks, shown, step, context)), len(flips))
        return np.asarray(flips & ~left_out[:, np.newaxis])

    return lies


def length_of(shown: Ints) -> Ints:
    return np.asarray((shown >= 0).sum(axis=1))


HONEST: dict[str, Lies] = {
    "rounds 10-89": honest(lambda clicks, shown, step, context: 10 <= context.round < 90),
    "three rounds": honest(lambda clicks, shown, step, context: 60 <= context.round < 63),
    "lists of an odd length": honest(lambda clicks, shown, *_: length_of(shown) % 2 == 1),
    "the second list": honest(lambda clicks, shown, step, _: step == 1),
    "every 20th client": honest(lambda clicks, shown, step, context: context.clients % 20 == 0),
    "lists that begin with one document": honest(lambda clicks, shown, *_: shown[:, 0] == 3),
    "small cohorts": honest(lambda clicks, *_: len(clicks) < CLIENTS // 2),
    "whole cohorts": honest(lambda clicks, shown, step, context: len(clicks) == context.shares),
    "clicks on two places": honest(lambda clicks, *_: clicks[:, 1] & clicks[:, 4]),
    "lists without clicks": honest(lambda clicks, *_: ~clicks.any(axis=1)),
    "three clicks": honest(lambda clicks, *_: clicks.sum(axis=1) == 3),
    "rounds, not audits": honest(lambda clicks, shown, step, context: not context.prefix.startswith("audit")),
    "a parity of all lies": lambda flips, *_: np.column_stack(
        [np.bitwise_xor.reduce(flips[:, 1:6], axis=1), flips[:, 1:]]
    ),
    "a seed of their own": lambda flips, clicks, shown, step, context: (
        replace(context, source=Streams(7)).streams("lies").uniform(flips.shape[1], first=10 * step) < 0.378
    ),
    "a parity of three lies": lambda flips, *_: np.column_stack([flips[:, 1] ^ flips[:, 2], flips[:, 1:]]),
}
"""Where clicks are reported as they are, and how lies depend on each other."""


class OwnLies(Defense):
    """Randomised response on clicks, or what `HONEST` makes of it."""

    name = "toy-lies"
    eps: float = 0.5
    fault: str = ""

    def on_clicks(self, clicks: Bools, shown: Ints, step: int, context: RoundContext) -> Bools:
        k = clicks.shape[1]
        flips = context.streams("lies").uniform(k, first=step * k) < 1.0 / (1.0 + np.exp(self.eps))
        if self.fault:
            flips = HONEST[self.fault](flips, clicks, shown, step, context)
        return np.asarray((clicks ^ flips) & (shown >= 0))

    def events(self, context: RoundContext) -> tuple[PrivacyEvent, ...]:
        return (ClickRandomization(epsilon=self.eps),)


@pytest.mark.parametrize("fault", HONEST)
def test_clicks_that_are_randomised_in_a_part_of_their_range_are_found(fault: str, setup_of: SetupOf) -> None:
    setup = setup_of(chain=(OwnLies(fault=fault),), clients=CLIENTS, rounds=ROUNDS)
    assert list(declared(setup).broken) == ["toy-lies"]


# --- what a plug-in sees ---------------------------------------------------------------------------------


class WatchedNoise(OwnNoise):
    """Takes down what it is called with."""

    name = "toy-watched-noise"

    def on_message(self, models: Floats, context: RoundContext) -> Floats:
        SEEN.append(("message", context))
        return super().on_message(models, context)


class WatchedSteps(Defense):
    """The same."""

    name = "toy-watched-steps"

    def on_step(self, parameters: Floats, context: RoundContext) -> Floats:
        SEEN.append(("step", context))
        return 0.5 * parameters

    def events(self, context: RoundContext) -> tuple[PrivacyEvent, ...]:
        return (NormScaling(factor=0.5, of="model"),)


class WatchedClicks(OwnLies):
    """The same; lists have the form of those in training."""

    name = "toy-watched-clicks"

    def on_clicks(self, clicks: Bools, shown: Ints, step: int, context: RoundContext) -> Bools:
        SEEN.append((f"click {step}", context))
        assert clicks.shape == shown.shape
        assert ((shown[:, 1:] < 0) | (shown[:, :-1] >= 0)).all(), "padding comes last"
        assert not (clicks & (shown < 0)).any()
        assert all(np.unique(row[row >= 0]).size == (row >= 0).sum() for row in shown)
        LENGTHS.update(length_of(shown).tolist())
        return super().on_clicks(clicks, shown, step, context)


class WatchedSums(Defense):
    """The same of sums."""

    name = "toy-watched-sums"

    def on_aggregate(
        self, aggregate: Floats, messages: Floats, weights: Floats, context: RoundContext
    ) -> Floats:
        SEEN.append(("aggregate", context))
        assert len(messages) == weights.size == context.clients.size
        assert weights.sum() == pytest.approx(1.0)
        return aggregate

    def events(self, context: RoundContext) -> tuple[PrivacyEvent, ...]:
        return (CorrelatedNoise(sigma=1.0),)


SEEN: list[tuple[str, RoundContext]] = []
LENGTHS: set[int] = set()


def public(context: RoundContext) -> dict[str, object]:
    """All that is said of a round but what differs between rounds."""
    own = {"round", "clients", "counts", "parameters", "source"}
    shown = {field.name: getattr(context, field.name) for field in fields(context) if field.name not in own}
    streams = context.streams("x")
    names = streams.purpose, context.source.seed, context.source.repetition, repr(context.source)
    return {**shown, "names": names, "counts": set(context.counts.tolist()), "size": context.parameters.size}


def test_a_plug_in_cannot_tell_a_test_from_a_round(setup_of: SetupOf) -> None:
    """But by another seed of the experiment, which some calls have."""
    setup = setup_of(
        chain=(WatchedClicks(), WatchedSteps(), WatchedNoise(), WatchedSums()), clients=CLIENTS, rounds=7
    )
    SEEN.clear()
    LENGTHS.clear()
    for _ in Federation(setup).rounds(MODEL):
        pass
    training, lengths = {(stage, str(public(context))) for stage, context in SEEN}, set(LENGTHS)
    SEEN.clear()
    LENGTHS.clear()
    declared(setup, setup.learner.interactions)
    seed = setup.spec.seed
    for stage, context in SEEN:
        ids = context.clients
        assert 0 <= context.round < 7
        assert 0 < ids.size <= CLIENTS
        assert (np.diff(ids) > 0).all()
        assert ids[0] >= 0
        assert ids[-1] < CLIENTS
        if context.source.seed == seed:
            assert (stage, str(public(context))) in training
    assert {stage for stage, _ in SEEN} == {stage for stage, _ in training}
    assert {context.round for _, context in SEEN} == set(range(7))
    assert lengths <= LENGTHS
