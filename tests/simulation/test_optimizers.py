"""Adam and plain ascent: the textbook recursion by another route, first steps, states, refusals."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pytest

from foltr_audit.errors import UsageError
from foltr_audit.simulation.learners.foltr_es import SGD, Adam, Optimizer
from foltr_audit.utils.arrays import Floats

STEPS, SIZE = 400, 3


def gradients() -> Floats:
    """Gradients of very different size, with zeros among them."""
    rng = np.random.default_rng(7)
    found: Floats = rng.normal(size=(STEPS, SIZE)) * np.array([1e-6, 1.0, 300.0])
    found[rng.random(found.shape) < 0.2] = 0.0
    return found


def textbook(rate: float, start: float, column: list[float], corrected: bool = True) -> list[float]:
    """Algorithm 1 of Kingma & Ba 2015 for one parameter, ascending, to 50 digits."""
    with localcontext() as context:
        context.prec = 50
        theta, m, v = Decimal(start), Decimal(0), Decimal(0)
        beta1, beta2 = Decimal("0.9"), Decimal("0.999")
        path = []
        for t, g in enumerate(map(Decimal, column), start=1):
            m = beta1 * m + (1 - beta1) * g
            v = beta2 * v + (1 - beta2) * g * g
            mean, square = (m / (1 - beta1**t), v / (1 - beta2**t)) if corrected else (m, v)
            theta += Decimal(rate) * mean / (square.sqrt() + Decimal("1e-8"))
            path.append(float(theta))
        return path


def run(optimiser: Optimizer, start: Floats) -> list[list[float]]:
    """Parameters after every step."""
    parameters, state, path = start, optimiser.first_state(start.size), []
    for gradient in gradients():
        parameters, state = optimiser.step(parameters, state, gradient)
        path.append(parameters.tolist())
    return path


def test_adam_follows_the_textbook() -> None:
    start = np.array([0.5, -2.0, 1e-3])
    found = np.array(run(Adam(0.01), start))
    columns = gradients().T.tolist()
    for corrected in (True, False):
        expected = np.array([textbook(0.01, s, g, corrected) for s, g in zip(start, columns, strict=True)]).T
        close = np.allclose(found, expected, rtol=1e-11, atol=1e-14)
        assert close == corrected  # without the correction of the bias it is another path


def test_the_first_step_of_adam_is_its_rate_whatever_the_size() -> None:
    gradient = np.array([3e-3, -7e4, 0.0])
    moved, state = Adam(0.25).step(np.zeros(3), Adam(0.25).first_state(3), gradient)
    np.testing.assert_allclose(moved, [0.25, -0.25, 0.0], rtol=1e-5)
    np.testing.assert_allclose(state, [1, *(0.1 * gradient), *(0.001 * gradient**2)], rtol=1e-12)


def test_plain_ascent() -> None:
    found = np.array(run(SGD(0.125), np.ones(SIZE)))
    np.testing.assert_allclose(found, 1 + 0.125 * np.cumsum(gradients(), axis=0), rtol=1e-9)


@pytest.mark.parametrize("optimiser", [Adam(0.05), SGD(0.05)])
def test_what_is_given_stays_and_other_states_are_refused(optimiser: Optimizer) -> None:
    parameters, state, gradient = np.ones(4), optimiser.first_state(4), np.full(4, 2.0)
    before = state.copy()
    moved, after = optimiser.step(parameters, state, gradient)
    assert moved is not parameters
    assert after is not state
    assert np.array_equal(parameters, np.ones(4))
    assert np.array_equal(state, before)
    with pytest.raises(UsageError, match=r"^(adam|sgd): its state has shape \(5,\); expected \([09],\)$"):
        optimiser.step(parameters, np.zeros(5), gradient)
