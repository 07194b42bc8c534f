"""Whether a sample is too small for a limit on attacks, and how many draws would do."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr_audit.experiments.recommend.recommend import FEWEST_QUERIES, AttackSample
from foltr_audit.judge.significance import mean_ends


@given(st.floats(0.001, 0.5), st.floats(0.701, 0.99), st.integers(1, 100), st.floats(0.5, 0.7))
def test_so_many_draws_let_a_guess_pass(half: float, limit: float, repeats: int, guess: float) -> None:
    sample = AttackSample(half, 40, repeats, guess)
    needed = math.ceil(sample.times(limit) * repeats)
    assert not AttackSample(half * (repeats / needed) ** 0.5, 40, needed, guess).too_small(limit)


def test_the_width_of_a_guess_falls_with_the_square_root_of_the_draws() -> None:
    """AUCs of random scores by their definition, on other numbers of lists of one clicked document in ten."""
    rng = np.random.default_rng(3)

    def spread(lists: int) -> float:
        scores = rng.random((400, lists, 10))
        clicked, others = scores[:, :, 0], scores[:, :, 1:].reshape(400, -1)
        ranks = (
            np.argsort(np.argsort(np.concatenate([clicked, others], axis=1), axis=1), axis=1)[:, :lists] + 1
        )
        aucs = (ranks.sum(axis=1) - lists * (lists + 1) / 2) / (lists * 9 * lists)
        return float(aucs.std())

    assert spread(10) / spread(40) == pytest.approx(2.0, rel=0.15)


def test_below_so_many_queries_no_number_of_draws_narrows_the_interval() -> None:
    """Queries that hardly differ are what very many draws would give; one more at an end is left."""

    def width(queries: int) -> float:
        low, high = mean_ends(np.linspace(0.5, 0.500001, queries), 0.0, 1.0, 0.05)
        return high - low

    assert width(FEWEST_QUERIES - 1) > 0.5
    assert width(FEWEST_QUERIES) == pytest.approx(1 / (FEWEST_QUERIES + 1), abs=1e-4)


def test_a_small_sample_is_told_with_the_size_that_would_do() -> None:
    said = AttackSample(0.15, 40, 2, 0.5).describe(0.6)
    assert "with 40 queries, 2 times each" in said
    assert "ends at about .650 (limit .600)" in said
    assert said.endswith("About --repeats 6 would be enough, or more queries.")
    assert "About 9 queries would be enough;" in AttackSample(0.15, 3, 2, 0.5).describe(0.6)
    assert AttackSample(0.05, 40, 1, 0.5).describe(0.6) == ""
    assert "No sample is large enough" in AttackSample(0.05, 40, 1, 0.62).describe(0.6)
