"""A user: sees a sampled list of documents, and clicks on some of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from federated_search.letor_data import SearchQuery

CLICK_MODELS = {
    "perfect": ((0.0, 0.5, 1.0), (0.0, 0.0, 0.0)),
    "navigational": ((0.05, 0.5, 0.95), (0.2, 0.5, 0.9)),
    "informational": ((0.4, 0.7, 0.9), (0.1, 0.3, 0.5)),
}
"""P(click | grade) and P(stop | click, grade) for grades 0 to 2 (Oosterhuis & de Rijke 2018, table 1)."""


class SearchSession(NamedTuple):
    """One query of a user.

    Attributes:
        query: number of the query.
        shown: places of the shown documents among the candidates, (k,).
        features: features of the shown documents, (k, d) float32.
        clicks: which of them were clicked, (k,).
    """

    query: int
    shown: NDArray[np.int64]
    features: NDArray[np.float32]
    clicks: NDArray[np.bool_]


def search(
    query: SearchQuery, scores: NDArray[np.float64], click_model: str, length: int, rng: np.random.Generator
) -> SearchSession:
    """A list sampled from the Plackett-Luce model of the scores (n,), and the clicks on it."""
    # Scores plus Gumbel noise, sorted, are a draw from the Plackett-Luce model.
    shown = np.argsort(-(scores + rng.gumbel(size=scores.size)), kind="stable")[:length]
    clicks = cascade_clicks(query.grades[shown], click_model, rng)
    return SearchSession(query.number, shown, query.features[shown], clicks)


def cascade_clicks(
    grades: NDArray[np.int64], click_model: str, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """The clicks of a user who reads from the top, clicks by grade, and may stop after a click."""
    click, stop = CLICK_MODELS[click_model]
    clicks = np.zeros(grades.size, dtype=np.bool_)
    for place, grade in enumerate(grades):
        clicks[place] = rng.random() < click[grade]
        if clicks[place] and rng.random() < stop[grade]:
            break
    return clicks
