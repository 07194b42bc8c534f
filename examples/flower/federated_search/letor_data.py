"""Queries with features and grades, from a LETOR file or made up."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class SearchQuery(NamedTuple):
    """The candidates of a query: features (n, d) float32, relevance grades (n,)."""

    number: int
    features: NDArray[np.float32]
    grades: NDArray[np.int64]


@lru_cache(maxsize=4)
def load_queries(folder: str, part: str = "train") -> tuple[SearchQuery, ...]:
    """The queries of `folder/part.txt`, numbered in the order of the file; made-up ones without a folder."""
    if not folder:
        return made_up_queries()
    rows: dict[str, list[tuple[int, list[float]]]] = {}
    for line in (Path(folder) / f"{part}.txt").read_text(encoding="utf-8").splitlines():
        grade, qid, *features = line.partition("#")[0].split()
        rows.setdefault(qid, []).append((int(grade), [float(pair.partition(":")[2]) for pair in features]))
    return tuple(
        SearchQuery(
            number,
            np.array([features for _, features in documents], dtype=np.float32),
            np.array([grade for grade, _ in documents]),
        )
        for number, documents in enumerate(rows.values())
    )


def made_up_queries(queries: int = 60, documents: int = 20, width: int = 46) -> tuple[SearchQuery, ...]:
    """Queries whose grades follow a hidden linear score, the same on every machine that makes them."""
    rng = np.random.default_rng(2026)
    hidden = rng.normal(size=width)
    found = []
    for number in range(queries):
        features = rng.random((documents, width)).astype(np.float32)
        ranks = np.argsort(np.argsort(features @ hidden))
        found.append(SearchQuery(number, features, (3 * ranks) // documents))
    return tuple(found)
