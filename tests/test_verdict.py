"""The verdict on a claim: what outranks what."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr_audit.auditing.verdict import FALSE, verdict_on


@pytest.mark.parametrize(
    ("claimed", "proven", "exact", "measured", "expected"),
    [
        (1.2, 1.2, 1.2, 1.1, "proven"),
        (1.2, 1.2, None, 0.0, "proven"),
        (1.2, 8.1, 2.0, 1.1, "false by exact loss"),
        (1.2, math.inf, math.inf, 5.5, "refuted"),
        (1.2, math.inf, math.inf, 0.0, "false by exact loss"),
        (1.2, 8.1, 0.9, 0.4, "not refuted"),
        (1.2, 8.1, None, 0.4, "not refuted"),
        (1.2, 1.2, None, 1.3, "refuted"),  # a proof of something else than what was built
        (math.inf, math.inf, math.inf, 7.0, "not refuted"),
    ],
)
def test_verdicts(claimed: float, proven: float, exact: float | None, measured: float, expected: str) -> None:
    verdict, why = verdict_on(claimed, proven, exact, measured, evidence=True)
    assert verdict == expected
    assert why


@given(st.floats(0.01, 10), st.floats(0.01, 50), st.floats(0, 50), st.floats(0, 10), st.booleans())
def test_a_verdict_follows_from_its_numbers(
    claimed: float, proven: float, exact: float, measured: float, evidence: bool
) -> None:
    verdict, _ = verdict_on(claimed, proven, exact, measured, evidence=evidence)
    slack = claimed * 1e-6
    if measured > claimed + slack or exact > claimed + slack:
        assert verdict in FALSE
    elif measured < claimed - slack and exact < claimed - slack:
        assert verdict == ("proven" if proven <= claimed else "not refuted") or abs(proven - claimed) < slack


def test_two_ways_to_compute_one_number_make_no_false_claim() -> None:
    assert verdict_on(1.2, 1.2 * (1 + 1e-12), 1.2 * (1 + 1e-12), 0.9, evidence=True)[0] == "proven"


def test_a_typical_pair_is_called_no_evidence() -> None:
    assert "no evidence" in verdict_on(1.2, 8.0, 0.3, 0.1, evidence=False)[1]
    assert "no evidence" not in verdict_on(1.2, 8.0, 0.3, 0.1, evidence=True)[1]
