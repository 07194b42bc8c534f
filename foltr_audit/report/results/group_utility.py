"""How well a training serves each group of clients, as rows of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import NamedTuple

import numpy as np

from foltr_audit.core.ranking_metrics import OFFLINE_NDCG, ONLINE_NDCG, mean_of_rounds
from foltr_audit.core.records.population import Population
from foltr_audit.experiments.runner import RunResult
from foltr_audit.judge.significance import mean_interval
from foltr_audit.report.results.base import GroupMetric, Setting, UtilityGroupRow, groups
from foltr_audit.utils.arrays import Floats
from foltr_audit.utils.rows import Estimate

LAST = 10
"""The last tenth of the rounds counts as the last ones, at least one round."""


class TrainingHistory(NamedTuple):
    """One training.

    Attributes:
        population: who its clients were.
        rounds: the metrics of each round by name.
    """

    population: Population
    rounds: Sequence[Mapping[str, float]]


def utility_group_rows(cells: Sequence[RunResult]) -> tuple[UtilityGroupRow, ...]:
    """The rows of all settings; none of settings in which clients do not differ."""
    return tuple(
        row
        for group in groups(cells)
        for row in rows_of_trainings(
            [TrainingHistory(cell.world.population, cell.trained.rounds) for cell in group.cells],
            group.setting,
        )
    )


def rows_of_trainings(trainings: Sequence[TrainingHistory], setting: Setting) -> list[UtilityGroupRow]:
    """One row per group of clients, worst served (lowest online nDCG@10) first; none of a single group.

    All metrics are means over trainings; intervals are Student's over three or more trainings.

    Args:
        trainings: repetitions of one setting.
        setting: what was run.
    """
    names = dict.fromkeys(name for played in trainings for name in played.population.groups)
    if len(names) < 2:
        return []
    every = [_of_everybody(played) for played in trainings]
    found: list[tuple[str, list[GroupMetric]]] = []
    for name in names:
        mine = [_of_group(played, name) for played in trainings]
        found.append((name, [_metric(_column(mine, number), _column(every, number)) for number in range(3)]))
    found.sort(key=lambda one: one[1][0].own.value if one[1][0].own.known else inf)
    lasting = {_last(played.rounds) for played in trainings}
    return [
        UtilityGroupRow(
            setting=setting,
            runs=len(trainings),
            last_rounds=max(lasting, default=0),
            group=name,
            place=place,
            online_mean=mean,
            online_last=last,
            ndcg=ndcg,
        )
        for place, (name, (mean, last, ndcg)) in enumerate(found, start=1)
    ]


def _of_everybody(played: TrainingHistory) -> tuple[float, ...]:
    """The metrics of all clients, in the order of the row."""
    online = _values(played.rounds, ONLINE_NDCG)
    return (
        mean_of_rounds(online),
        mean_of_rounds(online[-_last(played.rounds) :]),
        _final(played.rounds, OFFLINE_NDCG),
    )


def _of_group(played: TrainingHistory, name: str) -> tuple[float, ...]:
    """The metrics of one group, in the order of the row; NaN where they are not known."""
    online = _values(played.rounds, f"{ONLINE_NDCG}/{name}")
    intent = _intent(played.population, name)
    offline = float("nan") if intent is None else _final(played.rounds, f"{OFFLINE_NDCG}/intent {intent + 1}")
    return mean_of_rounds(online), mean_of_rounds(online[-_last(played.rounds) :]), offline


def _intent(population: Population, name: str) -> int | None:
    """A group's own intent, from 0; None where it has none, or the population has no such group."""
    if name not in population.groups:
        return None
    own = population.own(np.array([population.groups.index(name)]))
    values = [trait.values[int(number[0])] for trait, number in zip(population.traits, own, strict=True)]
    return next((value.intent for value in values if value.intent is not None), None)


def _last(rounds: Sequence[Mapping[str, float]]) -> int:
    return max(1, len(rounds) // LAST)


def _values(rounds: Sequence[Mapping[str, float]], name: str) -> Floats:
    return np.array([row.get(name, np.nan) for row in rounds], dtype=np.float64)


def _final(rounds: Sequence[Mapping[str, float]], name: str) -> float:
    return float(rounds[-1].get(name, np.nan)) if rounds else float("nan")


def _column(rows: Sequence[tuple[float, ...]], number: int) -> Floats:
    return np.array([row[number] for row in rows], dtype=np.float64)


def _metric(mine: Floats, every: Floats) -> GroupMetric:
    """A metric of a group and of all clients in each training, both (runs,)."""
    both = ~np.isnan(mine) & ~np.isnan(every)
    mine, every = mine[both], every[both]
    return GroupMetric(
        own=Estimate(mean_of_rounds(mine), mean_interval(mine)),
        everybody=mean_of_rounds(every),
        difference=Estimate(mean_of_rounds(mine - every), mean_interval(mine - every, -1.0)),
    )
