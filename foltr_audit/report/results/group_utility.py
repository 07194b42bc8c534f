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
from foltr_audit.report.results.attack_rows import columns, known
from foltr_audit.report.results.base import Row, groups
from foltr_audit.utils.arrays import Floats
from foltr_audit.utils.rows import Estimate

LAST = 10
"""The last tenth of the rounds counts as the last ones, at least one round."""

_METRICS = ("online_mean", "online_last", "ndcg@10")


class TrainingHistory(NamedTuple):
    """One training.

    Attributes:
        population: who its clients were.
        rounds: the metrics of each round by name.
    """

    population: Population
    rounds: Sequence[Mapping[str, float]]


def utility_group_rows(cells: Sequence[RunResult]) -> list[Row]:
    """The rows of all settings; none of settings in which clients do not differ."""
    return [
        row
        for group in groups(cells)
        for row in rows_of_trainings(
            [TrainingHistory(cell.world.population, cell.trained.rounds) for cell in group.cells],
            group.setting,
        )
    ]


def rows_of_trainings(trainings: Sequence[TrainingHistory], setting: Row) -> list[Row]:
    """One row per group of clients, worst served (lowest online nDCG@10) first; none of a single group.

    `online_mean` is the mean of the rounds in which the group played, `online_last` that of the last tenth
    of the rounds, `ndcg@10` that of the trained model under the group's own intent where groups differ in
    it. All are means over trainings. Next to each, `_all` is that of all clients in the same trainings and
    `_difference` the group's less that; intervals are Student's over three or more trainings.

    Args:
        trainings: repetitions of one setting.
        setting: columns that name it.
    """
    names = dict.fromkeys(name for played in trainings for name in played.population.groups)
    if len(names) < 2:
        return []
    every = [_of_everybody(played) for played in trainings]
    found = []
    for name in names:
        mine = [_of_group(played, name) for played in trainings]
        scores: Row = {}
        for number, metric in enumerate(_METRICS):
            scores |= _columns(metric, _column(mine, number), _column(every, number))
        found.append({"group": name, **scores})
    found.sort(key=lambda row: inf if row["online_mean"] is None else row["online_mean"])
    lasting = {_last(played.rounds) for played in trainings}
    facts = {"runs": len(trainings), "last_rounds": max(lasting, default=0)}
    return [
        {**setting, **facts, "group": row["group"], "place": place, **row}
        for place, row in enumerate(found, start=1)
    ]


def _of_everybody(played: TrainingHistory) -> tuple[float, ...]:
    """The metrics of all clients, in the order of `_METRICS`."""
    online = _values(played.rounds, ONLINE_NDCG)
    return (
        mean_of_rounds(online),
        mean_of_rounds(online[-_last(played.rounds) :]),
        _final(played.rounds, OFFLINE_NDCG),
    )


def _of_group(played: TrainingHistory, name: str) -> tuple[float, ...]:
    """The metrics of one group, in the order of `_METRICS`; NaN where they are not known."""
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


def _columns(name: str, mine: Floats, every: Floats) -> Row:
    """A metric of a group and of all clients in each training, both (runs,), as columns."""
    both = ~np.isnan(mine) & ~np.isnan(every)
    mine, every = mine[both], every[both]
    return {
        **columns(name, Estimate(mean_of_rounds(mine), mean_interval(mine))),
        f"{name}_all": known(mean_of_rounds(every)),
        **columns(
            f"{name}_difference",
            Estimate(mean_of_rounds(mine - every), mean_interval(mine - every, -1.0)),
        ),
    }
