"""Bounds for observers that see lists, and for some of the other clients colluding."""

from __future__ import annotations

import math

import pytest

from foltr_audit.records.privacy import RandomisedClicks, Summed
from tests.test_accounting import L1, SHARES, WHOLE, N, bound, epsilon

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
    clicks = RandomisedClicks(epsilon=0.5)
    for events in ([clicks], [clicks, L1, WHOLE]):
        found = epsilon(*events, view="individual+lists", unit="interaction", interactions=4)
        assert found == pytest.approx(5.0)
    assert epsilon(clicks, L1, WHOLE, unit="interaction", interactions=4) == pytest.approx(1.2)


# --- some of the other clients tell -----------------------------------------------------------------------


def test_the_more_clients_collude_the_less_noise_is_left() -> None:
    """k of n that tell what they sent are as good as k that never sent; all of them leave one share."""
    for k in (0, 100, 300):
        told = bound(L1, SHARES, view="colluding", colluders=k)
        assert told.epsilon == pytest.approx(epsilon(L1, SHARES, arriving=N - k))
        assert f"{N - k} messages that are not told" in told.how
    assert epsilon(L1, SHARES, view="colluding", colluders=500) == math.inf
    everybody = epsilon(L1, WHOLE, view="colluding", delta=1e-5)
    assert everybody == epsilon(L1, WHOLE, view="colluding", colluders=N - 1, delta=1e-5)
    assert everybody == epsilon(L1, WHOLE, view="individual", delta=1e-5)
    secure = (L1, SHARES, Summed(at_least=900))
    found = epsilon(*secure, view="colluding", colluders=100, arriving=950)
    assert found == pytest.approx(epsilon(L1, SHARES, arriving=850))
