"""The verdict on a claim: what outranks what, and what is no verdict at all."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr_audit.auditing.verdict import CONTRADICTION, FALSE, verdict_on


def told(
    claimed: float,
    proven: float,
    exact: float | None,
    measured: float,
    strict: float = 0.0,
    broken: str = "",
    *,
    worst_case: bool = True,
    believed: tuple[str, ...] = (),
) -> tuple[str, str]:
    others: dict[str, Any] = {"broken": broken, "worst_case": worst_case, "believed": believed}
    return verdict_on(claimed=claimed, proven=proven, measured=measured, exact=exact, strict=strict, **others)


VERDICTS: dict[str, list[tuple[float, float, float | None, float]]] = {
    "proven": [(1.2, 1.2, 1.2, 1.1), (1.2, 1.2, None, 0.0)],
    "false by exact loss": [(1.2, 8.1, 2.0, 1.1), (1.2, math.inf, math.inf, 0.0)],
    "refuted": [(1.2, math.inf, math.inf, 5.5), (1.2, 8.1, None, 1.3)],
    "not refuted": [(1.2, 8.1, 0.9, 0.4), (1.2, 8.1, None, 0.4), (math.inf, math.inf, math.inf, 7.0)],
}


@pytest.mark.parametrize("expected", VERDICTS)
def test_verdicts(expected: str) -> None:
    """By what is claimed, proven, lost exactly and measured."""
    for evidence in VERDICTS[expected]:
        verdict, why = told(*evidence)
        assert (verdict, bool(why)) == (expected, True), evidence


def test_chance_refutes_no_proof() -> None:
    """One run in twenty shows more than is proven; one in a million is no chance."""
    verdict, why = told(1.2, 1.2, 1.2, 1.3, strict=0.9)
    assert verdict == "proven"
    assert "1.3" in why
    assert "run again" in why
    verdict, why = told(1.2, 1.2, 1.2, 1.6, strict=1.3)
    assert verdict == CONTRADICTION
    assert "run again with another --seed" in why
    assert told(0.5, 1.2, None, 1.0, strict=0.7)[0] == "refuted", "the proof is of a larger epsilon"


@pytest.mark.parametrize("claimed", [0.5, 1.2, 100.0, math.inf])
def test_an_exact_loss_above_a_proof_is_no_verdict(claimed: float) -> None:
    """86 beside a proof of 1.2 was told as a false claim: accounting or audit was wrong, not the claim."""
    verdict, why = told(claimed, 1.2, 86.1, 0.0)
    assert verdict == CONTRADICTION
    assert verdict not in FALSE
    assert "86.1" in why
    assert "1.2" in why


def test_a_broken_declaration_is_told_unless_the_claim_is_false_anyway() -> None:
    """Nothing is proven then: the bound comes without the broken link."""
    assert told(1.2, math.inf, None, 0.4, broken="laplace: too little")[0] == "declared law broken"
    assert "too little" in told(1.2, math.inf, None, 0.4, broken="laplace: too little")[1]
    assert told(math.inf, math.inf, None, 0.4, broken="laplace: too little")[0] == "declared law broken"
    assert told(1.2, math.inf, None, 1.4, broken="laplace: too little")[0] == "refuted"
    assert told(1.2, 0.8, None, 0.4, broken="laplace: too little")[0] == "proven", "by another link"
    assert "declared law broken" in FALSE


@given(st.floats(0.01, 10), st.floats(0.01, 50), st.floats(0, 50), st.floats(0, 10), st.booleans())
def test_a_verdict_follows_from_its_numbers(
    claimed: float, proven: float, exact: float, measured: float, worst_case: bool
) -> None:
    verdict, _ = told(claimed, proven, exact, measured, strict=measured, worst_case=worst_case)
    slack = 1e-5 * (1 + proven)
    if exact > proven + slack or measured > proven + slack:
        assert verdict == CONTRADICTION
    elif exact < proven - slack and measured < proven - slack:
        if measured > claimed + slack or exact > claimed + slack:
            assert verdict in FALSE
        elif measured < claimed - slack and exact < claimed - slack:
            assert (
                verdict == ("proven" if proven <= claimed else "not refuted") or abs(proven - claimed) < slack
            )


def test_a_proof_names_the_links_of_others_that_it_believes() -> None:
    verdict, why = told(1.2, 1.2, None, 0.9, believed=("toy-noise", "toy-clip"))
    assert verdict == "proven"
    assert all(name in why and name not in told(1.2, 1.2, None, 0.9)[1] for name in ("toy-noise", "toy-clip"))
    assert "toy-noise" not in told(1.2, 8.0, None, 0.9, believed=("toy-noise",))[1]


def test_two_ways_to_compute_one_number_make_no_contradiction() -> None:
    assert told(1.2, 1.2 * (1 + 1e-12), 1.2 * (1 + 1e-9), 0.9)[0] == "proven"


def test_a_typical_pair_is_called_no_evidence() -> None:
    assert "no evidence" in told(1.2, 8.0, 0.3, 0.1, worst_case=False)[1]
    assert "no evidence" not in told(1.2, 8.0, 0.3, 0.1)[1]
