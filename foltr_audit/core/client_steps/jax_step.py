"""Client steps from functions on JAX arrays, batched over click patterns by `jax.vmap`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from foltr_audit.core.client_steps.function_step import FunctionStep, need
from foltr_audit.core.plugins.client_step import ClientStep
from foltr_audit.core.rankers.first_layer import FirstLayer
from foltr_audit.utils.arrays import Floats

if TYPE_CHECKING:
    import jax

ArrayStep = Callable[["jax.Array", "jax.Array", "jax.Array"], "jax.Array"]
"""`step(model (P,), features (L, d), clicks (L,)) -> update (P,)`."""

ArrayScore = Callable[["jax.Array", "jax.Array"], "jax.Array"]
"""`score(model (P,), features (L, d)) -> scores (L,)`."""


class JaxStep(FunctionStep):
    """A client step that calls a function on JAX arrays, in double precision."""

    name: ClassVar[str] = "jax"

    @cached_property
    def _batch(self) -> Callable[..., object]:
        import jax

        batch: Callable[..., object] = jax.jit(jax.vmap(self.function, in_axes=(None, None, 0)))
        return batch

    @cached_property
    def _derivative(self) -> Callable[..., object]:
        import jax

        derivative: Callable[..., object] = jax.jit(jax.jacfwd(self.function, argnums=2))
        return derivative

    def updates(self, model: Floats, features: Floats, clicks: Floats) -> Floats:
        """See `ClientStep`."""
        return _in_double(self._batch, model, features, clicks)

    def slopes(self, model: Floats, features: Floats, clicks: Floats) -> Floats:
        """See `ClientStep`; by automatic differentiation."""
        return _in_double(self._derivative, model, features, clicks).T

    def scores(self, model: Floats, features: Floats) -> Floats:
        """See `ClientStep`."""
        if self.scorer is None:
            return super().scores(model, features)
        return _in_double(self.scorer, model, features).reshape(-1)


def _in_double(function: Callable[..., object], *given: Floats) -> Floats:
    """The value of a function of JAX arrays, computed in float64 whatever JAX is set to."""
    import jax
    import jax.numpy as jnp

    place = jax if hasattr(jax, "enable_x64") else jax.experimental
    with place.enable_x64(True):
        return np.asarray(function(*(jnp.asarray(one) for one in given)), dtype=np.float64)


def jax_step(
    function: ArrayStep,
    parameters: int | None = None,
    *,
    scores: ArrayScore | None = None,
    first_layer: FirstLayer | None = None,
) -> ClientStep:
    """A client step from a function on JAX arrays.

    Args:
        function: `function(model, features, clicks) -> update`, with float64 arrays (P,), (L, d), (L,) and
            (P,), of operations that `jax.jit` and `jax.vmap` accept. The update is the local model minus the
            global one, before clips and noise.
        parameters: number of parameters P; traces with another number are refused.
        scores: `scores(model, features) -> scores` with arrays (P,), (L, d) and (L,), for attacks that
            compare scores.
        first_layer: where the first layer's weights lie in the model, for attacks on single units.

    Raises:
        UsageError: JAX is not installed.
    """
    need("jax", "JAX")
    return JaxStep(function=function, parameters=parameters, scorer=scores, layer=first_layer)
