"""The client step of a PyTorch module that is trained on the clicks on one list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, get_args

from foltr_audit.core.client_steps.torch_step import TorchStep, need_torch
from foltr_audit.core.plugins.client_step import ClientStep
from foltr_audit.core.rankers.first_layer import FirstLayer
from foltr_audit.errors import UsageError

if TYPE_CHECKING:
    import torch

ListLoss = Callable[["torch.Tensor", "torch.Tensor"], "torch.Tensor"]
"""`loss(scores (L,), clicks (L,)) -> number`."""

Optimizer = Literal["sgd", "adam"]

_MEAN_DECAY, _SQUARE_DECAY, _TINY = 0.9, 0.999, 1e-8  # Adam's usual constants


@dataclass(frozen=True, eq=False)
class TorchTraining:
    """Some epochs of full-batch training on one list, as a function of a flat model.

    Buffers and parameters that need no gradient stay as they are; a parameter that has several names in the
    state dict is one, with the value of the first.

    Attributes:
        module: scores documents (L, d) as (L,) or (L, 1); its own weights are not used or changed.
        loss: of scores and clicks.
        lr: step size.
        epochs: steps.
        optimizer: `sgd` or `adam`, which starts anew for each message.
        proximal: weight mu of FedProx's term `mu / 2 |w - w0|^2`.
    """

    module: torch.nn.Module
    loss: ListLoss
    lr: float
    epochs: int
    optimizer: Optimizer
    proximal: float

    @property
    def sizes(self) -> dict[str, torch.Size]:
        """Shapes of the floating-point arrays of the state dict, in its order, which is that of a model."""
        state = self.module.state_dict().items()
        return {name: value.shape for name, value in state if value.is_floating_point()}

    @property
    def parameters(self) -> int:
        """Numbers in a model."""
        return sum(shape.numel() for shape in self.sizes.values())

    @cached_property
    def _named(self) -> list[tuple[str, torch.nn.Parameter]]:
        """All names of parameters; a parameter that several layers share has several."""
        return list(self.module.named_parameters(remove_duplicate=False))

    @cached_property
    def _first_names(self) -> dict[str, str]:
        """For each name in the state dict, the first one of the same array."""
        first: dict[int, str] = {}
        same = {name: first.setdefault(id(value), name) for name, value in self._named}
        return {name: same.get(name, name) for name in self.sizes}

    def state(self, model: torch.Tensor, local: torch.Tensor) -> dict[str, torch.Tensor]:
        """The state dict of a local model (P,); what is not trained is that of the global model (P,)."""
        shapes, trained = self.sizes, {name for name, value in self._named if value.requires_grad}
        sizes = [shape.numel() for shape in shapes.values()]
        fixed, moved = (dict(zip(shapes, one.split(sizes), strict=True)) for one in (model, local))
        return {
            name: (moved if name in trained else fixed)[first].view(shapes[name])
            for name, first in self._first_names.items()
        }

    def score(self, model: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        """Scores (L,) of documents."""
        return self._score(self.state(model, model), features)

    def _score(self, state: dict[str, torch.Tensor], features: torch.Tensor) -> torch.Tensor:
        import torch

        scores: torch.Tensor = torch.func.functional_call(self.module, state, (features,), tie_weights=False)
        return scores.reshape(-1)

    def score_without_chance(self, model: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        """Scores (L,) of documents with dropout switched off."""
        modes = [(one, one.training) for one in self.module.modules()]
        self.module.eval()
        try:
            return self.score(model, features)
        finally:
            for one, training in modes:
                one.training = training

    def update(self, model: torch.Tensor, features: torch.Tensor, clicks: torch.Tensor) -> torch.Tensor:
        """The update (P,) after all epochs."""
        import torch

        def objective(local: torch.Tensor) -> torch.Tensor:
            away = ((local - model) ** 2).sum()
            scores = self._score(self.state(model, local), features)
            return self.loss(scores, clicks) + 0.5 * self.proximal * away

        local, mean, square = model, torch.zeros_like(model), torch.zeros_like(model)
        for epoch in range(1, self.epochs + 1):
            gradient = torch.func.grad(objective)(local)
            if self.optimizer == "adam":
                mean = _MEAN_DECAY * mean + (1 - _MEAN_DECAY) * gradient
                square = _SQUARE_DECAY * square + (1 - _SQUARE_DECAY) * gradient**2
                size = (square / (1 - _SQUARE_DECAY**epoch)).sqrt() + _TINY
                gradient = mean / (1 - _MEAN_DECAY**epoch) / size
            local = local - self.lr * gradient
        after, before = (self.state(model, one) for one in (local, model))
        return torch.cat([(after[name] - before[name]).reshape(-1) for name in self.sizes])

    @property
    def changes_buffers(self) -> bool:
        """Whether the module changes its own buffers, as batch normalisation does in training mode."""
        import torch

        return any(
            isinstance(one, torch.nn.modules.batchnorm._BatchNorm)
            and one.training
            and one.track_running_stats
            for one in self.module.modules()
        )

    @property
    def has_dropout(self) -> bool:
        """Whether dropout is on."""
        import torch

        kinds = (torch.nn.Dropout, torch.nn.Dropout1d, torch.nn.AlphaDropout)
        return any(isinstance(one, kinds) and one.training and one.p > 0 for one in self.module.modules())

    @property
    def first_layer(self) -> FirstLayer | None:
        """Where W1 and the weights of the score lie, of a network with one hidden layer; else None."""
        import torch

        layers = [
            (name, one) for name, one in self.module.named_modules() if isinstance(one, torch.nn.Linear)
        ]
        if len(layers) != 2 or layers[1][1].out_features != 1:
            return None
        (first, hidden), (last, _) = layers
        starts, place = {}, 0
        for name, shape in self.sizes.items():
            starts[name] = place
            place += shape.numel()
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
    need_torch()
    if optimizer not in get_args(Optimizer):
        raise UsageError(f"torch_module_step: optimizer={optimizer!r}; expected sgd or adam")
    if epochs < 1 or draws < 1 or not lr > 0 or not proximal >= 0:
        raise UsageError(
            f"torch_module_step: lr={lr}, epochs={epochs}, proximal={proximal}, draws={draws}; "
            "expected lr above 0, epochs and draws from 1, proximal from 0"
        )
    training = TorchTraining(module, loss, lr, epochs, optimizer, proximal)
    if training.changes_buffers:
        raise UsageError(
            "torch_module_step: batch normalisation in training mode changes its buffers; "
            "expected a module after eval(), or a torch_step that computes them"
        )
    return TorchStep(
        function=training.update,
        parameters=training.parameters,
        scorer=training.score_without_chance,
        layer=training.first_layer,
        title=f"{type(module).__name__}, {optimizer}, {epochs} epoch{'s' if epochs > 1 else ''}",
        draws=draws if training.has_dropout else 1,
    )
