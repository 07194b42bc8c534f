"""Games: a client holds one of two neighbouring inputs, sends, and an observer says which it was.

Trial t of both hypotheses meets the same noise of other clients; a bound on one error rate needs
independence between the trials of one hypothesis only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from foltr_audit.auditing.canaries import Canary
from foltr_audit.auditing.scripted import Floats, ScriptedClients
from foltr_audit.origin import Origin
from foltr_audit.plugins import MessageDefense
from foltr_audit.progress import SILENT, Progress

_TICKS = 64  # trials between two movements of the progress bar


@dataclass(frozen=True, kw_only=True, eq=False)
class Observed:
    """What an observer sees of the trials of one message, less what it knows of the others.

    Attributes:
        zero, one: under each hypothesis, float64 (N, P).
        means: what the message is without noise under each hypothesis, float64 (2, P).
    """

    zero: Floats
    one: Floats
    means: Floats


@dataclass(frozen=True, eq=False)
class Games:
    """How the games of an experiment are played.

    Attributes:
        clients: clients that click by script.
        count: trials under each hypothesis, those that choose a threshold included.
        messages: messages T of each client, of one round each.
        arriving: messages in a sum, the client's own included.
        interactions: interactions behind a message.
        origin: where the queries of the clients' data set come from.
        progress: told of the other clients, whose noise takes the time.
    """

    clients: ScriptedClients
    count: int
    messages: int
    arriving: int
    interactions: int
    origin: Origin
    progress: Progress = SILENT

    def play(self, canary: Canary, *, summed: bool) -> Iterator[Observed]:
        """Each of the T messages, as one message or in the sum of all that arrive."""
        for message in range(self.messages):
            zero, one = (self._sent(canary, hypothesis, message) for hypothesis in (0, 1))
            if summed:
                zero, one = zero + self._others[message], one + self._others[message]
            yield Observed(zero=zero, one=one, means=self.means(canary, message))

    def means(self, canary: Canary, message: int = 0) -> Floats:
        """The message without noise under each hypothesis, float64 (2, P)."""
        context = self.clients.context(message, np.arange(2), interactions=self.interactions)
        local = canary.local(self.clients, np.arange(2), context, self.clients.quiet)
        return self.clients.quiet_message(local, message)

    def _sent(self, canary: Canary, hypothesis: int, message: int) -> Floats:
        """Messages of different clients that all hold the same input, (N, P)."""
        ids = 2 * np.arange(self.count) + hypothesis
        context = self.clients.context(message, ids, interactions=self.interactions)
        local = canary.local(self.clients, np.full(self.count, hypothesis), context)
        return self.clients.messages(local, context)

    @cached_property
    def _others(self) -> list[Floats]:
        """For each message, the sum of the others' messages less what it is without noise, (N, P)."""
        shape = (self.count, self.clients.parameters.size)
        if self.arriving < 2 or not self.clients.setup.chain.links(MessageDefense):
            return [np.zeros(shape)] * self.messages
        sums = [np.empty(shape) for _ in range(self.messages)]
        with self.progress.task("other clients", -(-self.messages * self.count // _TICKS)) as tick:
            for message in range(self.messages):
                for trial in range(self.count):
                    sums[message][trial] = self._sum_of_others(message, trial)
                    if trial % _TICKS == 0:
                        tick()
        return sums

    def _sum_of_others(self, message: int, trial: int) -> Floats:
        """One cohort: every other client holds the global model and sends; the sum less what is known."""
        models, known = self._resting
        context = self.clients.context(
            trial, np.arange(1, self.arriving), f"audit/others/{message}/", self.interactions
        )
        return np.asarray(self.clients.messages(models, context).sum(axis=0) - known)

    @cached_property
    def _resting(self) -> tuple[Floats, Floats]:
        """Local models of the other clients, (n - 1, P); the sum of their messages without noise, (P,)."""
        clients, ids = self.clients, np.arange(1, self.arriving)
        models = np.tile(clients.parameters, (ids.size, 1))
        every = np.ones(ids.size, dtype=np.bool_)
        after = clients.setup.chain.on_step(models, every, 0, clients.context(0, ids))[0]
        return after, ids.size * clients.quiet_message(after[:1], 0)[0]
