"""Was there any click at all? Asked of every list, also of those that the published protocol leaves out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from foltr_audit.judge.bootstrap import MetricEstimate, QueryBootstrap
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.judge.roc import ScoreRanking


@dataclass(frozen=True)
class AnyClickScores:
    """How well one attack tells lists with a click from lists without one.

    Attributes:
        method: label of the attack.
        auc: area under the ROC curve of `any_click`; NaN where all or no lists have a click.
        accuracy: how often "the guess names a document" is right; of probabilities, "any click is likelier
            than none".
    """

    method: str
    auc: MetricEstimate
    accuracy: MetricEstimate


def any_click_scores(evidence: ClickEvidence, resamples: QueryBootstrap) -> Iterator[AnyClickScores]:
    """Every attack in its order, on all lists.

    Args:
        evidence: all judged lists.
        resamples: of their queries.
    """
    has_click = evidence.has_click
    for label, answer in evidence.guessed.items():
        says_so = (answer.guess & evidence.is_document).any(axis=1)
        if label in evidence.probabilities:
            says_so = answer.any_click > 0.5
        yield AnyClickScores(
            method=label,
            auc=ScoreRanking.of(answer.any_click, has_click, resamples.cluster).auc(resamples),
            accuracy=resamples.share((says_so == has_click).astype(np.float64)),
        )


def base_rate(evidence: ClickEvidence, resamples: QueryBootstrap) -> MetricEstimate:
    """Share of lists with a click: the accuracy of always saying yes."""
    return resamples.share(evidence.has_click.astype(np.float64))
