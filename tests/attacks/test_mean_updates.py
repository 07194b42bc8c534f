"""Mean updates from sums: closed forms, the null space of fixed cohorts, and the penalty by another route."""

from __future__ import annotations

import numpy as np
import pytest
from foltr_audit.attacks import participation_regression as module
from foltr_audit.attacks.participation_regression import mean_updates
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import null_space
from scipy.stats import multivariate_normal

from foltr_audit.core.records.view import Participation, RoundMembers
from foltr_audit.utils.arrays import Floats


def drawn(rng: np.random.Generator, clients: int, cohort: int, rounds: int) -> Participation:
    """Cohorts without replacement, whose members weigh differently."""
    every = [(rng.permutation(clients)[:cohort], rng.uniform(0.5, 1.5, cohort)) for _ in range(rounds)]
    return Participation(clients=clients, rounds=tuple(RoundMembers(*each) for each in every))


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000), clients=st.integers(2, 12), drift=st.integers(0, 3))
def test_constant_updates_are_found_exactly(seed: int, clients: int, drift: int) -> None:
    """What all have in common may change as a polynomial of the round: only deviations are asked then."""
    rng = np.random.default_rng(seed)
    taking_part = drawn(rng, clients, max(1, clients // 2), 4 * clients + 20)
    truth = rng.normal(size=(clients, 3))
    constant = mean_updates(taking_part.matrix @ truth, taking_part, drift)
    np.testing.assert_allclose(constant, truth, atol=1e-6)
    time = np.linspace(-1, 1, len(taking_part.rounds))
    common = np.polynomial.polynomial.polyval(time, rng.normal(size=(drift + 1, 3))).T
    moving = taking_part.matrix @ truth + taking_part.matrix.sum(axis=1)[:, np.newaxis] * common
    found = mean_updates(moving, taking_part, drift)
    np.testing.assert_allclose(found - found.mean(axis=0), truth - truth.mean(axis=0), atol=1e-5)


def test_fixed_cohorts_give_the_means_of_batches_and_nothing_else() -> None:
    rng = np.random.default_rng(3)
    batches = [RoundMembers(np.arange(4) + 4 * (turn % 3), np.ones(4)) for turn in range(30)]
    taking_part = Participation(clients=12, rounds=tuple(batches))
    assert np.linalg.matrix_rank(taking_part.matrix) == 3
    truth = rng.normal(size=(12, 5))
    sums = taking_part.matrix @ truth
    found = mean_updates(sums, taking_part)
    np.testing.assert_allclose(found, np.repeat(truth.reshape(3, 4, 5).mean(axis=1), 4, axis=0), atol=1e-6)
    hidden = null_space(taking_part.matrix)
    assert hidden.shape == (12, 9)
    other = truth + hidden @ rng.normal(size=(9, 5))
    assert np.abs(other - truth).max() > 1
    np.testing.assert_allclose(taking_part.matrix @ other, sums, atol=1e-12)
    mixed = drawn(rng, 12, 4, 30)
    assert null_space(mixed.matrix).size == 0, "sampled cohorts hide nothing"


def likelihood(sums: Floats, matrix: Floats, ratio: float) -> float:
    """Log likelihood of sums (R, P) by a dense covariance, with the best variance of each number."""
    R = len(sums)
    covariance = matrix @ matrix.T / ratio + np.eye(R)
    total = 0.0
    for column in sums.T:
        variance = float(column @ np.linalg.solve(covariance, column)) / R
        total += multivariate_normal(np.zeros(R), variance * covariance).logpdf(column)
    return total


def test_the_penalty_has_the_largest_likelihood(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    monkeypatch.setattr(module, "_PENALTIES", np.geomspace(1e-3, 1e2, 21))
    for clients, rounds, noise in ((5, 12, 0.5), (5, 12, 3.0), (9, 6, 0.3)):
        matrix = drawn(rng, clients, 3, rounds).matrix
        sums = matrix @ rng.normal(size=(clients, 4)) + noise * rng.normal(size=(rounds, 4))
        found = module._spectrum(sums, matrix, 0)
        choices = module._PENALTIES * found.singular[0] ** 2
        best = max(choices.tolist(), key=lambda ratio: likelihood(sums, matrix, ratio))
        assert module._penalty(found) == pytest.approx(best)


def test_estimates_are_those_of_normal_deviations_in_noise() -> None:
    """The posterior mean by a dense formula, and a penalty near the true ratio of variances."""
    rng = np.random.default_rng(11)
    taking_part = drawn(rng, 30, 6, 300)
    matrix, noise = taking_part.matrix, 2.0
    truth = rng.normal(size=(30, 40))
    sums = matrix @ truth + noise * rng.normal(size=(300, 40))
    basis = module._common(matrix.sum(axis=1), 0)
    found = module._spectrum(sums - basis @ (basis.T @ sums), matrix - basis @ (basis.T @ matrix), 1)
    ratio = module._penalty(found)
    assert noise**2 / 2 < ratio < noise**2 * 2
    away = matrix - basis @ (basis.T @ matrix)
    left = sums - basis @ (basis.T @ sums)
    posterior = away.T @ np.linalg.solve(away @ away.T + ratio * np.eye(300), left)
    # The mean of what a client sent is its deviation and its share of the noise, by one dense covariance.
    weights = matrix.T / matrix.sum(axis=0)[:, np.newaxis]  # of rounds, in each client's mean
    shares = matrix.T / (matrix**2).sum(axis=1)  # of the noise of a sum, in each member's message
    residual = left - away @ posterior
    residual -= basis @ (basis.T @ residual)
    happened = (weights * shares) @ residual
    estimate = mean_updates(sums, taking_part, drift=0)
    expected = posterior + happened
    np.testing.assert_allclose(estimate - estimate[0], expected - expected[0], atol=1e-8)


@pytest.mark.parametrize("size", [0.0, 1e-300, 1e300])
def test_sums_of_any_size_give_numbers(size: float) -> None:
    taking_part = drawn(np.random.default_rng(1), 6, 3, 9)
    assert np.all(np.isfinite(mean_updates(np.full((9, 2), size), taking_part)))
    assert mean_updates(np.zeros((0, 2)), Participation(clients=3, rounds=())).shape == (3, 2)
