"""The client step of Pham 2022, computed by the program that he published.

    export FOLTR_AUDIT_PEER_PHAM=/path/to/foltr-pdgd
    foltr-audit attack --trace trace --client-step foltr_pdgd_step.py:step --method map

The published gradient is a sum over pairs of documents. The part of each pair is computed once for a list.
"""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from itertools import permutations

import numpy as np

sys.path.insert(0, os.environ["FOLTR_AUDIT_PEER_PHAM"])

from ranker import LinearRanker

LEARNING_RATE, SENSITIVITY = 0.1, 3.0


def step(model: np.ndarray, features: np.ndarray, clicks: np.ndarray) -> np.ndarray:
    """The update (P,) of a list of k documents (k, d) by its clicks (k,), each 0 or 1; without the clip."""
    clicks = np.asarray(clicks, dtype=np.float64)
    pairs = clicks[:, np.newaxis] * (1 - clicks)
    return LEARNING_RATE * np.tensordot(pairs, _parts(model.tobytes(), features.tobytes(), features.shape))


def clipped_step(model: np.ndarray, features: np.ndarray, clicks: np.ndarray) -> np.ndarray:
    """The same with the clip after a list with pairs, as where noise is on."""
    local = model + step(model, features, clicks)
    if 0 < np.sum(clicks) < len(clicks):
        local = local * min(1.0, SENSITIVITY / np.linalg.norm(local))
    return local - model


@lru_cache(maxsize=8)
def _parts(model: bytes, rows: bytes, shape: tuple[int, int]) -> np.ndarray:
    """The gradient's part of each clicked document with each other one, (k, k, P)."""
    features = np.frombuffer(rows).reshape(shape)
    k, d = shape
    ranker, parts = LinearRanker(d, k, np.random.default_rng(0)), np.zeros((k, k, d))
    ranker.set_parameters(np.frombuffer(model).reshape(-1, 1))
    for clicked, other in permutations(range(k), 2):
        parts[clicked, other] = ranker.calculate_gradient(features, list(range(k)), [(clicked, other)])[:, 0]
    return parts
