"""Evidence for an update in a change of the global model: against densities, scikit-learn, closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.covariance import ledoit_wolf

from foltr_audit.inference.membership_attacks import shrunk_covariance, update_evidence
from foltr_audit.utils.arrays import Floats


def changes_of(federations: int, rounds: int, parameters: int, seed: int = 1) -> Floats:
    """Changes whose coordinates depend on each other and differ in size."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(parameters, parameters)) * np.geomspace(1.0, 10.0, parameters)
    return np.asarray(rng.normal(size=(federations, rounds, parameters)) @ mixing + 3.0)


@pytest.mark.parametrize(("federations", "parameters"), [(40, 3), (12, 30)])
def test_it_is_the_ratio_of_two_gaussian_densities(federations: int, parameters: int) -> None:
    """With the shrunk covariance written out, also with more parameters than federations."""
    rounds, clients = 2, 4
    rng = np.random.default_rng(2)
    changes = changes_of(federations, rounds, parameters)
    expected = rng.normal(size=(clients, rounds, parameters))
    baseline = expected.mean(axis=0)
    direct = np.zeros((federations, clients))
    for t in range(rounds):
        mean = changes[:, t].mean(axis=0)
        centred = changes[:, t] - mean
        shrinkage, scale = shrunk_covariance(centred)
        covariance = (1 - shrinkage) * centred.T @ centred / federations
        covariance += shrinkage * scale * np.eye(parameters)
        for client in range(clients):
            half = 0.5 * (expected[client, t] - baseline[t])
            there, absent = (multivariate_normal(mean + sign * half, covariance) for sign in (1, -1))
            direct[:, client] += there.logpdf(changes[:, t]) - absent.logpdf(changes[:, t])
    np.testing.assert_allclose(update_evidence(changes, expected, baseline), direct, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(("federations", "parameters"), [(200, 5), (20, 5), (10, 60)])
def test_the_shrinkage_is_that_of_scikit_learn(federations: int, parameters: int) -> None:
    rows = changes_of(federations, 1, parameters)[:, 0]
    centred = rows - rows.mean(axis=0)
    shrinkage, scale = shrunk_covariance(centred)
    covariance, theirs = ledoit_wolf(centred, assume_centered=True)
    assert shrinkage == pytest.approx(theirs, rel=1e-9)
    mine = (1 - shrinkage) * centred.T @ centred / federations + shrinkage * scale * np.eye(parameters)
    np.testing.assert_allclose(mine, covariance, rtol=1e-9, atol=1e-9)


def test_changes_that_never_differ_say_nothing() -> None:
    changes = np.full((20, 2, 3), 7.0)
    assert not update_evidence(changes, np.ones((5, 2, 3)), np.zeros((2, 3))).any()


def test_a_client_like_the_one_in_its_place_cannot_be_told() -> None:
    changes, expected = changes_of(20, 1, 3), np.ones((2, 1, 3))
    assert not update_evidence(changes, expected, expected[0]).any()


def test_evidence_does_not_depend_on_units_of_the_parameters() -> None:
    """Multiplied models and updates, as of another learning rate, give the same evidence."""
    changes, expected = changes_of(30, 2, 6), changes_of(4, 2, 6, seed=5)
    baseline = expected.mean(axis=0)
    one = update_evidence(changes, expected, baseline)
    np.testing.assert_allclose(update_evidence(1e3 * changes, 1e3 * expected, 1e3 * baseline), one, rtol=1e-8)
