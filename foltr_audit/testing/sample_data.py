"""Tiny data on which the contract suites run: ranking data, rounds, experiments."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.random import PCG64, Generator

from foltr_audit.core.plugins import RoundContext
from foltr_audit.core.records import Collection, Dataset
from foltr_audit.core.records.dataset import joint_fingerprint
from foltr_audit.core.settings.defaults import CLICK_MODELS, LEARNER, NO_DEFENSE, SCENARIO
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.rng import Streams
from foltr_audit.simulation.setup import Setup
from foltr_audit.utils.arrays import Ints

FEATURES = 6
LENGTHS = {
    "train": (1, 14, 7, 10, 2, 11, 5, 3, 13, 10, 4, 12),
    "vali": (12, 1, 10, 9, 14),
    "test": (10, 11, 3, 13, 8, 14),
}


def generator(seed: int) -> Generator:
    """A generator whose numbers the seed fixes."""
    return Generator(PCG64(seed))


def dataset(lengths: Sequence[int], seed: int, name: str = "q", largest: int = 2) -> Dataset:
    """Random queries of these lengths; labels follow the first feature and noise, twins included."""
    rng = generator(seed)
    rows = sum(lengths)
    features = rng.normal(size=(rows, FEATURES)).astype(np.float32)
    utility = features[:, 0] + 0.7 * rng.normal(size=rows)
    labels = np.clip(np.floor(1.5 * utility + 0.6), 0, largest).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    first = offsets[:-1][np.asarray(lengths) > 3]
    features[first + 1] = features[first + 2]
    labels[offsets[-2] :] = 0
    return Dataset(
        features=features,
        labels=labels,
        offsets=offsets,
        query_ids=tuple(f"{name}{i}" for i in range(len(lengths))),
        document_ids=("",) * rows,
    )


def collection_of(train: Dataset, vali: Dataset, test: Dataset) -> Collection:
    """Three parts as one fold."""
    return Collection(
        train=train,
        vali=vali,
        test=test,
        source="tiny",
        synthetic=True,
        fold=0,
        fingerprint=joint_fingerprint([train, vali, test]),
    )


def tiny_collection() -> Collection:
    """Queries of 1 to 14 documents, labels 0 to 2, six features; the last query of a part has no relevant."""
    train, vali, test = (dataset(LENGTHS[part], i, part) for i, part in enumerate(Collection.PARTS))
    return collection_of(train, vali, test)


def intent_collection() -> Collection:
    """The same data, judged under two intents: a document has its grade under one of them, or under both."""
    parts = []
    for i, part in enumerate(Collection.PARTS):
        data = dataset(LENGTHS[part], i, part)
        turn = generator(10 + i).integers(0, 3, size=data.n_documents)
        parts.append(data.with_intents(np.stack([np.where(turn == j, 0, data.labels) for j in range(2)])))
    return collection_of(*parts)


def context(
    clients: Sequence[int] | Ints,
    *,
    P: int = FEATURES,
    shares: int = 50,
    counts: Sequence[int] | None = None,
    seed: int = 1,
    round_: int = 3,
) -> RoundContext:
    """A round of these clients; by default all had four interactions, and 50 shares are reckoned with."""
    present = np.asarray(clients, dtype=np.int64)
    return RoundContext(
        round=round_,
        shares=shares,
        clients=present,
        counts=np.full(present.size, 4) if counts is None else np.asarray(counts),
        parameters=np.linspace(-1.0, 1.0, P),
        source=Streams(seed),
    )


def tiny_setup(
    *,
    learner: str = LEARNER,
    defense: tuple[str, ...] = (NO_DEFENSE,),
    message: str = "model",
    clients: int = 12,
    seed: int = 1,
    ranker: str = "linear",
    scenario: str = SCENARIO,
    collection: Collection | None = None,
) -> Setup:
    """Three rounds of a small experiment with plug-ins given by their texts; on `tiny_collection` if None."""
    spec = Spec.parse(
        {
            "seed": seed,
            "defense": defense,
            "data": {"source": "tiny", "normalise": "none"},
            "population": {"clients": clients, "scenario": scenario},
            "train": {"rounds": 3, "learner": learner, "ranker": ranker, "click_model": CLICK_MODELS[-1]},
            "trace": {"message": message, "dtype": "float64"},
        }
    )
    return Setup(spec, collection or tiny_collection())
