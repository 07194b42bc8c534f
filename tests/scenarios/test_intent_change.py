"""Environments by the law of their probabilities over time, held against the published numbers."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr_audit.core.plugins import Environment, Population, Scenario, ScenarioContext
from foltr_audit.core.plugins.registry import make

PUBLISHED = ScenarioContext(intents=4, largest_label=2, interactions=4, total=200_000)
CHANGING = ("abrupt", "smooth-abrupt", "leaking", "swap", "swap:first=3,second=1,changes=5")
STEADY = ("mixed", "mixed:only=2", "fixed-intent:intent=3")


def around(total: int = 200_000, intents: int = 4) -> ScenarioContext:
    return PUBLISHED._replace(total=total, intents=intents)


def environment(text: str, there: ScenarioContext = PUBLISHED) -> Environment:
    found = make(Scenario, text).environment(there)
    assert found is not None
    return found


def at(found: Environment, *times: int) -> list[list[float]]:
    return [list(row) for row in found.probabilities(list(times)).round(12).tolist()]


# --- laws of all of them --------------------------------------------------------------------------


@given(
    text=st.sampled_from((*CHANGING, *STEADY)),
    intents=st.integers(3, 6),
    total=st.integers(6, 10_000),
    times=st.lists(st.integers(0, 20_000), min_size=1, max_size=20),
)
def test_probabilities_add_up_to_one_at_any_time(
    text: str, intents: int, total: int, times: list[int]
) -> None:
    found = environment(text, around(total, intents))
    rows = found.probabilities(times)
    assert rows.shape == (len(times), intents)
    assert found.n_intents == intents
    assert rows.min() >= 0
    np.testing.assert_allclose(rows.sum(axis=1), 1.0, rtol=0, atol=1e-12)


@given(text=st.sampled_from(CHANGING), total=st.integers(6, 10_000), time=st.integers(0, 20_000))
def test_periods_follow_each_other_and_one_leads_at_any_time(text: str, total: int, time: int) -> None:
    found = environment(text, around(total))
    periods = found.periods
    assert (periods[0].first, periods[-1].end) == (0, total)
    assert all(one.end == other.first for one, other in pairwise(periods))
    lengths = [period.end - period.first for period in periods]
    assert max(lengths) - min(lengths) <= 1
    assert found.change_points == tuple(period.first for period in periods[1:])
    leads = found.leading(time)
    assert leads.first <= time
    assert time < leads.end or leads == periods[-1]
    assert all(one.intent != other.intent for one, other in pairwise(periods))


@pytest.mark.parametrize("text", [*CHANGING, "swap:period=500000", "leaking:period=7"])
def test_the_leading_intent_is_the_likeliest_when_its_period_starts(text: str) -> None:
    found = environment(text)
    for period in found.periods:
        assert int(found.probabilities([period.first])[0].argmax()) == period.intent


# --- each by itself -------------------------------------------------------------------------------


def test_abrupt_is_one_intent_after_the_other() -> None:
    found = environment("abrupt:period=50000")
    assert found.change_points == (50_000, 100_000, 150_000)
    assert [period.intent for period in found.periods] == [0, 1, 2, 3]
    assert at(found, 0, 49_999) == [[1, 0, 0, 0]] * 2
    assert at(found, 50_000, 99_999) == [[0, 1, 0, 0]] * 2
    assert at(found, 100_000, 150_000) == [[0, 0, 1, 0], [0, 0, 0, 1]]
    assert at(found, 10_000_000) == [[0, 0, 0, 1]]


def test_smooth_abrupt_has_the_published_probabilities() -> None:
    found = environment("smooth-abrupt")
    assert found.change_points == (50_000, 100_000, 150_000)
    assert at(found, 49_999, 50_000) == [[0.7, 0.1, 0.1, 0.1], [0.1, 0.7, 0.1, 0.1]]
    assert at(found, 199_999, 300_000) == [[0.1, 0.1, 0.1, 0.7]] * 2
    other = environment("smooth-abrupt:dominant=0.4", around(90, 3))
    assert at(other, 30) == [[0.3, 0.4, 0.3]]


def test_leaking_moves_the_published_share_an_interaction() -> None:
    found, rate = environment("leaking:period=50000"), 0.6 / 50_000
    rows = found.probabilities(np.arange(0, 150_001))
    steps = np.diff(rows, axis=0)
    for period in range(3):
        inside = steps[period * 50_000 : (period + 1) * 50_000]
        expected = np.zeros(4)
        expected[period], expected[period + 1] = -rate, rate
        np.testing.assert_allclose(inside, np.broadcast_to(expected, inside.shape), rtol=0, atol=1e-14)
    np.testing.assert_allclose(rows[0], [0.7, 0.1, 0.1, 0.1], rtol=0, atol=1e-15)
    np.testing.assert_allclose(rows[25_000], [0.4, 0.4, 0.1, 0.1], rtol=0, atol=1e-15)
    assert at(found, 150_000, 199_999, 900_000) == [[0.1, 0.1, 0.1, 0.7]] * 3


@pytest.mark.parametrize(("first", "second"), [(1, 2), (2, 1), (4, 1)])
def test_swaps_long_and_short_with_either_intent_first(first: int, second: int) -> None:
    names = f"swap:first={first},second={second}"
    long = environment(f"{names},period=500000", around(1_500_000))
    periods = [(period.first, period.intent) for period in long.periods]
    assert periods == [(0, first - 1), (500_000, second - 1), (1_000_000, first - 1)]
    short = environment(f"{names},period=50000,changes=5", around(300_000))
    assert short.change_points == (50_000, 100_000, 150_000, 200_000, 250_000)
    assert [period.intent for period in short.periods] == [first - 1, second - 1] * 3
    only = np.eye(4).tolist()
    assert at(short, 299_999, 250_000, 249_999) == [only[second - 1], only[second - 1], only[first - 1]]


def test_mixed_is_even_and_only_leaves_the_rest_out() -> None:
    for text, kept, leads in (("mixed", None, None), ("mixed:only=3", 2, 2)):
        found = environment(text)
        assert at(found, 0, 123_456, 10**7) == [[0.25] * 4] * 3
        assert (found.kept, found.periods) == (kept, ((0, 200_000, leads),))


def test_fixed_intent_is_a_single_one() -> None:
    found = environment("fixed-intent:intent=3")
    assert at(found, 0, 10**7) == [[0, 0, 1, 0]] * 2
    assert found.periods == ((0, 200_000, 2),)
    assert found.change_points == ()
    assert at(environment("fixed-intent", around(10, 1)), 5) == [[1]]


def test_a_training_that_ends_early_has_the_periods_that_it_reaches() -> None:
    found = environment("abrupt:period=50000", around(100_001))
    assert [period.first for period in found.periods] == [0, 50_000, 100_000]
    assert len(environment("abrupt:period=50000", around(100_000)).periods) == 2


def test_clients_are_alike_and_twins_are_of_one_intent() -> None:
    names = {f"intent {i} alone": f"fixed-intent:intent={i}" for i in (1, 2, 3, 4)}
    for text in ("abrupt", "smooth-abrupt", "leaking"):
        scenario = make(Scenario, text)
        assert scenario.twins(PUBLISHED) == names
        assert scenario.population(Population(), PUBLISHED) == Population()
    swap = make(Scenario, "swap:first=4,second=2,changes=5").twins(PUBLISHED)
    assert swap == {name: names[name] for name in ("intent 2 alone", "intent 4 alone")}
    alone = make(Scenario, "mixed").twins(PUBLISHED)
    assert alone == {f"intent {i} by itself": f"mixed:only={i}" for i in (1, 2, 3, 4)}
    for text in ("mixed:only=1", "fixed-intent:intent=2"):
        assert make(Scenario, text).twins(PUBLISHED) == {}
    for text in (*names.values(), *alone.values()):
        make(Scenario, text)
