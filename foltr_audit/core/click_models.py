"""Click models: the cascade with its published settings, and mixtures of models.

Source: Guo, Liu & Wang 2009, "Efficient multiple-click models in web search", for the model; settings of
three and five grades: Oosterhuis & de Rijke 2018, table 1, as repeated by Wang et al. 2021 and Pham 2022,
table 3. With two grades it is the simplified dynamic Bayesian network of Chapelle & Zhang 2009, "A dynamic
Bayesian network click model for web search ranking"; its settings: Zhuang & Zuccon 2021, "How do online
learning to rank methods adapt to changes of intent?", table 2.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from foltr_audit.core.plugins import ClickModel
from foltr_audit.core.plugins.answers import clicks_of
from foltr_audit.errors import UsageError
from foltr_audit.rng import ClientStreams
from foltr_audit.utils.arrays import Bools, Floats, Ints

Probabilities = tuple[float, ...]
Tables = tuple[Floats, Floats]


class CascadeClickModel(ClickModel):
    """Reads a list from the top, clicks with a probability by grade, and may stop after a click.

    `click_given_grade` and `stop_given_grade` hold one setting per scale of grades (2: grades 0 and 1,
    3: grades 0-2, 5: grades 0-4). A collection uses the smallest scale that holds its largest label.
    """

    click_given_grade: ClassVar[tuple[Probabilities, ...]]
    stop_given_grade: ClassVar[tuple[Probabilities, ...]]

    @classmethod
    def setting(cls, largest_label: int) -> tuple[Probabilities, Probabilities]:
        """P(click | grade) and P(stop | click, grade) for a collection, from the smallest scale that fits."""
        for click, stop in zip(cls.click_given_grade, cls.stop_given_grade, strict=True):
            if largest_label < len(click):
                return click, stop
        highest = len(cls.click_given_grade[-1]) - 1
        raise UsageError(
            f"click model {cls.name}: no published setting for labels up to {largest_label}; "
            f"expected labels 0..{highest}"
        )

    @classmethod
    def tables(cls, largest_label: int) -> Tables:
        """`setting` as two arrays (G,), for kernels."""
        click, stop = cls.setting(largest_label)
        return np.array(click), np.array(stop)

    def click(self, labels: Ints, largest_label: int, streams: ClientStreams, step: int) -> Bools:
        """Clicks on each list, bool (C, k); two draws per position."""
        from foltr_audit.kernels.cascade import cascade_clicks

        click, stop = self.tables(largest_label)
        k = labels.shape[1]
        # Every position has its two draws, even below the place where a user stops. So step s begins at draw
        # 2 k s, and the clicks of one step never shift the draws of another.
        return cascade_clicks(labels, streams.uniform(2 * k, first=2 * k * step), click, stop)


class PerfectClickModel(CascadeClickModel):
    """Reads the whole list and clicks by relevance."""

    name: ClassVar[str] = "perfect"
    click_given_grade = ((0.0, 1.0), (0.0, 0.5, 1.0), (0.0, 0.2, 0.4, 0.8, 1.0))
    stop_given_grade = ((0.0,) * 2, (0.0,) * 3, (0.0,) * 5)


class NavigationalClickModel(CascadeClickModel):
    """Looks for one good document and usually stops after finding it."""

    name: ClassVar[str] = "navigational"
    click_given_grade = ((0.05, 0.95), (0.05, 0.5, 0.95), (0.05, 0.3, 0.5, 0.7, 0.95))
    stop_given_grade = ((0.2, 0.9), (0.2, 0.5, 0.9), (0.2, 0.3, 0.5, 0.7, 0.9))


class InformationalClickModel(CascadeClickModel):
    """Clicks on many documents, relevant or not."""

    name: ClassVar[str] = "informational"
    click_given_grade = ((0.3, 0.7), (0.4, 0.7, 0.9), (0.4, 0.6, 0.7, 0.8, 0.9))
    stop_given_grade = ((0.1, 0.5), (0.1, 0.3, 0.5), (0.1, 0.2, 0.3, 0.4, 0.5))


class ReversedClickModel(CascadeClickModel):
    """Reads the whole list and clicks on what is not relevant, as a malicious client does."""

    name: ClassVar[str] = "reversed"
    click_given_grade = ((1.0, 0.0), (1.0, 0.5, 0.0), (1.0, 0.8, 0.6, 0.2, 0.0))
    stop_given_grade = PerfectClickModel.stop_given_grade


class ClickModelMixture(ClickModel):
    """Several click models; each list has one of them.

    Grade r of a list with model m is encoded as `m (L + 1) + r`, with the largest label L of the collection.
    One array of labels thus holds both the grades and the model of each list.
    """

    name: ClassVar[str] = "mixture"

    models: tuple[ClickModel, ...]

    def click(self, labels: Ints, largest_label: int, streams: ClientStreams, step: int) -> Bools:
        """Clicks of each list's model, bool (C, k)."""
        stride = largest_label + 1
        number = labels.max(axis=1, initial=0) // stride  # all documents of a list name the same model
        clicks = np.zeros(labels.shape, dtype=np.bool_)
        for m, model in enumerate(self.models):
            rows = np.flatnonzero(number == m)
            # The padding is no code: -1 modulo L + 1 would be L, and padding would become the most relevant
            # grade.
            grades = np.where(labels[rows] >= 0, labels[rows] % stride, -1)
            clicks[rows] = clicks_of(model, grades, largest_label, streams.at(rows), step)
        return clicks


def declared_tables(model: ClickModel, largest_label: int) -> Tables | None:
    """P(click | grade) and P(stop | click, grade) for kernels, (G,) each; None if `click` is overridden."""
    if isinstance(model, ClickModelMixture):
        known = [tables for each in model.models if (tables := declared_tables(each, largest_label))]
        if len(known) < len(model.models):
            return None
        click, stop = zip(*known, strict=True)
        # The smallest published scale may hold more grades than the collection. A mixture counts L + 1 codes
        # for each model, so longer tables would shift those of the models behind.
        G = largest_label + 1
        return np.concatenate([each[:G] for each in click]), np.concatenate([each[:G] for each in stop])
    # A subclass with its own `click` may do something else than its tables say, so kernels must not use them.
    if isinstance(model, CascadeClickModel) and type(model).click is CascadeClickModel.click:
        return model.tables(largest_label)
    return None
