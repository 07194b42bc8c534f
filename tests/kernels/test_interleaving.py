"""Interleaving: fair by enumeration, lists of the right law, credit against brute force."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr_audit.kernels.central_learners import preference, ranking
from foltr_audit.kernels.philox import uniforms
from foltr_audit.kernels.ranking import BY_POSITION, TieStream
from tests.fixtures.plain_interleaving import (
    assignment_law,
    drafted,
    filled,
    independent_law,
    list_law,
    numbers_for,
    orders,
    outcome,
)
from tests.fixtures.reference import chi_square_p


def test_a_ranking_breaks_ties_by_position() -> None:
    scores = np.array([0.0, 2.0, -0.0, 2.0, -1e300, 1e300, 0.0])
    assert ranking(scores, 0, BY_POSITION).tolist() == [5, 1, 3, 0, 2, 6, 4]
    assert ranking(np.zeros(100), 0, BY_POSITION).tolist() == list(range(100))


@pytest.mark.parametrize("n", [1, 2, 7, 200, 1_500])
def test_a_ranking_breaks_ties_by_the_numbers_of_its_query(n: int) -> None:
    scores = np.random.default_rng(n).integers(0, 50, size=n) / 7.0
    drawn = TieStream(3, 4, np.uint64(5), True)
    numbers = uniforms(0, n, np.array([6]), 3, 4, np.uint64(5))[0]
    assert ranking(scores, 6, drawn).tolist() == np.lexsort([numbers, -scores]).tolist()
    assert ranking(scores, 6, BY_POSITION).tolist() == np.argsort(-scores, kind="stable").tolist()
    scores[n // 2] = np.nan
    assert sorted(ranking(scores, 6, drawn).tolist()) == list(range(n))


# --- team draft ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "k"), [(1, 4), (2, 4), (3, 3), (4, 4), (4, 2), (5, 4), (4, 10)])
def test_team_draft_is_the_published_algorithm_for_all_coins(n: int, k: int) -> None:
    for current, candidate in orders(n):
        for coins in product((False, True), repeat=(min(n, k) + 1) // 2):
            u = np.where([*coins, *[True] * k], 0.7, 0.3)
            shown, odds = filled("team-draft", current, candidate, u, k)
            expected, teams = drafted(current, candidate, coins, k)
            assert shown.tolist() == expected + [-1] * (k - len(expected))
            assert odds.tolist() == teams + [0] * (k - len(expected))


# --- probabilistic ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("team", [0, 1])
def test_odds_are_those_of_all_assignments(team: int) -> None:
    """Whoever drew the list: its odds, and what clicks on it say, as Bayes has it over all assignments."""
    k = 3
    for current, candidate in orders(4):
        for shown in list_law(current, candidate, k):
            law = assignment_law(current, candidate, shown)
            got, odds = filled(
                "probabilistic", current, candidate, numbers_for(current, candidate, shown, team), k
            )
            assert tuple(got) == shown
            expected = [sum(p for teams, p in law.items() if teams[place]) for place in range(k)]
            np.testing.assert_allclose(odds, expected, rtol=1e-12)
            for clicks in product((False, True), repeat=k):
                assert preference(odds, np.array(clicks)) == pytest.approx(outcome(law, clicks), abs=1e-13)


def test_lists_follow_their_law() -> None:
    """Chi-square over all lists of 20,000 draws; the laws of a gentler softmax and of one ranker fail."""
    current, candidate, k = (0, 1, 2, 3), (2, 0, 3, 1), 3
    law = list_law(current, candidate, k)
    u = np.random.default_rng(6).random((20_000, 2 * k))
    drawn = [tuple(filled("probabilistic", current, candidate, row, k)[0]) for row in u]
    counts = [drawn.count(shown) for shown in law]
    assert chi_square_p(counts, list(law.values())) > 1e-3
    assert chi_square_p(counts, list(list_law(current, candidate, k, steepness=2.5).values())) < 1e-6
    assert chi_square_p(counts, list(list_law(current, current, k).values())) < 1e-6


def test_equal_rankings_have_even_odds_and_short_queries_are_padded() -> None:
    order = np.random.default_rng(3).permutation(200)
    for seed in range(20):
        shown, odds = filled("probabilistic", order, order, np.random.default_rng(seed).random(20), 10)
        assert (odds == 0.5).all()
        assert np.unique(shown).size == 10
        assert preference(odds, np.ones(10, dtype=np.bool_)) == 0.0
    shown, odds = filled("probabilistic", [0], [0], np.random.default_rng(0).random(20), 10)
    assert shown.tolist() == [0] + [-1] * 9
    assert odds.tolist() == [0.5] + [0.0] * 9


def test_numbers_at_the_ends_still_draw_documents() -> None:
    for number in (1e-300, np.nextafter(1.0, 0.0)):
        shown, odds = filled("probabilistic", range(50), range(49, -1, -1), np.full(20, number), 10)
        assert np.unique(shown).size == 10
        assert shown.min() >= 0
        assert ((odds > 0) & (odds < 1)).all()


# --- credit ----------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=8))
def test_preference_is_that_of_all_assignments(places: list[tuple[float, bool]]) -> None:
    odds = [p for p, _ in places]
    clicks = np.array([click for _, click in places], dtype=np.bool_)
    law = independent_law(odds)
    got = preference(np.array(odds), clicks)
    assert got == pytest.approx(outcome(law, clicks), abs=1e-12)
    assert preference(1.0 - np.array(odds), clicks) == pytest.approx(-got, abs=1e-12)
