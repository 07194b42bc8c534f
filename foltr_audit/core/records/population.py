"""Who the clients are and what they want: what a scenario says of them."""

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
    """One of several ways to be a client. None: as everybody.

    Attributes:
        name: what reports call it, e.g. `intent 2`.
        intent: under which intent its documents are judged, from 0.
        grades: its documents are those of these grades alone.
        click_model: text of its click model.
        interactions: how many interactions it has in a round.
    """

    name: str
    intent: int | None = None
    grades: tuple[int, ...] | None = None
    click_model: str | None = None
    interactions: int | None = None


@dataclass(frozen=True, kw_only=True)
class Trait:
    """One way in which clients differ: of n clients about n / len(values) have each value.

    Attributes:
        name: what it is called, e.g. `intent`.
        values: the values, at least one, with different names.
        strength: how likely an interaction is as the client's own value says; else it is as any of the
            values says, equally likely. At 0 the same pool of interactions is dealt out evenly.
    """

    name: str
    values: tuple[TraitValue, ...]
    strength: float = 1.0

    def __post_init__(self) -> None:
        if not self.values:
            raise UsageError(f"scenario: trait {self.name} has no values; expected one at least")
        names = [value.name for value in self.values]
        for name in names:
            if names.count(name) > 1:
                raise UsageError(f"scenario: value {name!r} of trait {self.name} twice; expected other names")
        if not 0 <= self.strength <= 1:
            raise UsageError(f"scenario: strength {self.strength} of {self.name}; expected 0 to 1")


@dataclass(frozen=True, kw_only=True)
class Population:
    """All traits of clients; values of different traits are combined in every way, equally often.

    Client c belongs to group c modulo the number of groups, so that a cohort of neighbours is even.
    """

    traits: tuple[Trait, ...] = ()

    def with_trait(self, trait: Trait) -> Population:
        """The same clients with one trait more.

        Raises:
            UsageError: they have a trait of this name already.
        """
        if any(other.name == trait.name for other in self.traits):
            raise UsageError(f"scenario: trait {trait.name} is given twice; expected it once")
        return replace(self, traits=(*self.traits, trait))

    @property
    def values(self) -> tuple[TraitValue, ...]:
        """The values of all traits."""
        return tuple(value for trait in self.traits for value in trait.values)

    @property
    def have_intents(self) -> bool:
        """Whether a trait gives clients an intent of their own."""
        return any(value.intent is not None for value in self.values)

    def clicking(self, text_of: Callable[[str], str]) -> Population:
        """The same clients with every click model's text as `text_of` gives it."""
        traits = []
        for trait in self.traits:
            texts = (value.click_model for value in trait.values)
            known = [None if text is None else text_of(text) for text in texts]
            pairs = zip(trait.values, known, strict=True)
            values = tuple(replace(value, click_model=text) for value, text in pairs)
            traits.append(replace(trait, values=values))
        return Population(traits=tuple(traits))

    def click_model(self, otherwise: str) -> str | None:
        """The click model of all clients, `otherwise` where no trait names one; None where they differ."""
        texts = {value.click_model for value in self.values} - {None}
        return otherwise if not texts else texts.pop() if len(texts) == 1 else None

    @property
    def n_groups(self) -> int:
        """Number of groups; 1 where clients do not differ."""
        return prod(len(trait.values) for trait in self.traits)

    @property
    def groups(self) -> tuple[str, ...]:
        """Name of each group, in order; `everybody` where clients do not differ."""
        combined = product(*(trait.values for trait in self.traits))
        return tuple(", ".join(value.name for value in values) or "everybody" for values in combined)

    def group_of(self, clients: Ints) -> Ints:
        """Group of each client, int64 (C,)."""
        return np.asarray(clients % self.n_groups)

    def own(self, clients: Ints) -> list[Ints]:
        """For each trait, which of its values each client has, int64 (C,)."""
        rest, found = self.group_of(clients), []
        for trait in reversed(self.traits):
            found.append(rest % len(trait.values))
            rest = rest // len(trait.values)
        return found[::-1]


SEVERAL = "several"
"""What stands in the place of a click model where clients have different ones."""

EVERYBODY = Population()
"""Clients that do not differ, or of which nothing is known."""


class IntentPeriod(NamedTuple):
    """A time in which one intent leads.

    Attributes:
        first, end: interactions first .. end-1 of the training, counted from 0.
        intent: the leading intent, from 0; None where none leads.
    """

    first: int
    end: int
    intent: int | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Environment:
    """How likely each intent is over time; between two knots probabilities change linearly.

    Attributes:
        knots: times at which a piece starts, in interactions, rising from 0, float64 (K,).
        start, stop: probability of each intent when a piece starts, and just before it ends, float64 (K, I);
            the last piece stays at `start`.
        periods: when each intent leads; one after the other, from 0 on.
        kept: the only intent whose interactions are played, from 0; all others are left out. None: every one.
    """

    knots: Floats
    start: Floats
    stop: Floats
    periods: tuple[IntentPeriod, ...]
    kept: int | None = None

    @property
    def n_intents(self) -> int:
        """Number of intents."""
        return int(self.start.shape[1])

    @property
    def change_points(self) -> tuple[int, ...]:
        """The first interaction of every period but the first."""
        return tuple(period.first for period in self.periods[1:])

    def probabilities(self, times: Ints | Sequence[int]) -> Floats:
        """Probability of each intent at some interactions (n,), counted from 0; float64 (n, I)."""
        t = np.asarray(times, dtype=np.float64)
        piece = np.searchsorted(self.knots, t, side="right") - 1
        ends = np.append(self.knots[1:], np.inf)
        share = (t - self.knots[piece]) / (ends[piece] - self.knots[piece])
        return np.asarray(self.start[piece] + share[:, np.newaxis] * (self.stop[piece] - self.start[piece]))

    def leading(self, time: int) -> IntentPeriod:
        """The period of an interaction; the last one also after its end."""
        ends = [period.end for period in self.periods[:-1]]
        return self.periods[int(np.searchsorted(ends, time, side="right"))]


class ScenarioContext(NamedTuple):
    """What a scenario may want to know before it says who the clients are.

    Attributes:
        intents: number of intents that documents are judged under.
        largest_label: highest grade of the collection.
        interactions: interactions B of a client in a round.
        total: interactions of the whole training.
    """

    intents: int
    largest_label: int
    interactions: int
    total: int

    def several_intents(self, scenario: str) -> None:
        """Refuse data with a single intent.

        Raises:
            UsageError: it says how to get several.
        """
        if self.intents < 2:
            raise UsageError(
                f"scenario {scenario}: the data are judged under one intent; expected several, see --intents"
            )


class QueryAssignment(NamedTuple):
    """What the clients of a round ask, and how they will click on it; all int64 (C, B).

    Attributes:
        queries: query of each interaction in the world's data, then -1 where a client has no more.
        intents: intent of each interaction, from 0.
        ways: which of the world's ways to click each interaction has: a click model and the intent.
    """

    queries: Ints
    intents: Ints
    ways: Ints

    @property
    def counts(self) -> Ints:
        """Interactions of each client, int64 (C,)."""
        return np.asarray((self.queries >= 0).sum(axis=1))

    @classmethod
    def alike(cls, queries: Ints) -> QueryAssignment:
        """Queries (C, B) of clients who have one intent and one way to click."""
        nothing = np.zeros_like(queries)
        return cls(queries, nothing, nothing)
