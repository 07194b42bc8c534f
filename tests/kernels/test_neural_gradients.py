"""Gradients of the neural ranker by other routes: automatic differentiation, Euler, kinks, PDGD."""

from __future__ import annotations

from itertools import pairwise

import autograd.numpy as anp
import numpy as np
import pytest
from autograd import elementwise_grad, jacobian
from hypothesis import given, settings
from hypothesis import strategies as st

from foltr_audit.core.rankers import Ranker
from foltr_audit.kernels.network import LANES
from foltr_audit.utils.arrays import Floats
from tests.fixtures.reference import dataset

DEPTHS = pytest.mark.parametrize("layers", [1, 2])


def differentiable_score(ranker: Ranker, theta: Floats, X: Floats) -> Floats:
    """Scores written for automatic differentiation, from the definition."""
    units, sizes = X, [ranker.features, *[ranker.hidden] * ranker.layers]
    for below, above in pairwise(sizes):
        W, b = theta[: above * below].reshape(above, below), theta[above * below : above * (below + 1)]
        units = anp.maximum(units @ W.T + b, 0.0)
        theta = theta[above * (below + 1) :]
    scores: Floats = units @ theta
    return scores


# --- automatic differentiation --------------------------------------------------------------------


@settings(max_examples=60, derandomize=True)
@given(
    seed=st.integers(0, 10**6), hidden=st.integers(1, 9), layers=st.integers(1, 2), features=st.integers(1, 7)
)
def test_the_jacobian_is_that_of_automatic_differentiation(
    seed: int, hidden: int, layers: int, features: int
) -> None:
    ranker, rng = Ranker(features, hidden, layers), np.random.default_rng(seed)
    theta, X = rng.normal(size=ranker.n_parameters), rng.normal(size=(6, features))
    expected = differentiable_score(ranker, theta, X)
    np.testing.assert_allclose(ranker.score(theta, X), expected, rtol=0, atol=1e-12)
    J = jacobian(lambda t: differentiable_score(ranker, t, X))(theta)
    np.testing.assert_allclose(ranker.jacobian(theta, X), J, rtol=0, atol=1e-11)


@DEPTHS
@pytest.mark.parametrize("hidden", [1, 3, 4, 7, 64])
def test_kernels_are_the_derivative_of_a_weighted_sum_of_scores(hidden: int, layers: int) -> None:
    """Also for lists longer than a tile, and where units do not come in fours."""
    rng = np.random.default_rng(hidden)
    lengths, k = [1, LANES - 1, LANES, LANES + 1, 3 * LANES + 5], 2 * LANES + 3
    data = dataset(rng.normal(size=(sum(lengths), 5)), np.zeros(sum(lengths)), lengths)
    ranker, queries = Ranker(5, hidden, layers), np.array([4, 0, 3, 1, 2, 4])
    models = np.array([ranker.initial(rng) for _ in queries]) + 0.1 * rng.normal(size=ranker.n_parameters)
    shown, weights = np.full((queries.size, k), -1), rng.normal(size=(queries.size, k))
    for c, query in enumerate(queries):
        picked = rng.permutation(lengths[query])[:k]
        shown[c, : picked.size] = picked
    weights[0, 3], weights[4, 1] = 0.0, 0.0
    scores, starts = ranker.scores(models, data, queries)
    gradient = ranker.gradient(models, data, queries, shown, weights)
    for c, query in enumerate(queries):
        X = data.features[data.offsets[query] : data.offsets[query + 1]].astype(np.float64)
        np.testing.assert_allclose(
            scores[starts[c] : starts[c + 1]], ranker.score(models[c], X), rtol=0, atol=1e-11
        )
        listed = shown[c] >= 0
        rows, factors = X[shown[c, listed]], weights[c, listed]
        slopes = elementwise_grad(lambda t, r=rows, f=factors: differentiable_score(ranker, t, r) @ f)
        np.testing.assert_allclose(gradient[c], slopes(models[c]), rtol=0, atol=1e-11)


# --- exactly at a kink ----------------------------------------------------------------------------


def slopes_of(ranker: Ranker, theta: Floats, X: Floats, weights: list[float]) -> Floats:
    """The gradient of one list that shows all documents, in their order."""
    data, order = dataset(X, np.zeros(len(X)), [len(X)]), np.arange(len(X))[np.newaxis]
    gradient = ranker.gradient(theta[np.newaxis], data, np.array([0]), order, np.array([weights]))
    only: Floats = gradient[0]
    return only


def test_the_slope_at_a_kink_is_zero() -> None:
    """Unit 0 gets exactly 0 from both documents, unit 1 is active in the first one only."""
    ranker = Ranker(2, 2)
    W1, b1, w2 = [[2.0, -1.0], [1.0, 1.0]], [0.0, -2.0], [3.0, 5.0]
    theta = np.concatenate([np.ravel(W1), b1, w2])
    X = np.array([[1.0, 2.0], [0.0, 0.0]])
    expected = [[0.0, 0.0, 5.0, 10.0, 0.0, 5.0, 0.0, 1.0], [0.0] * 8]
    np.testing.assert_array_equal(ranker.jacobian(theta, X), expected)
    gradient = slopes_of(ranker, theta, X, [7.0, 11.0])
    np.testing.assert_array_equal(gradient, 7.0 * np.array(expected[0]))


def test_the_slope_at_a_kink_of_either_layer_is_zero() -> None:
    """h1 = (0 at its kink, 1); the sums above are (0 at its kink, 2): one path is open."""
    ranker = Ranker(2, 2, 2)
    W1, b1 = [[2.0, -1.0], [1.0, 1.0]], [0.0, -2.0]
    W2, b2, w3 = [[4.0, 3.0], [6.0, 1.0]], [-3.0, 1.0], [5.0, 7.0]
    theta = np.concatenate([np.ravel(W1), b1, np.ravel(W2), b2, w3])
    X = np.array([[1.0, 2.0]])
    assert ranker.score(theta, X).tolist() == [14.0]
    expected = np.concatenate(
        [[0.0, 0.0, 7.0, 14.0], [0.0, 7.0], [0.0, 0.0, 0.0, 7.0], [0.0, 7.0], [0.0, 2.0]]
    )
    np.testing.assert_array_equal(ranker.jacobian(theta, X)[0], expected)
    np.testing.assert_array_equal(slopes_of(ranker, theta, X, [3.0]), 3.0 * expected)
