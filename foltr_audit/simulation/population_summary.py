"""The clients of an experiment, as plain rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from foltr_audit.core.records import Dataset
from foltr_audit.core.records.population import TraitValue
from foltr_audit.simulation.setup import Setup
from foltr_audit.utils.arrays import Ints

Row = dict[str, Any]


def population_facts(setup: Setup) -> Row | None:
    """Scenario, number of clients, strength of each trait, a row for each group; None if all are alike.

    Clients are also alike if every strength is 0: groups are names only then.

    A group has its share of the clients, its own values, the training queries that it has documents for, and
    the mean number of relevant documents for one of them, over all intents unless it has one of its own. With
    a strength below 1 this describes the interactions that follow the client's own value.
    """
    population, clients = setup.population, setup.spec.population.clients
    if population.n_groups == 1 or all(trait.strength == 0 for trait in population.traits):
        return None
    values = list(product(*(trait.values for trait in population.traits)))
    each, more = divmod(clients, len(values))
    sizes = [each + (group < more) for group in range(len(values))]
    return {
        "scenario": setup.spec.population.scenario,
        "clients": clients,
        "strengths": {trait.name: trait.strength for trait in population.traits},
        "groups": [
            {"group": name, "clients": size, "share": size / clients, **_facts(setup, own)}
            for name, size, own in zip(population.groups, sizes, values, strict=True)
        ],
    }


def _facts(setup: Setup, values: Sequence[TraitValue]) -> Row:
    intent, grades, click_model, interactions = (
        _last_set(values, name) for name in ("intent", "grades", "click_model", "interactions")
    )
    data = setup.collection.train
    queries, relevant = _held(data, grades, _judged(setup, intent))
    return {
        "intent": None if intent is None else intent + 1,
        "grades": None if grades is None else list(grades),
        "click_model": click_model or setup.spec.train.click_model,
        "interactions": interactions or setup.learner.interactions,
        "queries": queries,
        "relevant_per_query": relevant,
    }


def _last_set(values: Sequence[TraitValue], name: str) -> Any:
    """The field of the last value that sets it, else None."""
    return next((said for value in reversed(values) if (said := getattr(value, name)) is not None), None)


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
