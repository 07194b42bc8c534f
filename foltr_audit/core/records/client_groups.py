"""Which clients a report tells apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr_audit.core.records.population import Population
from foltr_audit.utils.arrays import Ints


@dataclass(frozen=True)
class ClientGroups:
    """Groups of clients, by some or all of the traits of their population.

    Attributes:
        names: name of each group.
        numbers: for each group of the population, which of these its clients are in.
    """

    names: tuple[str, ...] = ("everybody",)
    numbers: tuple[int, ...] = (0,)

    @classmethod
    def of(cls, population: Population, *, fresh: bool = False) -> ClientGroups:
        """The groups of a population.

        Args:
            population: who the clients are.
            fresh: the clients came after the training, and clicked in the way and as often as they were
                told: only what they want and hold tells them apart.
        """
        every = np.arange(population.n_groups)
        telling = [
            [trait.values[number].name for number in own.tolist()]
            for trait, own in zip(population.traits, population.own(every), strict=True)
            if not fresh or any(value.intent is not None or value.grades for value in trait.values)
        ]
        named = [", ".join(names) for names in zip(*telling, strict=True)] or ["everybody"] * every.size
        names = tuple(dict.fromkeys(named))
        return cls(names, tuple(names.index(name) for name in named))

    def of_clients(self, clients: Ints) -> Ints:
        """Group of each client, int64 (C,)."""
        return np.array(self.numbers, dtype=np.int64)[clients % len(self.numbers)]


ONE_GROUP = ClientGroups()
"""Clients that do not differ, or of which nothing is known."""
