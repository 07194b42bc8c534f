"""Client steps on PyTorch tensors, against PyTorch's own optimisers and NumPy; skipped without PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import foltr_audit as fa
from foltr_audit.core.plugins import ClientStep
from foltr_audit.core.records.view import checked_updates
from foltr_audit.utils.arrays import Floats
from tests.fixtures import listwise_trace
from tests.fixtures.doc_examples import blocks

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

pytestmark = [
    pytest.mark.filterwarnings(f"ignore:.*torch.jit.script.*:{kind}Warning")  # older and newer versions
    for kind in ("Deprecation", "Future")
]

D, UNITS, L = 7, 4, 5
PAGE = Path(__file__).resolve().parents[2] / "docs" / "federation.md"


def network(dropout: float = 0.0) -> Any:
    """A small network in double precision."""
    torch.manual_seed(3)
    layers = torch.nn.Linear(D, UNITS), torch.nn.Tanh(), torch.nn.Dropout(dropout), torch.nn.Linear(UNITS, 1)
    return torch.nn.Sequential(*layers).double()


def loss(scores: Any, clicks: Any) -> Any:
    """Listwise softmax."""
    return -(clicks * torch.log_softmax(scores, dim=0)).sum()


def flat(module: Any) -> Floats:
    """The floating-point arrays of a module's state dict as one vector."""
    state = module.state_dict().values()
    return np.concatenate([value.numpy().reshape(-1) for value in state if value.is_floating_point()])


def inputs(seed: int = 0) -> tuple[Floats, Floats, Floats]:
    """A model, the features of a list, and some click patterns."""
    rng = np.random.default_rng(seed)
    patterns = np.array(list(product([0.0, 1.0], repeat=L)))
    return flat(network()), rng.normal(size=(L, D)), patterns


def frozen() -> Any:
    module = network()
    module[0].weight.requires_grad_(False)
    return module


def with_buffers() -> Any:
    module = network()
    module[1] = torch.nn.BatchNorm1d(UNITS).double()
    module[1].running_mean[:] = 0.1
    module[1].running_var[:] = 1.7
    return module.eval()


def shared() -> Any:
    torch.manual_seed(2)
    first, second = torch.nn.Linear(D, D), torch.nn.Linear(D, D)
    second.weight = first.weight
    return torch.nn.Sequential(first, torch.nn.Tanh(), second, torch.nn.Linear(D, 1)).double()


def trained(module: Any, make: Callable[[Any], Any], epochs: int, proximal: float) -> Floats:
    """Updates of every pattern by PyTorch's own optimisers, one training after another."""
    _, rows, patterns = inputs()
    found = []
    for clicks in patterns:
        local = copy.deepcopy(module)
        optimizer = make([one for one in local.parameters() if one.requires_grad])
        for _ in range(epochs):
            optimizer.zero_grad()
            pairs = zip(local.parameters(), module.parameters(), strict=True)
            away = sum(((a - b.detach()) ** 2).sum() for a, b in pairs)
            value = loss(local(torch.tensor(rows)).reshape(-1), torch.tensor(clicks))
            (value + 0.5 * proximal * away).backward()
            optimizer.step()
        found.append(flat(local) - flat(module))
    return np.array(found)


@pytest.mark.parametrize(
    ("make", "optimizer", "epochs", "proximal"),
    [
        *product([network], ["sgd", "adam"], [1, 4], [0.0, 0.7]),
        *product([frozen, with_buffers, shared], ["sgd"], [3], [0.0]),
    ],
)
def test_a_module_is_trained_as_pytorch_trains_it(
    make: Callable[[], Any], optimizer: Any, epochs: int, proximal: float
) -> None:
    module = make()
    step = fa.torch_module_step(module, loss, 0.05, epochs, optimizer, proximal)
    kind = torch.optim.SGD if optimizer == "sgd" else torch.optim.Adam
    expected = trained(module, lambda parameters: kind(parameters, lr=0.05), epochs, proximal)
    found = step.updates(flat(module), *inputs()[1:])
    # The gradient of the last bias is 0, and Adam blows up how it is rounded.
    defined = slice(-1 if optimizer == "adam" else None)
    np.testing.assert_allclose(found[:, defined], expected[:, defined], rtol=1e-7, atol=1e-7)
    assert np.abs(found[1] - found[0]).max() > 0.01


