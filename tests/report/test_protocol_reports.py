"""What reports of membership and unlearning warn of, and whether the claims of an audit hold."""

from __future__ import annotations

import pytest

from foltr_audit.core.results import Estimate
from foltr_audit.errors import ContradictionError
from tests.fixtures.made_reports import audit_report as report
from tests.fixtures.made_reports import finding, membership_report, unlearning_report


def test_an_interval_above_the_ceiling_is_a_warning() -> None:
    found = membership_report(Estimate(0.9, (0.85, 0.95)), ceiling=0.6)
    (warning,) = [each["warning"] for each in found.warnings if "ceiling" in each["warning"]]
    assert warning.startswith("lira, every global model: auc 0.9 lies above the ceiling 0.6")


@pytest.mark.parametrize("ceiling", [0.86, 0.99, None])
def test_an_interval_that_reaches_below_the_ceiling_is_none(ceiling: float | None) -> None:
    found = membership_report(Estimate(0.9, (0.85, 0.95)), ceiling=ceiling)
    assert not [each for each in found.warnings if "ceiling" in each["warning"]]


def test_a_bound_on_exact_unlearning_is_a_warning() -> None:
    (warning,) = unlearning_report(retrain=0.4, none=2.0).warnings
    assert warning["warning"].startswith("retrain: eps >= 0.4, where 0 is true: one run in 20")
    assert not unlearning_report(retrain=0.0, none=2.0).warnings


def test_whether_claims_hold() -> None:
    assert report(finding("not refuted")).holds()
    assert not report(finding("not refuted")).holds(require_proof=True)
    assert not report(finding("refuted")).holds()
    with pytest.raises(ContradictionError, match="published, message, one interaction: contradiction"):
        report(finding("contradiction")).holds()
