"""Users of the plain loops of `plain_central` and `plain_evolution`: their queries and how they click."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.plain_loop import PlainLoop, cascade_clicks
from foltr_audit.core.click_models import CascadeClickModel
from foltr_audit.core.plugins import ClickModel
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.records import Collection
from foltr_audit.utils.arrays import Floats


def click_setting(name: str, largest_label: int) -> tuple[Floats, Floats]:
    """P(click | grade) and P(stop | click, grade) of a cascade model, each (G,).

    Raises:
        TypeError: another kind of click model.
    """
    model = make(ClickModel, name)
    if not isinstance(model, CascadeClickModel):
        raise TypeError(f"{name} is no cascade model")
    click, stop = model.setting(largest_label)
    return np.asarray(click), np.asarray(stop)


@dataclass(frozen=True, eq=False)
class PlainUsers:
    """Queries given as separate arrays, and a cascade click model.

    Attributes:
        features: float64 (documents, P) of each query.
        labels: grades of each query's documents.
        click, stop: P(click | grade) and P(stop | click, grade).
    """

    features: list[Floats]
    labels: list[NDArray[np.int64]]
    click: Floats
    stop: Floats

    @classmethod
    def of(cls, collection: Collection, click_model: str) -> PlainUsers:
        """Users who search the training part."""
        features, labels = PlainLoop.queries_of(collection.train)
        return cls(features, labels, *click_setting(click_model, collection.largest_label))

    def asked(self, size: int | tuple[int, int], rng: np.random.Generator) -> NDArray[np.int64]:
        """Queries drawn uniformly with replacement."""
        return rng.integers(len(self.features), size=size)

    def clicks(self, query: int, shown: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.bool_]:
        """Clicks on a list (k,) of a query's documents."""
        return cascade_clicks(self.labels[query][shown], self.click, self.stop, rng)
