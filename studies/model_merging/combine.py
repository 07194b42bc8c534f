"""Merges of the models of several clients: weighted sums of their scores, and stacked models.

Source: "Learning to rank for non independent and identically distributed datasets" (2024), section 4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import comb

import numpy as np
from foltr_audit.studies.model_merging.trainers import Ranker, RankingJudge, Trainer, TuningBudget

from foltr_audit.core.records import Dataset
from foltr_audit.errors import DataError
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Floats, Ints
from foltr_audit.utils.progress import NO_TICK, Tick

STEPS = (100, 50, 20, 10, 5)
"""Steps of grids of weights: each .01 for two models, as in the paper, or coarser for more of them."""

MOST_WEIGHTS = 2_000
"""The grid is the finest with at most so many points: each .02 for three models, .05 for four."""

HELD_OUT = 4
"""One of this many queries of D_merge is held out: it stops and selects a stacked model."""


def grid_steps(models: int) -> int:
    """The steps from 0 to 1 of the grid of weights.

    >>> [grid_steps(models) for models in range(2, 10)]
    [100, 50, 20, 10, 5, 5, 5, 5]
    """
    return next(steps for steps in STEPS if comb(steps + models - 1, models - 1) <= MOST_WEIGHTS)


def weight_grid(models: int, steps: int) -> Iterator[tuple[int, ...]]:
    """All weights of some models, each a number of steps, that sum to `steps`.

    >>> list(weight_grid(2, 2))
    [(0, 2), (1, 1), (2, 0)]
    """
    for bars in combinations(range(steps + models - 1), models - 1):  # between as many stars as steps
        ends = (-1, *bars, steps + models - 1)
        yield tuple(end - start - 1 for start, end in pairwise(ends))


def combine_scores(scores: Sequence[Floats], alphas: Sequence[float]) -> Floats:
    """The weighted sum of the scores of models, float64 (documents,).

    >>> combine_scores([np.array([1.0]), np.array([3.0])], [0.75, 0.25]).tolist()
    [1.5]
    """
    return np.asarray(sum(alpha * of_model for alpha, of_model in zip(alphas, scores, strict=True)))


def best_weights(judge: RankingJudge, scores: Sequence[Floats]) -> tuple[tuple[float, ...], float]:
    """The weights of the grid with the highest mean nDCG@10 on D_merge, which sum to 1, and that nDCG@10.

    Ties go to the nearest to equal weights, then to the one with more weight of the first models.
    """
    steps = grid_steps(len(scores))

    def rank(point: tuple[int, ...]) -> tuple[float, int, tuple[int, ...]]:
        found = judge.mean_ndcg(combine_scores(scores, [part / steps for part in point]))
        return found, -sum(part**2 for part in point), point  # the nearest to equal ones

    ndcg, _, best = max(map(rank, weight_grid(len(scores), steps)))
    return tuple(part / steps for part in best), ndcg


def with_scores(data: Dataset, scores: Sequence[Floats]) -> Dataset:
    """The same queries with the scores of models as additional features, after the others."""
    features = np.column_stack([data.features, *scores]).astype(np.float32)
    return data.with_features(features)


def held_out(queries: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Split queries into those to train on and those held out: ascending indices, int64."""
    if queries < 2:
        raise DataError(
            f"merge: D_merge has {queries} query; stacking needs at least 2, one of them held out; use more "
            "data, or another split"
        )
    order = rng.permutation(queries)
    cut = max(1, queries // HELD_OUT)
    return np.sort(order[cut:]), np.sort(order[:cut])


@dataclass(frozen=True)
class Tuner:
    """Tunes all models of a study with one trainer and budget."""

    trainer: type[Trainer]
    budget: TuningBudget
    streams: Streams
    tick: Tick = NO_TICK

    def tuned(self, train: Dataset, validation: Dataset, name: str) -> Ranker:
        """A model that is named in its random stream."""
        return self.trainer(train, validation, self.budget).tune(self.streams, name, self.tick)

    def stacked(self, merge: Dataset, scores: Sequence[Floats], name: str) -> Ranker:
        """A model tuned and trained on D_merge with the scores of models (documents,) as its last features.

        A quarter of the queries is held out, drawn from the stream of the name.
        """
        whole = with_scores(merge, scores)
        taught, stopping = held_out(merge.n_queries, self.streams.generator(f"merge/held-out/{name}"))
        return self.tuned(whole.select(taught), whole.select(stopping), name)
