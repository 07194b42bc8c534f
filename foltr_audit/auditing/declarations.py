"""Whether the links of a chain do what they declare, so that proofs may rely on it.

A link is called as in rounds of training, which are drawn anew for each audit from all that the Spec allows,
and its outputs are compared with its events. Noise must follow the declared law for every input, and must be
independent for each coordinate, client, round and local step, and come from the experiment's own streams;
also noise in sums, and that of clicks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from foltr_audit.auditing.canaries import Canary
from foltr_audit.auditing.law_tests import (
    PAIRED,
    RESOLVED,
    LawTable,
    LawTestResult,
    NoiseDraws,
    check_dependence,
    check_distribution,
    check_noise,
    check_outputs,
    columns_of,
    failure,
    fair_bits,
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
_SEED_MOMENTS = 16  # rounds and local steps that are played under another seed too
_SEED = "seed of the experiment"


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
        self.under = f"audit/law/{test}"
        self.spec = clients.setup.spec
        self.rng = clients.setup.streams.generator(self.under)
        # as many messages as training has in memory at once
        most = max(1, _BLOCK // clients.parameters.size)
        self.members = min(self.spec.population.cohort_size, most)

    def rounds(self, count: int) -> list[int]:
        return [int(round_) for round_ in _some(self.spec.train.rounds, count, self.rng)]

    def cohort(self, count: int | None = None) -> Ints:
        """Ids of a cohort, or of so many of its clients that are played at once, rising, int64 (C,)."""
        size = self.members if count is None else count
        return np.sort(self.rng.choice(self.spec.population.clients, size, replace=False))

    def context(
        self, run: int, round_: int, ids: Ints, seed: int = 0, link: int | None = None
    ) -> RoundContext:
        """A round for these clients, in one of several runs, under another seed by `seed`; of one link."""
        under = f"{self.under}/{run}/"
        context = self.clients.context(round_, ids, under, self.interactions)
        if seed:
            other = Streams(self.spec.seed + seed, self.spec.repetition).under(under)
            context = context.having(source=other)
        return context if link is None else context.having(prefix=f"{context.prefix}defense/{link}/")

    def in_calls(
        self,
        given: Any,
        cohort: Ints,
        rows: Ints,
        act: Callable[[Any, Ints], Any],
        full: float = 1 / 3,
    ) -> Any:
        """What `act` makes of rows (C, ...) that the clients at some places of a cohort are given.

        They are called with all of the cohort, or they alone, at once or one part after the other.
        """
        which, parts, first = self.rng.random(), [], 0
        cut = int(rows.size ** self.rng.random()) if which > 0.5 * (1 + full) else 0
        calls = [(cohort[part], np.arange(part.size)) for part in (rows[:cut], rows[cut:]) if part.size]
        for ids, places in [(cohort, rows)] if which < full else calls:
            own = given[first : first + places.size]
            filled = own[np.arange(ids.size) % places.size]
            filled[places] = own
            parts.append(act(filled, ids)[places])
            first += places.size
        return np.concatenate(parts)


_PANEL_LISTS, _LISTS, _CLICK_CLIENTS = 12_288, 16_384, 256
_CLICK_MOMENTS = 192  # rounds and local steps


def check_clicks(
    link: Defense, place: int, event: ClickRandomization, drawn: DrawnRounds
) -> Iterator[LawTestResult]:
    """Tests of one link that declares to randomise every click with at most an epsilon, and maybe by a law.

    `place` is that of the link in the chain, which names its streams.
    """
    from scipy.special import pdtrc

    lists = _DrawnLists(link, place, drawn)
    truth, flips, again = lists.panel()
    R, K, C, L = truth.shape
    alike, rng, epsilon = "randomised clicks are alike in several", drawn.rng, event.epsilon
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
    counts = [(flips & kind).sum(axis=(0, 1, 2)) / kind.sum(axis=(0, 1, 2)) for kind in (truth, ~truth)]
    expected, axes = np.where(truth, *counts), ("", "round", "client", "place")
    # Rare flips, or their absence, are drawn as often as not: fair bits, if flips are independent.
    rare = np.minimum(expected, 1.0 - expected)
    fair = (flips == (expected <= 0.5)) | (rng.random(flips.shape) * (1.0 - rare) < 0.5 - rare)
    common = [(columns_of(flips, axis), columns_of(expected, axis), axes[axis]) for axis in (1, 2, 3)]
    seeds = np.stack([flips[0, : len(again)], again], axis=-1), expected[0, : len(again), ..., np.newaxis]
    common.append((columns_of(seeds[0], 3), columns_of(np.repeat(seeds[1], 2, axis=-1), 3), _SEED))
    for seen, rates, name in common:
        # Whether any two columns of flips (N, d) have more in common than a Poisson number by chance.
        some = np.unique(np.linspace(0, seen.shape[1] - 1, PAIRED).astype(np.int64))
        pairs = np.triu_indices(some.size, 1)
        if pairs[0].size:
            given, chances = seen[:, some].astype(np.float32), rates[:, some]
            both, most_often = (given.T @ given)[pairs], (chances.T @ chances)[pairs]
            tails = np.where(both > 0, pdtrc(both - 1.0, most_often), 1.0)
            yield LawTestResult(min(1.0, float(np.min(tails)) * pairs[0].size), f"{alike} {name}s")
    yield from check_dependence([fair], axes, alike, rng, bits=[flips])
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
        context = self.drawn.context(run, round_, ids, seed, link=self.place)
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
                seeds = (0, 1) if run == 0 and k < len(again) else (0,)
                act = partial(self._full_lists, longest, run, moment, seeds)
                seen = drawn.in_calls(truth[run, k], cohort, rows, act)
                flips[run, k] = seen[:, 0]
                if len(seeds) > 1:
                    again[k] = seen[:, 1]
        return truth[..., :longest], flips[..., :longest], again[..., :longest]

    def _full_lists(
        self, length: int, run: int, moment: int, seeds: Sequence[int], clicks: Bools, ids: Ints
    ) -> Bools:
        """See `flips`, for lists of one length under some seeds, bool (C, seeds, 10)."""
        lengths = np.full(ids.size, length)
        return np.stack([self.flips(clicks, lengths, run, moment, ids, seed) for seed in seeds], axis=1)

    def check_neighbours(self, epsilon: float) -> Iterator[LawTestResult]:
        """Tests on lists of any length and number of clicks, which differ in one fair click."""
        drawn, rng = self.drawn, self.drawn.rng
        kinds = []
        for call in range(min(_MOST_CALLS, -(-_LISTS // drawn.members))):
            ids = drawn.cohort(drawn.members if call % 2 else int(drawn.members ** rng.random()))
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


_ROWS = 4096  # messages for each input
_NUMBERS = 2_000_000  # numbers of their messages at most, 16 MB
_ROUNDS = 384  # of all inputs together
_FEWEST, _MOST = 8, 64  # clients whose noise of many rounds is compared; and rounds of an input
_WHOLE = 4  # rounds in which all of a cohort is compared
_FAR = 1e3  # radii from the centre at which a bound is tested
_COPIES, _NOISY_COPIES = 32, 96  # clients with the same model, more where noise hides whether a bound holds
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
        where = [f"a client that learns nothing, {name} model"]
        return cls(clients=clients, models=clients.parameters[np.newaxis], where=where)

    @classmethod
    def of_canary(cls, name: str, clients: GameClients, canary: Canary) -> LinkTestInput:
        """Both inputs of a canary, without the noise of its local steps."""
        local = canary.play(clients, np.arange(2), clients.context(0, np.arange(2)), clients.quiet)
        where = [f"input {number} of {canary.name}, {name} model" for number in (0, 1)]
        return cls(clients=clients, models=local.models, where=where)


Acts = Sequence[tuple[Defense, PrivacyEvent]]


class _NoisyLink(NamedTuple):
    """A link that declares one noise, and nothing after it, of a law that can be tested."""

    link: Defense
    before: Sequence[PrivacyEvent]
    law: AdditiveNoise
    table: LawTable

    @property
    def rounds_before(self) -> float:
        """The step of a grid to whose nearest point it rounds before its noise, and does no more; or 0."""
        event = self.before[0] if len(self.before) == 1 else None
        return event.step if isinstance(event, GridRounding) and event.nearest else 0.0

    def why_not(self, before: Floats) -> str | None:
        """Why its noise cannot be told from its output alone, for models before it (C, P)."""
        steps = [event.step for event in self.before if isinstance(event, GridRounding)]
        if np.any(before != before[0]):
            return f"{self.link.name} does more than add noise, behind other noise"
        if before.shape[1] > before.shape[0]:
            return f"messages are too long to see what {self.link.name} does before its noise"
        if max(steps, default=0.0) > _COARSE * self.law.scale:
            return f"{self.link.name} rounds so coarsely that its noise cannot be separated"
        return None


def _trails(
    drawn: DrawnRounds, moment: tuple[int, int, int], seeds: Sequence[int], models: Floats, ids: Ints
) -> Floats:
    """Models (C, P) before and after each link of step and message stage, (C, seeds, links, 2, P).

    Of clients with some ids in a run, a round and a local step, under some seeds.
    """
    run, round_, step = moment
    contexts = [drawn.context(run, round_, ids, seed) for seed in seeds]
    chain = drawn.clients.setup.chain
    sides = [[side for _, *side in chain.trail(models, context, step)] for context in contexts]
    return np.array(sides).reshape(len(seeds), len(sides[0]), 2, *models.shape).transpose(3, 0, 1, 2, 4)


class LinkTests:
    """The tests of the links of step and message stage on some inputs, by the id of each link."""

    def __init__(self, acts: Acts, interactions: int = 1) -> None:
        """`acts` are the events of a chain with the link of each; B interactions behind each message."""
        self.interactions = interactions
        self.events: dict[int, list[PrivacyEvent]] = {}
        self.tests: dict[int, list[LawTestResult]] = {}
        self.not_looked: dict[int, str] = {}
        self.noisy: dict[int, _NoisyLink] = {}
        self.only_noise = True  # no link does something unknown to a message before it adds noise
        self._inputs = 0
        for link, event in acts:
            self.events.setdefault(id(link), []).append(event)
        for link in {id(link): link for link, _ in acts}.values():
            self._learn(link, self.events[id(link)])

    def _learn(self, link: Defense, events: Sequence[PrivacyEvent]) -> None:
        """Whether the noise of a link can be looked at."""
        laws = [event.law for event in events if isinstance(event, NoiseAddition)]
        if not laws:
            return
        table, why = law_table(laws[0]), ""
        if len(laws) > 1:
            why = "it adds several noises at once"
        elif not isinstance(events[-1], NoiseAddition):
            why = f"{link.name} does something after its noise"
        elif table is None:
            why = f"the density of {laws[0].text} does not integrate to 1"
        else:
            self.noisy[id(link)] = noisy = _NoisyLink(link, events[:-1], laws[0], table)
        if why:
            self.not_looked[id(link)] = why
        self.only_noise &= len(events) == 1 or (not why and noisy.rounds_before > 0)

    def run(self, inputs: Sequence[LinkTestInput]) -> None:
        """Test the links on all inputs."""
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
        for noisy, noise, again, resolution in self._draw(drawn, model, rounds, clients):
            tests = self.tests.setdefault(id(noisy.link), [])
            draws = NoiseDraws(noise, f"for {where}", resolution, axes)
            tests += check_noise(draws, noisy.law, noisy.table, drawn.rng)
            bits = fair_bits(np.stack([noise[0, : len(again)], again]), noisy.table, drawn.rng)
            tests += check_dependence(bits, (_SEED, ""), f"noise for {where} is alike in several", drawn.rng)
        sizes = [(_WHOLE, drawn.members)] if clients < drawn.members else []
        for few_rounds, size in (*sizes, (rounds, 1)) if self.only_noise else ():
            for noisy, noise, _, resolution in self._draw(drawn, model, few_rounds, size, once=True):
                draws = NoiseDraws(noise, f"of cohorts of {size} for {where}", resolution, alone)
                self.tests[id(noisy.link)] += check_distribution(draws, noisy.law, noisy.table)

    def _draw(
        self, drawn: DrawnRounds, model: Floats, rounds: int, clients: int, *, once: bool = False
    ) -> Iterator[tuple[_NoisyLink, Floats, Floats, float]]:
        """Each link that adds noise, with its noise of R runs, K rounds or steps and C clients, (R, K, C, P).

        Also that of the first rounds of the first run under another seed, (K', C, P), and how far off
        rounding may have put a number. In as many runs as tests need, or `once`, in cohorts of just these
        clients.
        """
        if not self.noisy:
            return
        chain, rng = drawn.clients.setup.chain, drawn.rng
        links = [*chain.links("step"), *chain.links("message")]
        in_steps = {id(link) for link in chain.links("step")} & self.noisy.keys()
        count = min(2, self.interactions) if in_steps else 1
        moments = [
            (round_, int(step), self.noisy.keys() if number == 0 else in_steps)
            for round_ in drawn.rounds(max(1, rounds // count))
            for number, step in enumerate(np.sort(rng.choice(self.interactions, count, replace=False)))
        ]
        messages = min(_ROWS, _NUMBERS // model.size, _MOST_CALLS * clients)
        runs = 1 if once else max(1, messages // (clients * len(moments)))
        most = _NUMBERS / (runs * len(moments) * drawn.members * model.size)
        full = float(clients == drawn.members) if once else min(1 / 3, most)
        seen: dict[int, tuple[list[Floats], list[Floats]]] = {link: ([], []) for link in self.noisy}
        for run in range(runs):
            cohort, rows = drawn.cohort(), _some(drawn.members, clients, rng)
            for number, (round_, step, wanted) in enumerate(moments):
                seeds = (0, 1) if run == 0 and number < _SEED_MOMENTS else (0,)
                act = partial(_trails, drawn, (run, round_, step), seeds)
                made = drawn.in_calls(self._models(drawn, model, clients), cohort, rows, act, full)
                for seed, (place, link) in product(seeds, enumerate(links)):
                    if id(link) in wanted:
                        seen[id(link)][seed].append(made[:, seed, place])
        for number, (usual, again) in seen.items():
            given, sent = np.concatenate([*usual, *again]).swapaxes(0, 1)
            noise = self._noise(self.noisy[number], given, sent)
            if noise is not None:
                largest = np.maximum(np.abs(given).max(), np.abs(sent).max())
                # Of a link that computes in float32 the messages themselves are rounded.
                single = np.array_equal(sent, sent.astype(np.float32))
                resolution = float(np.spacing(largest.astype(np.float32) if single else largest))
                here, other = np.split(noise, [len(usual) * clients])
                shape = (-1, clients, model.size)
                yield self.noisy[number], here.reshape(runs, *shape), other.reshape(shape), resolution

    def _noise(self, noisy: _NoisyLink, given: Floats, sent: Floats) -> Floats | None:
        """What a link's output has beside its output without noise; None where this cannot be determined."""
        if not noisy.before:
            return sent - given
        if noisy.rounds_before:
            return np.asarray(sent - noisy.rounds_before * np.rint(given / noisy.rounds_before))
        why = noisy.why_not(given)
        if why is not None:
            self.not_looked[id(noisy.link)] = why
            return None
        return np.asarray(sent - sent.mean(axis=0))  # its mean output over all clients

    def _models(self, drawn: DrawnRounds, model: Floats, clients: int) -> Floats:
        """Local models (C, P): the given one and, of about every second client, drawn ones.

        All of them the given one where a mean must tell what a link does before it adds noise.
        """
        models = np.tile(model, (clients, 1))
        if self.only_noise:
            others = drawn.rng.random(clients) < 0.5
            spread = np.abs(model - drawn.clients.parameters).max() or 0.1
            changes = drawn.rng.normal(size=(int(others.sum()), model.size))
            sizes = spread * 10.0 ** drawn.rng.uniform(-4.0, 0.0, (len(changes), 1))
            models[others] = drawn.clients.parameters + sizes * changes
        return models

    def _check_bounds(self, given: LinkTestInput) -> None:
        """Test every link on the inputs, and on models far outside every declared ball."""
        clients, P = given.clients, given.models.shape[1]
        axes = np.concatenate([np.eye(P)[:1], np.ones((1, P)), -np.eye(P)[-1:]])
        declared = [event for events in self.events.values() for event in events]
        balls = [event.norm * _FAR for event in declared if isinstance(event, NormBound)]
        far = [axes * size for size in (1.0, *balls)]
        models = np.concatenate([given.models, clients.parameters + np.concatenate(far)])
        noisy = any(isinstance(event, NoiseAddition) for event in declared)
        copies = _NOISY_COPIES if noisy else min(_COPIES, max(4, _NUMBERS // models.size))
        drawn, chain = self._drawn(given), clients.setup.chain
        full = min(1 / 8, _NUMBERS / (copies * drawn.members * P))
        links = [*chain.links("step"), *chain.links("message")]
        seen = []
        for copy in range(copies):
            cohort, step = drawn.cohort(), int(drawn.rng.integers(self.interactions))
            (round_,) = drawn.rounds(1)
            for first in range(0, len(models), drawn.members):
                some = models[first : first + drawn.members]
                rows = _some(drawn.members, len(some), drawn.rng)
                act = partial(_trails, drawn, (copy * len(models) + first, round_, step), (0,))
                seen.append(drawn.in_calls(some, cohort, rows, act, full)[:, 0])
        # the copies of each model one after the other
        every = np.concatenate(seen).reshape(copies, len(models), len(links), 2, P).transpose(2, 3, 1, 0, 4)
        for place, link in enumerate(links):
            events = self.events.get(id(link), [])
            if events and not any(isinstance(event, ClickRandomization) for event in events):
                before, after = every[place].reshape(2, -1, P)
                tests = self.tests.setdefault(id(link), [])
                tests += check_outputs(events, before, after, clients.parameters, copies)


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
    noisy = [(link, event.law) for link, event in session.acts if isinstance(event, NoiseAddition)]
    if session.noise_of(members).law is None or len(noisy) != 1:
        return SumTest()
    (link, each), setup, others = noisy[0], session.setup, session.games.others
    law = each.summed(members - 1)
    table = law_table(law)
    encoding, deviation = setup.chain.encoding, max(1.0, float(np.sqrt(each.variance)))
    error = deviation * (_FLOAT64 if setup.spec.trace.dtype == "float64" else _FLOAT32)
    resolution = float((error if encoding is None else encoding.error) * np.sqrt(members))
    if table is None or np.sqrt(law.variance) < RESOLVED * resolution:  # it drowns in the rounding
        return SumTest()
    count = max(_FEWEST_SUMS, _SUMMED_NUMBERS // session.clients.parameters.size)
    trials = np.arange(min(session.at_once, count))
    sums = [others.sums(members, message, trials, played=True) for message in range(session.games.messages)]
    axes, where = ("round", "trial", "coordinate"), f"in the sum over {members - 1} other clients"
    draws = NoiseDraws(np.stack(sums), where, resolution, axes)
    tests = list(check_noise(draws, law, table, setup.streams.generator("audit/law/sums")))
    why = failure(tests, len(tests))
    return SumTest(law=law) if why is None else SumTest(failed=(link.name, why))


def check_sum_noise(
    link: Defense, place: int, event: CorrelatedNoise, drawn: DrawnRounds
) -> Iterator[LawTestResult]:
    """Test the noise that a link adds to the sums of all rounds, in runs of several seeds.

    What C makes of it must be independent noise of the declared sigma in each round and run; see
    `foltr_audit.privacy.noise.gaussian`.
    """
    clients, law = drawn.clients, Gaussian(sigma=event.sigma)
    table, size = law_table(law), clients.parameters.size
    rounds = min(drawn.spec.train.rounds, _RUN_ROUNDS)
    runs = max(_FEWEST_RUNS, _RUN_CALLS // rounds, _RUN_NUMBERS // (rounds * size))
    noise = np.empty((rounds, runs, size))
    messages = np.zeros((0 if clients.setup.chain.encoding else drawn.members, size))
    for run in range(runs):
        for round_ in range(rounds):
            context = drawn.context(run, round_, drawn.cohort(), link=place)
            weights = context.counts / context.counts.sum()
            noise[round_, run] = link.on_aggregate(np.zeros(size), messages, weights, context) / weights.max()
    independent = hidden_rows(noise.reshape(rounds, -1), event.bands).reshape(noise.shape)
    if table is not None:
        where, resolution = "in the sum, less that of rounds before,", float(_FLOAT32 * np.abs(noise).max())
        draws = NoiseDraws(independent, where, resolution, ("round", "", "coordinate"))
        yield from check_noise(draws, law, table, drawn.rng)


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
        foreign = (link for link in links if not type(link).__module__.startswith("foltr_audit."))
        return list(dict.fromkeys(link.name for link in foreign))

    def with_broken(self, broken: Mapping[str, str]) -> DeclarationCheck:
        """The same with more links that do not do what they declare, and why, by their names."""
        acts = tuple(
            (link, OpaqueChange(mechanism=link.name) if link.name in broken else event)
            for link, event in self.acts
        )
        return replace(self, broken={**broken, **self.broken}, acts=acts)


def check_declarations(
    acts: Acts, clients: GameClients, inputs: Sequence[LinkTestInput], interactions: int = 1
) -> DeclarationCheck:
    """Test all links of a chain, with its events, on some inputs; B interactions behind each message."""
    links, chain = LinkTests(acts, interactions), clients.setup.chain.defenses
    links.run(inputs)
    for place, link in enumerate(chain):
        tests = links.tests.setdefault(id(link), [])
        for event in links.events.get(id(link), []):
            if isinstance(event, ClickRandomization):
                tests += check_clicks(
                    link, place, event, DrawnRounds(clients, interactions, f"clicks/{place}")
                )
            if isinstance(event, CorrelatedNoise):
                tests += check_sum_noise(
                    link, place, event, DrawnRounds(clients, interactions, f"sums/{place}")
                )
    among = sum(len(tests) for tests in links.tests.values())
    failures = {link.name: failure(links.tests[id(link)], among) for link in chain}
    # Proofs use the declaration of the first round, without knowing the cohort, for all of them.
    drawn = DrawnRounds(clients, interactions, "events")
    first = clients.context(0, np.empty(0, np.int64))
    others = [drawn.context(0, round_, drawn.cohort()) for round_ in drawn.rounds(2 * _MOST)]
    for link in chain:
        if any(events_of(link, first) != events_of(link, other) for other in others):
            failures[link.name] = "what it declares changes from round to round"
    random = NoiseAddition | ClickRandomization | CorrelatedNoise
    return DeclarationCheck(
        not_looked={link.name: links.not_looked[id(link)] for link in chain if id(link) in links.not_looked},
        links=len({id(link) for link, event in acts if isinstance(event, random)}),
        acts=acts,
    ).with_broken({name: why for name, why in failures.items() if why is not None})
