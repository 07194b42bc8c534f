"""How well each group of clients is attacked, as the rows of a comparison hold it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.judge.scoring import GROUP_METRICS, group_records
from foltr_audit.report.results.base import GroupMetric
from foltr_audit.rng import Streams
from foltr_audit.utils.rows import ResultRow, column


@dataclass(frozen=True, kw_only=True)
class GroupSuccess(ResultRow):
    """How well a guesser does on one group of clients."""

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


def scored_groups(evidence: ClickEvidence, streams: Streams) -> Iterator[tuple[str, bool, GroupSuccess]]:
    """Method, whether it is a baseline, and metrics of every guesser and group, hit hardest first."""
    for record in group_records(evidence, streams):
        metrics: dict[str, Any] = {
            name: GroupMetric(
                own=record.metrics[name],
                everybody=record.everybody[name],
                difference=record.differences[name],
            )
            for name in GROUP_METRICS
        }
        found = GroupSuccess(group=str(record.group), place=record.place or 0, **record.counts, **metrics)
        yield record.method, bool(record.baseline), found