def plain(model: Any, rows: Any, clicks: Any) -> Any:
    """The step of the listwise trace, on tensors."""
    p = torch.softmax(rows @ model, dim=0)
    return 0.1 * rows.T @ (clicks - clicks.sum() * p)


def by_backward(model: Any, rows: Any, clicks: Any) -> Any:
    """The same step by `backward`, which `torch.func` cannot batch."""
    local = model.clone().requires_grad_()
    loss(rows @ local, clicks).backward()
    return -0.1 * local.grad


@pytest.mark.parametrize("step", [fa.torch_step(plain, D), fa.torch_step(by_backward, D, batched=False)])
def test_a_function_of_tensors_is_that_of_arrays(step: ClientStep) -> None:
    rng = np.random.default_rng(1)
    model, rows = rng.normal(size=D), rng.normal(size=(L, D))
    patterns = inputs()[2]
    expected = np.array([listwise_trace.step(model, rows, clicks) for clicks in patterns])
    np.testing.assert_allclose(step.updates(model, rows, patterns), expected, atol=1e-12)
    np.testing.assert_allclose(step(model, rows, patterns[9]), expected[9], atol=1e-12)


@pytest.mark.parametrize(("make", "optimizer"), [(network, "sgd"), (network, "adam"), (frozen, "adam")])
def test_slopes_are_those_of_differences(make: Callable[[], Any], optimizer: Any) -> None:
    step = fa.torch_module_step(make(), loss, 0.05, 3, optimizer)
    model, rows, _ = inputs()
    clicks = np.random.default_rng(4).random(L)
    # All but the last bias, whose gradient is 0: Adam blows the rounding of differences up.
    differences = ClientStep.slopes(step, model, rows, clicks)[:, :-1]
    np.testing.assert_allclose(step.slopes(model, rows, clicks)[:, :-1], differences, atol=1e-7)


# --- dropout --------------------------------------------------------------------------------------


def test_dropout_is_averaged_over_masks_and_leaves_no_trace() -> None:
    module, masks = network().train(), []

    class KeptMasks(torch.nn.Dropout):  # type: ignore[name-defined,misc]
        """Dropout that notes its masks."""

        def forward(self, values: Any) -> Any:
            mask = torch.nn.functional.dropout(torch.ones(L, UNITS, dtype=torch.float64), 0.5)
            masks.append(mask.tolist())
            return values * mask

    module[2] = KeptMasks(0.5)
    model, rows, patterns = inputs()
    state, before = torch.random.get_rng_state(), copy.deepcopy(module.state_dict())
    one = [
        fa.torch_module_step(module, loss, draws=draws).updates(model, rows, patterns) for draws in (1, 1, 40)
    ]
    assert np.array_equal(one[0], one[1])
    assert np.array_equal(torch.random.get_rng_state().numpy(), state.numpy())
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    assert len(masks) == 42
    assert len({str(mask) for mask in masks[2:]}) == 40
    by_hand = [_by_mask(model, rows, patterns, np.array(mask)) for mask in masks]
    np.testing.assert_allclose(one[0], by_hand[0], atol=1e-12)
    np.testing.assert_allclose(one[2], np.mean(by_hand[2:], axis=0), atol=1e-12)
    module[2] = torch.nn.Dropout(0.5)
    off = fa.torch_module_step(module.eval(), loss, draws=40).updates(model, rows, patterns)
    np.testing.assert_allclose(off, _by_mask(model, rows, patterns, np.ones((L, UNITS))), atol=1e-12)


def test_the_mean_step_is_that_of_the_steps_with_one_mask() -> None:
    model, rows, patterns = inputs()
    step = fa.torch_module_step(network(dropout=0.5).train(), loss, draws=20)
    each = [step.drawn(seed).updates(model, rows, patterns) for seed in range(20)]
    np.testing.assert_allclose(step.updates(model, rows, patterns), np.mean(each, axis=0), atol=1e-12)
    assert not np.allclose(each[0], each[1])
    sure = fa.torch_module_step(network(), loss)
    assert sure.drawn(3) is sure


