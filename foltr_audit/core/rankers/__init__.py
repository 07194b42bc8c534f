"""Rankers: they compute scores and Jacobians from parameters."""

from foltr_audit.core.rankers.base import Ranker
from foltr_audit.core.rankers.parse import known_ranker, make_ranker, ranker_text

__all__ = ["Ranker", "known_ranker", "make_ranker", "ranker_text"]
