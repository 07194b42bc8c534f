"""The client step of Wang et al. 2021, computed by the program that they published.

    export FOLTR_AUDIT_PEER_FPDGD=/path/to/fpdgd-ictir2021
    export FOLTR_AUDIT_PEER_LETOR=mq2008/train.txt
    foltr-audit attack --trace trace --client-step fpdgd_ictir2021_step.py:step --method map

The published normaliser sums over all candidates of a query, which a step does not get: they are looked up by
the shown rows in the file that the second variable names. Without it the shown documents stand for them.
"""

from __future__ import annotations

import os
import sys
from functools import cache, lru_cache

import numpy as np

sys.path.insert(0, os.environ["FOLTR_AUDIT_PEER_FPDGD"])

from data.LetorDataset import LetorDataset
from ranker.PDGDLinearRanker import PDGDLinearRanker

LEARNING_RATE, SENSITIVITY = 0.1, 3.0


def step(model: np.ndarray, features: np.ndarray, clicks: np.ndarray) -> np.ndarray:
    """The update (P,) of a list of k documents (k, d) by its clicks (k,), each 0 or 1; without the clip."""
    return _update(model, features, clicks, clips=False)


def clipped_step(model: np.ndarray, features: np.ndarray, clicks: np.ndarray) -> np.ndarray:
    """The same with the clip, as where noise is on."""
    return _update(model, features, clicks, clips=True)


def _update(model: np.ndarray, features: np.ndarray, clicks: np.ndarray, *, clips: bool) -> np.ndarray:
    ranker = _ranker(model.size)
    ranker.assign_weights(model.copy())
    ranker.enable_noise_and_set_sensitivity(clips, SENSITIVITY)
    rows, shown = _candidates(features.tobytes(), features.shape)
    scores = ranker.get_scores(rows)
    gradient = ranker.update_to_clicks(
        np.asarray(clicks, dtype=np.float64), shown, scores, rows, return_gradients=True
    )
    ranker.update_to_gradients(gradient)
    return ranker.get_current_weights() - model


@cache
def _ranker(parameters: int) -> PDGDLinearRanker:
    return PDGDLinearRanker(parameters, LEARNING_RATE)


@cache
def _queries() -> list[np.ndarray]:
    """The candidates of each query."""
    if "FOLTR_AUDIT_PEER_LETOR" not in os.environ:
        return []
    data = LetorDataset(os.environ["FOLTR_AUDIT_PEER_LETOR"], 46)
    return [data.get_all_features_by_query(query) for query in data.get_all_querys()]


@lru_cache(maxsize=8)
def _candidates(shown: bytes, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """The candidates (n, d) of the query with these documents, and the place of each shown one among them."""
    features = np.frombuffer(shown).reshape(shape)
    for rows in _queries():
        same = np.all(np.abs(rows[np.newaxis] - features[:, np.newaxis]) < 1e-6, axis=2)
        if same.any(axis=1).all():
            return rows, _different_places(same)
    return features, np.arange(len(features))


def _different_places(same: np.ndarray) -> np.ndarray:
    """A place for each shown document (k,), no place twice, from where it fits (k, n): rows may be equal."""
    taken: list[int] = []
    for row in same:
        taken.append(next(int(place) for place in np.flatnonzero(row) if place not in taken))
    return np.array(taken)
