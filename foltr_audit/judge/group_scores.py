"""Attack success by groups of clients: whom it hits hardest, beside all of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isnan

import numpy as np
from numpy.typing import NDArray

from foltr_audit.judge.bootstrap import BootstrapDistribution, MetricEstimate
from foltr_audit.judge.scoring import AttackScorer

GROUP_METRICS = ("accuracy", "precision", "recall", "f1", "exact", "auc")
"""Metrics that are told of each group, as in `foltr_audit.judge.scoring.METRICS`."""

WORST_BY = ("auc", "f1")
"""What says how hard a group is hit: the AUC, which needs no threshold and does not depend on how many
documents a group clicks; where it ties or is not defined, F1."""

RANDOM = "random:k=mean"


@dataclass(frozen=True, kw_only=True)
class GroupScore:
    """What one guesser finds out of one group of clients.

    Attributes:
        group: name of the group.
        lists: its lists with a click, which are judged.
        skipped: its lists without one.
        queries: different queries of the judged lists.
        metrics: by name, see `GROUP_METRICS`.
        differences: each metric less that of all groups' lists together, with the interval of the
            difference in the same resamples of queries.
    """

    group: str
    lists: int
    skipped: int
    queries: int
    metrics: dict[str, MetricEstimate]
    differences: dict[str, MetricEstimate]


@dataclass(frozen=True, kw_only=True)
class GuesserScores:
    """What one guesser finds out of every group.

    Attributes:
        method: label of the attack, or `random:k=mean`.
        everybody: each metric over the lists of all groups.
        groups: the groups, hit hardest first; the choice of the first widens no interval.
    """

    method: str
    everybody: dict[str, float]
    groups: tuple[GroupScore, ...]


def group_scores(scorer: AttackScorer) -> Iterator[GuesserScores]:
    """Random guessing of the mean number of clicks first, then every attack in its order."""
    groups = [_GroupScorer(scorer, number) for number in range(len(scorer.everything.groups))]
    everybody = np.ones(scorer.evidence.query.size, dtype=np.bool_)
    for method in (RANDOM, *scorer.evidence.guessed):
        values = _values(scorer, method)
        every = _metrics(scorer, method, values, everybody)
        found = [group.score(_metrics(scorer, method, values, group.judged), every) for group in groups]
        yield GuesserScores(
            method=method,
            everybody={name: every[name].value for name in GROUP_METRICS},
            groups=tuple(sorted(found, key=_hardest_first)),
        )


class _GroupScorer:
    """One group's lists among those of a scorer."""

    def __init__(self, scorer: AttackScorer, number: int) -> None:
        self.name = scorer.everything.groups[number]
        self.judged = np.asarray(scorer.evidence.group == number)
        self.lists = int((scorer.everything.group == number).sum())
        self.queries = int(np.unique(scorer.evidence.query[self.judged]).size)

    def score(
        self, mine: dict[str, BootstrapDistribution], every: dict[str, BootstrapDistribution]
    ) -> GroupScore:
        judged = int(self.judged.sum())
        return GroupScore(
            group=self.name,
            lists=judged,
            skipped=self.lists - judged,
            queries=self.queries,
            metrics={name: mine[name].score for name in GROUP_METRICS},
            differences={name: mine[name].minus(every[name]) for name in GROUP_METRICS},
        )


def _values(scorer: AttackScorer, method: str) -> dict[str, NDArray[np.float64]]:
    if method != RANDOM:
        return scorer.of_lists(method)
    return scorer.random_lists(scorer.mean_clicks) if scorer.evidence.query.size else {}


def _metrics(
    scorer: AttackScorer, method: str, values: dict[str, NDArray[np.float64]], lists: NDArray[np.bool_]
) -> dict[str, BootstrapDistribution]:
    """Each metric of some judged lists, bool (L,), from those of each list, float64 (L,)."""
    blank = np.full(lists.size, np.nan)
    resamples = scorer.resamples
    average = resamples.means if method == RANDOM else resamples.shares
    found = {
        name: average(np.where(lists, values.get(name, blank), np.nan))
        for name in GROUP_METRICS
        if name != "auc"
    }
    if method == RANDOM:
        half = np.where(lists, 0.5, np.nan)
        return found | {"auc": resamples.means(half)}
    return found | {"auc": scorer.ranked(method, lists).areas(resamples)}


def _hardest_first(found: GroupScore) -> tuple[float, ...]:
    values = [found.metrics[name].value for name in WORST_BY]
    return tuple(float("inf") if isnan(value) else -value for value in values)
