"""Whether the links of a chain do what they declare, so that proofs may rely on it.

A link is called as in rounds of training, which are drawn anew for each audit from all that the Spec allows,
and its outputs are compared with its events. Noise must follow the declared law for every input, and must be
independent for each coordinate, client, round and local step, and come from the experiment's own streams;
also noise in sums, and that of clicks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, cast

import numpy as np

from foltr_audit.auditing.canaries import Canary
from foltr_audit.auditing.law_tests import (
    PAIRED,
    RESOLVED,
    LawTable,
    LawTestResult,
    NoiseDraws,
    check_balls,
    check_dependence,
    check_distribution,
    check_grid,
    check_noise,
    check_pair,
    check_scaling,
    check_summed,
    columns_of,
    failure,
    law_table,
    upper_tail,
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

_STRETCH = 8  # neighbours
_MOST_CALLS = 512  # of each test
_BLOCK = 500_000  # numbers of the messages of a call, as in training
_UNDER = "audit/law/"


def _some(total: int, count: int, rng: np.random.Generator) -> Ints:
    """`count` of the numbers 0 .. total - 1, rising: half scattered, half in stretches of neighbours."""
    if count >= total:
        return np.arange(total)
    firsts = rng.integers(max(1, total - _STRETCH + 1), size=count // (2 * _STRETCH))
    near = np.unique((firsts[:, np.newaxis] + np.arange(_STRETCH)).ravel())
    others = np.setdiff1d(np.arange(total), near)
    return np.sort(np.append(near, rng.permutation(others)[: count - near.size]))


class DrawnRounds:
    """Rounds of training for tests: which rounds, cohorts and local steps is drawn anew for each audit.

    Nothing that a link is told differs from training: a test that needs many draws calls a link often, each
    time with clients of one cohort, under streams whose names it does not see.
    """

    def __init__(self, clients: GameClients, interactions: int, test: str) -> None:
        """Nothing is drawn yet; `test` names the streams."""
        self.clients = clients
        self.interactions = interactions
        self.test = test
        self.spec = clients.setup.spec
        self.rng = clients.setup.streams.generator(f"{_UNDER}{test}")
        # as many messages as training has in memory at once
        most = max(1, _BLOCK // clients.parameters.size)
        self.members = min(self.spec.population.cohort_size, most)

    def rounds(self, count: int) -> Ints:
        return _some(self.spec.train.rounds, count, self.rng)

    def cohort(self) -> Ints:
        """Ids of a cohort, or of those of its clients that are played at once, rising, int64 (members,)."""
        return np.sort(self.rng.choice(self.spec.population.clients, self.members, replace=False))

    def context(self, run: int, round_: int, ids: Ints, seed: int = 0) -> RoundContext:
        """The context of a round for these clients, in one of several runs; of another seed by `seed`."""
        context = self.clients.context(round_, ids, f"{_UNDER}{self.test}/{run}/", self.interactions)
        other = Streams(self.spec.seed + seed, self.spec.repetition).under(f"{_UNDER}{self.test}/{run}/")
        return replace(context, source=other) if seed else context

    def calls(self, cohort: Ints, rows: Ints, full: float = 1 / 3) -> list[tuple[Ints, Ints]]:
        """Clients of calls that together have the `rows` of a cohort, with the places of these among them.

        All of the cohort, or only these, at once or one part after the other.
        """
        which = self.rng.random()
        if which < full:
            return [(cohort, rows)]
        cut = int(rows.size ** self.rng.random()) if which > 0.5 * (1 + full) else 0
        return [(cohort[part], np.arange(part.size)) for part in (rows[:cut], rows[cut:]) if part.size]

    def trail(
        self,
        models: Floats,
        run: int,
        round_: int,
        calls: Sequence[tuple[Ints, Ints]],
        step: int = 0,
        seed: int = 0,
    ) -> list[tuple[Defense, Floats, Floats]]:
        """Each link of step and message stage, with input and output for models (M, P) of such clients."""
        parts, first = [], 0
        for ids, places in calls:
            own = models[first : first + places.size]
            given = own[np.arange(ids.size) % places.size]
            given[places] = own
            context = self.context(run, round_, ids, seed)
            trail = self.clients.setup.chain.trail(given, context, step)
            parts.append([(link, before[places], after[places]) for link, before, after in trail])
            first += places.size
        return [
            (same[0][0], np.concatenate([one[1] for one in same]), np.concatenate([one[2] for one in same]))
            for same in zip(*parts, strict=True)
        ]


_PANEL_LISTS, _LISTS, _CLICK_CLIENTS = 12_288, 16_384, 256
_CLICK_MOMENTS = 192  # rounds and local steps
_SEED_MOMENTS = 16  # that are played under another seed too


def check_clicks(
    clients: GameClients, link: Defense, place: int, event: ClickRandomization, interactions: int = 1
) -> Iterator[LawTestResult]:
    """Tests of one link that declares to randomise every click with at most an epsilon, and maybe by a law.

    `place` is that of the link in the chain, which names its streams; B interactions of a client in a round.
    """
    lists = _DrawnLists(link, place, DrawnRounds(clients, interactions, f"clicks/{place}"))
    truth, flips, again = lists.panel()
    R, K, C, L = truth.shape
    alike, rng, epsilon = "randomised clicks are alike in several", lists.drawn.rng, event.epsilon
    yield from _check_answers(truth, flips, epsilon, {
        "round": np.arange(K)[:, np.newaxis, np.newaxis],
        "client": (np.arange(R)[:, np.newaxis] * C + np.arange(C))[:, np.newaxis, :, np.newaxis],
        "place": np.arange(L),
    })  # fmt: skip
    for kind, chance in ((~truth, event.law.unclicked), (truth, event.law.clicked)):
        if event.reported is None:  # then the law says no more than the epsilon
            break
        hits, count = int((flips ^ truth)[kind].sum()), int(kind.sum())
        p = min(upper_tail(hits, count, chance), upper_tail(count - hits, count, 1.0 - chance))
        yield LawTestResult(2.0 * p, "clicks are not reported by the declared law")
    # Of every mechanism a list of fair clicks is reported as it is at most this often.
    whole, most = int((~flips).all(axis=-1).sum()), (1.0 + math.exp(-epsilon)) ** -L
    yield LawTestResult(
        upper_tail(whole, R * K * C, most), "too many lists of clicks are reported as they are"
    )
    counts = [(flips & kind).sum(axis=(0, 1, 2)) / kind.sum(axis=(0, 1, 2)) for kind in (truth, ~truth)]
    expected, axes = np.where(truth, *counts), ("", "round", "client", "place")
    # Rare flips, or their absence, are drawn as often as not: fair bits, if flips are independent.
    rare = np.minimum(expected, 1.0 - expected)
    fair = (flips == (expected <= 0.5)) | (rng.random(flips.shape) * (1.0 - rare) < 0.5 - rare)
    for axis, name in enumerate(axes):
        if name:
            yield from _check_common(columns_of(flips, axis), columns_of(expected, axis), f"{alike} {name}s")
    yield from check_dependence([fair], axes, alike, rng, bits=[flips])
    seeds = "randomised clicks are alike under two seeds of the experiment"
    first = flips[0, : len(again)]
    common, chance = int((first & again).sum()), float((expected[0, : len(again)] ** 2).sum())
    yield LawTestResult(_poisson_tail(common, chance), seeds)
    yield from lists.check_neighbours(epsilon)


class _DrawnLists(NamedTuple):
    """Shows drawn lists and clicks to a link."""

    link: Defense
    place: int
    drawn: DrawnRounds

    @property
    def lengths(self) -> Ints:
        """The different lengths of lists in the data, int64."""
        clients = self.drawn.clients
        parts = (clients.data, clients.setup.collection.train)
        return np.unique(np.concatenate([np.minimum(part.lengths, LIST_LENGTH) for part in parts]))

    def flips(self, truth: Bools, lengths: Ints, run: int, moment: int, ids: Ints, seed: int = 0) -> Bools:
        """Which clicks (C, 10) are reported wrongly, on lists of some lengths (C,) of drawn documents."""
        round_, step = divmod(moment, self.drawn.interactions)
        documents = max(LIST_LENGTH, min(32, int(self.drawn.clients.data.lengths.max())))
        tickets = self.drawn.rng.random((ids.size, documents))
        # A list that is shorter than the page has all documents of its query.
        short = (lengths < LIST_LENGTH)[:, np.newaxis]
        tickets[short & (np.arange(documents) >= lengths[:, np.newaxis])] = 2.0
        there = np.arange(LIST_LENGTH) < lengths[:, np.newaxis]
        shown = np.where(there, np.argsort(tickets, axis=1)[:, :LIST_LENGTH], -1)
        context = self.drawn.context(run, round_, ids, seed)
        context = replace(context, prefix=f"{context.prefix}defense/{self.place}/")
        reported = self.link.on_clicks(truth & there, shown, step, context)
        return np.asarray(reported ^ truth) & there

    @property
    def moments(self) -> int:
        """The number of rounds times local steps of a run."""
        return self.drawn.spec.train.rounds * self.drawn.interactions

    def panel(self) -> tuple[Bools, Bools, Bools]:
        """Fair clicks on full lists, bool (R, K, C, L), and which are reported wrongly.

        R runs of the same K rounds and steps, each with C clients; and those of the first K' and first run
        under another seed, (K', C, L).
        """
        drawn, longest = self.drawn, int(self.lengths.max())
        moments = _some(self.moments, _CLICK_MOMENTS, drawn.rng)
        count = min(_CLICK_CLIENTS, drawn.members)
        runs = max(1, min(_MOST_CALLS, _PANEL_LISTS // count) // moments.size)
        truth = drawn.rng.random((runs, moments.size, count, LIST_LENGTH)) < 0.5
        truth[..., longest:] = False
        flips, again = np.zeros_like(truth), np.zeros_like(truth[0, :_SEED_MOMENTS])
        for run in range(runs):
            cohort, rows = drawn.cohort(), _some(drawn.members, count, drawn.rng)
            for k, moment in enumerate(moments):
                first = 0
                for ids, places in drawn.calls(cohort, rows):
                    own = slice(first, first + places.size)
                    clicks = truth[run, k, own][np.arange(ids.size) % places.size]
                    clicks[places] = truth[run, k, own]
                    lengths = np.full(ids.size, longest)
                    flips[run, k, own] = self.flips(clicks, lengths, run, moment, ids)[places]
                    if run == 0 and k < len(again):
                        again[k, own] = self.flips(clicks, lengths, run, moment, ids, seed=1)[places]
                    first += places.size
        return truth[..., :longest], flips[..., :longest], again[..., :longest]

    def check_neighbours(self, epsilon: float) -> Iterator[LawTestResult]:
        """Tests on lists of any length and number of clicks, which differ in one fair click."""
        drawn, rng = self.drawn, self.drawn.rng
        kinds = []
        for call in range(min(_MOST_CALLS, -(-_LISTS // drawn.members))):
            cohort = drawn.cohort()
            count = drawn.members if call % 2 else int(drawn.members ** rng.random())
            ids = np.sort(rng.choice(cohort, count, replace=False))
            lengths = rng.choice(self.lengths, ids.size)
            beyond = np.arange(LIST_LENGTH) >= lengths[:, np.newaxis]
            order = np.argsort(rng.random(beyond.shape) + beyond, axis=1)
            # that are clicked, without the fair one
            others = (rng.random(ids.size) * lengths).astype(np.int64)
            rows, fair = np.arange(ids.size), order[:, 0]
            truth = np.zeros((ids.size, LIST_LENGTH), dtype=np.bool_)
            np.put_along_axis(truth, order, np.arange(LIST_LENGTH) - 1 < others[:, np.newaxis], axis=1)
            truth[rows, fair] = rng.random(ids.size) < 0.5
            flips = self.flips(truth, lengths, _MOST_CALLS + call, int(rng.integers(self.moments)), ids)
            drawn_round = np.full(ids.size, call)
            kinds.append(np.stack([truth[rows, fair], flips[rows, fair], lengths, others, fair, drawn_round]))
        clicked, flipped, lengths, others, fair, rounds = np.concatenate(kinds, axis=1)
        number = lengths * (LIST_LENGTH + 1) + others
        labels = {"place": fair, "length": lengths, "number of clicks": number, "round": rounds}
        yield from _check_answers(clicked == 1, flipped == 1, epsilon, labels)


def _check_answers(
    truth: Bools, flips: Bools, epsilon: float, labels: Mapping[str, Ints]
) -> Iterator[LawTestResult]:
    """Whether reports tell more of fair clicks than declared: of all, and of those with each label.

    Under epsilon-DP a report is right with a probability of at most e^epsilon / (1 + e^epsilon), whatever it
    says.
    """
    from scipy.special import bdtrc

    most = 1.0 / (1.0 + math.exp(-epsilon))
    for name, label in {"": np.zeros(1, np.int64), **labels}.items():
        kind = np.broadcast_to(label, truth.shape)
        where = f" for one {name}" if name else ""
        for answer in (False, True):
            given = (truth ^ flips) == answer
            told = np.bincount(kind[given], minlength=1)
            right = np.bincount(kind[given & ~flips], minlength=told.size)
            tails = np.where(right > 0, bdtrc(right - 1.0, told, most), 1.0)
            share = float(right.sum() / max(1, told.sum()))
            problem = f"clicks show more than is declared{where}: {100 * share:.3g} % of reports are right"
            yield LawTestResult(min(1.0, float(tails.min()) * tails.size), problem)


def _check_common(flips: Bools, expected: Floats, found: str) -> Iterator[LawTestResult]:
    """Whether any two columns of flips (N, d) have more in common than a Poisson number by chance."""
    some = np.unique(np.linspace(0, flips.shape[1] - 1, PAIRED).astype(np.int64))
    given, rates = flips[:, some].astype(np.float32), expected[:, some]
    pairs = np.triu_indices(some.size, 1)
    if pairs[0].size:
        tails = _poisson_tail((given.T @ given)[pairs], (rates.T @ rates)[pairs])
        yield LawTestResult(min(1.0, float(np.min(tails)) * pairs[0].size), found)


def _poisson_tail(seen: Any, expected: Any) -> Any:
    from scipy.special import pdtrc

    return np.where(np.asarray(seen) > 0, pdtrc(np.asarray(seen) - 1.0, expected), 1.0)


_ROWS = 4096  # messages for each input
_NUMBERS = 2_000_000  # numbers of their messages at most, 16 MB
_ROUNDS = 384  # of all inputs together
_FEWEST, _MOST = 8, 64  # clients whose noise of many rounds is compared; and rounds of an input
_WHOLE = 4  # rounds in which all of a cohort is compared
_FAR = 1e3  # radii from the centre at which a bound is tested
_COPIES, _NOISY_COPIES = 32, 96  # clients with the same model, more where noise hides whether a bound holds
_COARSE = 0.05  # of the scale: random rounding by more would change the law


class _LinkNoise(NamedTuple):
    """Noise of one link.

    Attributes:
        noise: of R runs, K rounds or local steps, and C clients, float64 (R, K, C, P).
        again: of the first rounds of the first run under another seed, (K', C, P).
        resolution: how far off rounding may have put a number.
    """

    noise: Floats
    again: Floats
    resolution: float


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
        self._inputs = 0

    def run(self, inputs: Sequence[LinkTestInput]) -> None:
        """Test the links on all inputs; results are stored by the id of each link."""
        rounds = max(_MOST, min(2 * _MOST, _ROUNDS // max(1, sum(len(given.models) for given in inputs))))
        for given in inputs:
            for model, where in zip(given.models, given.where, strict=True):
                self._check_noise(self._drawn(given), model, where, rounds)
            self._check_bounds(given)

    def _drawn(self, given: LinkTestInput) -> DrawnRounds:
        self._inputs += 1
        return DrawnRounds(given.clients, self.interactions, str(self._inputs))

    def _check_noise(self, drawn: DrawnRounds, model: Floats, where: str, rounds: int) -> None:
        """Test noise of some clients in many rounds and another seed, of whole cohorts, and of one client."""
        rounds = max(_FEWEST, min(rounds, _NUMBERS // (_FEWEST * model.size)))
        clients = min(drawn.members, max(_FEWEST, min(_MOST, _NUMBERS // (rounds * model.size))))
        axes, alone = ("", "round", "client", "coordinate"), ("", "", "client", "coordinate")
        for link, drawn_noise, law, table in self._lawful(self.draw_noise(drawn, model, rounds, clients)):
            noise, again, resolution = drawn_noise
            draws = NoiseDraws(noise, f"for {where}", resolution, axes)
            tests = self.tests.setdefault(link, [])
            tests += check_noise(draws, law, table, drawn.rng)
            tests += check_summed(draws, law)
            seeds = f"noise for {where} is alike under two seeds of the experiment"
            tests += check_pair(noise[0, : len(again)], again, table, seeds)
        sizes = [(_WHOLE, drawn.members)] if clients < drawn.members else []
        if self._only_noise:
            for few_rounds, size in (*sizes, (rounds, 1)):
                others = self.draw_noise(drawn, model, few_rounds, size, once=True)
                for link, (noise, _, resolution), law, table in self._lawful(others):
                    draws = NoiseDraws(noise, f"of cohorts of {size} for {where}", resolution, alone)
                    self.tests[link] += check_distribution(draws, law, table)
                    self.tests[link] += check_summed(draws, law)

    @cached_property
    def _noisy(self) -> dict[int, list[PrivacyEvent]]:
        """The events of the links that declare noise."""
        return {
            link: events
            for link, events in self.events.items()
            if any(isinstance(event, NoiseAddition) for event in events)
        }

    @property
    def _only_noise(self) -> bool:
        """Whether no link does something unknown to a message before it adds noise."""
        return all(len(events) == 1 or _rounds_before(events) for events in self._noisy.values())

    def draw_noise(
        self, drawn: DrawnRounds, model: Floats, rounds: int, clients: int, *, once: bool = False
    ) -> dict[int, _LinkNoise]:
        """What each link that declares noise adds to messages of some clients in some rounds, by its id.

        In as many runs as tests need, or `once`, in cohorts of just these clients.
        """
        chain, rng = drawn.clients.setup.chain, drawn.rng
        in_steps = {id(link) for link in chain.links("step")} & self._noisy.keys()
        count = min(2, self.interactions) if in_steps else 1
        moments = [
            (round_, int(step), number == 0)
            for round_ in drawn.rounds(max(1, rounds // count)).tolist()
            for number, step in enumerate(np.sort(rng.choice(self.interactions, count, replace=False)))
        ]
        messages = min(_ROWS, _NUMBERS // model.size, _MOST_CALLS * clients)
        runs = 1 if once else max(1, messages // (clients * len(moments)))
        most = _NUMBERS / (runs * len(moments) * drawn.members * model.size)
        full = float(clients == drawn.members) if once else min(1 / 3, most)
        seen: dict[int, tuple[list[Floats], list[Floats], list[Floats], list[Floats]]] = {}
        for run in range(runs):
            cohort, rows = drawn.cohort(), _some(drawn.members, clients, rng)
            for number, (round_, step, first) in enumerate(moments):
                models, calls = self._models(drawn, model, clients), drawn.calls(cohort, rows, full)
                for seed in (0, 1) if run == 0 and number < _SEED_MOMENTS else (0,):
                    for link, before, after in drawn.trail(models, run, round_, calls, step, seed):
                        if id(link) in (self._noisy if first else in_steps):
                            kept = seen.setdefault(id(link), ([], [], [], []))
                            kept[2 * seed].append(before)
                            kept[2 * seed + 1].append(after)
        noise_of_link = {}
        for owner in (each for each in chain.defenses if id(each) in seen):
            befores, afters, more_befores, more_afters = seen[id(owner)]
            given, sent = np.concatenate(befores + more_befores), np.concatenate(afters + more_afters)
            centre = self._centre(owner, self._noisy[id(owner)], given, sent)
            if centre is not None:
                noise, first_rows = sent - centre, len(befores) * clients
                noise_of_link[id(owner)] = _LinkNoise(
                    noise[:first_rows].reshape(runs, -1, clients, model.size),
                    noise[first_rows:].reshape(-1, clients, model.size),
                    _resolution(given, sent),
                )
        return noise_of_link

    def _models(self, drawn: DrawnRounds, model: Floats, clients: int) -> Floats:
        """Local models (C, P): the given one and, of about every second client, drawn ones.

        All of them the given one where a mean must tell what a link does before it adds noise.
        """
        models = np.tile(model, (clients, 1))
        if self._only_noise:
            others = drawn.rng.random(clients) < 0.5
            spread = np.abs(model - drawn.clients.parameters).max() or 0.1
            changes = drawn.rng.normal(size=(int(others.sum()), model.size))
            sizes = spread * 10.0 ** drawn.rng.uniform(-4.0, 0.0, (len(changes), 1))
            models[others] = drawn.clients.parameters + sizes * changes
        return models

    def _centre(
        self, link: Defense, events: Sequence[PrivacyEvent], before: Floats, after: Floats
    ) -> Floats | None:
        """A link's output without its noise; None where it cannot be determined.

        Where a link does something else before it adds noise, this is its mean output over all clients.
        """
        if not isinstance(events[-1], NoiseAddition):
            self.not_looked[id(link)] = f"{link.name} does something after its noise"
            return None
        if len(events) == 1:
            return before
        if _rounds_before(events):
            step = cast(GridRounding, events[0]).step
            return np.asarray(step * np.rint(before / step))
        if np.any(before != before[0]):
            self.not_looked[id(link)] = f"{link.name} does more than add noise, behind other noise"
            return None
        if before.shape[1] > before.shape[0]:
            self.not_looked[id(link)] = f"messages are too long to see what {link.name} does before its noise"
            return None
        steps = [event.step for event in events if isinstance(event, GridRounding)]
        if max(steps, default=0.0) > _COARSE * events[-1].law.scale:
            self.not_looked[id(link)] = f"{link.name} rounds so coarsely that its noise cannot be separated"
            return None
        return np.broadcast_to(after.mean(axis=0), after.shape)

    def _lawful(
        self, drawn: dict[int, _LinkNoise]
    ) -> Iterator[tuple[int, _LinkNoise, AdditiveNoise, LawTable]]:
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
        copies = _NOISY_COPIES if self._noisy else min(_COPIES, max(4, _NUMBERS // models.size))
        drawn = self._drawn(given)
        full = min(1 / 8, _NUMBERS / (copies * drawn.members * P))
        seen: dict[int, tuple[Defense, list[Floats], list[Floats]]] = {}
        for copy in range(copies):
            cohort, step = drawn.cohort(), int(drawn.rng.integers(self.interactions))
            (round_,) = drawn.rounds(1).tolist()
            for first in range(0, len(models), drawn.members):
                some = models[first : first + drawn.members]
                calls = drawn.calls(cohort, _some(drawn.members, len(some), drawn.rng), full)
                run = copy * len(models) + first
                for link, before, after in drawn.trail(some, run, round_, calls, step):
                    kept = seen.setdefault(id(link), (link, [], []))
                    kept[1].append(before)
                    kept[2].append(after)
        for link, *sides in seen.values():
            events = self.events.get(id(link), [])
            if events and not any(isinstance(event, ClickRandomization) for event in events):
                # the copies of each model one after the other
                before, after = (
                    np.concatenate(side).reshape(copies, -1, P).swapaxes(0, 1).reshape(-1, P)
                    for side in sides
                )
                tests = self.tests.setdefault(id(link), [])
                tests += check_balls(events, after, clients.parameters, copies)
                tests += check_grid(events, after)
                tests += check_scaling(events, before, after, clients.parameters)


def _rounds_before(events: Sequence[PrivacyEvent]) -> bool:
    """Whether a link rounds to the nearest point of a grid, and then adds noise."""
    return len(events) == 2 and isinstance(events[0], GridRounding) and events[0].nearest


def _resolution(before: Floats, after: Floats) -> float:
    """The rounding error of what is added to messages: a unit in the last place.

    Of a link that computes in float32 the messages themselves are rounded.
    """
    largest = np.maximum(np.abs(before).max(), np.abs(after).max())
    single = np.array_equal(after, after.astype(np.float32))
    return float(np.spacing(largest.astype(np.float32) if single else largest))


_FEWEST_SUMS, _SUMMED_NUMBERS = 256, 1 << 14  # that are tested: each is a sum over all clients
_RUN_ROUNDS = 2048  # of each run, at most
_FEWEST_RUNS, _RUN_CALLS, _RUN_NUMBERS = 4, 2048, 40_000
_FLOAT32, _FLOAT64 = 2.0**-24, 2.0**-53  # relative, of a message in that format


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
        draws = NoiseDraws(
            noise, f"in the sum over {members - 1} other clients", resolution, ("trial", "coordinate")
        )
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
    precision = _FLOAT64 if session.setup.spec.trace.dtype == "float64" else _FLOAT32
    laws = [event.law for _, event in session.acts if isinstance(event, NoiseAddition)]
    size = max([1.0, *(float(np.sqrt(law.variance)) for law in laws)])
    return float(precision * size * np.sqrt(members))


def check_sum_noise(
    link: Defense, event: CorrelatedNoise, clients: GameClients, place: int, interactions: int = 1
) -> Iterator[LawTestResult]:
    """Test the noise that a link adds to the sums of all rounds, in runs of several seeds.

    What C makes of it must be independent noise of the declared sigma in each round and run; see
    `foltr_audit.privacy.noise.gaussian`.
    """
    law, drawn = Gaussian(sigma=event.sigma), DrawnRounds(clients, interactions, f"sums/{place}")
    table, size = law_table(law), clients.parameters.size
    rounds = min(drawn.spec.train.rounds, _RUN_ROUNDS)
    runs = max(_FEWEST_RUNS, _RUN_CALLS // rounds, _RUN_NUMBERS // (rounds * size))
    noise = np.empty((rounds, runs, size))
    messages = np.zeros((0 if clients.setup.chain.encoding else drawn.members, size))
    for run in range(runs):
        for round_ in range(rounds):
            context = drawn.context(run, round_, drawn.cohort())
            weights = context.counts / context.counts.sum()
            context = replace(context, prefix=f"defense/{place}/")
            noise[round_, run] = link.on_aggregate(np.zeros(size), messages, weights, context) / weights.max()
    independent = hidden_rows(noise.reshape(rounds, -1), event.bands).reshape(noise.shape)
    if table is not None:
        where, resolution = "in the sum, less that of rounds before,", float(_FLOAT32 * np.abs(noise).max())
        draws = NoiseDraws(independent, where, resolution, ("round", "", "coordinate"))
        yield from check_noise(draws, law, table, drawn.rng)
        yield from check_summed(draws, law)


_RANDOM = NoiseAddition | ClickRandomization | CorrelatedNoise
_OURS = "foltr_audit."  # modules

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

    @property
    def believed(self) -> list[str]:
        """Names of links that are not of foltr-audit: tests see only a part of what these do."""
        links = (link for link, event in self.acts if not isinstance(event, OpaqueChange))
        return list(dict.fromkeys(each.name for each in links if not type(each).__module__.startswith(_OURS)))

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
                check_clicks(clients, link, place, events[0], interactions)
            )
        for event in (event for other, event in acts if other is link and isinstance(event, CorrelatedNoise)):
            links.tests.setdefault(id(link), []).extend(
                check_sum_noise(link, event, clients, place, interactions)
            )
    names = {id(link): link.name for link in clients.setup.chain.defenses}
    among = sum(len(tests) for tests in links.tests.values())
    failures = {names[link]: failure(tests, among) for link, tests in links.tests.items()}
    broken = {name: why for name, why in failures.items() if why is not None} | _find_changing(
        clients, interactions
    )
    random = {id(link) for link, event in acts if isinstance(event, _RANDOM)}
    return DeclarationCheck(
        broken=broken,
        not_looked={names[link]: why for link, why in links.not_looked.items()},
        links=len(random),
        acts=_as_opaque(acts, broken),
    )


def _find_changing(clients: GameClients, interactions: int) -> dict[str, str]:
    """Links whose declaration depends on round or cohort: proofs use that of the first round for all."""
    drawn = DrawnRounds(clients, interactions, "events")
    first = clients.context(0, np.empty(0, np.int64))
    others = [drawn.context(0, round_, drawn.cohort()) for round_ in drawn.rounds(2 * _MOST).tolist()]
    return {
        link.name: "what it declares changes from round to round"
        for link in clients.setup.chain.defenses
        if any(events_of(link, first) != events_of(link, other) for other in others)
    }


def _as_opaque(acts: Acts, broken: Mapping[str, str]) -> Acts:
    return tuple(
        (link, OpaqueChange(mechanism=link.name) if link.name in broken else event) for link, event in acts
    )
