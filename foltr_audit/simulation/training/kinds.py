"""Which kind of round a learner has."""

from __future__ import annotations

from foltr_audit.errors import UsageError
from foltr_audit.simulation.client_data import ClientData
from foltr_audit.simulation.setup import Setup
from foltr_audit.simulation.training.base import Senders, TrainingServer
from foltr_audit.simulation.training.clicks import CentralServer, ClickSenders
from foltr_audit.simulation.training.metrics import EvolutionServer, MetricSenders
from foltr_audit.simulation.training.models import FedAvgServer, ModelSenders


def training(setup: Setup, world: ClientData) -> TrainingServer:
    """The rounds of a setup's learner in a world.

    Raises:
        UsageError: it cannot learn here.
    """
    match setup.learner.sends:
        case "metrics":
            return EvolutionServer(setup, world)
        case "clicks":
            return CentralServer(setup, world)
        case _:
            return FedAvgServer(setup, world)


def senders(setup: Setup, world: ClientData, *, sampled: bool = False) -> Senders:
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
