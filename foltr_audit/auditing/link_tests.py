"""Tests whether links of a chain do what they declare: noise of a law, bounds, rounding, randomised clicks.

A link gets inputs of many clients at once, as in the games, and its outputs are compared with its events.
Noise must follow the declared law for every input, and must be independent for each coordinate, client,
round and local step, and come from the experiment's own streams.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from foltr_audit.auditing.bound_tests import check_balls, check_grid, check_scaling
from foltr_audit.auditing.law_table import LawTable, law_table
from foltr_audit.auditing.law_tests import (
    LawTestResult,
    NoiseDraws,
    check_distribution,
    check_noise,
    check_pair,
)
from foltr_audit.auditing.neighbours import Canary
from foltr_audit.auditing.round_tests import check_rounds, some_rounds
from foltr_audit.auditing.scripted import GameClients
from foltr_audit.core.plugins import Defense, PrivacyEvent, RoundContext
from foltr_audit.privacy.events import ClickRandomization, GridRounding, NoiseAddition, NormBound
from foltr_audit.privacy.noise import AdditiveNoise
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Floats

_CLIENTS = 2048  # for each input
_NUMBERS = 2_000_000  # numbers of their messages at most, 16 MB
_STEPS = 8
_FEWEST, _MOST = 8, 64  # clients whose noise of many rounds is compared
_FAR = 1e3  # radii from the centre at which a bound is tested
_COPIES = 96  # clients with the same model where noise hides whether a bound holds
_COARSE = 0.05  # of the scale: random rounding by more would change the law


@dataclass(frozen=True, kw_only=True, eq=False)
class LinkTestInput:
    """Local models on which links are tested.

    Attributes:
        clients: the clients at one global model.
        models: local models before the step stage, float64 (n, P), each given to many clients.
        where: a description of each, in words that follow "for".
    """

    clients: GameClients
    models: Floats
    where: Sequence[str]

    @classmethod
    def resting(cls, name: str, clients: GameClients) -> LinkTestInput:
        """The input of a client that learns nothing."""
        return cls(
            clients=clients,
            models=clients.parameters[np.newaxis],
            where=[f"a client that learns nothing, {name} model"],
        )

    @classmethod
    def of_canary(cls, name: str, clients: GameClients, canary: Canary) -> LinkTestInput:
        """Both inputs of a canary, without the noise of its local steps."""
        local = canary.play(clients, np.arange(2), clients.context(0, np.arange(2)), clients.quiet)
        where = [f"input {number} of {canary.name}, {name} model" for number in (0, 1)]
        return cls(clients=clients, models=local.models, where=where)


class LinkTests:
    """The tests of the links of step and message stage on some inputs."""

    def __init__(self, acts: Sequence[tuple[Defense, PrivacyEvent]], interactions: int = 1) -> None:
        """`acts` are the events of a chain with the link of each; B interactions behind each message."""
        self.interactions = interactions
        self.events: dict[int, list[PrivacyEvent]] = {}
        for link, event in acts:
            self.events.setdefault(id(link), []).append(event)
        self.tests: dict[int, list[LawTestResult]] = {}
        self.not_looked: dict[int, str] = {}
        self._means: dict[int, dict[bytes, Floats]] = {}

    def run(self, inputs: Sequence[LinkTestInput]) -> None:
        """Test the links on all inputs; results are stored by the id of each link."""
        for one in inputs:
            self._check_noise(one)
            self._check_bounds(one)

    # --- noise ----------------------------------------------------------------------------------------

    def _check_noise(self, one: LinkTestInput) -> None:
        count = max(64, min(_CLIENTS, _NUMBERS // one.models.shape[1]))
        for number, (model, where) in enumerate(zip(one.models, one.where, strict=True)):
            context = self._context(one.clients, number, count)
            models = np.tile(model, (count, 1))
            first = self.draw_noise(one.clients, models, context)
            for link, noise, law, table in self._lawful(first):
                draws = NoiseDraws(noise, f"for {where}", _resolution(models))
                self.tests.setdefault(link, []).extend(check_noise(draws, law, table))
            self._check_repetitions(one.clients, models, context, first, where)
            self._check_over_rounds(one.clients, model, number, where)

    def _check_repetitions(
        self,
        clients: GameClients,
        models: Floats,
        context: RoundContext,
        first: dict[int, Floats],
        where: str,
    ) -> None:
        """Noise of other local steps and of another seed follows the law, independently of the first."""
        seed = clients.setup.spec.seed
        in_steps = {id(link) for link in clients.setup.chain.links("step")} & first.keys()
        steps = range(1, min(_STEPS, self.interactions)) if in_steps else ()
        others = [(context, step, "after two local steps") for step in steps]
        others += [(replace(context, source=Streams(seed + 1, 0)), 0, "under two seeds of the experiment")]
        before = [first]
        for other, step, when in others:
            again = self.draw_noise(clients, models, other, step)
            if step:  # the message stage runs once
                again = {link: noise for link, noise in again.items() if link in in_steps}
            for link, noise, law, table in self._lawful(again):
                found = self.tests.setdefault(link, [])
                place = f"for {where}, local step {step + 1}" if step else f"for {where}, another seed"
                draws = NoiseDraws(noise, place, _resolution(models))
                found += check_distribution(draws, law, table)
                for earlier in (each[link] for each in before if link in each):
                    found += check_pair(earlier, noise, table, f"noise for {where} is alike {when}")
            before.append(again)

    def _check_over_rounds(self, clients: GameClients, model: Floats, number: int, where: str) -> None:
        """Noise of some clients in many rounds: of each round, of each client, and in sums."""
        rounds = some_rounds(clients.setup.spec.train.rounds)
        count = max(_FEWEST, min(_MOST, _NUMBERS // (len(rounds) * model.size)))
        context, models = self._context(clients, number, count), np.tile(model, (count, 1))
        each = [self.draw_noise(clients, models, replace(context, round=round_)) for round_ in rounds]
        for link, _, law, table in self._lawful(each[0]):
            noise = np.stack([drawn[link] for drawn in each])
            tests = check_rounds(noise, law, table, where, _resolution(models))
            self.tests.setdefault(link, []).extend(tests)

    def _context(
        self, clients: GameClients, number: int, count: int, prefix: str = "audit/law/"
    ) -> RoundContext:
        return clients.context(0, number * count + np.arange(count), prefix, self.interactions)

    def draw_noise(
        self, clients: GameClients, models: Floats, context: RoundContext, step: int = 0
    ) -> dict[int, Floats]:
        """What each link that declares noise adds to local models (N, P), by its id."""
        found = {}
        for link, before, after in clients.setup.chain.trail(models, context, step):
            events = self.events.get(id(link), [])
            if any(isinstance(event, NoiseAddition) for event in events):
                centre = self._centre(link, events, before, after)
                if centre is not None:
                    found[id(link)] = after - centre
        return found

    def _centre(
        self, link: Defense, events: Sequence[PrivacyEvent], before: Floats, after: Floats
    ) -> Floats | None:
        """A link's output without its noise; None where it cannot be determined.

        Where a link does something else before it adds noise, this is its mean output over the clients that
        first had that model.
        """
        if not isinstance(events[-1], NoiseAddition):
            self.not_looked[id(link)] = f"{link.name} does something after its noise"
            return None
        if len(events) == 1:
            return before
        rounding = events[0] if len(events) == 2 and isinstance(events[0], GridRounding) else None
        if rounding is not None and rounding.nearest:
            return np.asarray(rounding.step * np.rint(before / rounding.step))
        if np.any(before != before[0]):
            self.not_looked[id(link)] = f"{link.name} does more than add noise, behind other noise"
            return None
        means = self._means.setdefault(id(link), {})
        if before.shape[1] > before.shape[0] and not means:
            self.not_looked[id(link)] = f"messages are too long to see what {link.name} does before its noise"
            return None
        steps = [event.step for event in events if isinstance(event, GridRounding)]
        if max(steps, default=0.0) > _COARSE * events[-1].law.scale:
            self.not_looked[id(link)] = f"{link.name} rounds so coarsely that its noise cannot be separated"
            return None
        mean = means.setdefault(before[0].tobytes(), after.mean(axis=0))
        return np.broadcast_to(mean, after.shape)

    def _lawful(self, drawn: dict[int, Floats]) -> Iterator[tuple[int, Floats, AdditiveNoise, LawTable]]:
        """Links with their noise, its law and table; links whose law cannot be tested are left out."""
        for link, noise in drawn.items():
            laws = [event.law for event in self.events[link] if isinstance(event, NoiseAddition)]
            if len(laws) != 1:
                self.not_looked[link] = "it adds several noises at once"
                continue
            table = law_table(laws[0])
            if table is None:
                self.not_looked[link] = f"the density of {laws[0].text} does not integrate to 1"
                continue
            yield link, noise, laws[0], table

    # --- bounds, rounding -----------------------------------------------------------------------------

    def _check_bounds(self, one: LinkTestInput) -> None:
        """Test every link on the inputs, and on models far outside every declared ball."""
        clients, P = one.clients, one.models.shape[1]
        axes = np.concatenate([np.eye(P)[:1], np.ones((1, P)), -np.eye(P)[-1:]])
        balls = [
            event.norm for events in self.events.values() for event in events if isinstance(event, NormBound)
        ]
        far = [axes * size for size in (1.0, *(norm * _FAR for norm in balls))]
        models = np.concatenate([one.models, clients.parameters + np.concatenate(far)])
        copies = _COPIES if self._noisy() else 4
        models = np.repeat(models, copies, axis=0)  # of several clients each
        context = self._context(clients, 0, len(models), "audit/bounds/")
        for link, before, after in clients.setup.chain.trail(models, context):
            events = self.events.get(id(link), [])
            if events and not any(isinstance(event, ClickRandomization) for event in events):
                found = self.tests.setdefault(id(link), [])
                found += check_balls(events, after, clients.parameters, copies)
                found += check_grid(events, after)
                found += check_scaling(events, before, after, clients.parameters)

    def _noisy(self) -> bool:
        return any(isinstance(event, NoiseAddition) for events in self.events.values() for event in events)


def _resolution(models: Floats) -> float:
    """The rounding error of what is added to models: a unit in the last place."""
    return float(np.spacing(np.abs(models).max()))
