"""Which claim is checked: units, views, deltas and messages, by definition and by brute force."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr_audit.auditing.session import NOTHING, ChainClaim
from foltr_audit.core.defense_chain import parse_chain
from foltr_audit.core.plugins import Defense, PrivacyClaim, RoundContext
from foltr_audit.utils.arrays import Floats
from tests.conftest import SetupOf
from tests.fixtures.audits import session

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
