"""Which kind of round a learner has."""

from __future__ import annotations

from foltr_audit.errors import UsageError
from foltr_audit.simulation.client_data import World
from foltr_audit.simulation.setup import Setup
from foltr_audit.simulation.training.base import Senders, Training
from foltr_audit.simulation.training.clicks import Central, ClickSenders
from foltr_audit.simulation.training.metrics import Evolution, MetricSenders
from foltr_audit.simulation.training.models import FedAvg, ModelSenders


def training(setup: Setup, world: World) -> Training:
    """The rounds of a setup's learner in a world.

    Raises:
        UsageError: it cannot learn here.
    """
    match setup.learner.sends:
        case "metrics":
            return Evolution(setup, world)
        case "clicks":
            return Central(setup, world)
        case _:
            return FedAvg(setup, world)


def senders(setup: Setup, world: World, *, sampled: bool = False) -> Senders:
    """Fresh clients of a setup's learner, who are shown deterministic or sampled lists.

    Raises:
        UsageError: its lists are never sampled.
    """
    if sampled and setup.learner.sends != "models":
        raise UsageError(
            f"--lists sampled: learner {setup.learner.name} samples no lists of its fresh clients"
        )
    match setup.learner.sends:
        case "metrics":
            return MetricSenders(setup, world)
        case "clicks":
            return ClickSenders(setup, world)
        case _:
            return ModelSenders(setup, world, sampled=sampled)
