"""The most that any attack can reach on judged lists, from what is proven and what is known beforehand."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.privacy.accounting.proven_promise import ProvenPromise
from foltr_audit.privacy.tradeoff import pooled_curve
from foltr_audit.utils.arrays import Bools
from foltr_audit.utils.rows import ResultRow


@dataclass(frozen=True, kw_only=True)
class ClickCeilings(ResultRow):
    """Upper bounds on the metrics of any attack on some lists; NaN where nothing is proven or known.

    They hold for an attacker who knows the grades of all documents and how users click, and uses the message
    in the best possible way. The unit is `interaction`: the clicks of a list depend on each other.

    Attributes:
        accuracy, exact, auc, tpr_at_1, tpr_at_01: of the metrics of the same names, on lists with a click.
    """

    accuracy: float = math.nan
    exact: float = math.nan
    auc: float = math.nan
    tpr_at_1: float = math.nan
    tpr_at_01: float = math.nan

    @property
    def known(self) -> bool:
        """Whether any is known."""
        return not math.isnan(self.accuracy)


NO_CEILINGS = ClickCeilings()
"""Nothing is proven, or the probabilities of clicks are not known."""


def click_ceilings(evidence: ClickEvidence, promise: ProvenPromise | None) -> ClickCeilings:
    """The ceilings on some evidence. See `docs/maths.md`, "Ceilings".

    Two documents of one message are seen through one observation: such pairs count as in the right order, so
    that the pooled AUC holds whatever one message reveals of both.
    """
    judged = evidence.at(evidence.has_click)
    here, priors = judged.is_document, judged.priors
    if promise is None or not promise.known or not here.any() or np.isnan(priors.clicked[here]).any():
        return NO_CEILINGS
    curve = promise.curve
    right = np.where(here, curve.accuracy(priors.clicked), 0.0).sum(axis=1) / here.sum(axis=1)
    pooled = pooled_curve(curve, priors.clicked[here])
    return ClickCeilings(
        accuracy=float(right.mean()),
        exact=float(curve.success(priors.pattern).mean()),
        auc=math.nan if pooled is None else _with_pairs_inside(pooled.auc, judged, here),
        tpr_at_1=math.nan if pooled is None else float(pooled.power(1e-2)),
        tpr_at_01=math.nan if pooled is None else float(pooled.power(1e-3)),
    )


def _with_pairs_inside(auc: float, judged: ClickEvidence, here: Bools) -> float:
    """The AUC if all pairs of two documents of one message are in the right order."""
    _, number = np.unique(judged.message, return_inverse=True)
    clicked = np.bincount(number, weights=judged.clicks.sum(axis=1))
    unclicked = np.bincount(number, weights=(here & ~judged.clicks).sum(axis=1))
    pairs = float(clicked.sum() * unclicked.sum())
    inside = float(clicked @ unclicked) / pairs if pairs else 0.0
    return inside + (1.0 - inside) * auc


def any_click_ceiling(evidence: ClickEvidence, promise: ProvenPromise | None) -> float:
    """The largest AUC with which lists with a click are told from those without; NaN where none is known.

    Several lists of one message are no independent observations, so nothing is known of them.
    """
    likely = evidence.priors.any_click
    alone = np.unique(evidence.message).size == evidence.message.size
    if promise is None or not promise.known or not alone or np.isnan(likely).any():
        return math.nan
    pooled = pooled_curve(promise.curve, likely)
    return math.nan if pooled is None else pooled.auc
