"""Who takes part in a round: drawn by the protocol, or chosen by a server."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from foltr_audit.core.plugins import Server
from foltr_audit.core.plugins.answers import array_of
from foltr_audit.errors import PluginError
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Ints


@dataclass(frozen=True, kw_only=True, eq=False)
class CohortSampler:
    """Draws cohorts: any clients without replacement, or one of fixed batches; of those whose turn it is.

    Attributes:
        clients: ids of the clients, rising, int64 (n,).
        size: number of clients in a round.
        separation: rounds from one in which a client plays to its next one, at least.
        streams: named random streams.
        fixed: whether the clients of a round always play together.
    """

    clients: Ints
    size: int
    separation: int
    streams: Streams
    fixed: bool = False

    def cohort(self, round_: int) -> Ints:
        """Ids of the clients that play a round, rising.

        A uniform sample without replacement: of all clients, or with a `separation` of b rounds of the b-th
        part of them whose turn it is. The clients with the smallest tickets play. A client's ticket comes
        from its own stream, so that more clients do not change the tickets of the others.

        Fixed cohorts are batches into which those are split once, and a batch is drawn for each round;
        clients that fill no batch never play. So a sum never has a part of a batch, and whoever sees all sums
        learns the sums of whole batches, and no more.

        Source: So et al. 2023, "Securing secure aggregation: mitigating multi-round privacy leakage in
        federated learning", its batch partitioning with one batch in each round.
        """
        able = self._turns[round_ % len(self._turns)]
        if self.size == able.size:
            return able
        if self.fixed:
            batches = self._batches[round_ % len(self._turns)]
            return batches[self.streams.generator(f"batch/{round_}").integers(len(batches))]
        tickets = self.streams.clients("cohort", round_, able).uniform(1)[:, 0]
        # The largest ticket that plays, found without sorting all. Of equal tickets the lower ids play, so
        # that the cohort has its size.
        last = np.partition(tickets, self.size - 1)[self.size - 1]
        chosen, tied = np.flatnonzero(tickets < last), np.flatnonzero(tickets == last)
        return np.asarray(able[np.sort(np.concatenate([chosen, tied[: self.size - chosen.size]]))])

    @cached_property
    def _turns(self) -> list[Ints]:
        """The clients that may play in rounds t, t + b, t + 2 b, ... for each t below b, by rising ids.

        Their order is drawn once, and every b-th client of it belongs to one t. So a round follows from its
        number alone, and no record of earlier cohorts is needed.

        Source: Choquette-Choo et al. 2023, "(Amplified) banded matrix factorization: a unified approach to
        private training", algorithm 2.
        """
        if self.separation == 1:
            return [self.clients]
        tickets = self.streams.clients("separation", 0, self.clients).uniform(1)[:, 0]
        order = np.argsort(tickets, kind="stable")
        return [self.clients[np.sort(order[turn :: self.separation])] for turn in range(self.separation)]

    @cached_property
    def _batches(self) -> list[list[Ints]]:
        """The batches of each turn; their clients rise."""
        return [self._split(able) for able in self._turns]

    def _split(self, able: Ints) -> list[Ints]:
        tickets = self.streams.clients("batches", 0, able).uniform(1)[:, 0]
        order = able[np.argsort(tickets, kind="stable")]
        ends = range(self.size, able.size + 1, self.size)
        return [np.sort(order[end - self.size : end]) for end in ends]


def chosen_cohort(server: Server, sampler: CohortSampler, round_: int) -> Ints:
    """Ids of the clients that play a round, rising: drawn, or what a server makes of the drawn ones.

    Raises:
        PluginError: the server chose no client, or somebody who is none.
    """
    if not server.chooses:
        return sampler.cohort(round_)
    who, chosen = f"server {server.name}: cohort", server.cohort(round_, sampler.cohort)
    checked = array_of(who, chosen, (np.size(chosen),), "whole numbers").astype(np.int64)
    if not checked.size or not np.isin(checked, sampler.clients).all() or (np.diff(checked) <= 0).any():
        raise PluginError(f"{who} gave {checked[:5].tolist()}; expected rising ids of clients, at least one")
    return checked
