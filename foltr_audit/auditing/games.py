"""Games: a client holds one of two neighbouring inputs and sends; an observer guesses which it was.

Trial t of both hypotheses has the same noise of other clients. A bound on one error rate needs
independence between the trials of one hypothesis only. Where tests have shown that this noise follows a law,
it is drawn from the law: one number instead of one for each client, with the same distribution. Otherwise the
clients are played.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from foltr_audit.auditing.canaries import Canary, LogCanary
from foltr_audit.auditing.scripted import GameClients, is_random
from foltr_audit.core.defense_chain import DefenseChain
from foltr_audit.core.plugins import Defense, RoundContext, WireMessages
from foltr_audit.core.plugins.answers import events_of
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.records.dataset import QueryOrigin
from foltr_audit.core.settings.defaults import NO_DEFENSE
from foltr_audit.privacy.events import CorrelatedNoise
from foltr_audit.privacy.noise import AdditiveNoise
from foltr_audit.utils.arrays import Floats, Ints
from foltr_audit.utils.progress import SILENT, Progress

_TICKS = 64  # trials between two movements of the progress bar
_AT_ONCE = 1 << 22  # numbers that are drawn at a time, if each is a sum over all clients: 32 MiB


class OtherClients:
    """Clients that learn nothing and send the global model; each trial has its own cohort.

    An observer knows what they have learnt, and so their messages up to the noise.
    """

    def __init__(self, clients: GameClients, interactions: int, progress: Progress = SILENT) -> None:
        """Nothing is played yet; `interactions` behind each message."""
        self.clients = clients
        self.interactions = interactions
        self.progress = progress
        self._sums: dict[tuple[int, int, AdditiveNoise | None], Floats] = {}
        self._laws: dict[int, AdditiveNoise] = {}

    def follow(self, members: int, law: AdditiveNoise) -> None:
        """From now on draw the noise in the sum of `members - 1` messages from its law."""
        self._laws[members] = law

    @property
    def lawful(self) -> bool:
        """Whether tests have shown that noise adds up as its law says, and it is drawn from it."""
        return bool(self._laws)

    def sums(self, members: int, message: int, trials: Ints, *, played: bool = False) -> Floats:
        """For each of some trials (n,), the sum of `members - 1` messages less that without noise, (n, P).

        By their law where that is known, unless they are `played`.
        """
        size = self.clients.parameters.size
        if members < 2 or not (self.clients.setup.chain.links("message") or self.noisy_steps):
            return np.zeros((trials.size, size))
        law = None if played else self._laws.get(members)
        # Sums are made in the order of trials, up to the last that was ever asked for, and kept.
        made = self._sums.get((members, message, law), np.empty((0, size)))
        if trials.max() >= len(made):
            new = range(len(made), int(trials.max()) + 1)
            more = (
                self._played(members, message, new)
                if law is None
                else self._drawn(law, members, message, new)
            )
            made = self._sums[members, message, law] = np.concatenate([made, more])
        return np.asarray(made[trials])

    def _drawn(self, law: AdditiveNoise, members: int, message: int, trials: range) -> Floats:
        """The sums by their law; each trial has a stream of its own."""
        size = self.clients.parameters.size
        sums = np.empty((len(trials), size))
        batch = max(1, _AT_ONCE // (size * members))  # some laws draw a sum by its summands
        for first in range(0, len(trials), batch):
            ids = np.array(trials[first : first + batch])
            context = self.clients.context(message, ids, "audit/others/sum/", self.interactions)
            sums[first : first + batch] = law.sample(context.streams(str(members)), size)
        return sums

    def _played(self, members: int, message: int, trials: range) -> Floats:
        chain, quiet, ids = self.clients.setup.chain, self.clients.quiet, np.arange(1, members)
        first = self.clients.context(0, ids, interactions=self.interactions)
        silent = self.resting(quiet, first)
        after = None if self.noisy_steps else self.resting(chain, first)
        rounds, sums = self.clients.setup.spec.train.rounds, np.empty((len(trials), silent.shape[1]))
        with self.progress.task("other clients", -(-len(trials) // _TICKS)) as tick:
            for row, trial in enumerate(trials):
                # Rounds of training, under streams of their own: these ids and rounds also occur among the
                # clients of a canary, whose noise must be independent of theirs.
                round_, under = trial % rounds, f"audit/others/{message}/{trial}/"
                context = self.clients.context(round_, ids, under, self.interactions)
                local = self.resting(chain, context) if after is None else after
                known = self.clients.quiet_messages(silent, context).sum(axis=0)
                sums[row] = self.clients.messages(local, context).sum(axis=0) - known
                if row % _TICKS == 0:
                    tick()
        return sums

    def sum_noise(self, members: int, message: int, trials: Ints) -> Floats:
        """For each of some trials (n,), the noise that is added to the sum of `members` messages, (n, P).

        A trial is a run of its own, in which round t sums the t-th messages.
        """
        noise = np.zeros((trials.size, self.clients.parameters.size))
        if self.noise_on_sums:
            for row, trial in enumerate(trials):
                prefix = f"audit/sum/{trial}/"
                context = self.clients.context(message, np.arange(1), prefix, self.interactions)
                noise[row] = self.noise_on_sum(members, context)
        return noise

    def noise_on_sum(self, members: int, context: RoundContext) -> Floats:
        """The noise (P,) that the server adds to the sum of `members` messages of a round."""
        size = self.clients.parameters.size
        nothing = WireMessages(messages=np.zeros((1, size)), survivors=np.ones(1, dtype=np.bool_))
        average = self._sum_links.on_aggregate(np.zeros(size), nothing, np.full(1, 1.0 / members), context)
        return np.asarray(members * average)

    @property
    def noise_on_sums(self) -> bool:
        """Whether the server adds noise to sums."""
        return bool(self._sum_links.links("aggregate"))

    @cached_property
    def _sum_links(self) -> DefenseChain:
        """The chain with nothing but the links that declare noise on sums, at their places."""
        idle = make(Defense, NO_DEFENSE)

        def kept(link: Defense) -> Defense:
            events = events_of(link, self.clients.blank)
            return link if any(isinstance(event, CorrelatedNoise) for event in events) else idle

        return DefenseChain(tuple(kept(link) for link in self.clients.setup.chain.defenses))

    @cached_property
    def noisy_steps(self) -> bool:
        """Whether local models carry noise before the message stage."""
        return any(is_random(link, self.clients.blank) for link in self.clients.setup.chain.links("step"))

    def resting(self, chain: DefenseChain, context: RoundContext) -> Floats:
        """Local models of clients that learn nothing, after the step stage, (n, P).

        Without noise, one step does the same as several: it only moves what lies outside a bound.
        """
        models = np.tile(context.parameters, (context.clients.size, 1))
        every = np.ones(len(models), dtype=np.bool_)
        for step in range(self.interactions if self.noisy_steps else 1):
            models = chain.on_step(models, every, step, context)[0]
        return models


@dataclass(frozen=True, kw_only=True, eq=False)
class Observation:
    """What an observer sees of one message in the trials of one hypothesis, less the others' known messages.

    Attributes:
        seen: the message, or the sum that it is in, float64 (N, P).
        means: the message without noise under each hypothesis: float64 (2, P), or for each trial, given
            the lists that it was shown, (2, N, P).
        list_evidence: how much more the shown lists look like those of hypothesis 1, float64 (N,); None
            where the observer sees no lists, or they reveal nothing.
    """

    seen: Floats
    means: Floats
    list_evidence: Floats | None = None


@dataclass(frozen=True, eq=False)
class GameSimulator:
    """How the games of an experiment are played.

    Attributes:
        clients: clients that click by script, at the global model of each of T messages.
        others: the other clients of their cohorts.
        interactions: interactions behind a message.
        origin: where the queries of the clients' data set come from.
        sampled: lists after the first one are sampled; else they are in score order.
    """

    clients: Sequence[GameClients]
    others: OtherClients
    interactions: int
    origin: QueryOrigin
    sampled: bool = False

    @property
    def messages(self) -> int:
        """Messages T of each client, of one round each."""
        return len(self.clients)

    def play(
        self, canary: Canary, trials: Ints, *, members: int, lists: bool = False, released: bool = False
    ) -> Iterator[tuple[Observation, Observation]]:
        """Each of the T messages under both hypotheses, in a sum of `members` messages (1: on its own).

        A trial is the same whichever others are played.

        `trials` are their numbers, int64 (N,). With `lists` the observer also sees the shown lists; a sum
        that is `released` carries the noise that is added to sums.
        """
        for message in range(self.messages):
            noise = self.others.sums(members, message, trials)
            if released:
                noise = noise + self.others.sum_noise(members, message, trials)
            zero, one = (self._observed(canary, which, trials, message, noise, lists) for which in (0, 1))
            yield zero, one

    def quiet(self, canary: Canary, message: int = 0) -> tuple[Floats, Ints | None]:
        """The message without noise under each hypothesis, lists in score order, float64 (2, P).

        And these lists, (2, B, k); None without a log.
        """
        clients = self.clients[message]
        context = clients.context(message, np.arange(2), interactions=self.interactions)
        local = canary.play(clients, np.arange(2), context, clients.quiet)
        return clients.quiet_message(local.models, message), local.shown

    def _observed(
        self, canary: Canary, hypothesis: int, trials: Ints, message: int, noise: Floats, lists: bool
    ) -> Observation:
        """The messages of different clients that all hold the same input, plus noise of others (N, P)."""
        clients = self.clients[message]
        # Ids name streams: even ones hold input 0 and odd ones input 1, so that no noise of the client itself
        # occurs under both.
        which, ids = np.full(trials.size, hypothesis), 2 * trials + hypothesis
        context = clients.context(message, ids, interactions=self.interactions)
        local = canary.play(clients, which, context, sampled=self.sampled)
        seen = clients.messages(local.models, context) + noise
        if not lists or local.shown is None or not isinstance(canary, LogCanary):
            return Observation(seen=seen, means=self.quiet(canary, message)[0])
        if self.sampled:
            return self._replayed(canary, seen, local.shown, message)
        means, ours = self.quiet(canary, message)
        # In how many more ranks later lists agree with input 1 than with input 0.
        later = [] if ours is None else [(local.shown[:, 1:] == own[1:]).sum(axis=(1, 2)) for own in ours]
        evidence = np.subtract(*later[::-1], dtype=np.float64) if later else np.zeros(trials.size)
        return Observation(seen=seen, means=means, list_evidence=evidence)

    def _replayed(self, canary: LogCanary, seen: Floats, shown: Ints, message: int) -> Observation:
        """Replay both hypotheses on each trial's lists: its means, and the log ratio of the lists."""
        from foltr_audit.kernels.plackett_luce import list_log_probabilities

        clients, rows = self.clients[message], np.arange(len(seen))
        context = clients.context(message, rows, interactions=self.interactions)
        means, logs = [], np.zeros((2, rows.size))
        for hypothesis in (0, 1):
            which = np.full(rows.size, hypothesis)
            queries, clicks = canary.queries[which], canary.clicks[which]
            local = clients.play(queries, clicks, context, clients.quiet, shown)
            means.append(clients.quiet_message(local.models, message))
            for b in range(1, shown.shape[1]):
                first = queries[:, :b], clicks[:, :b]
                before = clients.play(*first, context, clients.quiet, shown[:, :b]).models
                if clients.setup.learner.ranked_with == "global":
                    before = np.broadcast_to(clients.parameters, before.shape)
                scores, starts = clients.scores(before, queries[:, b])
                logs[hypothesis] += list_log_probabilities(scores, starts, np.ascontiguousarray(shown[:, b]))
        return Observation(seen=seen, means=np.stack(means), list_evidence=logs[1] - logs[0])
