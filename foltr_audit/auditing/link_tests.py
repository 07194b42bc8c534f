"""Tests whether links of a chain do what they declare: noise of a law, bounds, rounding, randomised clicks.

A link is given inputs of many clients at once, as it gets them in the games, and its outputs are compared
with its events. Noise has to be of the declared law for every input, and to be drawn anew for each
coordinate, client, round and local step, from the experiment's own streams.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from foltr_audit.auditing.law_table import LawTable, law_table
from foltr_audit.auditing.law_tests import Draws, Test, between, distribution, independence
from foltr_audit.auditing.neighbours import Canary
from foltr_audit.auditing.scripted import Floats, ScriptedClients
from foltr_audit.noise_laws import AddedNoise
from foltr_audit.plugins import Defense, PrivacyEvent, RoundContext, StepDefense
from foltr_audit.records.privacy import Bounded, Noised, RandomisedClicks, Resized, Rounded
from foltr_audit.rng import Streams

_CLIENTS = 2048  # of each input
_NUMBERS = 2_000_000  # of their messages at most
_ROUNDS = (1, 2, 7)  # whose noise is compared with that of round 0
_STEPS = (1, 2)
_FAR = 1e3  # how many radii outside its ball a bound is tried
_SLACK = 1e-6  # relative: what rounding may add to a norm
_COARSE = 0.05  # of the scale: rounding at random by more would change the law


@dataclass(frozen=True, kw_only=True, eq=False)
class Input:
    """Local models that links are tried on.

    Attributes:
        clients: the clients at one global model.
        models: local models before the step stage, float64 (n, P), each given to many clients.
        where: what each of them is, in words that follow "for".
    """

    clients: ScriptedClients
    models: Floats
    where: Sequence[str]

    @classmethod
    def resting(cls, name: str, clients: ScriptedClients) -> Input:
        """A client that learns nothing."""
        return cls(
            clients=clients,
            models=clients.parameters[np.newaxis],
            where=[f"a client that learns nothing, {name} model"],
        )

    @classmethod
    def of_canary(cls, name: str, clients: ScriptedClients, canary: Canary) -> Input:
        """Both inputs of a canary, without the noise of its local steps."""
        local = canary.play(clients, np.arange(2), clients.context(0, np.arange(2)), clients.quiet)
        where = [f"input {number} of {canary.name}, {name} model" for number in (0, 1)]
        return cls(clients=clients, models=local.models, where=where)


class LinkTests:
    """The tests of the links of step and message stage on some inputs."""

    def __init__(self, acts: Sequence[tuple[Defense, PrivacyEvent]]) -> None:
        """`acts` are the events of a chain with the link that each is of."""
        self.events: dict[int, list[PrivacyEvent]] = {}
        for link, event in acts:
            self.events.setdefault(id(link), []).append(event)
        self.tests: dict[int, list[Test]] = {}
        self.not_looked: dict[int, str] = {}

    def run(self, inputs: Sequence[Input]) -> None:
        """Try all inputs; results are kept by the id of each link."""
        for one in inputs:
            self._noise(one)
            self._bounds(one)

    # --- noise ----------------------------------------------------------------------------------------

    def _noise(self, one: Input) -> None:
        count = max(64, min(_CLIENTS, _NUMBERS // one.models.shape[1]))
        for number, (model, where) in enumerate(zip(one.models, one.where, strict=True)):
            context = _context(one.clients, number, count)
            models = np.tile(model, (count, 1))
            steps = self.drawn(one.clients, models, context)
            for link, noise in steps.items():
                law, table = self._law(link)
                if law is None or table is None:
                    continue
                draws = Draws(noise, f"for {where}")
                found = self.tests.setdefault(link, [])
                found += [*distribution(draws, law, table), *independence(draws, table)]
            self._repetitions(one.clients, models, context, steps, where)

    def _repetitions(
        self,
        clients: ScriptedClients,
        models: Floats,
        context: RoundContext,
        first: dict[int, Floats],
        where: str,
    ) -> None:
        """Noise of other rounds, local steps and seeds against that of round 0."""
        seed = clients.setup.spec.seed
        others = [(replace(context, round=round_), 0, "in two rounds") for round_ in _ROUNDS]
        others += [(context, step, "after two local steps") for step in _STEPS]
        others += [(replace(context, source=Streams(seed + 1, 0)), 0, "under two seeds of the experiment")]
        for other, step, when in others:
            again = self.drawn(clients, models, other, step)
            for link, noise in again.items():
                law, table = self._law(link)
                of_steps = "steps" in when
                if law is None or table is None or link not in first:
                    continue
                if of_steps and not self._in_step_stage(clients, link):
                    continue
                alike = f"noise for {where} is alike {when}"
                self.tests.setdefault(link, []).extend(between(first[link], noise, table, alike))

    def drawn(
        self, clients: ScriptedClients, models: Floats, context: RoundContext, step: int = 0
    ) -> dict[int, Floats]:
        """What each link that declares noise adds to local models (N, P), by its id."""
        found = {}
        for link, before, after in clients.setup.chain.trail(models, context, step):
            events = self.events.get(id(link), [])
            if any(isinstance(event, Noised) for event in events):
                centre = self._centre(link, events, before, after)
                if centre is not None:
                    found[id(link)] = after - centre
        return found

    def _centre(
        self, link: Defense, events: Sequence[PrivacyEvent], before: Floats, after: Floats
    ) -> Floats | None:
        """What a link's output would be without its noise; None where that cannot be told.

        Where it does something else before it adds noise, its mean over clients with equal models.
        """
        if not isinstance(events[-1], Noised):
            self.not_looked[id(link)] = f"{link.name} does something after its noise"
            return None
        if len(events) == 1:
            return before
        rounding = events[0] if len(events) == 2 and isinstance(events[0], Rounded) else None
        if rounding is not None and rounding.nearest:
            return np.asarray(rounding.step * np.rint(before / rounding.step))
        if np.any(before != before[0]):
            self.not_looked[id(link)] = f"{link.name} does more than add noise, behind other noise"
            return None
        steps = [event.step for event in events if isinstance(event, Rounded)]
        if max(steps, default=0.0) > _COARSE * events[-1].law.scale:
            self.not_looked[id(link)] = f"{link.name} rounds by more than its noise is told from"
            return None
        return np.broadcast_to(after.mean(axis=0), after.shape)

    def _law(self, link: int) -> tuple[AddedNoise | None, LawTable | None]:
        laws = [event.law for event in self.events[link] if isinstance(event, Noised)]
        if len(laws) != 1:
            self.not_looked[link] = "it adds several noises at once"
            return None, None
        table = law_table(laws[0])
        if table is None:
            self.not_looked[link] = f"the density of {laws[0].text} does not integrate to 1"
        return laws[0], table

    @staticmethod
    def _in_step_stage(clients: ScriptedClients, link: int) -> bool:
        return any(id(each) == link for each in clients.setup.chain.links(StepDefense))

    # --- bounds, rounding -----------------------------------------------------------------------------

    def _bounds(self, one: Input) -> None:
        """Every link without noise, on the inputs and on models far outside."""
        clients, P = one.clients, one.models.shape[1]
        directions = np.concatenate([np.eye(P)[:1], np.ones((1, P)), -np.eye(P)[-1:]])
        for events in self.events.values():
            far = [event.norm * _FAR for event in events if isinstance(event, Bounded)]
            directions = np.concatenate([directions, *[directions[:3] * size for size in far]])
        models = np.concatenate([one.models, clients.parameters + directions])
        models = np.repeat(models, 4, axis=0)  # of several clients each
        context = _context(clients, 0, len(models), "audit/bounds/")
        for link, before, after in clients.setup.chain.trail(models, context):
            events = [
                event for event in self.events.get(id(link), []) if not isinstance(event, RandomisedClicks)
            ]
            if events and not any(isinstance(event, Noised) for event in events):
                found = self.tests.setdefault(id(link), [])
                found += _bounded(events, after, clients.parameters)
                found += _resized(events, before, after, clients.parameters)


def _context(clients: ScriptedClients, number: int, count: int, prefix: str = "audit/law/") -> RoundContext:
    return clients.context(0, number * count + np.arange(count), prefix)


def _bounded(events: Sequence[PrivacyEvent], after: Floats, parameters: Floats) -> Iterator[Test]:
    """Whether outputs lie in the last ball that a link declares, and on the grid."""
    if events and isinstance(events[-1], Bounded) and events[-1].always:
        ball = events[-1]
        inside = after if ball.of == "model" else after - parameters
        largest = float(np.linalg.norm(inside, ord=ball.ord, axis=1).max())
        room = _SLACK * (ball.norm + float(np.abs(parameters).max()))
        p = 0.0 if largest > ball.norm + room else 1.0
        yield Test(
            p, f"{ball.of}s reach a norm of {largest:.4g}, outside the declared ball of {ball.norm:.4g}"
        )
    if events and isinstance(events[-1], Rounded):
        steps = after / events[-1].step
        with np.errstate(invalid="ignore"):
            off = float(np.abs(steps - np.rint(steps))[np.abs(steps) < 2.0**40].max(initial=0.0))
        yield Test(0.0 if off > 1e-3 else 1.0, f"messages lie off the declared grid of {events[-1].step:g}")


def _resized(
    events: Sequence[PrivacyEvent], before: Floats, after: Floats, parameters: Floats
) -> Iterator[Test]:
    """Whether no norm grows by more than a declared factor."""
    if len(events) != 1 or not isinstance(events[0], Resized):
        return
    event = events[0]
    middle = np.zeros_like(parameters) if event.of == "model" else parameters
    for order in (1, 2, math.inf):
        sizes = [np.linalg.norm(models - middle, ord=order, axis=1) for models in (before, after)]
        grown = bool(np.any(sizes[1] > event.factor * sizes[0] * (1 + _SLACK) + _SLACK))
        yield Test(
            0.0 if grown else 1.0, f"a norm grows by more than the declared factor of {event.factor:g}"
        )
