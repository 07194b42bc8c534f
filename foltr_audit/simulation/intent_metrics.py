"""What a change of intent costs a ranker: drop, lasting loss and online utility, period by period.

Source: Zhuang & Zuccon 2021, "How do online learning to rank methods adapt to changes of intent?", section 4.

The rows are those of `Trained.rounds`: one a round, with the nDCG@10 of the model after it under each intent
(NaN where it was not evaluated), and of the lists that users saw in it. Round r, from 0, plays the
interactions r n .. (r + 1) n - 1, and belongs to the period of the last of them. Intents are weighted by
their probabilities at that interaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from foltr_audit.core.ranking_metrics import OFFLINE_NDCG, ONLINE_NDCG, MetricDescription, mean_of_rounds
from foltr_audit.core.records.population import Environment
from foltr_audit.utils.arrays import Floats, Ints

Rows = Sequence[Mapping[str, float]]

PLAYED = "interactions"
"""Interactions of a round, in the rows of runs that leave some out."""

DROP, DELTA = "ndcg_drop@10", "ndcg_delta@10"

PERIOD: Mapping[str, MetricDescription] = MappingProxyType(
    {
        DROP: MetricDescription("nDCG_Drop@10", higher_is_better=False),
        DELTA: MetricDescription("nDCG_Delta@10", higher_is_better=False),
        "online_mean": MetricDescription("online nDCG@10"),
        "ndcg@10": MetricDescription("nDCG@10"),
    }
)
"""Metrics of a period, by their name in the rows of a report."""


def of_intent(intent: int) -> str:
    """Name of the offline nDCG@10 under an intent, from 0, in the rows of a report.

    >>> of_intent(0)
    'offline_ndcg@10/intent 1'
    """
    return f"{OFFLINE_NDCG}/intent {intent + 1}"


def of_period(metric: str, period: int) -> str:
    """Name of a metric of a period, from 0.

    >>> of_period("online_mean", 1)
    'online_mean/period 2'
    """
    return f"{metric}/period {period + 1}"


def relative_loss(best: Floats, reached: Floats) -> Floats:
    """The share of `best` that was not reached, 0 where nothing could be, elementwise.

    >>> relative_loss(np.array([0.5, 0.5, 0.0]), np.array([0.4, 0.6, 0.0])).round(3).tolist()
    [0.2, 0.0, 0.0]
    """
    lost = np.maximum(best - reached, 0.0)
    return np.asarray(np.divide(lost, best, out=np.zeros_like(lost), where=~(best == 0)))


def under_intents(rows: Rows, intents: int) -> Floats:
    """Offline nDCG@10 of each round under each intent, NaN where not evaluated, float64 (rounds, I)."""
    names = [of_intent(intent) for intent in range(intents)]
    found = [[row.get(name, np.nan) for name in names] for row in rows]
    return np.array(found, dtype=np.float64).reshape(len(rows), intents)


def drops(rows: Rows, environment: Environment, per_round: int) -> Floats:
    """nDCG_Drop@10 at each change point c, float64 (changes,); NaN where no model was evaluated before.

    The loss from theta_{c-1} under the intents of interaction c - 1 to theta_c under those of interaction c,
    where theta_t has learnt from interactions 0 .. t. The two are neighbours, so only the labels change.
    A round of many interactions has no models between its ends, and the model after it would already have
    adapted to the new intent. Hence each is the last evaluated model that has learnt from as many
    interactions or fewer: the paper's own if a round is one interaction, else the same model under old and
    new labels.
    """
    points = np.array(environment.change_points, dtype=np.int64)
    values = under_intents(rows, environment.n_intents)
    before = _weighted(_latest(values, points, per_round), environment.probabilities(points - 1))
    after = _weighted(_latest(values, points + 1, per_round), environment.probabilities(points))
    return relative_loss(before, after)


def deltas(rows: Rows, twins: Mapping[int, Rows], environment: Environment, per_round: int) -> Floats:
    """nDCG_Delta@10 of each period, float64 (periods,); NaN without its twin, or without an evaluated round.

    The mean over the evaluated rounds of a period of the loss against the twin that was trained under the
    leading intent all along, with the same seed. Both are evaluated under the intents of the round.

    Args:
        rows: rounds of the run.
        twins: rounds of the twins by their intent, from 0; of as many rounds.
        environment: that of the run.
        per_round: interactions of a round.
    """
    ours = current(rows, environment, per_round)
    losses = {
        intent: relative_loss(current(twin, environment, per_round), ours) for intent, twin in twins.items()
    }
    where = period_of_rounds(len(rows), environment, per_round)
    found = np.full(len(environment.periods), np.nan)
    for number, period in enumerate(environment.periods):
        if period.intent is not None and period.intent in losses:
            found[number] = mean_of_rounds(losses[period.intent][where == number])
    return found


def online_means(rows: Rows, environment: Environment, per_round: int) -> Floats:
    """Mean online nDCG@10 of the interactions of each period, float64 (periods,).

    A round that a change divides counts in both periods, as much as it has interactions in each.
    """
    online = np.array([row[ONLINE_NDCG] for row in rows], dtype=np.float64)
    first = np.arange(len(rows)) * per_round
    known = ~np.isnan(online)
    found = []
    for number, period in enumerate(environment.periods):
        last = number + 1 == len(environment.periods)
        end = np.inf if last else period.end
        inside = np.clip(np.minimum(first + per_round, end) - np.maximum(first, period.first), 0, None)
        counts = inside * known
        total = counts.sum()
        found.append(float((counts * np.where(known, online, 0.0)).sum() / total) if total else np.nan)
    return np.array(found)


def offline_ends(rows: Rows, environment: Environment, per_round: int) -> Floats:
    """Offline nDCG@10 of the last evaluated round of each period, float64 (periods,); NaN without one."""
    values = current(rows, environment, per_round)
    where = period_of_rounds(len(rows), environment, per_round)
    found = []
    for number in range(len(environment.periods)):
        inside = values[where == number]
        known = inside[~np.isnan(inside)]
        found.append(float(known[-1]) if known.size else np.nan)
    return np.array(found)


def period_metrics(
    rows: Rows, twins: Mapping[int, Rows], environment: Environment, per_round: int
) -> dict[str, Floats]:
    """Every metric of `PERIOD` of a run, float64 (periods,) each; NaN where unknown. Arguments: see `deltas`.

    The first period has no drop.
    """
    return {
        DROP: np.concatenate([[np.nan], drops(rows, environment, per_round)]),
        DELTA: deltas(rows, twins, environment, per_round),
        "online_mean": online_means(rows, environment, per_round),
        "ndcg@10": offline_ends(rows, environment, per_round),
    }


def current(rows: Rows, environment: Environment, per_round: int) -> Floats:
    """Offline nDCG@10 of each round under its intents, NaN where not evaluated, float64 (rounds,)."""
    times = (np.arange(len(rows)) + 1) * per_round - 1
    values = under_intents(rows, environment.n_intents)
    return _weighted(values, environment.probabilities(times))


def period_of_rounds(rounds: int, environment: Environment, per_round: int) -> Ints:
    """Number of the period that each round belongs to, from 0, int64 (rounds,)."""
    times = (np.arange(rounds) + 1) * per_round - 1
    return np.asarray(np.searchsorted(environment.change_points, times, side="right"), dtype=np.int64)


def specific_offline(rankers: Sequence[Rows]) -> Floats:
    """Offline nDCG@10 of one ranker per intent after each round, in the order of intents, float64 (rounds,).

    All intents are equally likely, and a predictor that never errs gives each query to the ranker of its
    intent (section 6.5).
    """
    columns = [[row.get(of_intent(intent), np.nan) for row in rows] for intent, rows in enumerate(rankers)]
    return np.asarray(np.array(columns, dtype=np.float64).mean(axis=0))


def specific_online(rankers: Sequence[Rows], played: Ints) -> Floats:
    """Online nDCG@10 of one ranker per intent in each round, float64 (rounds,); NaN where nothing was played.

    Args:
        rankers: rounds of each ranker.
        played: interactions that each ranker played in each round, int64 (I, rounds).
    """
    online = np.array([[row[ONLINE_NDCG] for row in rows] for rows in rankers], dtype=np.float64)
    counts = np.where(np.isnan(online), 0, played)
    total = counts.sum(axis=0)
    seen = (counts * np.nan_to_num(online)).sum(axis=0)
    return np.asarray(np.divide(seen, total, out=np.full(total.shape, np.nan), where=total > 0))


def _latest(values: Floats, times: Ints, per_round: int) -> Floats:
    """Of evaluated rounds (rounds, I) the last that ended by each time (n,), float64 (n, I); NaN without."""
    evaluated = np.flatnonzero(~np.isnan(values).all(axis=1))
    number = np.searchsorted((evaluated + 1) * per_round, times, side="right")
    padded = np.concatenate([np.full((1, values.shape[1]), np.nan), values[evaluated]])
    return np.asarray(padded[number])


def _weighted(values: Floats, probabilities: Floats) -> Floats:
    """Mean over intents of values (n, I) with probabilities (n, I), (n,); NaN where impossible is ignored."""
    return np.asarray(np.where(probabilities > 0, probabilities * values, 0.0).sum(axis=1))


def evaluated_on(rows: Sequence[Mapping[str, object]]) -> str:
    """Which queries the offline metrics of some rounds are of."""
    parts = {"training" if of_intent(0) in row else "test" for row in rows}
    return " or ".join(f"the {part} split" for part in sorted(parts, reverse=True))
