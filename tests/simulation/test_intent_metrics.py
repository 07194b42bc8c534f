"""Drop, delta and online means of changing intents, held against loops that follow the definitions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr_audit.core.plugins import Environment, Scenario, ScenarioContext
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.ranking_metrics import ONLINE_NDCG
from foltr_audit.simulation.intent_metrics import (
    current,
    deltas,
    drops,
    of_intent,
    offline_ends,
    online_means,
    period_of_rounds,
    relative_loss,
    specific_offline,
    specific_online,
    under_intents,
)

Rows = list[dict[str, float]]
INTENTS = 3
CHANGING = ("abrupt", "smooth-abrupt", "leaking", "swap:changes=3")


def environment(text: str, total: int) -> Environment:
    around = ScenarioContext(intents=INTENTS, largest_label=1, interactions=1, total=total)
    found = make(Scenario, text).environment(around)
    assert found is not None
    return found


def rows_of(values: Any, online: Any = None, skipped: tuple[int, ...] = ()) -> Rows:
    """Rows with the nDCG of each round and intent (rounds, I), NaN in skipped rounds."""
    online = np.zeros(len(values)) if online is None else online
    return [
        {
            "round": float(i),
            ONLINE_NDCG: float(online[i]),
            **{of_intent(k): math.nan if i in skipped else float(row[k]) for k in range(INTENTS)},
        }
        for i, row in enumerate(values)
    ]


@st.composite
def trainings(draw: st.DrawFn) -> tuple[Environment, Rows, Rows, int]:
    """An environment, the rounds of a run, rounds of another one evaluated as often, and n."""
    rounds, n = draw(st.integers(4, 24)), draw(st.sampled_from([1, 2, 5]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    every = draw(st.integers(1, 3))
    skipped = tuple(i for i in range(rounds) if (i + 1) % every and i + 1 < rounds)
    values, others = (rng.uniform(0, 1, (rounds, INTENTS)) * rng.integers(0, 2) for _ in range(2))
    found = environment(draw(st.sampled_from(CHANGING)), rounds * n)
    ours = rows_of(values, rng.uniform(0, 1, rounds), skipped)
    return found, ours, rows_of(others, skipped=skipped), n


def weighted(row: dict[str, float], found: Environment, time: int) -> float:
    chances = found.probabilities([time])[0]
    return sum(float(chances[k]) * row[of_intent(k)] for k in range(INTENTS) if chances[k] > 0)


def loss(best: float, reached: float) -> float:
    return 0.0 if best == 0 else max(best - reached, 0.0) / best


# --- drop -----------------------------------------------------------------------------------------


def test_one_interaction_a_round_is_the_papers_formula() -> None:
    """Theta_{c-1} under the old labels against theta_c under the new ones, by hand."""
    found = environment("abrupt", 6)
    assert found.change_points == (2, 4)
    values = [[0.1, 0, 0], [0.8, 0.9, 0], [0.9, 0.6, 0.9], [0.9, 0.5, 0.9], [0.9, 0.9, 0.9], [0, 0, 1]]
    np.testing.assert_allclose(drops(rows_of(values), found, 1), [(0.8 - 0.6) / 0.8, 0.0], rtol=1e-14)


def test_without_a_model_before_the_change_there_is_no_drop() -> None:
    found = environment("abrupt", 6)
    values = np.full((6, INTENTS), 0.5)
    assert np.isnan(drops(rows_of(values, skipped=(0, 1, 2)), found, 1)).tolist() == [True, False]
    assert np.isnan(drops(rows_of(values, skipped=tuple(range(6))), found, 1)).all()
    assert np.isnan(drops([{ONLINE_NDCG: 0.5} for _ in range(6)], found, 1)).all()


def test_an_intent_that_nobody_has_does_not_count_even_where_it_is_undefined() -> None:
    found = environment("abrupt", 6)
    values = np.full((6, INTENTS), 0.5)
    values[:, 2] = np.nan
    found_drops = drops(rows_of(values), found, 1)
    assert found_drops[0] == 0.0
    assert math.isnan(found_drops[1])


@given(trainings())
def test_drops_by_brute_force(training: tuple[Environment, Rows, Rows, int]) -> None:
    found, rows, _, n = training
    expected = []
    for c in found.change_points:
        before = after = None
        for i, row in enumerate(rows):
            evaluated, learnt = not math.isnan(row[of_intent(0)]), (i + 1) * n
            if evaluated and learnt <= c:
                before = row
            if evaluated and learnt <= c + 1:
                after = row
        if before is None or after is None:
            expected.append(math.nan)
        else:
            expected.append(loss(weighted(before, found, c - 1), weighted(after, found, c)))
    np.testing.assert_allclose(drops(rows, found, n), expected, rtol=1e-12, atol=1e-15)


# --- delta ----------------------------------------------------------------------------------------


@given(trainings())
def test_deltas_by_brute_force(training: tuple[Environment, Rows, Rows, int]) -> None:
    found, rows, twin, n = training
    expected = []
    for number, period in enumerate(found.periods):
        losses = []
        for i, row in enumerate(rows):
            time = (i + 1) * n - 1
            last = number + 1 == len(found.periods)
            if period.first <= time and (last or time < period.end) and not math.isnan(row[of_intent(0)]):
                losses.append(loss(weighted(twin[i], found, time), weighted(row, found, time)))
        expected.append(sum(losses) / len(losses) if losses else math.nan)
    twins = dict.fromkeys(range(INTENTS), twin)
    np.testing.assert_allclose(deltas(rows, twins, found, n), expected, rtol=1e-12, atol=1e-15)


def test_a_period_without_its_twin_has_no_delta() -> None:
    found, rows = environment("abrupt", 6), rows_of(np.full((6, INTENTS), 0.4))
    better = rows_of(np.full((6, INTENTS), 0.5))
    np.testing.assert_allclose(deltas(rows, {1: better}, found, 1), [np.nan, 0.2, np.nan])
    assert np.isnan(deltas(rows, {}, found, 1)).all()
    mixed = environment("mixed", 6)
    assert np.isnan(deltas(rows, {0: better}, mixed, 1)).tolist() == [True]


def test_a_swap_takes_the_twin_of_each_intent_again() -> None:
    found, rows = environment("swap:first=3,second=1", 6), rows_of(np.full((6, INTENTS), 0.4))
    twins = {2: rows_of(np.full((6, INTENTS), 0.5)), 0: rows_of(np.full((6, INTENTS), 0.8))}
    np.testing.assert_allclose(deltas(rows, twins, found, 1), [0.2, 0.5, 0.2])


def test_relative_loss_of_nothing_is_none() -> None:
    best = np.array([0.0, 0.0, 0.5, 0.5, np.nan])
    reached = np.array([0.0, 0.5, 0.0, 1.0, 0.5])
    np.testing.assert_array_equal(relative_loss(best, reached), [0.0, 0.0, 1.0, 0.0, np.nan])


# --- periods --------------------------------------------------------------------------------------


@given(trainings())
def test_online_means_of_the_periods_make_up_the_whole(training: tuple[Environment, Rows, Rows, int]) -> None:
    found, rows, _, n = training
    lengths = np.array([period.end - period.first for period in found.periods])
    online = np.repeat([row[ONLINE_NDCG] for row in rows], n)
    means = online_means(rows, found, n)
    assert (means * lengths).sum() / lengths.sum() == pytest.approx(online.mean(), rel=1e-9)
    each = [online[period.first : period.end].mean() for period in found.periods]
    np.testing.assert_allclose(means, each, rtol=1e-9)


def test_rounds_without_a_list_are_left_out_of_the_online_mean() -> None:
    found = environment("abrupt", 6)
    rows = rows_of(np.zeros((6, INTENTS)), online=[0.2, math.nan, 0.4, 0.6, math.nan, math.nan])
    np.testing.assert_allclose(online_means(rows, found, 1), [0.2, 0.5, np.nan])


def test_the_last_period_goes_on_and_ends_with_its_last_evaluated_round() -> None:
    found = environment("abrupt", 6)
    values = np.arange(24).reshape(8, INTENTS) / 24
    rows = rows_of(values, online=np.arange(8.0), skipped=(7,))
    assert period_of_rounds(8, found, 1).tolist() == [0, 0, 1, 1, 2, 2, 2, 2]
    np.testing.assert_allclose(online_means(rows, found, 1), [0.5, 2.5, 5.5])
    np.testing.assert_allclose(offline_ends(rows, found, 1), [values[1, 0], values[3, 1], values[6, 2]])
    assert np.isnan(offline_ends(rows[:2], found, 1)).tolist() == [False, True, True]


def test_a_round_stands_in_the_period_of_its_last_interaction() -> None:
    found = environment("abrupt:period=25", 60)
    assert period_of_rounds(6, found, 10).tolist() == [0, 0, 1, 1, 1, 2]
    rows = rows_of(np.zeros((6, INTENTS)), online=[0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
    np.testing.assert_allclose(online_means(rows, found, 10), [5 / 25, 5 / 25, 0.0])


def test_mixtures_are_weighted_by_what_is_likely() -> None:
    values = np.array([[0.2, 0.4, 0.9]] * 4)
    rows = rows_of(values, skipped=(1,))
    np.testing.assert_array_equal(under_intents(rows, INTENTS)[[0, 2, 3]], values[[0, 2, 3]])
    np.testing.assert_allclose(current(rows, environment("mixed", 4), 1), [0.5, np.nan, 0.5, 0.5])
    smooth = current(rows, environment("smooth-abrupt:period=2", 4), 1)
    first, second = 0.7 * 0.2 + 0.15 * (0.4 + 0.9), 0.7 * 0.4 + 0.15 * (0.2 + 0.9)
    np.testing.assert_allclose(smooth, [first, np.nan, second, second])


# --- one ranker per intent ------------------------------------------------------------------------


def test_one_ranker_per_intent_together() -> None:
    rng = np.random.default_rng(3)
    values, online = rng.uniform(0, 1, (INTENTS, 5, INTENTS)), rng.uniform(0, 1, (INTENTS, 5))
    played = rng.integers(0, 4, (INTENTS, 5))
    played[:, 4] = 0
    online[1, 2], played[1, 2] = np.nan, 0
    rankers = [rows_of(values[k], online[k], skipped=(3,)) for k in range(INTENTS)]
    offline, shown = specific_offline(rankers), specific_online(rankers, played)
    for t in range(5):
        own = sum(rankers[k][t][of_intent(k)] for k in range(INTENTS)) / INTENTS
        np.testing.assert_allclose(offline[t], own)
        lists = [float(online[k, t]) for k in range(INTENTS) for _ in range(played[k, t])]
        np.testing.assert_allclose(shown[t], np.mean(lists) if lists else np.nan)
    assert np.isnan(offline).tolist() == [False, False, False, True, False]
