"""Trials of a canary in rounds that training plays: with its cohort, server, poisoning, wire and aggregate.

A game plays the client of a canary and draws the noise of the others, which is fast. So that proofs and games
are those of the system that runs, some trials are whole rounds. Each is compared with a trial of the game for
the same round, canary and number of noise shares: which of both shows more is then a fair coin.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from foltr_audit.auditing.canaries import Canary
from foltr_audit.auditing.estimators import clopper_pearson_bound
from foltr_audit.auditing.law_tests import two_sided
from foltr_audit.auditing.session import AuditSession
from foltr_audit.core.plugins import Broadcast, RoundContext
from foltr_audit.core.records.interactions import GlobalModel
from foltr_audit.privacy.events import NoiseAddition, OpaqueChange
from foltr_audit.privacy.observer_views import without_lists
from foltr_audit.rng import Streams
from foltr_audit.simulation.federation import Federation, RoundResult
from foltr_audit.simulation.training import FedAvgServer, ModelSenders
from foltr_audit.utils.arrays import Bools, Floats, Ints

ROUNDS = 100
"""Rounds of an audit that are played whole."""

_FEWEST = 20  # trials that are compared
_EQUAL = 1e-9  # sums in another order differ in their last digits


PlayedGame = tuple[AuditSession, Canary]
"""The session of a global model, and a canary that is played there."""


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


class _CanarySenders(ModelSenders):
    """The clients of training, of whom one holds an input of a canary."""

    playing: _WholeRound

    def sent_of(self, local: Floats, context: RoundContext) -> Floats:
        """See `ModelSenders.sent_of`; the round keeps what is sent."""
        playing, chain, quiet = self.playing, self.setup.chain, self.playing.clients.quiet
        if playing.others.noisy_steps:  # what they learn depends on noise: as in games, they learn nothing
            local, silent = (playing.others.resting(each, context) for each in (chain, quiet))
        else:
            local = silent = local.copy()
        places = np.searchsorted(playing.context.clients, context.clients)
        here = np.flatnonzero(places == playing.row)
        if here.size:
            local[here] = playing.learnt([playing.hypothesis], context.at(here))
        sent = super().sent_of(local, context)
        playing.parts.append((places, context))
        playing.local[places], playing.sent[places] = local, sent
        playing.known[places] = quiet.on_message(silent, context)
        # Nobody is asked who is malicious: what counts is who sends what the message stage makes.
        honest = self.malicious is None or np.all(sent == chain.on_message(local, context), axis=1)
        playing.noisy[places] = honest
        return sent


class PlayedRounds:
    """Rounds of an experiment that are played for its audit."""

    def __init__(self, session: AuditSession) -> None:
        """Nothing is played yet; any session of the audit will do."""
        self.setup, self.progress, self.masked = session.setup, session.progress, session.masked
        self.federation = Federation(self.setup)
        world = self.federation.clientele.world
        self.senders = _CanarySenders(self.setup, world)
        self.federation.training = FedAvgServer(self.setup, world, self.senders)

    def play(self, games: Sequence[PlayedGame], views: Iterable[str]) -> list[PlayedTrial]:
        """Trials of some canaries in turn, each in a round of random number with streams of its own.

        Those in which the message of the canary does not arrive are left out.
        """
        rng = self.setup.streams.generator("audit/rounds")
        rounds = rng.integers(self.setup.spec.train.rounds, size=ROUNDS).tolist()
        inputs = rng.permuted(np.arange(ROUNDS) // len(games) % 2).tolist()
        observers, trials = {without_lists(view) for view in views}, []
        with self.progress.task("rounds of training", ROUNDS) as tick:
            for t, (which, round_) in enumerate(zip(inputs, rounds, strict=True)):
                seen = self._trial(t, games[t % len(games)], which, round_, observers)
                trials += [] if seen is None else [seen]
                tick()
        return trials

    def _trial(
        self, number: int, game: PlayedGame, hypothesis: int, round_: int, views: set[str]
    ) -> PlayedTrial | None:
        """One round, and one trial of the game; None where nothing arrives."""
        streams, again = (self.setup.streams.under(f"audit/{name}/{number}/") for name in ("round", "again"))
        start, most = game[0].clients.parameters, self.setup.clients.interactions
        context = self.setup.context(round_, self.setup.cohort(round_), most, start)
        context = context.having(source=streams, sums_only=self.masked)
        places = np.flatnonzero(self._read(context))
        if not places.size:
            return None
        drawn = context.server_stream("canary", round_).uniform(1)[0, 0]
        playing = _WholeRound(game, hypothesis, context, int(places[int(drawn * places.size)]), again)
        self.senders.playing = playing
        done = self.federation.exchange(context, GlobalModel(start))
        return playing.seen(done, views) if playing.arrives(done) else None

    def _read(self, context: RoundContext) -> Bools:
        """Which clients of a round are honest, and their messages are in what the server reads, bool (C,)."""
        size, malicious = context.clients.size, self.setup.malicious
        read = np.ones(size, np.bool_) if malicious is None else ~malicious.among(context.clients)
        broadcast = self.setup.server.send(context)
        if broadcast is not None:
            read &= ~_its_own(broadcast, size)
            if broadcast.target is not None:
                read &= np.arange(size) == broadcast.target
            if broadcast.reopened is not None:
                read &= ~broadcast.reopened
        return read


class _WholeRound:
    """What the clients of a round send, and what an observer sees of it."""

    def __init__(
        self, game: PlayedGame, hypothesis: int, context: RoundContext, row: int, again: Streams
    ) -> None:
        """The client at place `row` holds an input; `again` are the streams of the trial of the game."""
        self.game, self.hypothesis, self.context, self.row, self.again = game, hypothesis, context, row, again
        self.session, self.canary = game
        self.setup, self.clients = self.session.setup, self.session.clients
        self.others = self.session.games.others
        self.updates = self.setup.spec.trace.message == "update"
        shape = (context.clients.size, context.parameters.size)
        self.starts = np.broadcast_to(context.parameters, shape)
        # Models after the step stage, as they are sent, and as they would be sent without noise; and who
        # sends what the message stage makes. `parts` are the places of clients that receive the same.
        self.local, self.sent, self.known = np.empty(shape), np.empty(shape), np.empty(shape)
        self.noisy = np.zeros(shape[0], dtype=np.bool_)
        self.parts: list[tuple[Ints, RoundContext]] = []
        self._drawn: dict[int, Floats] = {}

    def learnt(self, which: Sequence[int], context: RoundContext, *, quiet: bool = False) -> Floats:
        """Local models (n, P) of clients that hold these inputs."""
        chain = self.clients.quiet if quiet else None
        return self.canary.play(self.clients, np.array(which), context, chain).models

    def arrives(self, done: RoundResult) -> bool:
        """Whether the canary's message is in what the server reads.

        Masks that do not cancel leave numbers that no clients can send.
        """
        wired, encoding = done.sent.wired, self.setup.chain.encoding
        opened = True
        if encoding is not None:
            most = encoding.range * done.context.counts[wired.survivors].sum()
            opened = wired.sum is not None and bool(np.abs(wired.sum).max() <= most)
        return opened and bool(wired.survivors[self.row])

    def seen(self, done: RoundResult, views: set[str]) -> PlayedTrial:
        """The trial, of a message that arrives."""
        self.context = done.context
        own = self._own_context(1, self.again)
        message = self.clients.messages(self.learnt([self.hypothesis], own), own)[0]
        both = self._own_context(2, self.setup.streams)  # which neither round nor game draws from
        wired, broadcast = done.sent.wired, done.sent.broadcast
        arrived = wired.survivors.copy()
        if broadcast is not None:
            self.starts = broadcast.received
            its_own = _its_own(broadcast, arrived.size)
            self.noisy[its_own], self.sent[its_own] = False, self.starts[its_own]
            if broadcast.reopened is not None and (not wired.is_encoded or wired.second_total is not None):
                arrived &= ~broadcast.reopened
        found = {}
        for view in views:
            if view == "individual" and not self.session.masked:
                found[view] = TrialView(self._alone(done), message, int(self.noisy[self.row]))
            else:
                found[view] = self._of_sum(view, done, arrived, message)
        means = self.clients.quiet_messages(self.learnt([0, 1], both, quiet=True), both)
        return PlayedTrial(game=self.game, hypothesis=self.hypothesis, means=means, views=found)

    def _own_context(self, count: int, streams: Streams) -> RoundContext:
        """The context in which the canary's client sent, of so many clients like it, with other streams."""
        places, context = next(part for part in self.parts if self.row in part[0])
        rows = np.repeat(np.searchsorted(places, self.row), count)
        return context.at(rows).having(source=streams)

    def _alone(self, done: RoundResult) -> Floats:
        """The message (P,) of the canary, where it lies open."""
        sent, encoding, rows = done.sent.messages, self.setup.chain.encoding, np.array([self.row])
        if encoding is None:
            return np.asarray(sent[self.row], dtype=np.float64)
        words = sent[rows].astype(np.uint64)
        return np.asarray(encoding.decode_messages(words, self.context.counts[rows])[0])

    def _of_sum(self, view: str, done: RoundResult, arrived: Bools, message: Floats) -> TrialView:
        """What is seen of the sum of what `arrived` (C,), and the server does not take out of it.

        Less what is known: of clients without noise and colluders all, of others what they would send
        without noise. `message` (P,) is that of the canary in the game.
        """
        session, rest = self.session, arrived.copy()
        rest[self.row] = False
        noisy = np.flatnonzero(rest & self.noisy)
        colluders = session.protocol.colluders if view == "colluding" else 0
        hidden = noisy[noisy.size if colluders is None else colluders :]
        rest[hidden] = False
        known = self._sum_of(self.known, hidden) + self._sum_of(self.sent, np.flatnonzero(rest))
        played = self._total(done, arrived, subtracts=True) - known
        game = message + self._noise(hidden)
        if session.released(view) and self.others.noise_on_sums:
            everybody = done.sent.wired.survivors
            mean = done.after.parameters - (self.context.parameters if self.updates else 0.0)
            played = played + everybody.sum() * mean - self._total(done, everybody)
            context = self.context.having(source=self.again)
            game = game + self.others.noise_on_sum(int(everybody.sum()), context)
        return TrialView(played, game, hidden.size + int(self.noisy[self.row]))

    def _sum_of(self, models: Floats, places: Ints) -> Floats:
        """The sum (P,) of the models of some clients, as they arrive."""
        sent = models[places] - self.starts[places] if self.updates else models[places]
        return np.asarray(self.clients.formatted(sent, self.context.at(places)).sum(axis=0))

    def _total(self, done: RoundResult, arrived: Bools, *, subtracts: bool = False) -> Floats:
        """The sum (P,) of the messages that arrived; the server `subtracts` a second sum that it opens."""
        wired, encoding = done.sent.wired, self.setup.chain.encoding
        if wired.total is None or encoding is None:
            return np.asarray(wired.messages[arrived].astype(np.float64).sum(axis=0))
        less = wired.second_total if subtracts and wired.second_total is not None else np.uint64(0)
        counts = self.context.counts[arrived]
        return np.asarray(encoding.decode_sum(np.asarray(wired.total - less), counts) / counts[0])

    def _noise(self, places: Ints) -> Floats:
        """The noise (P,) in the sum of the messages of some clients, as the game draws it."""
        if places.size not in self._drawn:
            self._drawn[places.size] = self._draw(places)
        return self._drawn[places.size]

    def _draw(self, places: Ints) -> Floats:
        law, chain, quiet = self.session.noise_of(1).law, self.setup.chain, self.clients.quiet
        size = self.local.shape[1]
        if not places.size:
            return np.zeros(size)
        if self.others.lawful and law is not None:
            streams = self._own_context(1, self.again).streams("others")
            return np.asarray(law.summed(places.size).sample(streams, size)[0])
        sent, known = np.empty_like(self.local), np.empty_like(self.local)
        for rows, sending in self.parts:
            context, local = replace(sending, source=self.again), self.local[rows]
            silent = local
            if self.others.noisy_steps:
                local, silent = (self.others.resting(each, context) for each in (chain, quiet))
            sent[rows], known[rows] = chain.on_message(local, context), quiet.on_message(silent, context)
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
    seen = [(trial, trial.views[without_lists(view)]) for trial in trials]
    if not seen:
        return ""
    session = trials[0].game[0]
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
        if count and two_sided(above, count, 0.5) < alarm / 2:
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


def played_bound(trials: Sequence[PlayedTrial], view: str, *, delta: float, confidence: float) -> float:
    """The Clopper-Pearson bound of whole rounds, by which mean a message is nearer to along their shift."""
    seen = [(each.hypothesis, _shift(each, each.views[without_lists(view)].played)) for each in trials]
    zero, one = ([shift <= 0.5 for held, shift in seen if held == which] for which in (0, 1))
    count = min(len(zero), len(one))
    if count < _FEWEST:
        return 0.0
    wrong = sum(zero[:count]), sum(one[:count])
    return clopper_pearson_bound(wrong[0], wrong[1], count, delta=delta, confidence=confidence)
