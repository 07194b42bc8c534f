"""How a round goes, by what clients send: models, online metrics, or the clicks themselves."""

from foltr_audit.training.base import Senders, Training
from foltr_audit.training.choose import senders, training

__all__ = ["Senders", "Training", "senders", "training"]
