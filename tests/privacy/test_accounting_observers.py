"""Bounds for observers that see lists, and for some of the other clients colluding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import pytest

from foltr_audit.privacy.accounting import UpperBound
from foltr_audit.privacy.accounting.sum_members import exposure
from foltr_audit.privacy.events import ClickRandomization, KeyShares, MessageAggregation
from tests.privacy.test_accounting import L1, SHARES, WHOLE, N, bound, epsilon

# --- shown lists ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", ["individual", "aggregate", "colluding"])
@pytest.mark.parametrize("unit", ["click", "interaction", "query"])
def test_noise_on_messages_does_not_hide_what_lists_tell(view: str, unit: str) -> None:
    """The list of a second interaction follows from the clicks of the first, without noise."""
    seen = f"{view}+lists"
    alone = epsilon(L1, WHOLE, view=view, unit=unit, interactions=4)
    assert alone == pytest.approx(1.2)
    assert epsilon(L1, WHOLE, view=seen, unit=unit, interactions=1) == alone
    assert epsilon(L1, WHOLE, view=seen, unit=unit, interactions=4) == math.inf
    assert "--rank-with global" in bound(L1, WHOLE, view=seen, unit=unit, interactions=2).how
    assert epsilon(L1, WHOLE, view=seen, unit=unit, interactions=4, ranked_with="global") == alone


def test_randomised_clicks_hide_what_lists_tell() -> None:
    """Whatever noise is beside them, and however many lists there are."""
    clicks = ClickRandomization(epsilon=0.5)
    for events in ([clicks], [clicks, L1, WHOLE]):
        found = epsilon(*events, view="individual+lists", unit="interaction", interactions=4)
        assert found == pytest.approx(5.0)
    assert epsilon(clicks, L1, WHOLE, unit="interaction", interactions=4) == pytest.approx(1.2)


# --- some of the other clients tell -----------------------------------------------------------------------


def test_clients_that_collude_open_messages_with_their_key_shares() -> None:
    """In a sparse graph a client's neighbours may all collude, though most others do not."""
    neighbours, needed, told, delta = 22, 12, 24, 1e-5
    laplace = (L1, WHOLE)

    def proven(count: int, **more: object) -> UpperBound:
        shares = KeyShares(neighbours=neighbours, needed=needed)
        secure = MessageAggregation(at_least=26, key_shares=shares)
        return bound(*laplace, secure, view="colluding", shares=50, colluders=count, delta=delta, **more)

    exposed = 1.0 - sum(
        math.comb(told, k) * math.comb(49 - told, neighbours - k) / math.comb(49, neighbours)
        for k in range(needed)
    )
    assert exposed > 0.3
    assert "12 of a client's 22 neighbours can open its message" in proven(told).how
    alone = bound(*laplace, view="individual", shares=50, delta=delta)
    assert proven(told).epsilon == pytest.approx(alone.epsilon)
    few = proven(needed - 1, arriving=50)
    others = bound(*laplace, view="colluding", shares=50, colluders=needed - 1, delta=delta)
    assert few.epsilon == others.epsilon < alone.epsilon


def _falls_apart(telling: Sequence[int], missing: Sequence[int], n: int, reach: int) -> bool:
    """Whether the messages of the others, on a circle of n, are no longer tied together by masks."""
    gone = {*telling, *missing}

    def groups(left: list[int]) -> int:
        found, count = set[int](), 0
        for start in left:
            if start not in found:
                count, edge = count + 1, [start]
                while edge:
                    one = edge.pop()
                    if one not in found:
                        found.add(one)
                        edge += [two for two in left if min((one - two) % n, (two - one) % n) <= reach]
        return count

    aborts = groups([place for place in range(n) if place not in {*missing}]) > 1
    return not aborts and groups([place for place in range(n) if place not in gone]) > 1


@pytest.mark.parametrize(("neighbours", "telling", "missing"), [(2, 2, 0), (2, 3, 1), (4, 4, 0), (4, 4, 2)])
def test_clients_that_collude_cut_the_circle(neighbours: int, telling: int, missing: int) -> None:
    """By all choices of places: their masks are known, so that a part of the sum stands by itself."""
    n, cut, several = 9, 0, 0
    for gone in combinations(range(n), telling + missing):
        for told in combinations(gone, telling):
            rest = [place for place in gone if place not in told]
            cut += _falls_apart(told, rest, n, neighbours // 2)
            several += 1
    shares = KeyShares(neighbours=neighbours, needed=n)
    bounded = exposure(shares, clients=n, missing=missing, colluders=telling, honest=5)
    assert 0 < cut / several <= bounded
    everybody = KeyShares(neighbours=n - 1, needed=n)
    assert exposure(everybody, clients=n, missing=missing, colluders=telling, honest=5) == 0


def test_a_small_chance_to_open_a_message_counts_to_delta() -> None:
    shares = KeyShares(neighbours=30, needed=15)
    sparse, whole = MessageAggregation(at_least=2, key_shares=shares), MessageAggregation(at_least=2)
    here = {"view": "colluding", "shares": 1000, "colluders": 60, "unit": "client"}
    exposed = sum(math.comb(60, k) * math.comb(939, 30 - k) / math.comb(999, 30) for k in range(15, 31)) * (
        1000 - 60
    )
    assert 0 < exposed < 1e-5
    found = bound(L1, WHOLE, sparse, **here, delta=2e-5, arriving=1000)
    less = bound(L1, WHOLE, whole, **here, delta=2e-5 - exposed, arriving=1000)
    assert found.epsilon == pytest.approx(less.epsilon, rel=1e-9)
    assert found.delta == 2e-5
    pure = bound(L1, WHOLE, sparse, **here, arriving=1000)
    assert "neighbours" in pure.how or pure.epsilon == pytest.approx(1.2)


@pytest.mark.parametrize("view", ["aggregate", "colluding"])
def test_a_sum_of_one_message_shows_its_last_bits(view: str) -> None:
    one = {"number_format": "float64", "view": view, "arriving": 1}
    one["colluders"] = 0 if view == "colluding" else None
    assert epsilon(L1, WHOLE, **one) == math.inf
    assert epsilon(L1, WHOLE, **{**one, "arriving": 2}) == pytest.approx(1.2)


def test_the_more_clients_collude_the_less_noise_is_left() -> None:
    """k of n that tell what they sent are as good as k that never sent; all of them leave one share."""
    for k in (0, 100, 300):
        told = bound(L1, SHARES, view="colluding", colluders=k)
        assert told.epsilon == pytest.approx(epsilon(L1, SHARES, arriving=N - k))
        assert f"{N - k} messages of honest clients" in told.how
    assert epsilon(L1, SHARES, view="colluding", colluders=500) == math.inf
    everybody = epsilon(L1, WHOLE, view="colluding", delta=1e-5)
    assert everybody == epsilon(L1, WHOLE, view="colluding", colluders=N - 1, delta=1e-5)
    assert everybody == epsilon(L1, WHOLE, view="individual", delta=1e-5)
    secure = (L1, SHARES, MessageAggregation(at_least=900))
    found = epsilon(*secure, view="colluding", colluders=100, arriving=950)
    assert found == pytest.approx(epsilon(L1, SHARES, arriving=850))
