"""Clients that click in different ways, as one click model; and which models a kernel can play."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from foltr_audit.core.click_models import CascadeClickModel
from foltr_audit.core.plugins import ClickModel
from foltr_audit.core.plugins.answers import clicks_of
from foltr_audit.rng import ClientStreams
from foltr_audit.utils.arrays import Bools, Floats, Ints

Tables = tuple[Floats, Floats]


class ClickModelMixture(ClickModel):
    """Several click models: grade r of a list that model m clicks on is given as `m (L + 1) + r`.

    L is the largest label of the collection.
    """

    name: ClassVar[str] = "mixture"

    models: tuple[ClickModel, ...]

    def click(self, labels: Ints, largest_label: int, streams: ClientStreams, step: int) -> Bools:
        """Clicks on each list by its own model, bool (C, k)."""
        stride = largest_label + 1
        number = labels.max(axis=1, initial=0) // stride
        clicks = np.zeros(labels.shape, dtype=np.bool_)
        for m, model in enumerate(self.models):
            rows = np.flatnonzero(number == m)
            mine = np.where(labels[rows] >= 0, labels[rows] % stride, -1)
            clicks[rows] = clicks_of(model, mine, largest_label, streams.at(rows), step)
        return clicks


def declared_tables(model: ClickModel, largest_label: int) -> Tables | None:
    """P(click | grade) and P(stop | click, grade) for kernels, (G,) each; None where code must be asked."""
    if isinstance(model, ClickModelMixture):
        every = [declared_tables(each, largest_label) for each in model.models]
        known = [tables for tables in every if tables is not None]
        if len(known) < len(every):
            return None
        click, stop = (
            np.concatenate([each[: largest_label + 1] for each in side]) for side in zip(*known, strict=True)
        )
        return click, stop
    if isinstance(model, CascadeClickModel) and type(model).click is CascadeClickModel.click:
        return model.tables(largest_label)
    return None
