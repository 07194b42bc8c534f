"""Which kind of round a learner has."""

from __future__ import annotations

from foltr_audit.records import Dataset
from foltr_audit.setup import Setup
from foltr_audit.training.base import Senders, Training
from foltr_audit.training.clicks import Central, ClickSenders
from foltr_audit.training.metrics import Evolution, MetricSenders
from foltr_audit.training.models import FedAvg, ModelSenders


def training(setup: Setup) -> Training:
    """The rounds of a setup's learner.

    Raises:
        UsageError: it cannot learn here.
    """
    match setup.learner.sends:
        case "metrics":
            return Evolution(setup)
        case "clicks":
            return Central(setup)
        case _:
            return FedAvg(setup)


def senders(setup: Setup, click_model: str, data: Dataset) -> Senders:
    """Fresh clients of a setup's learner, who are shown deterministic lists."""
    match setup.learner.sends:
        case "metrics":
            return MetricSenders(setup, click_model, data)
        case "clicks":
            return ClickSenders(setup, click_model, data)
        case _:
            return ModelSenders(setup, click_model, data, sampled=False)
