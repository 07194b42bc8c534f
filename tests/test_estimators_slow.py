"""False alarms of every estimator over 1,000 repetitions."""

from __future__ import annotations

import pytest

from tests.test_estimators import Mechanism, gaussian, laplace, randomised_response
from tests.test_estimators_false_alarms import GUARANTEED, best_of_all, false_alarms, most

pytestmark = pytest.mark.slow

REPETITIONS = 1000
MORE = [
    ("clopper-pearson", laplace(3.0, clipped=False)),
    ("one-run", laplace(1.0, clipped=False)),
    ("one-run", gaussian(1.0, 1e-5)),
    ("betting", laplace(1.0, clipped=False)),
    ("gaussian-dp", gaussian(1.0, 0.01)),
]


@pytest.mark.parametrize(
    ("name", "mechanism"), [*GUARANTEED, *MORE], ids=lambda x: x if isinstance(x, str) else x.name
)
def test_false_alarms_stay_within_the_nominal_level(name: str, mechanism: Mechanism) -> None:
    assert false_alarms(name, mechanism, REPETITIONS, n=200, seed=11) <= most(REPETITIONS)


@pytest.mark.parametrize(
    ("name", "mechanism", "n"),
    [("clopper-pearson", laplace(3.0, clipped=False), 3000), ("gaussian-dp", gaussian(1.0, 1e-5), 3000)],
    ids=lambda x: x.name if isinstance(x, Mechanism) else str(x),
)
def test_the_best_of_all_thresholds_is_caught(name: str, mechanism: Mechanism, n: int) -> None:
    assert false_alarms(name, mechanism, REPETITIONS, n=n, seed=12) <= most(REPETITIONS)
    assert best_of_all(name, mechanism, REPETITIONS, n=n, seed=12) > most(REPETITIONS)


def test_the_bayesian_interval_is_rightly_called_no_guarantee() -> None:
    """Where two inequalities are equally tight its end is too high too often; where one is, it is not."""
    both = randomised_response(3.0)
    assert false_alarms("bayesian", both, REPETITIONS, n=200, seed=13) > most(REPETITIONS)
    assert false_alarms("bayesian", laplace(1.0), REPETITIONS, n=200, seed=13) <= most(REPETITIONS)