def _by_mask(model: Floats, rows: Floats, patterns: Floats, mask: Floats) -> Floats:
    """A step of lr .1 with a known mask: the gradient by hand."""
    W, b = model[: UNITS * D].reshape(UNITS, D), model[UNITS * D : UNITS * (D + 1)]
    w, bias = model[UNITS * (D + 1) : -1], model[-1]
    h = np.tanh(rows @ W.T + b)
    scores = (h * mask) @ w + bias
    p = np.exp(scores) / np.exp(scores).sum()
    found = []
    for clicks in patterns:
        r = 0.1 * (clicks - clicks.sum() * p)
        slope = r[:, np.newaxis] * mask * w * (1 - h**2)
        parts = (slope.T @ rows).reshape(-1), slope.sum(axis=0), r @ (h * mask), [r.sum()]
        found.append(np.concatenate(parts))
    return np.array(found)


def test_scores_are_without_dropout_and_leave_the_mode() -> None:
    module = network(0.5).train()
    step, (model, rows, _) = fa.torch_module_step(module, loss), inputs()
    W, b = model[: UNITS * D].reshape(UNITS, D), model[UNITS * D : UNITS * (D + 1)]
    expected = np.tanh(rows @ W.T + b) @ model[UNITS * (D + 1) : -1] + model[-1]
    np.testing.assert_allclose(step.scores(model, rows), expected, atol=1e-12)
    assert all(part.training for part in module.modules())


# --- what is read off a module, and errors -----------------------------------------------------------


def test_the_first_layer_of_a_network_is_found() -> None:
    module = network()
    layer = fa.torch_module_step(module, loss).first_layer
    assert layer is not None
    vector = flat(module)
    assert np.array_equal(layer.rows(vector[np.newaxis])[0], module[0].weight.detach().numpy())
    assert layer.output is not None
    assert np.array_equal(vector[layer.output : layer.output + UNITS], module[3].weight.detach().numpy()[0])
    deep = torch.nn.Sequential(torch.nn.Linear(D, 3), torch.nn.Linear(3, 3), torch.nn.Linear(3, 1))
    assert fa.torch_module_step(deep, loss).first_layer is None


def test_bad_values_are_named() -> None:
    bad: dict[str, tuple[Any, str]] = {"optimizer": ("lbfgs", "sgd or adam"), "epochs": (0, "epochs=0")}
    for name, (value, what) in {**bad, "lr": (-1, "lr=-1")}.items():
        with pytest.raises(fa.FoltrAuditError, match=what):
            fa.torch_module_step(network(), loss, **{name: value})


def test_a_function_that_gives_no_tensor_is_named() -> None:
    step = fa.torch_step(lambda model, rows, clicks: 3, batched=False)
    with pytest.raises(fa.FoltrAuditError, match="gave int; expected a tensor"):
        checked_updates(step, *inputs())


def test_buffers_that_change_in_training_are_refused() -> None:
    with pytest.raises(fa.FoltrAuditError, match=r"expected a module after eval\(\)"):
        fa.torch_module_step(torch.nn.Sequential(torch.nn.Linear(D, 4), torch.nn.BatchNorm1d(4)), loss)


def test_a_step_may_change_its_arguments() -> None:
    def rude(model: Any, features: Any, clicks: Any) -> Any:
        update = features.T @ clicks
        features *= 0.0
        return update

    rows = inputs()[1]
    found = checked_updates(fa.torch_step(rude, batched=False), np.zeros(D), rows, np.eye(L))
    np.testing.assert_allclose(found, rows)


def test_a_trace_is_attacked_by_a_function_of_tensors(tmp_path: Path) -> None:
    folder = listwise_trace.write(tmp_path / "trace")
    report = fa.attack_trace(folder, ["map", "lad", "raifle"], step=fa.torch_step(plain))
    found = {row["method"]: row.number("exact") for row in report.results}
    assert found["map"] == found["lad"] == 1.0
    assert found["raifle"] > 0.9


def test_the_program_of_the_page_makes_a_step() -> None:
    (block,) = [block for block in blocks(PAGE) if block.kind == "py"]
    step = block.executed(PAGE.name)["step"]
    assert isinstance(step, ClientStep)
    assert step.why_not(769, 46) is None
    assert step.why_not(770, 46) is not None
