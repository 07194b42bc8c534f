"""Merges two models: a weighted sum of their scores, or a model with the scores as features.

Source: "Learning to rank for non independent and identically distributed datasets" (2024), section 4.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from foltr_audit.studies.model_merging.lambdamart import LambdaMARTRanker, LambdaMARTTrainer, TuningBudget
from foltr_audit.studies.model_merging.quality import RankingJudge

from foltr_audit.core.records import Dataset
from foltr_audit.errors import DataError
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Floats, Ints
from foltr_audit.utils.progress import NO_TICK, Tick

STEPS = 100
"""Steps of the grid of weights, each .01, as in the paper."""

HELD_OUT = 4
"""One of this many queries of D_merge is held out: it stops and selects a stacked model."""


@dataclass(frozen=True, kw_only=True)
class MergeWeight:
    """The weight of the second model in a linear combination.

    Attributes:
        alpha: between 0, the first model alone, and 1, the second alone.
        ndcg: its mean nDCG@10 on D_merge.
    """

    alpha: float
    ndcg: float


def combine_scores(first: Floats, second: Floats, alpha: float) -> Floats:
    """`(1 - alpha) s_1 + alpha s_2`, float64 (documents,).

    >>> combine_scores(np.array([1.0]), np.array([3.0]), 0.25).tolist()
    [1.5]
    """
    return (1.0 - alpha) * first + alpha * second


def best_weight(judge: RankingJudge, first: Floats, second: Floats) -> MergeWeight:
    """The weight with the highest mean nDCG@10; ties go to the nearest to .5, then to the lower one.

    Args:
        judge: the judge of D_merge.
        first: scores of its documents by the first model, (documents,).
        second: scores of its documents by the second model, (documents,).
    """
    found = [judge.mean_ndcg(combine_scores(first, second, step / STEPS)) for step in range(STEPS + 1)]
    best = max(range(STEPS + 1), key=lambda step: (found[step], -abs(2 * step - STEPS), -step))
    return MergeWeight(alpha=best / STEPS, ndcg=found[best])


def with_scores(data: Dataset, scores: tuple[Floats, ...]) -> Dataset:
    """The same queries with the scores of models as additional features, after the others."""
    features = np.column_stack([data.features, *scores]).astype(np.float32)
    return data.with_features(features)


def held_out(queries: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Split queries into those to train on and those held out: ascending indices, int64.

    Raises:
        DataError: fewer than two queries.
    """
    if queries < 2:
        raise DataError(
            f"merge: D_merge has {queries} query; stacking needs at least 2, one of them held out; use more "
            "data, or another split"
        )
    order = rng.permutation(queries)
    cut = max(1, queries // HELD_OUT)
    return np.sort(order[cut:]), np.sort(order[:cut])


def train_stacked(
    merge: Dataset,
    scores: tuple[Floats, Floats],
    tuning: TuningBudget,
    streams: Streams,
    name: str,
    tick: Tick = NO_TICK,
) -> LambdaMARTRanker:
    """A model tuned and trained on D_merge with the scores of two models as its last two features.

    Args:
        merge: D_merge; a quarter of its queries is held out, drawn from the stream of the name.
        scores: scores of its documents by the two models, (documents,) each.
        tuning: the budget of the tuning.
        streams: named random streams.
        name: name of the model.
        tick: called after every trial.

    Raises:
        DataError: fewer than two queries.
    """
    whole = with_scores(merge, scores)
    taught, stopping = held_out(merge.n_queries, streams.generator(f"merge/held-out/{name}"))
    trainer = LambdaMARTTrainer(whole.select(taught), whole.select(stopping), tuning)
    return trainer.tune(streams, name, tick)
