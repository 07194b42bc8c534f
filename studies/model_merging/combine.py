"""Two models made one: a weighted sum of their scores, or a model that has them as features.

Source: "Learning to rank for non independent and identically distributed datasets" (2024), section 4.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.records import Dataset
from foltr_audit.errors import DataError
from foltr_audit.rng import Streams
from foltr_audit.studies.model_merging.lambdamart import LambdaMARTRanker, LambdaMARTTrainer, TuningBudget
from foltr_audit.studies.model_merging.quality import RankingJudge
from foltr_audit.utils.progress import NO_TICK, Tick

STEPS = 100
"""Steps of the grid of weights: .01 each."""

HELD_OUT = 4
"""One of so many queries of D_merge stops and chooses a stacked model, and teaches it nothing."""


@dataclass(frozen=True, kw_only=True)
class MergeWeight:
    """The weight of the second model in a linear combination.

    Attributes:
        alpha: between 0, the first model alone, and 1, the second alone.
        ndcg: mean nDCG@10 on D_merge that it was chosen for.
    """

    alpha: float
    ndcg: float


def combined(first: NDArray[np.float64], second: NDArray[np.float64], alpha: float) -> NDArray[np.float64]:
    """`(1 - alpha) s_1 + alpha s_2`, float64 (documents,).

    >>> combined(np.array([1.0]), np.array([3.0]), 0.25).tolist()
    [1.5]
    """
    return (1.0 - alpha) * first + alpha * second


def best_weight(judge: RankingJudge, first: NDArray[np.float64], second: NDArray[np.float64]) -> MergeWeight:
    """The weight with the highest mean nDCG@10; of equal ones the nearest to .5, then the lower.

    Args:
        judge: of D_merge.
        first: scores of its documents by the first model, (documents,).
        second: the same by the second model.
    """
    found = [judge.mean_ndcg(combined(first, second, step / STEPS)) for step in range(STEPS + 1)]
    best = max(range(STEPS + 1), key=lambda step: (found[step], -abs(2 * step - STEPS), -step))
    return MergeWeight(alpha=best / STEPS, ndcg=found[best])


def with_scores(data: Dataset, scores: tuple[NDArray[np.float64], ...]) -> Dataset:
    """The same queries with the scores of models as more features, after the others."""
    features = np.column_stack([data.features, *scores]).astype(np.float32)
    return data.with_features(features)


def held_out(queries: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Queries that teach and queries that are held out, ascending indices, int64.

    Raises:
        DataError: fewer than two queries.
    """
    if queries < 2:
        raise DataError(
            f"merge: D_merge of {queries} query; stacking needs at least 2, one of them held out: more data, "
            "or another split"
        )
    order = rng.permutation(queries)
    cut = max(1, queries // HELD_OUT)
    return np.sort(order[cut:]), np.sort(order[:cut])


def stacked(
    merge: Dataset,
    scores: tuple[NDArray[np.float64], NDArray[np.float64]],
    tuning: TuningBudget,
    streams: Streams,
    name: str,
    tick: Tick = NO_TICK,
) -> LambdaMARTRanker:
    """A model tuned and trained on D_merge with the scores of two models as its last two features.

    Args:
        merge: D_merge; a fourth of its queries, drawn from the stream of the name, stops and chooses.
        scores: of its documents by the two models, (documents,) each.
        tuning: how it is tuned.
        streams: named random streams.
        name: of the model.
        tick: told after every trial.

    Raises:
        DataError: fewer than two queries.
    """
    whole = with_scores(merge, scores)
    taught, stopped = held_out(merge.n_queries, streams.generator(f"merge/held-out/{name}"))
    trainer = LambdaMARTTrainer(whole.select(taught), whole.select(stopped), tuning)
    return trainer.tuned(streams, name, tick)
