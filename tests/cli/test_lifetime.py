"""Bounds of a whole run, as commands print them."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from foltr_audit.privacy.gaussian_dp import gaussian_delta, gaussian_epsilon
from foltr_audit.privacy.loss.composition import laplace_sometimes
from tests.fixtures.command import answer

pytestmark = pytest.mark.usefixtures("laws_as_declared")
SMALL = ("--data", "synthetic:mq2007:60", "--clients", 40, "--cohort", 4, "--rounds", 6)
LAPLACE = "clip:norm=1.5,ord=1+laplace:eps=1.2,sensitivity=3"


def delta_of(mu: float, rounds: int, share: float, eps: float) -> float:
    """The mean over numbers of rounds, of Gaussian noise."""
    counts = range(1, rounds + 1)
    chance = stats.binom(rounds, share).pmf
    return math.fsum(float(chance(k)) * gaussian_delta(mu * math.sqrt(k), eps) for k in counts)


def test_calibrate_finds_the_noise_of_a_run() -> None:
    asked = "calibrate --mechanism gaussian --target-eps 1 --rounds 100 --parameters 46"
    found = answer(asked, "--cohort", 1000, "--population", 100000)
    target, (row,) = found["target"], found["results"]
    assert (target["unit"], target["rounds"]) == ("client", 100)
    assert (target["clients"], target["cohort"], target["secret_sample"]) == (100000, 1000, False)
    sigma = float(row["defense"][1].partition("sigma=")[2])
    mu = 3.0 / sigma
    assert 0.999e-5 < delta_of(mu, 100, 0.01, 1.0) <= 1e-5, "no less noise would do"
    assert row["eps_upper"] == pytest.approx(1.0, rel=1e-3)
    assert row["eps_round"] == pytest.approx(gaussian_epsilon(mu, 1e-5), rel=1e-6)
    (always,) = answer(asked, "--clients", 1000)["results"]
    sigma = float(always["defense"][1].partition("sigma=")[2])
    assert sigma == pytest.approx(3.0 / gaussian_mu_over(100, 1.0), rel=1e-4)


def gaussian_mu_over(rounds: int, eps: float) -> float:
    """The mu of one round of which so many are (eps, 1e-5)-DP, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        fits = gaussian_delta(middle * math.sqrt(rounds), eps) <= 1e-5
        low, high = (middle, high) if fits else (low, middle)
    return low


def test_an_audit_says_what_a_round_and_what_the_run_come_to() -> None:
    (row,) = answer("audit --trials 60 --view individual", "--defense", LAPLACE, *SMALL)["results"]
    expected = laplace_sometimes(1.2, 6, 0.1, 1e-5)
    assert row["eps_upper"] == pytest.approx(1.2)
    assert (row["run_unit"], row["run_rounds"], row["run_sampled"]) == ("client", 6, 0.1)
    assert row["run_eps"] == pytest.approx(expected)
    assert row["run_delta"] == 1e-5
    assert row["run_eps"] < row["run_eps_always"] == pytest.approx(7.2, rel=1e-3)


def test_an_attack_says_what_is_proven_whatever_the_attack() -> None:
    chains = ("--defense", LAPLACE, "--defense", "none")
    rows = answer("attack --method olsr --repeats 1", *SMALL, *chains)["proven"]
    found = {(row["defense"], row["sees"]): row for row in rows}
    noisy = found[LAPLACE, "message"]
    assert noisy["eps_proven"] == pytest.approx(1.2)
    assert noisy["delta"] == 0.0
    assert noisy["run_eps"] == pytest.approx(laplace_sometimes(1.2, 6, 0.1, 1e-5))
    assert found[LAPLACE, "message and lists"]["eps_proven"] == "inf", "four lists a message"
    assert found["none", "message"]["run_eps"] == "inf"
