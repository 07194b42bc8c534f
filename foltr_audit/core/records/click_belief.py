"""An observer's prior belief about clicks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr_audit.utils.arrays import Floats, Ints
from foltr_audit.utils.frozen_arrays import freeze

Probabilities = tuple[Floats, Floats]


@dataclass(frozen=True, kw_only=True, eq=False)
class ClickBelief:
    """A cascade click model, and the distribution of grades at each position.

    Grades of different positions are assumed independent. Clicks on a list of unknown grades then also follow
    a cascade, whose probabilities depend on the position.

    Source: Guo, Liu & Wang 2009, "Efficient multiple-click models in web search", section 3 (the cascade).

    Attributes:
        click: P(click | grade), float64 (G,).
        stop: P(stop | click, grade), float64 (G,).
        grades: P(grade | position), float64 (k, G).
    """

    click: Floats
    stop: Floats
    grades: Floats

    def __post_init__(self) -> None:
        freeze(self, click=np.float64, stop=np.float64, grades=np.float64)

    def by_position(self, k: int) -> Probabilities:
        """P(click | examined) and P(stop | clicked) at k positions with unknown grades, each (k,).

        Positions after the last row of `grades` use that row.
        """
        grades = self.grades[np.minimum(np.arange(k), len(self.grades) - 1)]
        click = np.einsum("kg,g->k", grades, self.click)
        both = np.einsum("kg,g->k", grades, self.click * self.stop)
        return click, np.divide(both, click, out=np.zeros_like(click), where=click > 0)

    def by_grade(self, labels: Ints) -> Probabilities:
        """The same for documents with known grades (..., k), each (..., k); 0 at the padding, grade -1."""
        grade = np.clip(labels, 0, self.click.size - 1)
        return np.where(labels >= 0, self.click[grade], 0.0), np.where(labels >= 0, self.stop[grade], 0.0)
