"""Reports of membership: what is said of a value above its ceiling, and of what nobody can tell."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from foltr_audit.core.settings.experiment import Spec
from foltr_audit.experiments.membership import MembershipCeiling, MembershipFinding
from foltr_audit.experiments.plan import Plan
from foltr_audit.experiments.runner import RunResult
from foltr_audit.privacy.accounting import UpperBound
from foltr_audit.report.results.membership import MembershipReport, conclusions
from foltr_audit.utils.rows import Estimate
from tests.fixtures.run_results import run_of

ROUND = {"offline_ndcg@10": 0.5, "online_ndcg@10": 0.5, "maxrr": 0.5, "clipped": 0.0}


def report(auc: Estimate, ceiling: float | None, **protocol: object) -> MembershipReport:
    """A report on one attack by a participant, with an AUC and its ceiling."""
    spec = Spec(membership={"methods": ["lira"], "views": ["client"], **protocol})
    proven = ceiling is not None
    limit = {"auc": ceiling, "tpr_at_1": ceiling, "tpr_at_01": ceiling} if ceiling is not None else {}
    finding = MembershipFinding(
        view="client",
        method="lira",
        members=50,
        candidates=100,
        federations=128,
        metrics={"auc": auc, "tpr_at_1": Estimate(0.02, (0.01, 0.03)), "tpr_at_01": Estimate(0.0)},
        ceiling=MembershipCeiling(
            bound=UpperBound(epsilon=1.0 if proven else math.inf, delta=1e-5, how="noise"), metrics=limit
        ),
    )
    cell: RunResult = replace(run_of(spec, [ROUND]), membership=(finding,))
    return MembershipReport.of(Plan((spec,)), [cell])


def test_an_interval_above_the_ceiling_is_a_warning() -> None:
    found = report(Estimate(0.9, (0.85, 0.95)), 0.6)
    (row,) = found.results
    assert row.auc.broken
    assert not row.tpr_at_1.broken
    assert not row.tpr_at_01.broken
    (warning,) = [each.warning for each in found.warnings if "ceiling" in each.warning]
    assert warning.startswith("lira, every global model: auc 0.9 lies above the ceiling 0.6")


@pytest.mark.parametrize("ceiling", [0.86, 0.99, None])
def test_an_interval_that_reaches_below_the_ceiling_is_none(ceiling: float | None) -> None:
    found = report(Estimate(0.9, (0.85, 0.95)), ceiling)
    assert not [each for each in found.warnings if "ceiling" in each.warning]


def test_conclusions_follow_from_the_interval() -> None:
    told, chance, few = (
        next(conclusions(report(Estimate(0.6, ends), None).results))
        for ends in ((0.55, 0.65), (0.49, 0.71), None)
    )
    assert (
        told == "every global model: lira tells members from others, AUC .600; it names 2 % of them with "
        "1 % false alarms."
    )
    assert "better than chance" in chance
    assert "too few federations" in few


@pytest.mark.parametrize(
    ("seen", "words"), [(None, "every global model"), (1, "last 2 global models"), (20, "every global model")]
)
def test_a_row_says_what_is_seen(seen: int | None, words: str) -> None:
    assert report(Estimate(0.6, (0.5, 0.7)), None, rounds_seen=seen).results[0].observed == words
