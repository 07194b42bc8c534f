"""What tests of worlds share: data with several intents, and clients that are not alike."""

from __future__ import annotations

import numpy as np

from foltr_audit.core.records import Collection, Dataset
from tests import toys


def with_intents(data: Dataset, intents: int = 3, seed: int = 5) -> Dataset:
    """The same documents, relevant or not under each intent at random."""
    grades = np.random.default_rng(seed).random((intents, data.n_documents)) < 0.3
    return data.with_intents(grades.astype(np.int64))


def intent_collection(intents: int = 3) -> Collection:
    """Three parts with several intents."""
    parts = (
        with_intents(toys.dataset(lengths, place, name), intents, place)
        for place, (name, lengths) in enumerate(toys.LENGTHS.items())
    )
    return toys.collection_of(*parts)
