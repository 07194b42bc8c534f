"""Federations of one Spec with different members: the shadows of membership inference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from foltr_audit.core.plugins import RoundContext
from foltr_audit.core.records.interactions import GlobalModel
from foltr_audit.experiments.stages import first_model
from foltr_audit.rng import BranchStreams
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.rounds import CohortMessages
from foltr_audit.simulation.setup import Setup
from foltr_audit.utils.arrays import Bools, Floats, Ints
from foltr_audit.utils.progress import Tick

QUERY_PURPOSES = ("queries", "scenario/")
"""The purposes of the random numbers that say what a client asks for; they begin so."""


@dataclass(frozen=True)
class ClientPool:
    """The clients of an experiment on membership.

    Candidates are numbered from 0; a federation has a random half of them as members. Others, who have the
    numbers after them, take part in none.

    Attributes:
        size: members n of a federation.
        groups: how many federations the others would fill.
    """

    size: int
    groups: int

    @property
    def candidates(self) -> int:
        """Number of candidates, 2 n."""
        return 2 * self.size

    @property
    def clients(self) -> int:
        """Number of candidates and others."""
        return self.candidates + self.groups * self.size

    def halves(self, count: int, rng: np.random.Generator) -> Bools:
        """The members of some federations, bool (count, 2 n): each a uniformly random half of the candidates.

        Someone else takes the place of a candidate that is left out, so that all federations have n members.
        """
        members = np.zeros((count, self.candidates), dtype=np.bool_)
        for row in members:
            row[rng.permutation(self.candidates)[: self.size]] = True
        return members

    def partition(self, rng: np.random.Generator) -> list[Ints]:
        """All clients in federations of n, int64 (n,) each, rising: candidates at random, then others."""
        halves = np.split(rng.permutation(self.candidates), 2)
        others = np.arange(self.candidates, self.clients).reshape(self.groups, self.size)
        return [*(np.sort(half) for half in halves), *others]


class ShadowTraining:
    """Trains federations of a Spec whose members differ.

    A client asks the same queries in each of them; with `log`, the draws behind its lists and clicks are the
    same as well. Cohorts and noise are drawn anew.
    """

    def __init__(self, setup: Setup, of: str) -> None:
        """Prepare the clients; federations are played by `models` and `add_updates`."""
        self.setup = setup
        self.federation = Federation(setup)
        self.start = first_model(setup)
        clicks = self.federation.clientele.world.click_model.purpose
        self.shared = (*QUERY_PURPOSES, "show", clicks) if of == "log" else QUERY_PURPOSES

    @property
    def rounds(self) -> int:
        """Number T of rounds."""
        return self.setup.spec.train.rounds

    def models(self, members: Bools, tick: Tick) -> Floats:
        """The global models of federations with these members (K, 2 n), float64 (K, T + 1, P)."""
        found = np.empty((len(members), self.rounds + 1, self.start.size))
        for number, row in enumerate(members):
            found[number, 0] = self.start
            for context, _, after in self._play(f"shadow/{number}", np.flatnonzero(row)):
                found[number, context.round + 1] = after.parameters
            tick()
        return found

    def updates(self, clients: int, partitions: Sequence[Sequence[Ints]], tick: Tick) -> Floats:
        """What clients add to the global model in each round on average, float64 (clients, T, P).

        Each partition is a sequence of federations in which every client plays once. Defenses act, but the
        updates are those before them.
        """
        total = np.zeros((clients, self.rounds, self.start.size))
        for number, parts in enumerate(partitions):
            for place, members in enumerate(parts):
                for context, sent, _ in self._play(f"reference/{number}/{place}", members):
                    counts = np.where(sent.wired.survivors, context.counts, 0)
                    weights = counts / max(int(counts.sum()), 1)
                    total[context.clients, context.round] += weights[:, np.newaxis] * sent.updates
                tick()
        return total / len(partitions)

    def _play(self, branch: str, members: Ints) -> Iterator[tuple[RoundContext, CohortMessages, GlobalModel]]:
        """Each round's context and messages, and the server's state after it."""
        setup, federation, spec = self.setup, self.federation, self.setup.spec
        streams = BranchStreams(spec.seed, spec.repetition, branch=f"membership/{branch}", shared=self.shared)
        cohorts = federation.cohorts(members, streams)
        model = federation.training.first(self.start)
        for round_ in range(self.rounds):
            context = setup.context(
                round_, cohorts.cohort(round_), federation.clientele.most, model.parameters
            )
            context, _, sent, model = federation.exchange(replace(context, source=streams), model)
            yield context, sent, model
