"""Client steps from functions of the user's: on NumPy arrays, and on PyTorch's, batched by `torch.func`.

PyTorch is imported when a step of its is made, and never otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

import numpy as np
from pydantic import ConfigDict, Field

from foltr_audit.core.plugins.client_step import ClientStep
from foltr_audit.core.rankers import FirstLayer
from foltr_audit.errors import PluginError, UsageError
from foltr_audit.utils.arrays import Floats
from foltr_audit.utils.optional_dependencies import require

if TYPE_CHECKING:
    import torch

StepFunction = Callable[[Floats, Floats, Floats], Floats]
"""`step(model (P,), features (L, d), clicks (L,)) -> update (P,)`."""

ScoreFunction = Callable[[Floats, Floats], Floats]
"""`score(model (P,), features (L, d)) -> scores (L,)`."""


class FunctionStep(ClientStep):
    """A client step that calls a function of the user's.

    Attributes:
        function: computes the update of one click pattern, or of several at once (`batched`).
        parameters: number of parameters P, if known.
        scorer: computes scores of documents, if there is one.
        layer: where the first layer lies, if there is one.
        title: what reports call it.
        batched: whether the function takes clicks (H, L) and returns updates (H, P).
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)
    name: ClassVar[str] = "function"

    function: Callable[..., object]
    parameters: int | None = None
    scorer: Callable[..., object] | None = None
    layer: FirstLayer | None = None
    title: str = ""
    batched: bool = False

    @property
    def text(self) -> str:
        """The `title`, or the name of the function, e.g. `my_learner.step`."""
        name = str(getattr(self.function, "__qualname__", type(self.function).__name__))
        module = getattr(self.function, "__module__", "")
        ours = not module or module.startswith("foltr_audit.")
        return self.title or (name if ours else f"{module}.{name}")

    @property
    def label(self) -> str:
        return self.text

    @property
    def gives_scores(self) -> bool:
        """Whether there is a `scorer`."""
        return self.scorer is not None

    @property
    def first_layer(self) -> FirstLayer | None:
        return self.layer

    def why_not(self, parameters: int, features: int) -> str | None:
        """Also refuses models of another number of parameters."""
        if self.parameters is not None and self.parameters != parameters:
            return f"it is of {self.parameters} parameters, not {parameters}"
        return super().why_not(parameters, features)

    def updates(self, model: Floats, features: Floats, clicks: Floats) -> Floats:
        """See `ClientStep`; without `batched` the function is called for one pattern after another."""
        if self.batched:
            return np.asarray(self.function(model, features, clicks), dtype=np.float64)
        # The function gets copies: what it changes in place for one pattern must not reach the next.
        found = [
            np.asarray(self.function(model.copy(), features.copy(), row.copy()), dtype=np.float64)
            for row in clicks
        ]
        return np.stack(found) if found else np.zeros((0, model.size))

    def scores(self, model: Floats, features: Floats) -> Floats:
        if self.scorer is None:
            return super().scores(model, features)
        return np.asarray(self.scorer(model, features), dtype=np.float64).reshape(-1)


def numpy_step(
    function: StepFunction,
    parameters: int | None = None,
    *,
    batched: bool = False,
    scores: ScoreFunction | None = None,
    first_layer: FirstLayer | None = None,
) -> ClientStep:
    """A client step from a function on NumPy arrays; also for functions that use `autograd.numpy`.

    Args:
        function: `function(model, features, clicks) -> update`, with float64 arrays (P,), (L, d), (L,) and
            (P,). The update is the local model minus the global one, before clips and noise. L is the length
            of the list, without padding; `clicks` holds 0 and 1, for attacks that relax clicks also numbers
            between.
        parameters: number of parameters P; traces with another number are refused.
        batched: the function takes clicks (H, L) of several patterns at once, and returns updates (H, P).
        scores: `scores(model, features) -> scores` with arrays (P,), (L, d) and (L,), for attacks that
            compare scores.
        first_layer: where the first layer's weights lie in the model, for attacks on single units.

    Example:
        >>> import numpy as np
        >>> import foltr_audit as fa
        >>> def step(model, features, clicks):
        ...     return 0.1 * features.T @ (clicks - clicks.mean())
        >>> fa.numpy_step(step, parameters=2)(np.zeros(2), np.eye(2), np.array([1.0, 0.0]))
        array([ 0.05, -0.05])
    """
    return FunctionStep(
        function=function, parameters=parameters, batched=batched, scorer=scores, layer=first_layer
    )


