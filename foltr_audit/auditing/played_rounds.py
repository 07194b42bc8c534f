"""Trials of a canary in rounds that training plays: with its cohort, server, poisoning, wire and aggregate.

A game plays the client of a canary and draws the noise of the others, which is fast. So that proofs and games
are those of the system that runs, some trials are whole rounds. Each is compared with a trial of the game for
the same round, canary and number of noise shares: which of both shows more is then a fair coin.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from foltr_audit.auditing.canaries import Canary
from foltr_audit.auditing.estimators import TrialScores
from foltr_audit.auditing.evaluation import promised_bound
from foltr_audit.auditing.games import Observation
from foltr_audit.auditing.session import AuditSession
from foltr_audit.auditing.trial_scores import trial_scores
from foltr_audit.core.plugins import Broadcast, RoundContext
from foltr_audit.core.records.interactions import GlobalModel
from foltr_audit.privacy.events import NoiseAddition, OpaqueChange
from foltr_audit.privacy.observer_views import without_lists
from foltr_audit.rng import Streams
from foltr_audit.simulation.federation import Federation, RoundExchange
from foltr_audit.simulation.training import FedAvgServer, ModelSenders
from foltr_audit.utils.arrays import Bools, Floats, Ints

ROUNDS = 100
"""Rounds of an audit that are played whole."""

_FEWEST = 20  # trials that are compared
_EQUAL = 1e-9  # sums in another order differ in their last digits
_SCORES = ("likelihood", "projection", "equality", "last-bits")  # those that learn from no trials


class PlayedGame(NamedTuple):
    """A canary, and the session of the global model at which it is played."""

    session: AuditSession
    canary: Canary


class TrialView(NamedTuple):
    """What an observer sees of a trial, less what it knows: in the round (P,), and in the game (P,).

    `shares` is the number of messages behind it, the canary's included, that carry noise of their own.
    """

    played: Floats
    game: Floats
    shares: int


@dataclass(frozen=True, kw_only=True, eq=False)
class PlayedTrial:
    """A round in which one honest client holds an input of a canary.

    Attributes:
        game: whose input.
        hypothesis: which input, 0 or 1.
        means: the message without noise under each hypothesis, float64 (2, P).
        views: what is seen, by the view without lists.
    """

    game: PlayedGame
    hypothesis: int
    means: Floats
    views: Mapping[str, TrialView]


@dataclass(kw_only=True, eq=False)
class _Cohort:
    """The clients of a round, and what they send.

    Attributes:
        game, hypothesis: the input that one of them holds.
        context: the round as it starts.
        row: the place of the client with the input.
        parts: places of clients that receive the same, and their context, as they send.
        local, sent, known: models after the step stage, as they are sent, and as they would be without noise,
            float64 (C, P).
        noisy: who sends what the message stage makes, bool (C,).
    """

    game: PlayedGame
    hypothesis: int
    context: RoundContext
    row: int

    def __post_init__(self) -> None:
        shape = (self.context.clients.size, self.context.parameters.size)
        self.parts: list[tuple[Ints, RoundContext]] = []
        self.local, self.sent, self.known = np.empty(shape), np.empty(shape), np.empty(shape)
        self.noisy = np.zeros(shape[0], dtype=np.bool_)

    def learnt(self, which: Sequence[int], context: RoundContext, *, quiet: bool = False) -> Floats:
        """Local models (n, P) of clients that hold these inputs."""
        clients = self.game.session.clients
        chain = clients.quiet if quiet else None
        return self.game.canary.play(clients, np.array(which), context, chain).models

    def own(self, count: int = 1) -> RoundContext:
        """The context in which the client with the input sent, of `count` such clients."""
        places, context = next(part for part in self.parts if self.row in part[0])
        return context.at(np.repeat(np.searchsorted(places, self.row), count))


class _CanarySenders(ModelSenders):
    """The clients of training, of whom one holds an input of a canary."""

    cohort: _Cohort

    def sent_of(self, local: Floats, context: RoundContext) -> Floats:
        """See `ModelSenders.sent_of`; the cohort keeps what is sent."""
        cohort, session, chain = self.cohort, self.cohort.game.session, self.setup.chain
        others, quiet = session.games.others, session.clients.quiet
        if others.noisy_steps:  # what they learn depends on noise: as in games, they learn nothing
            local, silent = (others.resting(each, context) for each in (chain, quiet))
        else:
            local = silent = local.copy()
        places = np.searchsorted(cohort.context.clients, context.clients)
        here = np.flatnonzero(places == cohort.row)
        if here.size:
            local[here] = cohort.learnt([cohort.hypothesis], context.at(here))
        sent = super().sent_of(local, context)
        cohort.parts.append((places, context))
        cohort.local[places], cohort.sent[places] = local, sent
        cohort.known[places] = quiet.on_message(silent, context)
        # Nobody is asked who is malicious: what counts is who sends what the message stage makes.
        cohort.noisy[places] = self.malicious is None or np.all(
            sent == chain.on_message(local, context), axis=1
        )
        return sent


class PlayedRounds:
    """Rounds of an experiment that are played for its audit."""

    def __init__(self, session: AuditSession) -> None:
        """Nothing is played yet; any session of the audit will do."""
        self.setup, self.protocol = session.setup, session.protocol
        self.progress, self.masked = session.progress, session.masked
        self.federation = Federation(self.setup)
        world = self.federation.clientele.world
        self.federation.training = server = FedAvgServer(self.setup, world, _CanarySenders)
        self.senders = server.senders

    def play(self, games: Sequence[PlayedGame], views: Iterable[str]) -> list[PlayedTrial]:
        """Trials of some canaries in turn, each in a round of random number with streams of its own.

        Those in which the message of the canary does not arrive are left out.
        """
        rng = self.setup.streams.generator("audit/rounds")
        rounds = rng.integers(self.setup.spec.train.rounds, size=ROUNDS).tolist()
        seeds = rng.integers(2**63, size=(ROUNDS, 2)).tolist()
        inputs = rng.permuted(np.arange(ROUNDS) // len(games) % 2).tolist()
        observers, trials = {without_lists(view) for view in views}, []
        with self.progress.task("rounds of training", ROUNDS) as tick:
            for t, (which, round_, (seed, again)) in enumerate(zip(inputs, rounds, seeds, strict=True)):
                cohort = self._cohort(games[t % len(games)], which, round_, Streams(seed))
                seen = None if cohort is None else self._played(cohort, Streams(again), observers)
                trials += [] if seen is None else [seen]
                tick()
        return trials

    def _cohort(self, game: PlayedGame, hypothesis: int, round_: int, streams: Streams) -> _Cohort | None:
        """The clients of a round; None where none of those that the server reads is honest."""
        setup, start = self.setup, game.session.clients.parameters
        clients = setup.cohort(round_)
        context = setup.context(round_, clients, self.federation.clientele.most, start)
        context = replace(context, source=streams, sums_only=self.masked)
        read = np.ones(clients.size, dtype=np.bool_)
        if setup.malicious is not None:
            read &= ~setup.malicious.among(clients)
        if (broadcast := setup.server.send(context)) is not None:
            read &= ~_its_own(broadcast, clients.size)
            if broadcast.target is not None:
                read &= np.arange(clients.size) == broadcast.target
            if broadcast.reopened is not None:
                read &= ~broadcast.reopened
        places = np.flatnonzero(read)
        if not places.size:
            return None
        drawn = context.server_stream("canary", round_).uniform(1)[0, 0]
        return _Cohort(
            game=game, hypothesis=hypothesis, context=context, row=int(places[int(drawn * places.size)])
        )

    def _played(self, cohort: _Cohort, again: Streams, observers: set[str]) -> PlayedTrial | None:
        """The trial of a cohort; None where the message of the canary does not arrive.

        `again` are the streams of the game with which it is compared.
        """
        self.senders.cohort, clients = cohort, cohort.game.session.clients
        done = self.federation.exchange(cohort.context, GlobalModel(cohort.context.parameters))
        wired = done.sent.wired
        if not wired.survivors[cohort.row] or (wired.is_encoded and wired.total is None):
            return None
        twin = replace(cohort.own(), source=again)
        message = clients.messages(cohort.learnt([cohort.hypothesis], twin), twin)[0]
        both = replace(cohort.own(2), source=self.setup.streams)  # which neither of them draws from
        views, sums = {}, _RoundSum(cohort, done, again)
        for view in observers:
            if view == "individual" and not self.masked:
                views[view] = TrialView(sums.alone(), message, int(cohort.noisy[cohort.row]))
            else:
                colluders = self.protocol.colluders if view == "colluding" else 0
                views[view] = sums.seen(message, colluders, released=cohort.game.session.released(view))
        return PlayedTrial(
            game=cohort.game,
            hypothesis=cohort.hypothesis,
            means=clients.quiet_messages(cohort.learnt([0, 1], both, quiet=True), both),
            views=views,
        )


class _RoundSum:
    """The sum of a round, as its server reads it, less the messages that are known of other clients."""

    def __init__(self, cohort: _Cohort, done: RoundExchange, again: Streams) -> None:
        """Of a cohort, what it sent, and the streams of the game with which the trial is compared."""
        self.cohort, self.done, self.again = cohort, done, again
        self.setup, self.others = cohort.game.session.setup, cohort.game.session.games.others
        self.drawn: dict[int, Floats] = {}
        wired, broadcast = done.sent.wired, done.sent.broadcast
        self.starts = np.broadcast_to(done.context.parameters, cohort.sent.shape)
        self.arrived = wired.survivors.copy()
        if broadcast is not None:
            self.starts = broadcast.received
            own = _its_own(broadcast, wired.survivors.size)
            cohort.noisy[own], cohort.sent[own] = False, broadcast.received[own]
            if broadcast.reopened is not None and (not wired.is_encoded or wired.second_total is not None):
                self.arrived &= ~broadcast.reopened

    def alone(self) -> Floats:
        """The message (P,) of the canary, where it lies open."""
        messages, at = self.done.sent.messages, np.array([self.cohort.row])
        if self.setup.chain.encoding is None:
            return messages[at][0].astype(np.float64)
        return self.setup.chain.encoding.decode_messages(messages[at], self.done.context.counts[at])[0]

    def seen(self, message: Floats, colluders: int | None, *, released: bool) -> TrialView:
        """What an observer sees of the sum, of which it knows the messages of some or all other clients.

        `message` (P,) is that of the canary in the game; the noise on the sum counts where it is `released`.
        """
        cohort, others = self.cohort, self.others
        rest = self.arrived.copy()
        rest[cohort.row] = False
        noisy = np.flatnonzero(rest & cohort.noisy)
        hidden = noisy[noisy.size if colluders is None else colluders :]
        rest[hidden] = False  # of all others, what they send is known
        known = self._sum_of(cohort.known, hidden) + self._sum_of(cohort.sent, np.flatnonzero(rest))
        played = self._total(self.arrived, subtracts=True) - known
        game = message + self._noise(hidden)
        if released and others.noise_on_sums:
            context, arrived = self.done.context, self.done.sent.wired.survivors
            start = context.parameters if self.setup.spec.trace.message == "update" else 0.0
            played = played + arrived.sum() * (self.done.after.parameters - start) - self._total(arrived)
            game = game + others.noise_on_sum(int(arrived.sum()), replace(context, source=self.again))
        return TrialView(played, game, hidden.size + int(cohort.noisy[cohort.row]))

    def _sum_of(self, models: Floats, places: Ints) -> Floats:
        """The sum (P,) of the models of some clients, as they arrive."""
        if not places.size:
            return np.zeros(models.shape[1])
        update = self.setup.spec.trace.message == "update"
        sent = models[places] - self.starts[places] if update else models[places]
        clients = self.cohort.game.session.clients
        return np.asarray(clients.formatted(sent, self.done.context.at(places)).sum(axis=0))

    def _total(self, arrived: Bools, *, subtracts: bool = False) -> Floats:
        """The sum (P,) of the messages that arrived; the server `subtracts` a second sum that it opens."""
        wired, encoding = self.done.sent.wired, self.setup.chain.encoding
        if wired.total is None or encoding is None:
            return np.asarray(wired.messages[arrived].astype(np.float64).sum(axis=0))
        less = wired.second_total if subtracts and wired.second_total is not None else np.uint64(0)
        counts = self.done.context.counts[arrived]
        return encoding.decode_sum(np.asarray(wired.total - less), counts) / counts[0]

    def _noise(self, places: Ints) -> Floats:
        """The noise (P,) in the sum of the messages of some clients, as the game draws it."""
        if places.size not in self.drawn:
            self.drawn[places.size] = self._draw(places)
        return self.drawn[places.size]

    def _draw(self, places: Ints) -> Floats:
        others, law, size = self.others, self.cohort.game.session.noise_of(1).law, self.cohort.sent.shape[1]
        if not places.size:
            return np.zeros(size)
        if others.lawful and law is not None:
            context = replace(self.cohort.own(), source=self.again)
            return law.summed(places.size).sample(context.streams("others"), size)[0]
        sent, known = np.empty_like(self.cohort.local), np.empty_like(self.cohort.local)
        chain, quiet = self.setup.chain, self.cohort.game.session.clients.quiet
        for rows, sending in self.cohort.parts:
            context = replace(sending, source=self.again)
            local = silent = self.cohort.local[rows]
            if others.noisy_steps:
                local, silent = (others.resting(each, context) for each in (chain, quiet))
            sent[rows], known[rows] = (
                chain.on_message(local, context),
                quiet.on_message(silent, context),
            )
        return self._sum_of(sent, places) - self._sum_of(known, places)


def _its_own(broadcast: Broadcast, size: int) -> Bools:
    """Which clients of a round the server runs itself, bool (C,)."""
    own = np.zeros(size, dtype=np.bool_)
    for delivery in broadcast.deliveries:
        own[delivery.rows] = delivery.own
    return own


def difference(trials: Sequence[PlayedTrial], view: str, fewest: int, alarm: float) -> str:
    """How the rounds that training plays differ from the game, in words; empty where they do not.

    By accounting `fewest` noise shares are behind everything that the observer sees. Chance alone shows a
    difference with a probability of `alarm` at most.
    """
    from scipy.stats import binomtest

    seen = [(trial, trial.views[without_lists(view)]) for trial in trials]
    if not seen:
        return ""
    session = trials[0].game.session
    least = min(each.shares for _, each in seen)
    if least < fewest and any(isinstance(event, NoiseAddition) for _, event in session.acts):
        return (
            f"of a round that training plays {least} messages with noise are in what is seen, and accounting "
            f"counts {fewest}"
        )
    chain, released = session.setup.chain, session.games.others.noise_on_sums
    late = {*chain.links("wire"), *(chain.links("aggregate") if released else ())}
    unknown = any(isinstance(event, OpaqueChange) and link in late for link, event in session.acts)
    if unknown or len(seen) < _FEWEST:
        return ""
    for name, measure in (("noise", _noise_size), ("shift", _shift)):
        played = np.array([measure(trial, each.played) for trial, each in seen])
        game = np.array([measure(trial, each.game) for trial, each in seen])
        apart = np.abs(played - game) > _EQUAL
        above, count = int((played > game)[apart].sum()), int(apart.sum())
        if count and binomtest(above, count).pvalue < alarm / 2:
            return (
                "the round that training plays shows another law than the game: "
                f"its {name} is larger in {above} of {count} trials"
            )
    return ""


def _noise_size(trial: PlayedTrial, seen: Floats) -> float:
    """The mean size of a coordinate of the noise."""
    return float(np.abs(seen - trial.means[trial.hypothesis]).mean())


def _shift(trial: PlayedTrial, seen: Floats) -> float:
    """How far a message lies from the mean of the other input towards that of its own; 1 without noise."""
    other, own = trial.means[1 - trial.hypothesis], trial.means[trial.hypothesis]
    apart = own - other
    size = float(apart @ apart)
    return float((seen - other) @ apart) / size if size else 0.0


def played_bound(
    trials: Sequence[PlayedTrial], view: str, score: str, *, delta: float, confidence: float
) -> float:
    """The Clopper-Pearson bound of the played rounds of one canary, with a threshold chosen in the game."""
    both = [[trial for trial in trials if trial.hypothesis == which] for which in (0, 1)]
    count = min(map(len, both))
    if count < _FEWEST:
        return 0.0
    session = trials[0].game.session
    dtype = "" if session.members(view) > 1 else session.setup.spec.trace.dtype
    name = score if score in _SCORES else "projection"
    chosen, evaluated = (
        trial_scores(
            [tuple(_observed(some[:count], view, which) for some in both)],
            session.noise(view).law,
            0,
            (name,),
            dtype,
        )[name]
        for which in ("game", "played")
    )
    scores = TrialScores(
        choose_zero=chosen[0], choose_one=chosen[1], zero=evaluated[0], one=evaluated[1], independent=True
    )
    return promised_bound(scores, confidence=confidence, delta=delta)


def _observed(trials: Sequence[PlayedTrial], view: str, which: Literal["played", "game"]) -> Observation:
    """What is seen of some trials under one hypothesis."""
    seen = np.stack([getattr(trial.views[without_lists(view)], which) for trial in trials])
    return Observation(seen=seen, means=np.stack([trial.means for trial in trials], axis=1))
