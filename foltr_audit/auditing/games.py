"""Games: a client holds one of two neighbouring inputs and sends; an observer guesses which it was.

Trial t of both hypotheses has the same noise of other clients. A bound on one error rate needs
independence between the trials of one hypothesis only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from foltr_audit.auditing.neighbours import Canary, LogCanary
from foltr_audit.auditing.others import OtherClients
from foltr_audit.auditing.scripted import GameClients
from foltr_audit.core.query_origin import QueryOrigin
from foltr_audit.utils.arrays import Floats, Ints


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

        Args:
            canary: the two inputs.
            trials: numbers of the trials, int64 (N,).
            members: how many messages are in a sum.
            lists: whether the observer also sees the shown lists.
            released: whether a sum carries the noise that is added to sums.
        """
        for message in range(self.messages):
            noise = self.others.sums(members, message, trials)
            if released:
                noise = noise + self.others.sum_noise(members, message, trials)
            zero, one = (self._observed(canary, which, trials, message, noise, lists) for which in (0, 1))
            yield zero, one

    def means(self, canary: Canary, message: int = 0) -> Floats:
        """The message without noise under each hypothesis, lists in score order, float64 (2, P)."""
        return self._quiet(canary, message)[0]

    def lists(self, canary: Canary, message: int = 0) -> Ints | None:
        """The lists without noise under each hypothesis, in score order, (2, B, k); None without a log."""
        return self._quiet(canary, message)[1]

    def _quiet(self, canary: Canary, message: int) -> tuple[Floats, Ints | None]:
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
            return Observation(seen=seen, means=self.means(canary, message))
        if self.sampled:
            return self._replayed(canary, seen, local.shown, message)
        ours = self.lists(canary, message)
        evidence = np.zeros(trials.size) if ours is None else _agreement(local.shown, ours)
        return Observation(seen=seen, means=self.means(canary, message), list_evidence=evidence)

    def _replayed(self, canary: LogCanary, seen: Floats, shown: Ints, message: int) -> Observation:
        """Replay both hypotheses on each trial's lists: its means, and the log ratio of the lists."""
        from foltr_audit.kernels.list_evidence import list_log_probabilities

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


def _agreement(shown: Ints, ours: Ints) -> Floats:
    """In how many more ranks later lists (N, B, k) agree with input 1 than with input 0."""
    zero, one = ((shown[:, 1:] == lists[np.newaxis, 1:]).sum(axis=(1, 2)) for lists in ours)
    return np.asarray(one - zero, dtype=np.float64)
