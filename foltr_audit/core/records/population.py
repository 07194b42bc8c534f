"""The clients and their intents, as scenarios describe them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np

from foltr_audit.errors import UsageError
from foltr_audit.utils.arrays import Floats, Ints


@dataclass(frozen=True, kw_only=True)
class TraitValue:
    """One value of a trait. A field that is None changes nothing for the clients with this value.

    Attributes:
        name: its name in reports, e.g. `intent 2`.
        intent: the clients' intent, from 0, whose grades decide on clicks.
        grades: the clients have only documents of these grades.
        click_model: text of the clients' click model.
        interactions: number of interactions of a client in a round.
    """

    name: str
    intent: int | None = None
    grades: tuple[int, ...] | None = None
    click_model: str | None = None
    interactions: int | None = None


@dataclass(frozen=True, kw_only=True)
class Trait:
    """A property in which clients differ: about n / len(values) of n clients have each value.

    Attributes:
        name: its name, e.g. `intent`.
        values: the values, at least one, with different names.
        strength: probability that an interaction follows the client's value; else it follows any of the
            values, each equally likely. At 0 the clients share the same interactions evenly.
    """

    name: str
    values: tuple[TraitValue, ...]
    strength: float = 1.0

    def __post_init__(self) -> None:
        if not self.values:
            raise UsageError(f"scenario: trait {self.name} has no values; expected at least one")
        names = [value.name for value in self.values]
        for name in names:
            if not name.isprintable() or "\\" in name:
                raise UsageError(
                    f"scenario: trait {self.name} has value {name!r}; expected no backslashes and control "
                    "characters"
                )
            if names.count(name) > 1:
                raise UsageError(
                    f"scenario: trait {self.name} has value {name!r} twice; expected unique names"
                )
        if not 0 <= self.strength <= 1:
            raise UsageError(f"scenario: trait {self.name} has strength {self.strength}; expected 0 to 1")


@dataclass(frozen=True, kw_only=True)
class Population:
    """All traits of clients; every combination of their values is a group, all equally frequent.

    Client c belongs to group c modulo the number of groups, so clients with consecutive ids are spread evenly
    over the groups.
    """

    traits: tuple[Trait, ...] = ()

    def with_trait(self, trait: Trait) -> Population:
        """The same clients with one more trait, of another name."""
        if any(other.name == trait.name for other in self.traits):
            raise UsageError(f"scenario: trait {trait.name} is given twice; expected it once")
        return replace(self, traits=(*self.traits, trait))

    @property
    def values(self) -> tuple[TraitValue, ...]:
        return tuple(value for trait in self.traits for value in trait.values)

    @property
    def have_intents(self) -> bool:
        return any(value.intent is not None for value in self.values)

    def clicking(self, text_of: Callable[[str], str]) -> Population:
        """The same clients with the text of every click model replaced by `text_of(text)`."""
        traits = []
        for trait in self.traits:
            texts = (value.click_model for value in trait.values)
            known = [None if text is None else text_of(text) for text in texts]
            pairs = zip(trait.values, known, strict=True)
            values = tuple(replace(value, click_model=text) for value, text in pairs)
            traits.append(replace(trait, values=values))
        return Population(traits=tuple(traits))

    def click_model(self, otherwise: str) -> str | None:
        """The click model of all clients, `otherwise` if no trait names one; None if clients differ."""
        texts = {value.click_model for value in self.values} - {None}
        return otherwise if not texts else texts.pop() if len(texts) == 1 else None

    @property
    def n_groups(self) -> int:
        """Number of groups; 1 if clients do not differ."""
        return prod(len(trait.values) for trait in self.traits)

    @property
    def groups(self) -> tuple[str, ...]:
        """Name of each group, in order; `everybody` if clients do not differ."""
        combined = product(*(trait.values for trait in self.traits))
        return tuple(", ".join(value.name for value in values) or "everybody" for values in combined)

    def group_of(self, clients: Ints) -> Ints:
        """Group of each client, int64 (C,)."""
        return np.asarray(clients % self.n_groups)

    def own(self, clients: Ints) -> list[Ints]:
        """For each trait, the index of each client's value, int64 (C,)."""
        rest, found = self.group_of(clients), []
        for trait in reversed(self.traits):
            found.append(rest % len(trait.values))
            rest = rest // len(trait.values)
        return found[::-1]


