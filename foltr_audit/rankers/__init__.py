"""Rankers: parameters in, scores and Jacobians out."""

from foltr_audit.rankers.base import Ranker
from foltr_audit.rankers.choose import known_ranker, make_ranker, ranker_text

__all__ = ["Ranker", "known_ranker", "make_ranker", "ranker_text"]
