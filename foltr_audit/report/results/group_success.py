"""Attack success by groups of clients, as rows of a report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.judge.scoring import GROUP_METRICS, RANDOM, AttackScorer, GroupScore, group_scores
from foltr_audit.report.results.attack_rows import AttackPlace, OfAttack
from foltr_audit.report.results.base import GroupMetric
from foltr_audit.rng import Streams
from foltr_audit.utils.rows import ResultRow, column


@dataclass(frozen=True, kw_only=True)
class GroupSuccess(ResultRow):
    """How well a guesser does on one group of clients.

    Attributes:
        group: name of the group.
        place: its place among the groups of the guesser, the hardest hit being 1.
        lists: its lists with a click, which are judged; `skipped` have none.
        queries: different queries of the judged lists.
    """

    group: str
    place: int
    lists: int
    skipped: int
    queries: int
    accuracy: GroupMetric = column("accuracy", embedded=True)
    precision: GroupMetric = column("precision", embedded=True)
    recall: GroupMetric = column("recall", embedded=True)
    f1: GroupMetric = column("f1", embedded=True)
    exact: GroupMetric = column("exact", embedded=True)
    auc: GroupMetric = column("auc", embedded=True)


@dataclass(frozen=True, kw_only=True)
class GroupRow(ResultRow, OfAttack):
    """How well a guesser does on one group of clients of a setting."""

    method: str
    baseline: bool
    where: AttackPlace = column(embedded=True)
    found: GroupSuccess = column(embedded=True)


def scored_groups(evidence: ClickEvidence, streams: Streams) -> Iterator[tuple[str, bool, GroupSuccess]]:
    """Method, whether it is a baseline, and metrics of every guesser and group of clients, hit hardest first.

    There are none where clients do not differ.
    """
    if len(evidence.groups) < 2:
        return
    for found in group_scores(AttackScorer(evidence, streams)):
        baseline = found.method == RANDOM or found.method in evidence.baselines
        for place, group in enumerate(found.groups, start=1):
            yield found.method, baseline, _success(group, place, found.everybody)


def _success(group: GroupScore, place: int, everybody: dict[str, float]) -> GroupSuccess:
    def metric(name: str) -> GroupMetric:
        return GroupMetric(
            own=group.metrics[name], everybody=everybody[name], difference=group.differences[name]
        )

    return GroupSuccess(
        group=group.group,
        place=place,
        lists=group.lists,
        skipped=group.skipped,
        queries=group.queries,
        **{name: metric(name) for name in GROUP_METRICS},
    )


def group_rows(evidence: ClickEvidence, where: AttackPlace, streams: Streams) -> Iterator[GroupRow]:
    """One row per guesser and group of clients."""
    for method, baseline, found in scored_groups(evidence, streams):
        yield GroupRow(method=method, baseline=baseline, where=where, found=found)