def as_client_step(given: object, title: str = "") -> ClientStep:
    """The client step that a user means: one, a class of one, or a plain function as in `numpy_step`.

    Raises:
        UsageError: it is none of these.
    """
    if isinstance(given, ClientStep):
        return given
    if isinstance(given, type) and issubclass(given, ClientStep):
        return given()
    if callable(given):
        return FunctionStep(function=given, title=title)
    raise UsageError(f"client step: {given!r}; expected a function or a ClientStep")


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
        first_seed: the first of these seeds.
    """

    name: ClassVar[str] = "torch"

    batched: bool = True
    draws: int = Field(1, ge=1)
    first_seed: int = Field(0, ge=0)

    def drawn(self, seed: int) -> TorchStep:
        """See `ClientStep`; a step without chance has one draw and stays as it is."""
        return self if self.draws == 1 else self.model_copy(update={"draws": 1, "first_seed": seed})

    def updates(self, model: Floats, features: Floats, clicks: Floats) -> Floats:
        import torch

        if self.batched:
            every = torch.func.vmap(self.function, in_dims=(None, None, 0), randomness="same")
            return self._mean(every, model, features, clicks)
        return np.stack([self._mean(self.function, model, features, one) for one in clicks])

    def slopes(self, model: Floats, features: Floats, clicks: Floats) -> Floats:
        """See `ClientStep`; by automatic differentiation."""
        import torch

        if not self.batched:
            return super().slopes(model, features, clicks)
        each = torch.func.jacfwd(self.function, argnums=2, randomness="same")
        return self._mean(each, model, features, clicks).T

    def scores(self, model: Floats, features: Floats) -> Floats:
        import torch

        if self.scorer is None:
            return super().scores(model, features)
        with torch.no_grad():
            found = self.scorer(*(torch.from_numpy(np.array(one)) for one in (model, features)))
        return _as_numbers(found).reshape(-1)

    def _mean(self, function: Callable[..., object], *given: Floats) -> Floats:
        """The mean of a function of tensors over the seeds, which leaves PyTorch's own generator alone."""
        import torch

        total = np.zeros(0)
        with torch.random.fork_rng(devices=[]):
            for seed in range(self.first_seed, self.first_seed + self.draws):
                torch.manual_seed(seed)
                tensors = [torch.from_numpy(np.array(one, dtype=np.float64)) for one in given]
                found = _as_numbers(function(*tensors))
                total = found if seed == self.first_seed else total + found
        return total / self.draws


def _as_numbers(found: object) -> Floats:
    """What a function returned, as float64 numbers."""
    if not (hasattr(found, "detach") and hasattr(found, "cpu")):
        raise PluginError(f"client step gave {type(found).__name__}; expected a tensor")
    return np.asarray(found.detach().cpu(), dtype=np.float64)


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
    require("torch", "torch_step")
    return TorchStep(
        function=function,
        parameters=parameters,
        batched=batched,
        draws=draws,
        scorer=scores,
        layer=first_layer,
    )


ListLoss = Callable[["torch.Tensor", "torch.Tensor"], "torch.Tensor"]
"""`loss(scores (L,), clicks (L,)) -> number`."""

Optimizer = Literal["sgd", "adam"]

_MEAN_DECAY, _SQUARE_DECAY, _TINY = 0.9, 0.999, 1e-8  # Adam's usual constants


