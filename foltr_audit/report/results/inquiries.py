"""Rows of attacks on something other than clicks: queries, counts, intents, clients, or what is new."""

from __future__ import annotations

from collections.abc import Iterator

from foltr_audit.judge.protocol import TaskEvidence
from foltr_audit.judge.task import TaskScore
from foltr_audit.report.results.attack_rows import columns
from foltr_audit.report.results.base import Row
from foltr_audit.rng import Streams

_KINDS = {
    "counts": "counts",
    "intent": "intent_inference",
    "client": "linkage",
    "query": "query_identification",
}
"""Where the rows of a task stand; those of any other task stand in `tasks`."""


def inquiry_rows(
    found: TaskEvidence, click_model: str, setting: Row, streams: Streams
) -> dict[str, list[Row]]:
    """Rows by kind: those of `report.attack.INQUIRIES`, and `refused` for attacks that could not run.

    A row has what was judged and how well an attack, or a baseline, did: see `Evidence.scores` of the task.

    Args:
        found: what was found in one setting.
        click_model: how the attacked users click.
        setting: columns that name what was run.
        streams: named random streams, of which the bootstrap is one.
    """
    where = {"click_model": click_model, **setting, "view": found.view}
    rows: dict[str, list[Row]] = {kind: [] for kind in (*_KINDS.values(), "tasks")}
    for task, evidence in found.found.items():
        more = {} if task in _KINDS else {"task": task}
        rows[_KINDS.get(task, "tasks")] += _rows(evidence.scores(streams), more | where)
    rows["refused"] = [{"method": label, **where, "reason": why} for label, why in found.refused.items()]
    return rows


def _rows(scores: Iterator[TaskScore], where: Row) -> Iterator[Row]:
    for score in scores:
        row: Row = {"method": score.method}
        if score.baseline is not None:
            row["baseline"] = score.baseline
        row |= {**where, **score.facts}
        for name, estimate in score.metrics.items():
            row |= columns(name, estimate)
        yield row
