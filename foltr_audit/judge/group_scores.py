"""Attack success by groups of clients: who is hit hardest, compared with all clients."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isnan

import numpy as np

from foltr_audit.judge.bootstrap import BootstrapDistribution
from foltr_audit.judge.scoring import AttackScorer
from foltr_audit.utils.arrays import Bools, Floats
from foltr_audit.utils.rows import Estimate

GROUP_METRICS = ("accuracy", "precision", "recall", "f1", "exact", "auc")
"""Metrics that are reported for each group, as in `foltr_audit.judge.scoring.METRICS`."""

WORST_BY = ("auc", "f1")
"""Metrics that order groups by how hard they are hit: the AUC, which needs no threshold and does not depend
on how many documents a group clicks; where it ties or is undefined, F1."""

RANDOM = "random:k=mean"


@dataclass(frozen=True, kw_only=True)
class GroupScore:
    """How well one guesser does on one group of clients.

    Attributes:
        group: name of the group.
        lists: its lists with a click, which are judged.
        skipped: its lists without a click.
        queries: different queries of the judged lists.
        metrics: by name, see `GROUP_METRICS`.
        differences: each metric less that of all groups' lists together, with the interval of the
            difference in the same resamples of queries.
    """

    group: str
    lists: int
    skipped: int
    queries: int
    metrics: dict[str, Estimate]
    differences: dict[str, Estimate]


@dataclass(frozen=True, kw_only=True)
class GuesserScores:
    """How well one guesser does on every group.

    Attributes:
        method: label of the attack, or `random:k=mean`.
        everybody: each metric over the lists of all groups.
        groups: the groups, hit hardest first; intervals are not widened for this choice.
    """

    method: str
    everybody: dict[str, float]
    groups: tuple[GroupScore, ...]


def group_scores(scorer: AttackScorer) -> Iterator[GuesserScores]:
    """Random guessing of the mean number of clicks first, then every attack in its order."""
    everybody = np.ones(scorer.evidence.query.size, dtype=np.bool_)
    for method in (RANDOM, *scorer.evidence.guessed):
        values = _values(scorer, method)
        every = _metrics(scorer, method, values, everybody)
        found = []
        for number in range(len(scorer.everything.groups)):
            judged = scorer.evidence.group == number
            found.append(_score(scorer, number, _metrics(scorer, method, values, judged), every))
        yield GuesserScores(
            method=method,
            everybody={name: every[name].value for name in GROUP_METRICS},
            groups=tuple(sorted(found, key=_hardest_first)),
        )


def _score(
    scorer: AttackScorer,
    number: int,
    mine: dict[str, BootstrapDistribution],
    every: dict[str, BootstrapDistribution],
) -> GroupScore:
    """The score of one group from each metric over its lists and over all lists."""
    judged = scorer.evidence.group == number
    lists = int(judged.sum())
    return GroupScore(
        group=scorer.everything.groups[number],
        lists=lists,
        skipped=int((scorer.everything.group == number).sum()) - lists,
        queries=int(np.unique(scorer.evidence.query[judged]).size),
        metrics={name: mine[name].score for name in GROUP_METRICS},
        differences={name: mine[name].minus(every[name]) for name in GROUP_METRICS},
    )


def _values(scorer: AttackScorer, method: str) -> dict[str, Floats]:
    if method != RANDOM:
        return scorer.of_lists(method)
    return scorer.random_lists(scorer.mean_clicks) if scorer.evidence.query.size else {}


def _metrics(
    scorer: AttackScorer, method: str, values: dict[str, Floats], lists: Bools
) -> dict[str, BootstrapDistribution]:
    """Each metric of some judged lists, bool (L,), from those of each list, float64 (L,)."""
    blank, resamples = np.full(lists.size, np.nan), scorer.resamples
    average = resamples.means if method == RANDOM else resamples.shares
    found = {
        name: average(np.where(lists, values.get(name, blank), np.nan))
        for name in GROUP_METRICS
        if name != "auc"
    }
    if method == RANDOM:
        return found | {"auc": resamples.means(np.where(lists, 0.5, np.nan))}
    return found | {"auc": scorer.ranked(method, lists).areas(resamples)}


def _hardest_first(found: GroupScore) -> tuple[float, ...]:
    values = [found.metrics[name].value for name in WORST_BY]
    return tuple(float("inf") if isnan(value) else -value for value in values)
