"""A small source, and helpers to look into a cache of data; the fixtures are in conftest."""

from __future__ import annotations

from mmap import mmap
from pathlib import Path

import numpy as np

from foltr_audit.core.records import Collection
from foltr_audit.core.spec.data import DataSpec
from foltr_audit.data.load import load_collection

PARTS = ("train", "vali", "test")
TEXT = "".join(f"{row % 3} qid:{query} 1:{query + row} 2:{row}.5 #docid = D{query}-{row}\n"
               for query in range(12) for row in range(3))  # fmt: skip


def load(
    source: Path | str,
    how: str = "zscore",
    *,
    seed: int = 1,
    cache: bool = True,
    intents: Path | str | None = None,
) -> Collection:
    """Load a source as the commands do."""
    judged = None if intents is None else str(intents)
    data = {"source": str(source), "normalise": how, "intents": judged}
    return load_collection(DataSpec.model_validate(data), seed, cache=cache)


def contents(place: Path) -> list[Path]:
    return sorted(path for path in place.iterdir() if path.is_dir() and not path.name.startswith("."))


def names(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir())


def is_mapped(collection: Collection) -> bool:
    owner: object = collection.test.features
    while isinstance(owner, np.ndarray):
        owner = owner.base
    return isinstance(owner, mmap)


def assert_same(one: Collection, other: Collection) -> None:
    for fact in ("source", "synthetic", "fold", "fingerprint", "normalised", "intents_from"):
        assert getattr(one, fact) == getattr(other, fact)
    for name in PARTS:
        first, second = one.part(name), other.part(name)
        assert first.fingerprint == second.fingerprint
        assert first.query_ids == second.query_ids
        assert tuple(first.document_ids) == tuple(second.document_ids)
        assert type(first.query_ids) is type(second.query_ids)
