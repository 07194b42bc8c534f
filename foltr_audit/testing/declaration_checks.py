"""Checks whether a defense does what it declares: bounds, laws of noise, claims, calibration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import isfinite

import numpy as np

from foltr_audit.auditing.declarations import LinkTestInput, check_declarations
from foltr_audit.auditing.law_tests import (
    LawTestResult,
    NoiseDraws,
    check_balls,
    check_distribution,
    check_grid,
    check_scaling,
    failure,
    law_table,
    two_sided,
)
from foltr_audit.auditing.scripted import GameClients
from foltr_audit.core.plugins import Defense, PrivacyEvent, RoundContext
from foltr_audit.core.plugins.answers import claims_of, events_of, law_of
from foltr_audit.core.plugins.defense import HOOKS, Stage
from foltr_audit.core.plugins.registry import make
from foltr_audit.errors import FoltrAuditError
from foltr_audit.privacy.events import (
    UNITS,
    ClickRandomization,
    CorrelatedNoise,
    GridRounding,
    MetricRandomization,
    NoiseAddition,
    NormBound,
    NormScaling,
)
from foltr_audit.privacy.observer_views import VIEWS
from foltr_audit.testing.contract import CheckList, expect
from foltr_audit.testing.sample_data import FEATURES, context, generator, tiny_setup
from foltr_audit.utils.arrays import Floats, Ints

DECLARATION_CHECKS = CheckList()

_SIZES = (0.0, 1e-300, 1e-9, 0.3, 1.0, 30.0, 1e6, 1e12, 1e100)
_ADDS: tuple[Stage, ...] = ("step", "message")
_MODEL = np.linspace(-0.3, 0.3, FEATURES)
_OUTCOMES = 11  # values of an online metric: MaxRR of lists of ten
_MANY = 65_536  # clients whose noise is compared with its law at once
_DRAWS = 20_000  # metrics for each true outcome
_SLACK = 1e-9


def _hooked(defense: Defense, stage: Stage, models: Floats, round_: RoundContext) -> Floats:
    hook = defense.on_step if stage == "step" else defense.on_message
    return hook(models, round_)


def _round(P: int = FEATURES, clients: int = 1, number: int = 3) -> RoundContext:
    return context(np.arange(clients), P=P, round_=number)


# --- bounds and rounding --------------------------------------------------------------------------


def _extremes(P: int, middle: Floats) -> Floats:
    """Models of very different sizes and directions, around 0 and around the global model (n, P)."""
    rng = generator(7)
    directions = np.concatenate([np.eye(P)[:1], -np.eye(P)[-1:], np.ones((1, P)), rng.normal(size=(4, P))])
    away = np.concatenate([size * directions for size in _SIZES])
    return np.concatenate([away, middle + away])


@DECLARATION_CHECKS("declared bounds, factors and grids hold for any model")
def _bounds(defense: Defense) -> None:
    for P in (1, FEATURES, 40):
        for stage in _ADDS:
            if stage not in defense.stages:
                continue
            round_ = _round(P)
            events = list(events_of(defense, round_, stage))
            models = _extremes(P, round_.parameters)
            round_ = _round(P, len(models))
            if not events or any(isinstance(event, NoiseAddition) for event in events):
                continue  # what noise hides is looked at below
            after = _hooked(defense, stage, models, round_)
            tests = [*_bound_tests(events, models, after, round_.parameters)]
            why = failure(tests, len(tests))
            wanted = f"{HOOKS[stage]} as its events say, for {P} parameters"
            expect(why is None, wanted, f"that {why}")


def _bound_tests(
    events: list[PrivacyEvent], before: Floats, after: Floats, parameters: Floats
) -> Iterator[LawTestResult]:
    yield from check_balls(events, after, parameters, copies=1)
    yield from check_grid(events, after)
    scalings = [event for event in events if isinstance(event, NormScaling)]
    others = [event for event in events if not isinstance(event, NormScaling | NormBound)]
    if scalings and not others and len({event.of for event in scalings}) == 1:
        factor = float(np.prod([event.factor for event in scalings]))
        yield from check_scaling([replace(scalings[0], factor=factor)], before, after, parameters)


@DECLARATION_CHECKS("its ball is what its on_step does")
def _ball(defense: Defense) -> None:
    ball = defense.ball
    if ball is None:
        return
    for P in (1, FEATURES, 40):
        models = _extremes(P, _round(P).parameters)
        inside = ball.projected(models)
        stepped = defense.on_step(models, _round(P, len(models)))
        wanted = f"models scaled into the L{ball.ord} ball of {ball.norm:g} that `ball` declares"
        expect(stepped.tobytes() == inside.tobytes(), wanted, "other models from on_step")


# --- noise ----------------------------------------------------------------------------------------


@DECLARATION_CHECKS("what has a law of noise does nothing but add it")
def _only_noise(defense: Defense) -> None:
    """Attacks and audits take a message for what came before plus noise of that law, up to rounding."""
    law = law_of(defense, _round())
    if law is None:
        return
    stages = [stage for stage in _ADDS if stage in defense.stages]
    expect(stages, "an on_step or on_message that adds the noise of its law", "neither")
    stated = [event.law for event in events_of(defense, _round()) if isinstance(event, NoiseAddition)]
    expect(stated == [law], f"events that state the noise {law.text} once", f"{[one.text for one in stated]}")
    rounding = [event.step for event in events_of(defense, _round()) if isinstance(event, GridRounding)]
    rng = generator(11)
    for stage in stages:
        for size in (1e-6, 1.0, 30.0, 1e6):
            models = size * rng.normal(size=(64, FEATURES))
            models[::2] *= rng.random((32, FEATURES)) < 0.3  # coordinates that did not change
            round_ = _round(clients=64)
            noise = _hooked(defense, stage, np.zeros_like(models), round_)
            off = np.abs(_hooked(defense, stage, models, round_) - noise - models)
            room = 2.0 * sum(rounding) + _SLACK * (np.abs(models) + np.abs(noise))
            wanted = "noise that does not look at the model: the same for every model, and nothing after it"
            found = f"a number that is off by {float(off.max()):.3g} for models of size {size:g}"
            expect((off <= room).all(), wanted, found)


@DECLARATION_CHECKS("its noise has the size that its law declares")
def _size(defense: Defense) -> None:
    """Many numbers of one law, so that one per cent more or less of it is found."""
    law, round_ = law_of(defense, _round()), _round(clients=_MANY)
    if law is None:
        return
    table = law_table(law)
    expect(table is not None, "a law whose density integrates to 1", f"{law.text}, whose does not")
    for stage in _ADDS if table is not None else ():
        if stage in defense.stages and table is not None:
            noise = _hooked(defense, stage, np.zeros((_MANY, FEATURES)), round_)
            tests = list(check_distribution(NoiseDraws(noise, "of a model of zeros"), law, table))
            why = failure(tests, len(tests))
            expect(why is None, f"noise of the law {law.text}", f"that {why}")


@DECLARATION_CHECKS("noise and randomised clicks follow their declared law")
def _lawful(defense: Defense) -> None:
    """The tests of an audit: distribution and independence, over clients, rounds, local steps and seeds."""
    if not defense.stages or "metric" in defense.stages:
        return
    setup = tiny_setup(defense=(defense.text,), clients=30)
    clients = GameClients(setup, setup.collection.test, _MODEL)
    rng = generator(13)
    models = np.stack([_MODEL + 0.1, rng.normal(size=FEATURES), 50.0 * np.eye(FEATURES)[1]])
    where = ["a client that learns", "a model of size 1", "a model of size 50"]
    inputs = [
        LinkTestInput.resting("a", clients),
        LinkTestInput(clients=clients, models=models, where=where),
    ]
    found = check_declarations(setup.privacy.acts(), clients, inputs, interactions=2)
    wanted = "what its events and its law declare"
    expect(not found.broken, wanted, found.why)
    expect(not found.not_looked, f"{wanted}, told from its inputs and outputs", found.why)


@DECLARATION_CHECKS("metrics follow the declared channel")
def _channel(defense: Defense) -> None:
    if "metric" not in defense.stages:
        return
    channel = defense.channel(_OUTCOMES)
    shape = (_OUTCOMES, _OUTCOMES)
    expect(channel.shape == shape, f"a channel of shape {shape}", f"shape {channel.shape}")
    sums = channel.sum(axis=1)
    proper = (channel >= 0).all() and np.allclose(sums, 1.0, rtol=0, atol=1e-9)
    expect(proper, "a channel whose rows are probabilities that sum to 1", f"rows that sum to {sums}")
    expect(defense.law_text(_OUTCOMES), "a text of its law", "none")
    for several in (_frequency_tests, _independence_tests):
        tests = list(several(defense, channel))
        why = failure(tests, len(tests))
        expect(why is None, "metrics that follow the declared channel", f"that {why}")
    declared = [e.epsilon for e in events_of(defense, _round()) if isinstance(e, MetricRandomization)]
    for epsilon in declared:
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.log(channel[:, np.newaxis] / channel[np.newaxis])
        largest = float(np.nanmax(ratios))
        wanted = f"the declared epsilon of {epsilon:g} at least"
        expect(largest <= epsilon * (1 + 1e-6) + _SLACK, wanted, f"a channel with epsilon {largest:.4g}")


def _sent(defense: Defense, truth: int, step: int = 0, number: int = 3) -> Ints:
    """What many clients send for one true outcome."""
    values = np.append(0.0, 1 / np.arange(1.0, _OUTCOMES))
    return defense.on_metric(np.full(_DRAWS, truth), values, step, _round(clients=_DRAWS, number=number))


def _frequency_tests(defense: Defense, channel: Floats) -> Iterator[LawTestResult]:
    for truth in range(_OUTCOMES):
        said = _sent(defense, truth)
        for outcome, chance in enumerate(channel[truth]):
            count = int((said == outcome).sum())
            found = (
                f"value {outcome} is sent for {truth} {count} times in {_DRAWS}, by the channel {chance:.4g}"
            )
            yield LawTestResult(_binomial(count, _DRAWS, float(chance)), found)


def _independence_tests(defense: Defense, channel: Floats) -> Iterator[LawTestResult]:
    """How often two clients, interactions or rounds both send the truth."""
    half = _DRAWS // 2
    for truth in range(_OUTCOMES):
        first = _sent(defense, truth) == truth
        pairs = {
            "two clients": first[:half] & first[half:],
            "two interactions": first & (_sent(defense, truth, step=1) == truth),
            "two rounds": first & (_sent(defense, truth, number=4) == truth),
        }
        for what, both in pairs.items():
            chance = float(channel[truth, truth]) ** 2
            found = f"randomised metrics are alike in {what}"
            yield LawTestResult(_binomial(int(both.sum()), both.size, chance), found)


def _binomial(hits: int, trials: int, chance: float) -> float:
    if chance <= 0.0:
        return 0.0 if hits else 1.0
    return two_sided(hits, trials, chance)


# --- claims and calibration -----------------------------------------------------------------------


@DECLARATION_CHECKS("claims are complete, and the same in every round")
def _claims(defense: Defense) -> None:
    first = context([11, 4], round_=0)
    for claim in claims_of(defense, first):
        expect(claim.epsilon > 0, "a claimed epsilon above 0", f"{claim.epsilon}")
        expect(0 <= claim.delta < 1, "a claimed delta from 0 to below 1", f"{claim.delta}")
        relations = ("replace-one", "add-remove")
        expect(claim.relation in relations, " or ".join(relations), repr(claim.relation))
        expect(claim.unit in UNITS, f"a unit of {', '.join(UNITS)}", repr(claim.unit))
        expect(claim.view in VIEWS, f"a view of {', '.join(VIEWS)}", repr(claim.view))
    later = context([11, 4], round_=40)
    for what, declared in (("events", events_of), ("claims", claims_of), ("law", law_of)):
        wanted = f"the same {what} in every round"
        expect(declared(defense, first) == declared(defense, later), wanted, "others in a later round")


@DECLARATION_CHECKS("the size of its messages")
def _bits(defense: Defense) -> None:
    for P in (1, FEATURES):
        bits = defense.message_bits(P, 32)
        expect(isfinite(bits) and bits > 0, "a positive number of bits", repr(bits))


@DECLARATION_CHECKS("its noise can be calibrated as it says")
def _calibration(defense: Defense) -> None:
    how, cls = defense.calibrated_by, type(defense)
    if how is None:
        return
    low, high = how.norms
    expect(how.order in (0, 1, 2), "a norm of order 0, 1 or 2 in calibrated_by", repr(how.order))
    expect(0 < low < high, "rising positive norms in calibrated_by", f"{low} and {high}")
    for norm in (low, 1.0, high):
        noise = []
        for number in (0.5, 1.0, 4.0):
            try:
                made = cls.with_noise(number, norm, how.order or 2, FEATURES)
            except (ValueError, FoltrAuditError):
                continue  # a number that it does not accept
            again = make(Defense, made.text)
            expect(again == made, f"with_noise({number}) again from its text {made.text}", again.text)
            noise.append(_amount(made))
        steps = np.diff(noise) < 0 if how.falls else np.diff(noise) > 0
        wanted = f"{'less' if how.falls else 'more'} noise for a larger number, as calibrated_by says"
        expect(len(noise) > 1 and steps.all(), wanted, f"noise of {[f'{one:.3g}' for one in noise]}")


def _amount(defense: Defense) -> float:
    """A number that grows with the noise of a defense."""
    for event in events_of(defense, _round()):
        if isinstance(event, NoiseAddition):
            return float(event.law.variance)
        if isinstance(event, CorrelatedNoise):
            return event.sigma
        if isinstance(event, ClickRandomization | MetricRandomization):
            return 1.0 / event.epsilon
    expect(False, "an event that states its noise", "none")
    return 0.0
