"""Rounds, by what clients send: models, online metrics, or the clicks themselves."""

from foltr_audit.simulation.training.base import Senders, TrainingServer
from foltr_audit.simulation.training.kinds import make_senders, make_server

__all__ = ["Senders", "TrainingServer", "make_senders", "make_server"]
