"""Optimisers that ascend a gradient, with a state that is one flat vector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from foltr_audit.errors import UsageError
from foltr_audit.utils.arrays import Floats


class Optimizer(Protocol):
    """A rule that turns a gradient into a step towards larger values."""

    def first_state(self, parameters: int) -> Floats:
        """The state before the first step of P parameters, float64 (S,)."""
        ...

    def step(self, parameters: Floats, state: Floats, gradient: Floats) -> tuple[Floats, Floats]:
        """New parameters (P,) and state (S,) from a gradient (P,); the arguments are not changed.

        Raises:
            UsageError: a state of another size.
        """
        ...


@dataclass(frozen=True)
class SGD(Optimizer):
    """Plain gradient ascent: `theta + learning_rate g`, without state.

    Attributes:
        learning_rate: step size.
    """

    learning_rate: float

    def first_state(self, parameters: int) -> Floats:
        """Nothing, float64 (0,)."""
        return np.empty(0)

    def step(self, parameters: Floats, state: Floats, gradient: Floats) -> tuple[Floats, Floats]:
        """See `Optimizer.step`."""
        _expect_state("sgd", state, 0)
        return parameters + self.learning_rate * gradient, state.copy()


@dataclass(frozen=True)
class Adam(Optimizer):
    """Steps along the running mean of gradients, by their running root mean square.

    Source: Kingma & Ba 2015, "Adam: a method for stochastic optimization", algorithm 1, ascending.

    Attributes:
        learning_rate: step size alpha.
        beta1, beta2: decay of the running means of gradients and of their squares.
        epsilon: what keeps the denominator above zero.
    """

    learning_rate: float
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def first_state(self, parameters: int) -> Floats:
        """Steps taken t and both running means m and v, all zero, float64 (1 + 2 P,)."""
        return np.zeros(1 + 2 * parameters)

    def step(self, parameters: Floats, state: Floats, gradient: Floats) -> tuple[Floats, Floats]:
        """See `Optimizer.step`."""
        from foltr_audit.kernels.elementary import power

        P = parameters.size
        _expect_state("adam", state, 1 + 2 * P)
        t = state[0] + 1.0
        m = self.beta1 * state[1 : 1 + P] + (1.0 - self.beta1) * gradient
        v = self.beta2 * state[1 + P :] + (1.0 - self.beta2) * gradient**2
        # Not `**`: the library's `pow` differs in its last digit between systems.
        mean, square = m / (1.0 - power(self.beta1, int(t))), v / (1.0 - power(self.beta2, int(t)))
        moved = parameters + self.learning_rate * mean / (np.sqrt(square) + self.epsilon)
        return moved, np.concatenate([[t], m, v])


def _expect_state(who: str, state: Floats, size: int) -> None:
    if state.shape != (size,):
        raise UsageError(f"{who}: its state has shape {state.shape}; expected ({size},)")
