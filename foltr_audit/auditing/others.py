"""The other clients of a cohort: what they add to a sum beyond what an observer knows of them."""

from __future__ import annotations

import numpy as np

from foltr_audit.auditing.scripted import Floats, ScriptedClients
from foltr_audit.plugins import MessageDefense
from foltr_audit.progress import SILENT, Progress

_TICKS = 64  # trials between two movements of the progress bar


class OtherClients:
    """Clients that all hold the global model and send; each trial has a cohort of its own.

    An observer knows what they have learnt, here nothing, and so their messages up to their noise.
    """

    def __init__(
        self, clients: ScriptedClients, count: int, interactions: int, progress: Progress = SILENT
    ) -> None:
        """Nothing is played yet; `count` trials, `interactions` behind each message."""
        self.clients = clients
        self.count = count
        self.interactions = interactions
        self.progress = progress
        self._sums: dict[tuple[int, int], Floats] = {}

    def sums(self, members: int, message: int) -> Floats:
        """For each trial, the sum of `members - 1` messages less what it is without noise, (N, P)."""
        if members < 2 or not self.clients.setup.chain.links(MessageDefense):
            return np.zeros((self.count, self.clients.parameters.size))
        key = (members, message)
        if key not in self._sums:
            self._sums[key] = self._played(members, message)
        return self._sums[key]

    def _played(self, members: int, message: int) -> Floats:
        after, known = self._resting(members)
        sums = np.empty((self.count, after.shape[1]))
        with self.progress.task("other clients", -(-self.count // _TICKS)) as tick:
            for trial in range(self.count):
                context = self.clients.context(
                    trial, np.arange(1, members), f"audit/others/{message}/", self.interactions
                )
                sums[trial] = self.clients.messages(after, context).sum(axis=0) - known
                if trial % _TICKS == 0:
                    tick()
        return sums

    def _resting(self, members: int) -> tuple[Floats, Floats]:
        """Local models of the other clients, (n - 1, P); the sum of their messages without noise, (P,)."""
        clients, ids = self.clients, np.arange(1, members)
        models = np.tile(clients.parameters, (ids.size, 1))
        every = np.ones(ids.size, dtype=np.bool_)
        after = clients.setup.chain.on_step(models, every, 0, clients.context(0, ids))[0]
        return after, ids.size * clients.quiet_message(after[:1], 0)[0]
