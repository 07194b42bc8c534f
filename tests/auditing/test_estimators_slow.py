"""False alarms of every estimator over 1,000 repetitions of 400 trials."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from foltr_audit.privacy.gaussian_dp import gaussian_epsilon
from tests.auditing.test_estimators import (
    PROVEN,
    Mechanism,
    bound,
    gaussian,
    laplace,
    randomised_response,
)
from tests.auditing.test_estimators_false_alarms import best_of_all, false_alarms, most
from tests.auditing.test_stopping import stopped

pytestmark = pytest.mark.slow

REPETITIONS, TRIALS, DELTA = 1000, 400, 1e-5


def skellam(mu: float) -> Mechanism:
    """One coordinate, sigma of 1,000 steps."""
    sigma = 1000

    def draw(rng: np.random.Generator, n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        drawn = rng.poisson(0.5 * sigma**2, size=(2, 2, n))
        zero, one = drawn[0] - drawn[1] + np.array([[0.0], [round(mu * sigma)]])
        return zero, one

    return Mechanism(f"skellam-{mu:g}", draw, gaussian_epsilon(mu, DELTA), DELTA)


PURE = [laplace(0.3), laplace(1.0), laplace(3.0), laplace(3.0, clipped=False)]
PURE += [randomised_response(eps) for eps in (0.3, 1.0, 3.0)]
NORMAL = [gaussian(mu, DELTA) for mu in (0.5, 1.0, 3.0)] + [gaussian(1.0, 0.01), skellam(0.5), skellam(2.0)]
NOTHING = [Mechanism("nothing", gaussian(0.0, DELTA).draw, 0.0, DELTA)]


@pytest.mark.parametrize("mechanism", [*PURE, *NORMAL, *NOTHING], ids=lambda each: each.name)
@pytest.mark.parametrize("name", PROVEN)
def test_false_alarms_stay_within_the_nominal_level(name: str, mechanism: Mechanism) -> None:
    assert false_alarms(name, mechanism, REPETITIONS, n=TRIALS, seed=11) <= most(REPETITIONS)


@pytest.mark.parametrize("mechanism", [*NORMAL, *NOTHING], ids=lambda each: each.name)
def test_false_alarms_of_the_bound_for_normal_noise(mechanism: Mechanism) -> None:
    """It is exact: fewer than half of the nominal alarms would be a fault too."""
    alarms = false_alarms("gaussian-dp", mechanism, REPETITIONS, n=TRIALS, seed=11)
    assert 25 <= alarms <= most(REPETITIONS)


@pytest.mark.parametrize("mechanism", [*NORMAL, *NOTHING], ids=lambda each: each.name)
def test_false_alarms_of_guesses_of_coins_for_normal_noise(mechanism: Mechanism) -> None:
    assert false_alarms("one-run-fdp", mechanism, REPETITIONS, n=TRIALS, seed=11) <= most(REPETITIONS)


def test_the_best_of_all_thresholds_is_caught() -> None:
    mechanism = laplace(3.0, clipped=False)
    assert false_alarms("clopper-pearson", mechanism, REPETITIONS, n=3000, seed=12) <= most(REPETITIONS)
    assert best_of_all("clopper-pearson", mechanism, REPETITIONS, n=3000, seed=12) > most(REPETITIONS)


@pytest.mark.parametrize("mechanism", [laplace(1.0), randomised_response(1.0)], ids=lambda each: each.name)
def test_false_alarms_of_audits_that_stop_early(mechanism: Mechanism) -> None:
    """After 60, 120, 240, ... trials the bound is compared with the claim, which is the truth."""
    rng = np.random.default_rng(14)
    games = [stopped(mechanism, rng, mechanism.true, trials=2000) for _ in range(REPETITIONS)]
    assert sum(bound("betting", game).epsilon > mechanism.true for game in games) <= most(REPETITIONS)
