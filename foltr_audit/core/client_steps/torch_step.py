"""Client steps from functions on PyTorch tensors, batched over click patterns by `torch.func`."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import Field

from foltr_audit.core.client_steps.function_step import FunctionStep
from foltr_audit.core.plugins.client_step import ClientStep
from foltr_audit.core.rankers.first_layer import FirstLayer
from foltr_audit.errors import PluginError, UsageError
from foltr_audit.utils.arrays import Floats

if TYPE_CHECKING:
    import torch

TensorStep = Callable[["torch.Tensor", "torch.Tensor", "torch.Tensor"], "torch.Tensor"]
"""`step(model (P,), features (L, d), clicks (L,)) -> update (P,)`."""

TensorScore = Callable[["torch.Tensor", "torch.Tensor"], "torch.Tensor"]
"""`score(model (P,), features (L, d)) -> scores (L,)`."""


class TorchStep(FunctionStep):
    """A client step that calls a function on PyTorch tensors, in double precision.

    Attributes:
        batched: whether `torch.func` may batch and differentiate it; else it is called for one pattern after
            another.
        draws: updates are means over this many seeds of PyTorch's generator; 1 for a step without chance.
    """

    name: ClassVar[str] = "torch"

    batched: bool = True
    draws: int = Field(1, ge=1)

    def updates(self, model: Floats, features: Floats, clicks: Floats) -> Floats:
        """See `ClientStep`."""
        import torch

        def every(vector: torch.Tensor, rows: torch.Tensor, patterns: torch.Tensor) -> torch.Tensor:
            if not self.batched:
                return torch.stack(
                    [self.function(vector.clone(), rows.clone(), one.clone()) for one in patterns]
                )
            batched = torch.func.vmap(self.function, in_dims=(None, None, 0), randomness="same")
            return batched(vector, rows, patterns)

        return self._mean(every, model, features, clicks)

    def slopes(self, model: Floats, features: Floats, clicks: Floats) -> Floats:
        """See `ClientStep`; by automatic differentiation."""
        import torch

        if not self.batched:
            return super().slopes(model, features, clicks)
        return self._mean(
            torch.func.jacfwd(self.function, argnums=2, randomness="same"), model, features, clicks
        ).T

    def scores(self, model: Floats, features: Floats) -> Floats:
        """See `ClientStep`."""
        import torch

        if self.scorer is None:
            return super().scores(model, features)
        with torch.no_grad():
            found = self.scorer(*(torch.from_numpy(np.array(one)) for one in (model, features)))
        return as_numbers(found).reshape(-1)

    def _mean(self, function: Callable[..., object], *given: Floats) -> Floats:
        """The mean of a function of tensors over the seeds, which leaves PyTorch's own generator alone."""
        import torch

        total = np.zeros(0)
        with torch.random.fork_rng(devices=[]):
            for seed in range(self.draws):
                torch.manual_seed(seed)
                tensors = [torch.from_numpy(np.array(one, dtype=np.float64)) for one in given]
                found = as_numbers(function(*tensors))
                total = found if not seed else total + found
        return total / self.draws


def as_numbers(found: object) -> Floats:
    """What a function returned, as float64 numbers.

    Raises:
        PluginError: it is no tensor.
    """
    if not (hasattr(found, "detach") and hasattr(found, "cpu")):
        raise PluginError(f"client step gave {type(found).__name__}; expected a tensor")
    return np.asarray(found.detach().cpu(), dtype=np.float64)


def need_torch() -> None:
    """Refuse to go on without PyTorch, before anything is computed; it is not imported yet.

    Raises:
        UsageError: it is not installed.
    """
    if find_spec("torch") is None:
        raise UsageError("this client step needs PyTorch: install foltr-audit[torch]")


def torch_step(
    function: TensorStep,
    parameters: int | None = None,
    *,
    batched: bool = True,
    draws: int = 1,
    scores: TensorScore | None = None,
    first_layer: FirstLayer | None = None,
) -> ClientStep:
    """A client step from a function on PyTorch tensors.

    Args:
        function: `function(model, features, clicks) -> update`, with float64 tensors (P,), (L, d), (L,) and
            (P,). The update is the local model minus the global one, before clips and noise.
            `torch.func.vmap` batches it over click patterns, so it must not branch on the values of clicks
            or change its arguments; `torch.func.grad` gives gradients inside of it.
        parameters: number of parameters P; traces with another number are refused.
        batched: false for a function that `torch.func` cannot batch, e.g. one that calls `backward`. It is
            then called for one pattern after another.
        draws: for a step with chance, such as dropout: the update is the mean over this many seeds.
        scores: `scores(model, features) -> scores` with tensors (P,), (L, d) and (L,), for attacks that
            compare scores.
        first_layer: where the first layer's weights lie in the model, for attacks on single units.

    Raises:
        UsageError: PyTorch is not installed.
    """
    need_torch()
    return TorchStep(
        function=function,
        parameters=parameters,
        batched=batched,
        draws=draws,
        scorer=scores,
        layer=first_layer,
    )
