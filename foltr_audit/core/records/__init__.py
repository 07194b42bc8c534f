"""Frozen records that the rooms hand to each other. Their arrays are read-only."""

from foltr_audit.core.records.dataset import Collection, Dataset
from foltr_audit.core.records.interactions import RoundRecord, RoundTruth

__all__ = ["Collection", "Dataset", "RoundRecord", "RoundTruth"]