SEVERAL = "several"
"""Replaces the name of the click model if clients have different ones."""

EVERYBODY = Population()
"""Clients that do not differ, or whose traits are unknown."""


class IntentPeriod(NamedTuple):
    """A period in which one intent is the most likely.

    Attributes:
        first, end: interactions first .. end-1 of the training, counted from 0.
        intent: the leading intent, from 0; None if no intent leads.
    """

    first: int
    end: int
    intent: int | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Environment:
    """The probability of each intent over time; it changes linearly between two knots.

    Attributes:
        knots: times at which a piece starts, in interactions, increasing from 0, float64 (K,).
        start, stop: probability of each intent at the start of a piece, and just before its end,
            float64 (K, I); in the last piece it stays at `start`.
        periods: consecutive periods, from 0, each with its leading intent.
        kept: the only intent whose interactions are simulated, from 0; None for all intents.
    """

    knots: Floats
    start: Floats
    stop: Floats
    periods: tuple[IntentPeriod, ...]
    kept: int | None = None

    @property
    def n_intents(self) -> int:
        return int(self.start.shape[1])

    @property
    def change_points(self) -> tuple[int, ...]:
        """The first interaction of every period but the first."""
        return tuple(period.first for period in self.periods[1:])

    def probabilities(self, times: Ints | Sequence[int]) -> Floats:
        """Probability of each intent at these interactions (n,), counted from 0; float64 (n, I)."""
        t = np.asarray(times, dtype=np.float64)
        piece = np.searchsorted(self.knots, t, side="right") - 1
        ends = np.append(self.knots[1:], np.inf)
        share = (t - self.knots[piece]) / (ends[piece] - self.knots[piece])
        return np.asarray(self.start[piece] + share[:, np.newaxis] * (self.stop[piece] - self.start[piece]))

    def leading(self, time: int) -> IntentPeriod:
        """The period of an interaction; the last period also applies after its end."""
        ends = [period.end for period in self.periods[:-1]]
        return self.periods[int(np.searchsorted(ends, time, side="right"))]


class ScenarioContext(NamedTuple):
    """What a scenario knows when it describes the clients.

    Attributes:
        intents: number of intents for which documents are judged.
        largest_label: highest grade of the collection.
        interactions: interactions B of a client in a round.
        total: interactions of the whole training.
    """

    intents: int
    largest_label: int
    interactions: int
    total: int

    def several_intents(self, scenario: str) -> None:
        """Refuse data with a single intent."""
        if self.intents < 2:
            raise UsageError(
                f"scenario {scenario}: the data are judged under one intent; expected several, see --intents"
            )


class QueryAssignment(NamedTuple):
    """The queries of the clients of a round, and how they click; all int64 (C, B).

    Attributes:
        queries: query of each interaction in the training data, padded with -1.
        intents: intent of each interaction, from 0.
        ways: index of the combination of click model and intent of each interaction.
    """

    queries: Ints
    intents: Ints
    ways: Ints

    @property
    def counts(self) -> Ints:
        """Interactions of each client, int64 (C,)."""
        return np.asarray((self.queries >= 0).sum(axis=1))

    def at(self, rows: Ints) -> QueryAssignment:
        """The queries of only the clients in `rows`."""
        return QueryAssignment(*(values[rows] for values in self))

    @classmethod
    def alike(cls, queries: Ints) -> QueryAssignment:
        """Queries (C, B) of clients with one common intent and click model."""
        nothing = np.zeros_like(queries)
        return cls(queries, nothing, nothing)


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

        The attack protocol sets the click model and number of interactions of `fresh` clients: their groups
        differ only in intents and in the grades of their documents.
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
