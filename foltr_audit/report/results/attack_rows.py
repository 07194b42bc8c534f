"""What every guesser reads in judged lists, as the rows of a comparison hold it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from foltr_audit.core.results import Estimate
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.judge.scoring import click_records
from foltr_audit.rng import Streams
from foltr_audit.utils.rows import ResultRow


@dataclass(frozen=True, kw_only=True)
class AttackMetrics(ResultRow):
    """How much one guesser reads in judged lists; metrics as in `judge.scoring.METRICS`."""

    INTERVALS_LAST: ClassVar[bool] = True

    lists: int
    skipped: int
    all_clicked: int
    queries: int
    unclicked_documents: int
    finest_fpr: float | None
    clipped: float
    accuracy: Estimate
    balanced_accuracy: Estimate
    precision: Estimate
    recall: Estimate
    f1: Estimate
    exact: Estimate
    auc: Estimate
    tpr_at_1: Estimate
    tpr_at_01: Estimate
    accuracy_identifiable: Estimate
    exact_message: Estimate
    precision_undefined: int
    unknown: int = 0


def scored(evidence: ClickEvidence, streams: Streams) -> Iterator[tuple[str, bool, AttackMetrics]]:
    """Method, whether it is a baseline, and metrics of every guesser on judged lists, baselines first."""
    for record in click_records(evidence, streams):
        clipped = record.counts["clipped"]
        values = record.counts | record.metrics | {"clipped": float("nan") if clipped is None else clipped}
        yield record.method, bool(record.baseline), AttackMetrics(**values)
