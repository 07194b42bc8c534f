"""The clients of an experiment, in numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeVar

import numpy as np

from foltr_audit.core.records import Dataset
from foltr_audit.core.records.population import TraitValue
from foltr_audit.simulation.setup import Setup
from foltr_audit.utils.arrays import Ints
from foltr_audit.utils.rows import ResultRow

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class GroupFacts(ResultRow):
    """The clients of one group; with a strength below 1, where interactions follow the client's own value.

    Attributes:
        group: its name.
        clients: number of its clients.
        share: its share of the clients.
        intent: intent of its clients, from 1; None if they have none of their own.
        grades: labels of the documents that they hold; None for all.
        click_model: how they click.
        interactions: interactions of a client in a round.
        queries: training queries that they have documents for.
        relevant_per_query: mean number of relevant documents for one of these, over all intents unless they
            have one of their own.
    """

    group: str
    clients: int
    share: float
    intent: int | None
    grades: tuple[int, ...] | None
    click_model: str
    interactions: int
    queries: int
    relevant_per_query: float

    @classmethod
    def of(
        cls, setup: Setup, name: str, clients: tuple[int, int], values: Sequence[TraitValue]
    ) -> GroupFacts:
        """The facts of a group with so many of all clients, and with the values of its traits."""
        own = TraitValue(name=name)
        for value in values:
            own = TraitValue(
                name=name,
                intent=_last_set(own.intent, value.intent),
                grades=_last_set(own.grades, value.grades),
                click_model=_last_set(own.click_model, value.click_model),
                interactions=_last_set(own.interactions, value.interactions),
            )
        queries, relevant = _held(setup.collection.train, own.grades, _judged(setup, own.intent))
        return cls(
            group=name,
            clients=clients[0],
            share=clients[0] / clients[1],
            intent=None if own.intent is None else own.intent + 1,
            grades=own.grades,
            click_model=own.click_model or setup.spec.train.click_model,
            interactions=own.interactions or setup.learner.interactions,
            queries=queries,
            relevant_per_query=relevant,
        )


@dataclass(frozen=True, kw_only=True)
class PopulationFacts(ResultRow):
    """The clients of an experiment in numbers.

    Attributes:
        scenario: text of the scenarios.
        clients: number of clients.
        strengths: strength of each trait, by its name.
        groups: the groups, each with its own values.
    """

    scenario: str
    clients: int
    strengths: Mapping[str, float]
    groups: tuple[GroupFacts, ...]

    @classmethod
    def of(cls, setup: Setup) -> PopulationFacts | None:
        """The clients of a setup; None if all are alike, or every strength is 0: groups are names then."""
        population, clients = setup.population, setup.spec.population.clients
        if population.n_groups == 1 or all(trait.strength == 0 for trait in population.traits):
            return None
        values = list(product(*(trait.values for trait in population.traits)))
        each, more = divmod(clients, len(values))
        return cls(
            scenario=setup.spec.population.scenario,
            clients=clients,
            strengths={trait.name: trait.strength for trait in population.traits},
            groups=tuple(
                GroupFacts.of(setup, name, (each + (group < more), clients), own)
                for group, (name, own) in enumerate(zip(population.groups, values, strict=True))
            ),
        )


def _last_set(before: T | None, now: T | None) -> T | None:
    return before if now is None else now


def _judged(setup: Setup, intent: int | None) -> Ints:
    """Grades under the intents that a client may have, int64 (intents, documents)."""
    data = setup.collection.train
    if intent is not None:
        return data.grades[intent : intent + 1]
    return data.grades if setup.intents > 1 else data.labels[np.newaxis]


def _held(data: Dataset, grades: Sequence[int] | None, judged: Ints) -> tuple[int, float]:
    """Queries with a document of some grades, and the mean number of relevant ones for one of them."""
    held = np.ones(data.n_documents, dtype=np.bool_) if grades is None else np.isin(data.labels, grades)
    queries = int((np.add.reduceat(held, data.offsets[:-1]) > 0).sum())
    relevant = ((judged > 0) & held).sum(axis=1).mean()
    return queries, float(relevant / queries) if queries else 0.0
