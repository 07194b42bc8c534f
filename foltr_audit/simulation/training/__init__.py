"""How a round goes, by what clients send: models, online metrics, or the clicks themselves."""

from foltr_audit.simulation.training.base import Senders, TrainingServer
from foltr_audit.simulation.training.kinds import senders, training

__all__ = ["Senders", "TrainingServer", "senders", "training"]
