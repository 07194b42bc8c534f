"""Whether the links of a chain do what they declare, so that proofs may rely on it.

A link gets inputs of many clients at once, as in the games, and its outputs are compared with its events.
Noise must follow the declared law for every input, and must be independent for each coordinate, client,
round and local step, and come from the experiment's own streams; also noise in sums, and that of clicks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np

from foltr_audit.auditing.canaries import Canary
from foltr_audit.auditing.estimators import clopper_pearson_bound
from foltr_audit.auditing.law_tests import (
    FALSE_ALARM,
    RESOLVED,
    LawTable,
    LawTestResult,
    NoiseDraws,
    check_balls,
    check_distribution,
    check_grid,
    check_noise,
    check_pair,
    check_rounds,
    check_scaling,
    failure,
    law_table,
    some_rounds,
)
from foltr_audit.auditing.scripted import GameClients
from foltr_audit.auditing.session import AuditSession
from foltr_audit.core.plugins import Defense, PrivacyEvent, RoundContext
from foltr_audit.core.plugins.answers import events_of
from foltr_audit.core.ranking_metrics import LIST_LENGTH
from foltr_audit.core.results import State
from foltr_audit.privacy.events import (
    ClickRandomization,
    CorrelatedNoise,
    GridRounding,
    NoiseAddition,
    NormBound,
    OpaqueChange,
)
from foltr_audit.privacy.noise import AdditiveNoise, Gaussian
from foltr_audit.privacy.noise.gaussian import hidden_rows
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Bools, Floats, Ints

_CLICK_CLIENTS = 16_384
_FEWER = 4096  # clients of another round or interaction, and with one number of clicks
_CLICK_ROUNDS = (1, 2, 7)
_STEPS = 8  # local steps that are tested at most
_LENGTHS = (LIST_LENGTH, LIST_LENGTH // 2)
_BOUNDS = 200  # bounds that are compared at most: in places, numbers of clicks, interactions and rounds
_SLACK = 1e-9  # relative, of an epsilon


def check_clicks(
    clients: GameClients, link: Defense, place: int, epsilon: float, interactions: int = 1
) -> Iterator[LawTestResult]:
    """Tests of one link that declares to randomise every click with at most this epsilon.

    `place` is that of the link in the chain, which names its streams; B interactions of a client in a round.
    """
    context = clients.context(0, np.arange(_CLICK_CLIENTS), "audit/law/", interactions)
    tried = _FlipSampler(link, replace(context, prefix=f"defense/{place}/"))
    truth = _every_pattern(_CLICK_CLIENTS)
    flips = tried.flips(truth)
    yield from _check_rates(truth, truth ^ flips, epsilon, columns=True)
    yield from _check_by_number_of_clicks(tried, epsilon)
    i, j = np.triu_indices(LIST_LENGTH, 1)
    where = "randomised clicks are alike in two places of a list"
    yield from _check_flips(flips[:, i], flips[:, j], (truth[:, i], truth[:, j]), where)
    half = _CLICK_CLIENTS // 2
    yield from _check_flips(
        flips[:half],
        flips[half:],
        (truth[:half], truth[:half]),
        "randomised clicks are alike for two clients",
    )
    few = truth[:_FEWER]
    steps = sorted({0, interactions - 1, *range(min(interactions, _STEPS))})
    kinds = {
        "interactions": [tried.flips(few, step=step) for step in steps],
        "rounds": [tried.flips(few, round_=round_) for round_ in (0, *_rounds(clients))],
    }
    for kind, patterns in kinds.items():
        for again in patterns[1:]:
            yield from _check_rates(few, few ^ again, epsilon)
        for one, other in combinations(patterns, 2):
            yield from _check_flips(one, other, (few, few), f"randomised clicks are alike in two {kind}")
    again = tried.flips(few, source=Streams(clients.setup.spec.seed + 1, 0))
    seeds = "randomised clicks are alike under two seeds of the experiment"
    yield from _check_flips(flips[:_FEWER], again, (few, few), seeds)


class _FlipSampler(NamedTuple):
    """Applies a link to given clicks."""

    link: Defense
    context: RoundContext

    def flips(self, truth: Bools, *, step: int = 0, round_: int = 0, source: Streams | None = None) -> Bools:
        """Which clicks (C, k) of the first C clients are reported wrongly, on lists padded to ten places."""
        count, k = truth.shape
        context = replace(
            self.context,
            round=round_,
            clients=self.context.clients[:count],
            counts=self.context.counts[:count],
            source=source or self.context.source,
        )
        shown = np.where(np.arange(LIST_LENGTH) < k, np.arange(LIST_LENGTH), -1)
        padded = np.zeros((count, LIST_LENGTH), dtype=np.bool_)
        padded[:, :k] = truth
        reported = self.link.on_clicks(padded.copy(), np.tile(shown, (count, 1)), step, context)
        return np.asarray(reported[:, :k] ^ truth)


def _rounds(clients: GameClients) -> Sequence[int]:
    """Some later rounds of the run, always the second and the last."""
    last = clients.setup.spec.train.rounds - 1
    return sorted({1, last, *(round_ for round_ in _CLICK_ROUNDS if round_ < last)} - {0})


def _every_pattern(count: int) -> Bools:
    return np.asarray((np.arange(count)[:, np.newaxis] // 2 ** np.arange(LIST_LENGTH)) % 2 == 1)


def _orders(count: int, length: int) -> Ints:
    """An order of the places of a list for each client, int64 (C, k)."""
    # A step that has no divisor in common with the length visits every place once.
    steps = np.array([step for step in range(1, length) if math.gcd(step, length) == 1])
    rows = np.arange(count)[:, np.newaxis]
    return np.asarray((np.arange(length) * steps[rows % steps.size] + rows // steps.size) % length)


def _check_by_number_of_clicks(tried: _FlipSampler, epsilon: float) -> Iterator[LawTestResult]:
    """Bits of lists with c clicks compared with lists with c + 1: neighbours differ in one click."""
    for length in _LENGTHS:
        ranks = _orders(_FEWER, length)
        batches = [ranks < clicks for clicks in range(length + 1)]
        reports = [truth ^ tried.flips(truth) for truth in batches]
        for c in range(length):
            bits = np.concatenate([batches[c][~batches[c]], batches[c + 1][batches[c + 1]]])
            drawn = np.concatenate([reports[c][~batches[c]], reports[c + 1][batches[c + 1]]])
            yield from _check_rates(bits[:, np.newaxis], drawn[:, np.newaxis], epsilon)


def _check_rates(
    truth: Bools, reported: Bools, epsilon: float, *, columns: bool = False
) -> Iterator[LawTestResult]:
    """Whether a report reveals more of its click than declared, over all places, and in each place."""
    single = [slice(i, i + 1) for i in range(truth.shape[1])] if columns else []
    for column in [slice(None), *single]:
        clicked, answers = truth[:, column].ravel(), reported[:, column].ravel()
        # The bound is for equally many trials of both hypotheses; more of one kind are left out.
        trials = min(int(clicked.sum()), int((~clicked).sum()))
        one, none = answers[clicked][:trials], answers[~clicked][:trials]
        for wrong, missed in ((none, ~one), (~none, one)):
            counts, confidence = (int(wrong.sum()), int(missed.sum())), 1.0 - FALSE_ALARM / _BOUNDS
            shown = clopper_pearson_bound(*counts, trials, delta=0.0, confidence=confidence)
            problem = f"randomised clicks show an epsilon of at least {shown:.3g}, more than is declared"
            yield LawTestResult(0.0 if shown > epsilon * (1.0 + _SLACK) else 1.0, problem)


def _check_flips(
    one: Bools, other: Bools, truths: tuple[Bools, Bools], problem: str
) -> Iterator[LawTestResult]:
    """Whether flips (N, m) are independent of others, column by column, given the clicks that each hides.

    The number of common flips among the same clicks is hypergeometric given how many there are of each.
    Where flips are rare, common ones are counted over all clicks: their number is at most about Poisson.
    """
    from scipy.special import pdtrc
    from scipy.stats import hypergeom

    kinds = [(truths[0] == a) & (truths[1] == b) for a in (False, True) for b in (False, True)]
    clicks, first, second, common = (
        np.array([(kind & flips).sum(axis=0) for kind in kinds])
        for flips in (np.ones_like(one), one, other, one & other)
    )
    tails = (hypergeom.cdf(common, clicks, first, second), hypergeom.sf(common - 1, clicks, first, second))
    least = min(float(np.asarray(tail)[clicks > 0].min(initial=1.0)) for tail in tails)
    yield LawTestResult(min(1.0, 2.0 * clicks.size * least), problem)
    seen, expected = int(common.sum()), float((first * second / np.maximum(clicks, 1)).sum())
    yield LawTestResult(float(pdtrc(seen - 1, expected)) if seen > expected + 1 else 1.0, problem)


_CLIENTS = 2048  # for each input
_NUMBERS = 2_000_000  # numbers of their messages at most, 16 MB
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
        for given in inputs:
            self._check_noise(given)
            self._check_bounds(given)

    def _check_noise(self, given: LinkTestInput) -> None:
        count = max(64, min(_CLIENTS, _NUMBERS // given.models.shape[1]))
        for number, (model, where) in enumerate(zip(given.models, given.where, strict=True)):
            context = self._context(given.clients, number, count)
            models = np.tile(model, (count, 1))
            first = self.draw_noise(given.clients, models, context)
            for link, noise, law, table in self._lawful(first):
                draws = NoiseDraws(noise, f"for {where}", _resolution(models))
                self.tests.setdefault(link, []).extend(check_noise(draws, law, table))
            self._check_repetitions(given.clients, models, context, first, where)
            self._check_over_rounds(given.clients, model, number, where)

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
                tests = self.tests.setdefault(link, [])
                drawn_for = f"for {where}, local step {step + 1}" if step else f"for {where}, another seed"
                draws = NoiseDraws(noise, drawn_for, _resolution(models))
                tests += check_distribution(draws, law, table)
                for earlier in (each[link] for each in before if link in each):
                    tests += check_pair(earlier, noise, table, f"noise for {where} is alike {when}")
            before.append(again)

    def _check_over_rounds(self, clients: GameClients, model: Floats, number: int, where: str) -> None:
        """Noise of some clients in many rounds: of each round, of each client, and in sums."""
        rounds = some_rounds(clients.setup.spec.train.rounds)
        count = max(_FEWEST, min(_MOST, _NUMBERS // (len(rounds) * model.size)))
        context, models = self._context(clients, number, count), np.tile(model, (count, 1))
        draws = [self.draw_noise(clients, models, replace(context, round=round_)) for round_ in rounds]
        for link, _, law, table in self._lawful(draws[0]):
            noise = np.stack([drawn[link] for drawn in draws])
            tests = check_rounds(noise, law, table, where, _resolution(models))
            self.tests.setdefault(link, []).extend(tests)

    def _context(
        self, clients: GameClients, number: int, count: int, under: str = "audit/law/"
    ) -> RoundContext:
        return clients.context(0, number * count + np.arange(count), under, self.interactions)

    def draw_noise(
        self, clients: GameClients, models: Floats, context: RoundContext, step: int = 0
    ) -> dict[int, Floats]:
        """What each link that declares noise adds to local models (N, P), by its id."""
        noise_of_link = {}
        for link, before, after in clients.setup.chain.trail(models, context, step):
            events = self.events.get(id(link), [])
            if any(isinstance(event, NoiseAddition) for event in events):
                centre = self._centre(link, events, before, after)
                if centre is not None:
                    noise_of_link[id(link)] = after - centre
        return noise_of_link

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

    def _check_bounds(self, given: LinkTestInput) -> None:
        """Test every link on the inputs, and on models far outside every declared ball."""
        clients, P = given.clients, given.models.shape[1]
        axes = np.concatenate([np.eye(P)[:1], np.ones((1, P)), -np.eye(P)[-1:]])
        balls = [
            event.norm for events in self.events.values() for event in events if isinstance(event, NormBound)
        ]
        far = [axes * size for size in (1.0, *(norm * _FAR for norm in balls))]
        models = np.concatenate([given.models, clients.parameters + np.concatenate(far)])
        copies = _COPIES if self._noisy() else 4
        models = np.repeat(models, copies, axis=0)  # of several clients each
        context = self._context(clients, 0, len(models), "audit/bounds/")
        for link, before, after in clients.setup.chain.trail(models, context):
            events = self.events.get(id(link), [])
            if events and not any(isinstance(event, ClickRandomization) for event in events):
                tests = self.tests.setdefault(id(link), [])
                tests += check_balls(events, after, clients.parameters, copies)
                tests += check_grid(events, after)
                tests += check_scaling(events, before, after, clients.parameters)

    def _noisy(self) -> bool:
        return any(isinstance(event, NoiseAddition) for events in self.events.values() for event in events)


def _resolution(models: Floats) -> float:
    """The rounding error of what is added to models: a unit in the last place."""
    return float(np.spacing(np.abs(models).max()))


_FEWEST_SUMS, _SUMMED_NUMBERS = 256, 1 << 14  # that are tested: each is a sum over all clients
_RUN_ROUNDS = 24  # of each run
_FEWEST_RUNS, _RUN_NUMBERS = 64, 40_000
_FLOAT32 = 2.0**-24  # relative, of a message in that format


class SumTest(NamedTuple):
    """What tests of the noise in sums showed.

    Attributes:
        law: the law that the noise of the other clients was shown to follow; None if it was not, or if
            nothing could be tested.
        failed: the link whose noise does not add up, and why; None if there is none.
    """

    law: AdditiveNoise | None = None
    failed: tuple[str, str] | None = None


def check_sums(session: AuditSession, members: int) -> SumTest:
    """Test whether the noise of the other clients adds up in sums of `members` messages, on some trials.

    Tested only where the sum of one noise is the only randomness of a message. Each trial plays all clients.
    """
    noisy = [(link, event) for link, event in session.acts if isinstance(event, NoiseAddition)]
    if session.noise_of(members).law is None or len(noisy) != 1:
        return SumTest()
    link, event = noisy[0]
    law = event.law.summed(members - 1)
    table = law_table(law)
    if table is None:
        return SumTest()
    trials = min(session.at_once, max(_FEWEST_SUMS, _SUMMED_NUMBERS // session.clients.parameters.size))
    sums = [
        session.games.others.played_sums(members, message, np.arange(trials))
        for message in range(session.games.messages)
    ]
    resolution = _resolution_of_sum(session, members)
    if np.sqrt(law.variance) < RESOLVED * resolution:  # it drowns in the rounding
        return SumTest()
    tests: list[LawTestResult] = []
    for noise in sums:
        draws = NoiseDraws(noise, f"in the sum over {members - 1} other clients", resolution)
        tests += check_noise(draws, law, table)
    for one, other in pairwise(sums):
        tests += check_pair(one, other, table, "noise in sums is alike in two rounds")
    why = failure(tests, len(tests))
    return SumTest(law=law) if why is None else SumTest(failed=(link.name, why))


def _resolution_of_sum(session: AuditSession, members: int) -> float:
    """The rounding error of a number of the sum, by the number format of messages or their encoding."""
    encoding = session.setup.chain.encoding
    if encoding is not None:
        return float(encoding.error * np.sqrt(members))
    if session.setup.spec.trace.dtype == "float64":
        return 0.0
    laws = [event.law for _, event in session.acts if isinstance(event, NoiseAddition)]
    size = max([1.0, *(float(np.sqrt(law.variance)) for law in laws)])
    return float(_FLOAT32 * size * np.sqrt(members))


def check_sum_noise(
    link: Defense, event: CorrelatedNoise, clients: GameClients, place: int
) -> Iterator[LawTestResult]:
    """Test the noise that a link adds to the sums of all rounds, in runs of several seeds.

    What C makes of it must be independent noise of the declared sigma in each round and run, whatever the
    weights of messages are; see `foltr_audit.privacy.noise.gaussian`.
    """
    law = Gaussian(sigma=event.sigma)
    table, size = law_table(law), clients.parameters.size
    runs = max(_FEWEST_RUNS, _RUN_NUMBERS // (_RUN_ROUNDS * size))
    noise = np.empty((_RUN_ROUNDS, runs, size))
    largest = np.array([0.75, 0.25])
    messages = np.zeros((largest.size, size))
    for run in range(runs):
        for round_ in range(_RUN_ROUNDS):
            context = clients.context(round_, np.arange(largest.size), f"audit/law/sum/{run}/")
            context = replace(context, prefix=f"defense/{place}/")
            noise[round_, run] = link.on_aggregate(np.zeros(size), messages, largest, context) / largest.max()
    independent = hidden_rows(noise.reshape(_RUN_ROUNDS, -1), event.bands).reshape(noise.shape)
    if table is not None:
        where = "the sum, less that of rounds before,"
        yield from check_rounds(independent, law, table, where, float(_FLOAT32 * np.abs(noise).max()))


_RANDOM = NoiseAddition | ClickRandomization | CorrelatedNoise

Acts = Sequence[tuple[Defense, PrivacyEvent]]


@dataclass(frozen=True, kw_only=True)
class DeclarationCheck:
    """The result of testing the links of a chain.

    Attributes:
        broken: why a link does not do what it declares, by the link's name.
        not_looked: why a link could not be tested, also by its name.
        links: number of links that declare noise or randomised clicks.
        acts: events with their links; those of broken links count as opaque.
    """

    broken: dict[str, str] = field(default_factory=dict)
    not_looked: dict[str, str] = field(default_factory=dict)
    links: int = 0
    acts: Acts = ()

    @property
    def state(self) -> State:
        if self.broken:
            return "broken"
        if self.not_looked:
            return "not looked"
        return "as declared" if self.links else "nothing declared"

    @property
    def why(self) -> str:
        """What is broken, or could not be tested, in one line."""
        problems = self.broken or self.not_looked
        return "; ".join(f"{name}: {why}" for name, why in problems.items())

    def with_broken(self, name: str, why: str) -> DeclarationCheck:
        broken = {name: why, **self.broken}
        return replace(self, broken=broken, acts=_as_opaque(self.acts, broken))


def check_declarations(
    acts: Acts, clients: GameClients, inputs: Sequence[LinkTestInput], interactions: int = 1
) -> DeclarationCheck:
    """Test all links of a chain, with its events, on some inputs; B interactions behind each message."""
    links = LinkTests(acts, interactions)
    links.run(inputs)
    for place, link in enumerate(clients.setup.chain.defenses):
        events = [event for other, event in acts if other is link and isinstance(event, ClickRandomization)]
        if events:
            links.tests.setdefault(id(link), []).extend(
                check_clicks(clients, link, place, events[0].epsilon, interactions)
            )
        for event in (event for other, event in acts if other is link and isinstance(event, CorrelatedNoise)):
            links.tests.setdefault(id(link), []).extend(check_sum_noise(link, event, clients, place))
    names = {id(link): link.name for link in clients.setup.chain.defenses}
    among = sum(len(tests) for tests in links.tests.values())
    failures = {names[link]: failure(tests, among) for link, tests in links.tests.items()}
    broken = {name: why for name, why in failures.items() if why is not None} | _find_changing(clients)
    random = {id(link) for link, event in acts if isinstance(event, _RANDOM)}
    return DeclarationCheck(
        broken=broken,
        not_looked={names[link]: why for link, why in links.not_looked.items()},
        links=len(random),
        acts=_as_opaque(acts, broken),
    )


def _find_changing(clients: GameClients) -> dict[str, str]:
    """Links whose declaration depends on the round: proofs use that of the first round for all."""
    nobody = np.empty(0, np.int64)
    first, later = (clients.context(round_, nobody) for round_ in (0, 1))
    last = clients.context(max(1, clients.setup.spec.train.rounds - 1), nobody)
    return {
        link.name: "what it declares changes from round to round"
        for link in clients.setup.chain.defenses
        if not events_of(link, first) == events_of(link, later) == events_of(link, last)
    }


def _as_opaque(acts: Acts, broken: Mapping[str, str]) -> Acts:
    return tuple(
        (link, OpaqueChange(mechanism=link.name) if link.name in broken else event) for link, event in acts
    )
