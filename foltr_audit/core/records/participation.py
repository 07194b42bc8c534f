"""Who took part in which rounds, and what follows about clients from the sums of these rounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from foltr_audit.utils.arrays import Floats, Ints


class RoundMembers(NamedTuple):
    """The clients in the sum of one round.

    Attributes:
        clients: their numbers, below the number N of clients that are seen at all, int64 (n,).
        weights: how much the update of each counts in the sum, float64 (n,); 1 where all count the same.
    """

    clients: Ints
    weights: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class Participation:
    """Who took part in each of R rounds, which a server of secure aggregation knows.

    Attributes:
        clients: number N of clients.
        rounds: the members of each round's sum.
    """

    clients: int
    rounds: tuple[RoundMembers, ...]

    @property
    def matrix(self) -> Floats:
        """The weight of each client in each sum, float64 (R, N); 0 where it did not take part."""
        out = np.zeros((len(self.rounds), self.clients))
        for row, members in zip(out, self.rounds, strict=True):
            np.add.at(row, members.clients, members.weights)
        return out


class ParticipantEstimates(NamedTuple):
    """What an attack says of each of N clients.

    Attributes:
        updates: its mean update, float64 (N, P).
        intents: how much speaks for each intent, the largest for the one that is named, float64 (N, I); None
            if the attack does not know.
    """

    updates: Floats
    intents: Floats | None = None
