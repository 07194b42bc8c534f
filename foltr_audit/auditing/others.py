"""The other clients of a cohort: the noise that they add to a sum.

Where tests have shown that this noise follows a law, it is drawn from the law: one number instead of one for
each client, with the same distribution. Otherwise the clients are played.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from foltr_audit.auditing.scripted import GameClients, is_random
from foltr_audit.core.defense_chain import DefenseChain
from foltr_audit.core.plugins import Defense, RoundContext, WireMessages
from foltr_audit.core.plugins.answers import events_of
from foltr_audit.core.plugins.registry import make
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
        self._sums: dict[tuple[object, ...], Floats] = {}
        self._laws: dict[int, AdditiveNoise] = {}

    def follow(self, members: int, law: AdditiveNoise) -> None:
        """From now on draw the noise in the sum of `members - 1` messages from its law."""
        self._laws[members] = law

    def sums(self, members: int, message: int, trials: Ints) -> Floats:
        """For each of some trials (n,), the sum of `members - 1` messages less that without noise, (n, P)."""
        if members < 2 or not (self.clients.setup.chain.links("message") or self._noisy_steps):
            return np.zeros((trials.size, self.clients.parameters.size))
        law = self._laws.get(members)
        if law is None:
            return self.played_sums(members, message, trials)
        return self._kept(
            (members, message, law), trials, lambda new: self._drawn(law, members, message, new)
        )

    def played_sums(self, members: int, message: int, trials: Ints) -> Floats:
        """The same by playing every client."""
        return self._kept((members, message), trials, lambda new: self._played(members, message, new))

    def _kept(self, key: tuple[object, ...], trials: Ints, make: Callable[[range], Floats]) -> Floats:
        """Sums of trials, which are made in their order, up to the last that was ever asked for, and kept."""
        made = self._sums.get(key, np.empty((0, self.clients.parameters.size)))
        if trials.max() >= len(made):
            more = make(range(len(made), int(trials.max()) + 1))
            made = self._sums[key] = np.concatenate([made, more])
        return np.asarray(made[trials])

    def _drawn(self, law: AdditiveNoise, members: int, message: int, trials: range) -> Floats:
        """The sums by their law; each trial has a stream of its own."""
        size = self.clients.parameters.size
        found = np.empty((len(trials), size))
        each = max(1, _AT_ONCE // (size * members))  # some laws draw a sum by its summands
        for first in range(0, len(trials), each):
            ids = np.array(trials[first : first + each])
            context = self.clients.context(message, ids, "audit/others/sum/", self.interactions)
            found[first : first + each] = law.sample(context.streams(str(members)), size)
        return found

    def _played(self, members: int, message: int, trials: range) -> Floats:
        chain, quiet, ids = self.clients.setup.chain, self.clients.quiet, np.arange(1, members)
        models = np.tile(self.clients.parameters, (ids.size, 1))
        resting = self.clients.context(0, ids, interactions=self.interactions)
        silent = self._stepped(models, quiet, resting)
        after = None if self._noisy_steps else self._stepped(models, chain, resting)
        sums = np.empty((len(trials), models.shape[1]))
        with self.progress.task("other clients", -(-len(trials) // _TICKS)) as tick:
            for row, trial in enumerate(trials):
                # A prefix of their own: these ids and rounds also occur among the clients of a canary, whose
                # noise must be independent of theirs.
                prefix = f"audit/others/{message}/"
                context = self.clients.context(trial, ids, prefix, self.interactions)
                local = self._stepped(models, chain, context) if after is None else after
                known = self.clients.quiet_messages(silent, context).sum(axis=0)
                sums[row] = self.clients.messages(local, context).sum(axis=0) - known
                if row % _TICKS == 0:
                    tick()
        return sums

    def sum_noise(self, members: int, message: int, trials: Ints) -> Floats:
        """For each of some trials (n,), the noise that is added to the sum of `members` messages, (n, P).

        A trial is a run of its own, in which round t sums the t-th messages.
        """
        size = self.clients.parameters.size
        if not self._sum_links.links("aggregate"):
            return np.zeros((trials.size, size))
        nothing = WireMessages(messages=np.zeros((1, size)), survivors=np.ones(1, dtype=np.bool_))
        weights, found = np.full(1, 1.0 / members), np.empty((trials.size, size))
        for row, trial in enumerate(trials):
            context = self.clients.context(message, np.arange(1), f"audit/sum/{trial}/", self.interactions)
            average = self._sum_links.on_aggregate(np.zeros(size), nothing, weights, context)
            found[row] = members * average
        return found

    @cached_property
    def _sum_links(self) -> DefenseChain:
        """The chain with nothing but the links that declare noise on sums, at their places."""
        blank, idle = self.clients.context(0, np.empty(0, np.int64)), make(Defense, NO_DEFENSE)
        return DefenseChain(
            tuple(
                link if any(isinstance(event, CorrelatedNoise) for event in events_of(link, blank)) else idle
                for link in self.clients.setup.chain.defenses
            )
        )

    @cached_property
    def _noisy_steps(self) -> bool:
        """Whether a link adds noise after local steps."""
        blank = self.clients.context(0, np.empty(0, np.int64))
        return any(is_random(link, blank) for link in self.clients.setup.chain.links("step"))

    def _stepped(self, models: Floats, chain: DefenseChain, context: RoundContext) -> Floats:
        """Local models of clients that learn nothing, after the step stage, (n, P).

        Without noise, one step does the same as several: it only moves what lies outside a bound.
        """
        every = np.ones(len(models), dtype=np.bool_)
        for step in range(self.interactions if self._noisy_steps else 1):
            models = chain.on_step(models, every, step, context)[0]
        return models
