"""A small collection with categories, of which topic splits have all their parts."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from foltr_audit.core.records import Collection, Dataset
from foltr_audit.core.records.dataset import joint_fingerprint
from foltr_audit.data.letor.reader import write_letor

CATEGORY = 2
"""The feature that is the category: 3, 5 or 8."""


def _part(queries: int, seed: int) -> Dataset:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(12, 20, queries)
    query = np.repeat(np.arange(queries), lengths)
    main = rng.choice(3, size=queries, p=[0.5, 0.3, 0.2])
    foreign = rng.random(queries)[query] < 0.7  # whether the query has documents of other categories
    place = np.where(foreign & (rng.random(query.size) < 0.5), rng.integers(0, 3, query.size), main[query])
    features = rng.normal(size=(query.size, 5)).round(3)
    wanted = np.where(place == 0, features[:, 0], -features[:, 2]) + 0.3 * rng.normal(size=query.size)
    features[:, CATEGORY - 1] = np.array([3, 5, 8])[place]
    labels = np.clip(np.floor(wanted + 0.3), 0, 3).astype(np.int64)
    return Dataset(
        features=features.astype(np.float32),
        labels=labels,
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        query_ids=tuple(str(seed * 1000 + number) for number in range(queries)),
        document_ids=("",) * query.size,
    )


@cache
def topical() -> Collection:
    """80, 50 and 50 queries of 12 to 19 documents with five features."""
    parts = [_part(80, 1), _part(50, 2), _part(50, 3)]
    return Collection(
        train=parts[0],
        vali=parts[1],
        test=parts[2],
        source="topical",
        synthetic=False,
        fold=0,
        fingerprint=joint_fingerprint(parts),
    )


def write_topical(folder: Path) -> Path:
    """The same as LETOR files."""
    for name in Collection.PARTS:
        write_letor(topical().part(name), folder / f"{name}.txt")
    return folder
