"""The verdict on a claim: what outranks what, what is no verdict, and which claim is checked."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr_audit.auditing.session import NOTHING, ChainClaim
from foltr_audit.auditing.verdict import CONTRADICTION, FALSE, verdict_on
from foltr_audit.core.defense_chain import parse_chain
from foltr_audit.core.plugins import Defense, PrivacyClaim, RoundContext
from foltr_audit.utils.arrays import Floats
from tests.conftest import SetupOf
from tests.fixtures.audits import session


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


RR = "click-rr:eps=0.5"
GAUSSIAN = "clip:norm=1+gaussian:eps=1,delta=0.001,sensitivity=2"
SHARES = "clip:norm=1+gaussian-shares:eps=1,delta=0.001,sensitivity=2"
PUBLISHED = "clip:norm=1.5+gamma-laplace:eps=1.2,sensitivity=3"


class OfQueries(Defense):
    """Claims something for a query, with a delta."""

    name: ClassVar[str] = "toy-of-queries"

    def on_message(self, models: Floats, context: RoundContext) -> Floats:
        return models.copy()

    def claims(self, context: RoundContext) -> tuple[PrivacyClaim, ...]:
        return self.claims_for(["individual"], "query", 0.3, 1e-4)


class AddsOrRemoves(OfQueries):
    """Claims something for neighbours of which one lacks a client."""

    name: ClassVar[str] = "toy-adds-or-removes"

    def claims(self, context: RoundContext) -> tuple[PrivacyClaim, ...]:
        (claim,) = super().claims(context)
        return (replace(claim, unit="client", relation="add-remove"),)


def test_a_claim_for_one_client_more_or_less_is_twice_as_much_for_a_client_that_is_replaced(
    setup_of: SetupOf,
) -> None:
    """To replace one is to remove one and to add another: eps composes, and delta grows by 1 + e^eps."""
    found = checked(setup_of, (AddsOrRemoves(),), "client", "individual")
    assert found.epsilon == pytest.approx(0.6)
    assert found.delta == pytest.approx(1e-4 * (1 + math.exp(0.3)))


def checked(setup_of: SetupOf, chain: Any, unit: str, view: str, **protocol: Any) -> ChainClaim:
    defenses: tuple[Defense, ...] = parse_chain([chain]) if isinstance(chain, str) else chain
    return session(setup_of(chain=defenses), **{"interactions": 1, **protocol}).claim(unit, view)


@pytest.mark.parametrize(
    ("chain", "unit", "view", "expected"),
    [
        (RR, "click", "individual", ChainClaim(0.5, 0.0)),
        (RR, "interaction", "colluding", ChainClaim(5.0, 0.0)),
        (RR, "client", "aggregate", NOTHING),
        (GAUSSIAN, "click", "individual", ChainClaim(1.0, 0.001)),
        (GAUSSIAN, "client", "aggregate", ChainClaim(1.0, 0.001)),
        (SHARES, "client", "aggregate", ChainClaim(1.0, 0.001)),
        (SHARES, "client", "individual", NOTHING),
        (SHARES, "client", "colluding", NOTHING),
        (PUBLISHED, "client", "individual", ChainClaim(1.2, 0.0)),
        (PUBLISHED, "click", "aggregate", ChainClaim(1.2, 0.0)),
        ("none", "client", "individual", NOTHING),
        ((OfQueries(),), "click", "individual", ChainClaim(0.3, 1e-4)),
        ((OfQueries(),), "client", "individual", NOTHING),
    ],
)
def test_a_claim_is_for_its_unit_and_view(
    setup_of: SetupOf, chain: Any, unit: str, view: str, expected: ChainClaim
) -> None:
    assert checked(setup_of, chain, unit, view) == expected


def test_secure_aggregation_makes_a_single_view_one_of_sums(setup_of: SetupOf) -> None:
    assert checked(setup_of, f"{SHARES}+secure-aggregation", "client", "individual") == ChainClaim(1.0, 0.001)


def test_a_delta_of_ones_own_lets_only_stronger_claims_count(setup_of: SetupOf) -> None:
    def at(delta: float) -> ChainClaim:
        return checked(setup_of, GAUSSIAN, "client", "individual", delta=delta)

    assert at(1e-9) == ChainClaim(math.inf, 1e-9)
    assert at(0.01) == ChainClaim(1.0, 0.01)
    assert checked(setup_of, GAUSSIAN, "client", "individual", claim=2.0, delta=1e-9) == ChainClaim(2.0, 1e-9)
    assert checked(setup_of, GAUSSIAN, "client", "individual", claim=2.0) == ChainClaim(2.0, 0.001)


def test_messages_compose(setup_of: SetupOf) -> None:
    several = checked(setup_of, GAUSSIAN, "client", "individual", messages=5, units=("client",))
    assert tuple(several) == pytest.approx((5.0, 0.005))
    assert tuple(ChainClaim(0.1, 0.4).of_messages(5)) == pytest.approx((0.5, 1.0))


@given(st.floats(0.01, 1.5), st.floats(0, 1e-3), st.integers(1, 6), st.integers(0, 10**6))
def test_what_a_claim_says_of_a_group(epsilon: float, delta: float, size: int, seed: int) -> None:
    """Laws that are pairwise neighbours along a chain, as far apart as the claim allows, at its two ends."""
    rng = np.random.default_rng(seed)
    laws = [rng.dirichlet(np.ones(4))]
    for _ in range(size):
        steps = laws[-1] * np.exp(epsilon * np.where(rng.random(4) < 0.5, -1.0, 1.0))
        moved = np.minimum(steps, laws[-1] * math.exp(epsilon))
        low, high = np.maximum(moved, laws[-1] * math.exp(-epsilon)), laws[-1]
        share = rng.random()
        nearby = share * low / low.sum() + (1 - share) * high  # only kept if it is a neighbour
        ratios = np.abs(np.log(nearby / laws[-1]))
        laws.append(nearby if ratios.max() <= epsilon else laws[-1])
    group = ChainClaim(epsilon, delta).of_group(size)
    excess = np.maximum(laws[-1] - math.exp(group.epsilon) * laws[0], 0.0).sum()
    assert excess <= group.delta + 1e-12
    assert group.epsilon == pytest.approx(size * epsilon)
    assert group.delta >= min(1.0, size * delta) * (1 - 1e-12)


def test_the_delta_of_a_group_by_induction() -> None:
    """P_k <= e^eps P_(k-1) + delta for each step, unrolled."""
    epsilon, delta, unrolled = 0.7, 1e-5, 0.0
    for _ in range(4):
        unrolled = math.exp(epsilon) * unrolled + delta
    assert ChainClaim(epsilon, delta).of_group(4).delta == pytest.approx(unrolled)
