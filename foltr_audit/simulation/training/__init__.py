"""Rounds, by what clients send: models, online metrics, or the clicks themselves."""

from __future__ import annotations

from foltr_audit.errors import UsageError
from foltr_audit.simulation.client_data import ClientData
from foltr_audit.simulation.setup import Setup
from foltr_audit.simulation.training.base import Senders, TrainingServer
from foltr_audit.simulation.training.clicks import CentralServer, ClickSenders
from foltr_audit.simulation.training.metrics import EvolutionServer, MetricSenders
from foltr_audit.simulation.training.models import FedAvgServer, ModelSenders

__all__ = ["Senders", "TrainingServer", "make_senders", "make_server"]


def make_server(setup: Setup, world: ClientData) -> TrainingServer:
    """The server of a setup's learner on some data.

    Raises:
        UsageError: it cannot learn on this data.
    """
    match setup.learner.sends:
        case "metrics":
            return EvolutionServer(setup, world)
        case "clicks":
            return CentralServer(setup, world)
        case _:
            return FedAvgServer(setup, world)


def make_senders(setup: Setup, world: ClientData, *, sampled: bool = False) -> Senders:
    """Fresh clients of a setup's learner, with deterministic or sampled lists.

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
