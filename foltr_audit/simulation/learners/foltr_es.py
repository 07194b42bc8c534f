"""FOLtR-ES: clients try perturbed models and send a seed and online metrics."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator

from foltr_audit.core.plugins import Defense, MetricLearner
from foltr_audit.core.plugins.learner import Fact
from foltr_audit.core.plugins.registry import made_of
from foltr_audit.core.ranking_metrics import list_metric
from foltr_audit.errors import UsageError
from foltr_audit.utils.arrays import Bools, Floats, Ints
from foltr_audit.utils.seed_generators import NUMPY_RANDOMSTATE, numpy_normals

_BETA1, _BETA2, _TINY = 0.9, 0.999, 1e-8  # Adam's usual constants


def adam(parameters: Floats, state: Floats, gradient: Floats, rate: float) -> tuple[Floats, Floats]:
    """New parameters (P,) and state after a step along the running mean of gradients (P,), upwards.

    The state holds the steps taken and the running means of gradients and of their squares, all zero at
    first, float64 (1 + 2 P,). The arguments are not changed.

    Source: Kingma & Ba 2015, "Adam: a method for stochastic optimization", algorithm 1, ascending.
    """
    from foltr_audit.kernels.elementary import power

    P = parameters.size
    t = state[0] + 1.0
    m = _BETA1 * state[1 : 1 + P] + (1.0 - _BETA1) * gradient
    v = _BETA2 * state[1 + P :] + (1.0 - _BETA2) * gradient**2
    # Not `**`: the library's `pow` differs in its last digit between systems.
    mean, square = m / (1.0 - power(_BETA1, int(t))), v / (1.0 - power(_BETA2, int(t)))
    return parameters + rate * mean / (np.sqrt(square) + _TINY), np.concatenate([[t], m, v])


class FOLtRES(MetricLearner):
    """Evolution strategies: each client perturbs the model from a seed, and metrics weigh perturbations.

    The perturbation is `sigma z` with standard normal z, a public function of the seed alone. With
    `antithetic` half of the interactions are at the mirrored model.

    With `as_published` clients follow the published program where it differs from the paper: the seed also
    starts the generator of their queries and clicks, NumPy's RandomState, and equal scores rank in the order
    in which NumPy sorted them. The perturbation then depends on the clicks that it is weighed by, which makes
    the gradient biased, and whoever reads the seed knows the clicks (attack `es-seed`).

    Source: Kharitonov 2019, "Federated online learning to rank with evolution strategies", section 4; Wang,
    Zhuang & Zuccon 2021, "Federated online learning to rank with evolution strategies: a reproducibility
    study"; Salimans et al. 2017, "Evolution strategies as a scalable alternative to reinforcement learning",
    section 2.
    """

    name: ClassVar[str] = "foltr-es"

    sigma: float = Field(0.01, ge=1e-9, le=1e9, description="standard deviation of a perturbation")
    learning_rate: float = Field(0.001, gt=0, description="step size of the server")
    optimiser: Literal["adam", "sgd"] = Field("adam", description="how the server ascends the gradient")
    metric: Literal["maxrr", "dcg"] = Field("maxrr", description="online metric that clients send")
    as_published: bool | None = Field(
        None,
        description="true: queries and clicks follow from the seed too, and equal scores rank in NumPy's "
        "order, as in the published program",
    )

    @field_validator("as_published")
    @classmethod
    def _no_is_left_out(cls, value: bool | None) -> bool | None:
        return value or None

    @model_validator(mode="after")
    def _halves_are_equal(self) -> FOLtRES:
        if self.antithetic and self.interactions % 2:
            raise ValueError(
                f"interactions={self.interactions}; expected an even number, or antithetic=false"
            )
        return self

    @property
    def facts(self) -> dict[str, Fact]:
        return {
            "sigma": self.sigma,
            "metric": self.metric,
            "antithetic": self.antithetic,
            "learning_rate": self.learning_rate,
            "optimiser": self.optimiser,
            **({"perturbation": NUMPY_RANDOMSTATE} if self.as_published else {}),
        }

    @property
    def draws_from_seed(self) -> bool:
        """Whether clients follow the published program."""
        return self.as_published is True

    def published_chain(self, eps: float, sensitivity: float | None) -> tuple[Defense, ...]:
        """Randomised response on every metric with this epsilon each; none for an infinite one.

        Raises:
            UsageError: an epsilon that is not above 0, or a sensitivity, which it does not use.
        """
        if sensitivity is not None:
            raise UsageError(
                f"sensitivity: {sensitivity:g}: learner {self.name} randomises metrics; expected none"
            )
        if not eps > 0:
            raise UsageError(f"eps: {eps:g}; expected a number above 0")
        return () if eps == np.inf else (made_of(Defense, "metric-rr", eps=eps),)

    @property
    def values(self) -> Floats:
        """The values that one list's metric may have, float64 (v,).

        MaxRR: 0 without a click, else 1/r for a first click on rank r; v = 11. DCG: the sum of
        `1 / log2(r + 1)` over clicked ranks r, by click pattern: bit i of its number is place i; v = 1024.
        """
        return list_metric(self.metric).values

    def outcomes(self, clicks: Bools) -> Ints:
        """Which of `values` the clicks of each list (..., k) make, int64 (...); k is 10 at most."""
        *lists, k = clicks.shape
        # One product of matrices in float32: fast, and exact for numbers below 1,024.
        powers = (2 ** np.arange(k)).astype(np.float32)
        patterns = clicks.reshape(math.prod(lists), k).astype(np.float32) @ powers
        return np.asarray(list_metric(self.metric).outcomes[patterns.astype(np.int64)].reshape(lists))

    def perturbations(self, seeds: NDArray[np.uint64], parameters: int) -> Floats:
        """`sigma z` for each seed (C,), float64 (C, P); with `as_published` rounded to single precision."""
        if self.as_published:
            return numpy_normals(seeds, self.sigma, parameters)
        from foltr_audit.kernels.evolution import seed_normals

        return self.sigma * seed_normals(np.ascontiguousarray(seeds), parameters)

    def first_state(self, parameters: int) -> Floats:
        """That of `adam`; none for plain ascent."""
        return np.zeros(1 + 2 * parameters if self.optimiser == "adam" else 0)

    def update(
        self, parameters: Floats, state: Floats, seeds: NDArray[np.uint64], messages: Floats
    ) -> tuple[Floats, Floats]:
        """The next global model (P,) and state (S,) from seeds (C,) and mean metrics (C, V).

        Without any message they stay as they are.

        Raises:
            UsageError: a state of another size.
        """
        expected = self.first_state(parameters.size).shape
        if state.shape != expected:
            raise UsageError(f"{self.optimiser}: its state has shape {state.shape}; expected {expected}")
        if not seeds.size:
            return parameters.copy(), state.copy()
        gradient = self.gradient(seeds, messages, parameters.size)
        if self.optimiser == "adam":
            return adam(parameters, state, gradient, self.learning_rate)
        return parameters + self.learning_rate * gradient, state.copy()

    def gradient(self, seeds: NDArray[np.uint64], messages: Floats, parameters: int) -> Floats:
        """Mean over clients of `z m / sigma`, where antithetic of `z (m+ - m-) / (2 sigma)`, float64 (P,).

        Args:
            seeds: uint64 (C,), C > 0.
            messages: mean metrics, float64 (C, V): at the perturbed and, if antithetic, the mirrored model.
            parameters: number of parameters P.
        """
        from foltr_audit.kernels.evolution import weighted_normals

        plus, sides = messages[:, 0], 2 if self.antithetic else 1
        weights = plus - messages[:, 1] if self.antithetic else plus.copy()
        if self.as_published:
            # A sum over rows adds one row after the other, on every processor.
            total = (weights[:, np.newaxis] * (self.perturbations(seeds, parameters) / self.sigma)).sum(
                axis=0
            )
        else:
            total = weighted_normals(np.ascontiguousarray(seeds), weights, parameters)
        return np.asarray(total / (sides * seeds.size * self.sigma))
