"""The clients of an experiment, in numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import TypeVar

import numpy as np

from foltr_audit.core.records import Dataset
from foltr_audit.core.records.population import TraitValue
from foltr_audit.simulation.client_population import ClientPopulation
from foltr_audit.utils.arrays import Ints
from foltr_audit.utils.formatting import JsonValue

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class GroupFacts:
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
    def of(cls, own: TraitValue, clients: int, share: float, data: Dataset, intents: int) -> GroupFacts:
        """The facts of clients with some values, who distinguish so many intents of the data."""
        queries, relevant = _held(data, own.grades, _judged(data, own.intent, intents))
        return cls(
            group=own.name,
            clients=clients,
            share=share,
            intent=None if own.intent is None else own.intent + 1,
            grades=own.grades,
            click_model=own.click_model or "",
            interactions=own.interactions or 0,
            queries=queries,
            relevant_per_query=relevant,
        )


@dataclass(frozen=True, kw_only=True)
class PopulationFacts:
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

    def plain(self) -> dict[str, JsonValue]:
        """Everything as values for JSON."""
        table: dict[str, JsonValue] = json.loads(json.dumps(asdict(self)))
        return table

    @classmethod
    def of(cls, clients: ClientPopulation, data: Dataset, click_model: str) -> PopulationFacts | None:
        """The clients on some data; None if all are alike, or every strength is 0: groups are names then.

        The click model is that of clients who have none of their own.
        """
        population, count = clients.population, clients.spec.clients
        if population.n_groups == 1 or all(trait.strength == 0 for trait in population.traits):
            return None
        usual = TraitValue(name="", click_model=click_model, interactions=clients.learner.interactions)
        values = list(product(*(trait.values for trait in population.traits)))
        each, more = divmod(count, len(values))
        groups = []
        for number, (name, own) in enumerate(zip(population.groups, values, strict=True)):
            size, joined = each + (number < more), _joined(name, (usual, *own))
            groups.append(GroupFacts.of(joined, size, size / count, data, clients.intents))
        return cls(
            scenario=clients.spec.scenario,
            clients=count,
            strengths={trait.name: trait.strength for trait in population.traits},
            groups=tuple(groups),
        )


def _joined(name: str, values: Sequence[TraitValue]) -> TraitValue:
    """All values as one; of those that set a field the last one counts."""
    found = TraitValue(name=name)
    for value in values:
        found = TraitValue(
            name=name,
            intent=_last_set(found.intent, value.intent),
            grades=_last_set(found.grades, value.grades),
            click_model=_last_set(found.click_model, value.click_model),
            interactions=_last_set(found.interactions, value.interactions),
        )
    return found


def _last_set(before: T | None, now: T | None) -> T | None:
    return before if now is None else now


def _judged(data: Dataset, intent: int | None, intents: int) -> Ints:
    """Grades under the intents that a client may have, int64 (intents, documents)."""
    if intent is not None:
        return data.grades[intent : intent + 1]
    return data.grades if intents > 1 else data.labels[np.newaxis]


def _held(data: Dataset, grades: Sequence[int] | None, judged: Ints) -> tuple[int, float]:
    """Queries with a document of some grades, and the mean number of relevant ones for one of them."""
    held = np.ones(data.n_documents, dtype=np.bool_) if grades is None else np.isin(data.labels, grades)
    queries = int((np.add.reduceat(held, data.offsets[:-1]) > 0).sum())
    relevant = ((judged > 0) & held).sum(axis=1).mean()
    return queries, float(relevant / queries) if queries else 0.0
