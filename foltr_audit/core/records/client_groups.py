"""Groups of clients for which reports show separate rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr_audit.core.records.population import Population
from foltr_audit.utils.arrays import Ints


@dataclass(frozen=True)
class ClientGroups:
    """Groups of clients with the same values of some or all traits.

    Attributes:
        names: name of each group.
        numbers: for each group of the population, index of its clients' group in `names`.
    """

    names: tuple[str, ...] = ("everybody",)
    numbers: tuple[int, ...] = (0,)

    @classmethod
    def of(cls, population: Population, *, fresh: bool = False) -> ClientGroups:
        """The groups of a population.

        Args:
            population: the population of the clients.
            fresh: the clients are fresh ones, whose click model and number of interactions the attack
                protocol sets; groups then differ only in intents and in the grades of their documents.
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
"""One group: clients do not differ, or their traits are unknown."""
