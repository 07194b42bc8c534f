"""A server that lets clients train on features made to be read from their updates."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from foltr_audit.core.records import Dataset
from foltr_audit.plugins import Server
from foltr_audit.privacy.noise import Gaussian
from foltr_audit.rng import ClientStreams
from foltr_audit.utils.arrays import Features, Floats, Ints

BITS = 20
"""Documents that share a column with `superincreasing`: a float32 holds sums of so many powers of two."""


class ManipulatingServer(Server):
    """Clients rank by the true features of documents and train on others, which the server makes up.

    An update is a sum over documents of a weight, which depends on the clicks, times the features of the
    document. The more these differ, the more of the clicks it tells:

    - `random`: a share `alpha` of the columns holds draws from a normal distribution of deviation `sd`.
    - `blocks`: the interaction number b of a client in a round has normal draws in block b of the columns,
      and 0 elsewhere. So each block of an update is that of one list, and no list changes the scores of
      another one.
    - `superincreasing`: a column of block b holds powers of two, up to `sd`, of up to 20 documents of a
      query, and 0 of all others, so that a sum says which terms it has.

    All clients receive the same model and the same features, so secure aggregation does not notice. Only a
    client that compares what it trains on with what it ranks by can (`guard`). What the ranker learns is
    worth less.

    Source: Pham et al. 2025, "RAIFLE: Reconstruction attacks on interaction-based federated learning with
    adversarial data manipulation", NDSS, section IV-C.
    """

    name: ClassVar[str] = "manipulate"

    features: Literal["random", "blocks", "superincreasing"] = Field(
        "blocks", description="what clients train on: random, blocks or superincreasing"
    )
    alpha: float = Field(1.0, gt=0, le=1, description="share of the columns that `random` replaces")
    sd: float = Field(0.1, gt=0, description="deviation of the draws, or an upper limit of the powers of two")
    blocks: int = Field(8, ge=1, le=1000, description="blocks of columns, one for each interaction in turn")

    def training_features(self, data: Dataset, draws: ClientStreams) -> tuple[Features, ...]:
        if self.features == "superincreasing":
            return tuple(self._powers(data, columns) for columns in self._columns(data.n_features))
        drawn = Gaussian(sigma=self.sd).sample(draws, data.n_features)
        if self.features == "random":
            changed = data.features.astype(np.float64)
            columns = np.arange(data.n_features) < round(self.alpha * data.n_features)
            changed[:, columns] = drawn[:, columns]
            return (changed,)
        every = np.arange(data.n_features)
        return tuple(np.where(np.isin(every, part), drawn, 0.0) for part in self._columns(data.n_features))

    def _columns(self, width: int) -> list[Ints]:
        return [part for part in np.array_split(np.arange(width), min(self.blocks, width)) if part.size]

    def _powers(self, data: Dataset, columns: Ints) -> Floats:
        place = np.arange(data.n_documents) - np.repeat(data.offsets[:-1], data.lengths)
        out = np.zeros((data.n_documents, data.n_features))
        column = columns[place // BITS % columns.size]
        largest = math.floor(math.log2(self.sd))
        out[np.arange(place.size), column] = np.ldexp(1.0, largest - place % BITS)
        return out
