"""What an attack run found: one row per method, click model, claimed epsilon and view."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from foltr_audit.judge import Evidence, combined
from foltr_audit.plan import Plan
from foltr_audit.report.base import Group, Report, Row, dataset_table, groups, utility_rows
from foltr_audit.rng import Streams
from foltr_audit.scoring import METRICS, Scored, Scorer
from foltr_audit.study import Cell


@dataclass(frozen=True)
class AttackReport(Report):
    """The result of `attack`.

    Attributes:
        results: one row per method, click model, claimed epsilon and view; baselines first.
    """

    SCHEMA: ClassVar[str] = "foltr-audit/attack/1"

    results: list[Row]

    @classmethod
    def of(cls, plan: Plan, cells: Sequence[Cell]) -> AttackReport:
        """The report on the cells of a plan. Repetitions of one setting are pooled."""
        return cls(
            config=plan.table(),
            dataset=dataset_table([cell.data for cell in cells])
            | {"queries_too_short": max(cell.too_short for cell in cells)},
            utility=utility_rows(cells),
            results=[row for group in groups(cells) for row in _rows(group)],
        )


def _rows(group: Group) -> Iterator[Row]:
    streams = Streams(group.cells[0].spec.seed)
    for click_model in group.cells[0].evidence:
        pooled = combined([cell.evidence[click_model] for cell in group.cells])
        yield from result_rows(pooled, click_model, group.setting, streams)


def result_rows(evidence: Evidence, click_model: str, setting: Row, streams: Streams) -> Iterator[Row]:
    """One row per guesser for the individual view of judged lists, baselines first."""
    lists = {
        "lists": int(evidence.query.size),
        "skipped": evidence.skipped,
        "all_clicked": int((evidence.clicks == evidence.is_document).all(axis=1).sum()),
        "queries": int(np.unique(evidence.query).size),
        "clipped": evidence.clipped / evidence.steps if evidence.steps else float("nan"),
    }
    for scored in Scorer(evidence, streams).scores():
        yield {
            "method": scored.method,
            "baseline": scored.method.startswith("random:") or scored.method in evidence.baselines,
            "click_model": click_model,
            **setting,
            "view": "individual",
            **lists,
            **_metric_columns(scored),
        }


def _metric_columns(scored: Scored) -> Row:
    row: Row = {name: scored.metrics[name].value for name in METRICS}
    row["precision_undefined"] = scored.precision_undefined
    for name in METRICS:
        interval = scored.metrics[name].ci95
        row[f"{name}_ci95"] = None if interval is None else list(interval)
    return row
