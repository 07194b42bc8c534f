"""Attack success by groups of clients, as rows of a report."""

from __future__ import annotations

from collections.abc import Iterator

from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.judge.group_scores import GROUP_METRICS, RANDOM, GroupScore, group_scores
from foltr_audit.judge.scoring import AttackScorer
from foltr_audit.report.results.attack_rows import columns, known
from foltr_audit.report.results.base import Row
from foltr_audit.rng import Streams


def group_rows(evidence: ClickEvidence, where: Row, streams: Streams) -> Iterator[Row]:
    """One row per guesser and group of clients, hit hardest first; none where clients do not differ.

    Next to each metric, `_all` is that of all groups' lists and `_difference` the group's less that.
    `place` counts the groups of a guesser from 1.
    """
    if len(evidence.groups) < 2:
        return
    for found in group_scores(AttackScorer(evidence, streams)):
        for place, group in enumerate(found.groups, start=1):
            yield {
                "method": found.method,
                "baseline": found.method == RANDOM or found.method in evidence.baselines,
                **where,
                "group": group.group,
                "place": place,
                "lists": group.lists,
                "skipped": group.skipped,
                "queries": group.queries,
                **_metrics(group, found.everybody),
            }


def _metrics(group: GroupScore, everybody: dict[str, float]) -> Row:
    row: Row = {}
    for name in GROUP_METRICS:
        row |= columns(name, group.metrics[name])
        row[f"{name}_all"] = known(everybody[name])
        row |= columns(f"{name}_difference", group.differences[name])
    return row
