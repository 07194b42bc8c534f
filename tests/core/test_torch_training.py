"""The client step of a PyTorch module, next to the module trained by PyTorch's own optimiser."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import foltr_audit as fa
from foltr_audit.core.records.view import checked_updates
from foltr_audit.errors import UsageError
from foltr_audit.utils.arrays import Floats

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
nn: Any = torch.nn

RATE, EPOCHS = 0.1, 3
CLICKS = np.array([1.0, 0.0, 1.0, 0.0, 0.0, 0.0])
FEATURES = np.random.default_rng(1).normal(size=(6, 5))


def loss(scores: Any, clicks: Any) -> Any:
    """The listwise softmax loss."""
    return -(clicks * torch.log_softmax(scores, 0)).sum()


def floating(module: Any) -> Floats:
    """The floating-point arrays of a state dict as one vector."""
    values = [value.reshape(-1) for value in module.state_dict().values() if value.is_floating_point()]
    return np.asarray(torch.cat(values).detach(), dtype=np.float64)


def by_optimiser(module: Any) -> Floats:
    """The update that PyTorch's optimiser makes of a module in double precision."""
    local = copy.deepcopy(module)
    optimiser = torch.optim.SGD([one for one in local.parameters() if one.requires_grad], lr=RATE)
    for _ in range(EPOCHS):
        optimiser.zero_grad()
        loss(local(torch.from_numpy(FEATURES)).reshape(-1), torch.from_numpy(CLICKS)).backward()
        optimiser.step()
    return floating(local) - floating(module)


def network(*layers: Any) -> Any:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(5, 4), *layers, nn.Linear(4, 1)).double()


def frozen() -> Any:
    made = network(nn.ReLU())
    made[0].weight.requires_grad_(False)
    return made


def with_buffers() -> Any:
    made = network(nn.BatchNorm1d(4), nn.ReLU())
    made[1].running_mean[:] = 0.1
    made[1].running_var[:] = 1.7
    return made.eval()


def shared() -> Any:
    torch.manual_seed(2)
    made = nn.Sequential(nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 5), nn.Linear(5, 1)).double()
    made[2].weight = made[0].weight
    return made


@pytest.mark.parametrize("make", [lambda: network(nn.ReLU()), frozen, with_buffers, shared])
def test_a_step_is_what_the_optimiser_does(make: Any) -> None:
    module = make()
    step = fa.torch_module_step(module, loss, lr=RATE, epochs=EPOCHS)
    patterns = np.stack([CLICKS, 1.0 - CLICKS])
    found = checked_updates(step, floating(module), FEATURES, patterns)
    np.testing.assert_allclose(found[0], by_optimiser(module), atol=1e-12)
    assert np.abs(found[1] - found[0]).max() > 0.01


def test_buffers_that_change_in_training_are_refused() -> None:
    with pytest.raises(UsageError, match=r"expected a module after eval\(\)"):
        fa.torch_module_step(network(nn.BatchNorm1d(4)), loss)


def test_a_step_may_change_its_arguments() -> None:
    def rude(model: Any, features: Any, clicks: Any) -> Any:
        update = features.T @ clicks
        features *= 0.0
        return update

    found = checked_updates(fa.torch_step(rude, batched=False), np.zeros(5), FEATURES, np.eye(6))
    np.testing.assert_allclose(found, FEATURES)
