"""Adam: the textbook recursion by another route."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np

from foltr_audit.simulation.learners.foltr_es import adam
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


def test_adam_follows_the_textbook() -> None:
    start = np.array([0.5, -2.0, 1e-3])
    parameters, state, found = start, np.zeros(1 + 2 * SIZE), []
    for gradient in gradients():
        before = parameters.copy(), state.copy()
        after = adam(parameters, state, gradient, 0.01)
        assert all(np.array_equal(*each) for each in zip(before, (parameters, state), strict=True))
        parameters, state = after
        found.append(parameters)
    columns = gradients().T.tolist()
    for corrected in (True, False):
        expected = np.array([textbook(0.01, s, g, corrected) for s, g in zip(start, columns, strict=True)]).T
        close = np.allclose(found, expected, rtol=1e-11, atol=1e-14)
        assert close == corrected  # without the correction of the bias it is another path