@dataclass(frozen=True, eq=False)
class _Training:
    """Some epochs of full-batch training on one list, as a function of a flat model.

    A model is the floating-point arrays of the state dict, in its order. Buffers and parameters that need no
    gradient stay as they are; a parameter that has several names is one, with the value of the first.
    """

    module: torch.nn.Module
    loss: ListLoss
    lr: float
    epochs: int
    optimizer: Optimizer
    proximal: float

    @cached_property
    def shapes(self) -> dict[str, torch.Size]:
        """Shapes of the arrays of a model by their names in the state dict."""
        state = self.module.state_dict().items()
        return {name: value.shape for name, value in state if value.is_floating_point()}

    def state(self, model: torch.Tensor, local: torch.Tensor) -> dict[str, torch.Tensor]:
        """The state dict of a local model (P,); what is not trained is that of the global model (P,)."""
        sizes = [shape.numel() for shape in self.shapes.values()]
        fixed, moved = (dict(zip(self.shapes, one.split(sizes), strict=True)) for one in (model, local))
        named = dict(self.module.named_parameters(remove_duplicate=False))
        first: dict[int, str] = {}
        state = {}
        for name, shape in self.shapes.items():
            trained = name in named and named[name].requires_grad
            source = first.setdefault(id(named[name]), name) if name in named else name
            state[name] = (moved if trained else fixed)[source].view(shape)
        return state

    def score(self, state: dict[str, torch.Tensor], features: torch.Tensor) -> torch.Tensor:
        """Scores (L,) of documents under a state dict."""
        import torch

        scores: torch.Tensor = torch.func.functional_call(self.module, state, (features,), tie_weights=False)
        return scores.reshape(-1)

    def score_without_chance(self, model: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        """Scores (L,) of documents under a model (P,) with dropout switched off."""
        modes = [(one, one.training) for one in self.module.modules()]
        self.module.eval()
        try:
            return self.score(self.state(model, model), features)
        finally:
            for one, training in modes:
                one.training = training

    def update(self, model: torch.Tensor, features: torch.Tensor, clicks: torch.Tensor) -> torch.Tensor:
        """The update (P,) after all epochs."""
        import torch

        def objective(local: torch.Tensor) -> torch.Tensor:
            away = ((local - model) ** 2).sum()
            scores = self.score(self.state(model, local), features)
            return self.loss(scores, clicks) + 0.5 * self.proximal * away

        local, mean, square = model, torch.zeros_like(model), torch.zeros_like(model)
        for epoch in range(1, self.epochs + 1):
            gradient = torch.func.grad(objective)(local)
            if self.optimizer == "adam":
                mean = _MEAN_DECAY * mean + (1 - _MEAN_DECAY) * gradient
                square = _SQUARE_DECAY * square + (1 - _SQUARE_DECAY) * gradient**2
                # A root has no slope at 0, where the gradients of dead units and frozen weights are.
                moves = square > 0
                size = torch.where(moves, square / (1 - _SQUARE_DECAY**epoch), 1.0).sqrt()
                gradient = mean / (1 - _MEAN_DECAY**epoch) / (torch.where(moves, size, 0.0) + _TINY)
            local = local - self.lr * gradient
        after, before = (self.state(model, one) for one in (local, model))
        return torch.cat([(after[name] - before[name]).reshape(-1) for name in self.shapes])

    @property
    def first_layer(self) -> FirstLayer | None:
        """Where W1 and the weights of the score lie, of a network with one hidden layer; else None."""
        import torch

        modules = self.module.named_modules()
        layers = [(name, one) for name, one in modules if isinstance(one, torch.nn.Linear)]
        if len(layers) != 2 or layers[1][1].out_features != 1:
            return None
        (first, hidden), (last, _) = layers
        ends = accumulate(shape.numel() for shape in self.shapes.values())
        starts = dict(zip(self.shapes, [0, *ends], strict=False))
        units, inputs = hidden.weight.shape
        return FirstLayer(
            starts[f"{first}.weight"], units, inputs, starts[f"{last}.weight"], starts.get(f"{first}.bias")
        )


def torch_module_step(
    module: torch.nn.Module,
    loss: ListLoss,
    lr: float = 0.1,
    epochs: int = 1,
    optimizer: Optimizer = "sgd",
    proximal: float = 0.0,
    draws: int = 64,
) -> ClientStep:
    """The client step of a PyTorch module that is trained on the clicks on one list.

    A model is the floating-point arrays of the module's state dict, in its order, as one vector. The module's
    own weights are not used. Buffers, and parameters with `requires_grad=False`, are not trained. Dropout is
    on where the module is in training mode (`module.train()`): which masks a client drew is not known, and
    the step then is the mean over `draws` masks.

    Args:
        module: scores documents (L, d) as (L,) or (L, 1).
        loss: `loss(scores, clicks)` of tensors (L,) and (L,); made of operations that `torch.func` can batch.
        lr: step size.
        epochs: steps on the whole list.
        optimizer: `sgd` without momentum, or `adam` with its usual constants and no memory of earlier
            messages.
        proximal: weight mu of the term `mu / 2 |w - w0|^2` of FedProx (Li et al. 2020, "Federated
            optimization in heterogeneous networks", section 3).
        draws: masks that are averaged where dropout is on.

    Raises:
        UsageError: PyTorch is not installed, or a value is out of its range.
    """
    require("torch", "torch_module_step")
    import torch

    if optimizer not in get_args(Optimizer):
        raise UsageError(f"torch_module_step: optimizer={optimizer!r}; expected sgd or adam")
    if epochs < 1 or draws < 1 or not lr > 0 or not proximal >= 0:
        raise UsageError(
            f"torch_module_step: lr={lr}, epochs={epochs}, proximal={proximal}, draws={draws}; "
            "expected lr above 0, epochs and draws from 1, proximal from 0"
        )
    norms, dropouts = torch.nn.modules.batchnorm._BatchNorm, torch.nn.modules.dropout._DropoutNd
    active = [one for one in module.modules() if one.training]
    if any(isinstance(one, norms) and one.track_running_stats for one in active):
        raise UsageError(
            "torch_module_step: batch normalisation in training mode changes its buffers; "
            "expected a module after eval(), or a torch_step that computes them"
        )
    training = _Training(module, loss, lr, epochs, optimizer, proximal)
    return TorchStep(
        function=training.update,
        parameters=sum(shape.numel() for shape in training.shapes.values()),
        scorer=training.score_without_chance,
        layer=training.first_layer,
        title=f"{type(module).__name__}, {optimizer}, {epochs} epoch{'s' if epochs > 1 else ''}",
        draws=draws if any(isinstance(one, dropouts) and one.p > 0 for one in active) else 1,
    )
