"""The client step of Pham et al. 2025 (RAIFLE), computed by the program that they published; needs PyTorch.

    export FOLTR_AUDIT_PEER_RAIFLE=/path/to/raifle
    foltr-audit attack --trace trace --client-step raifle_step.py:step --method map --method raifle

Clicks may lie between 0 and 1, as in the published attack.
"""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(os.environ["FOLTR_AUDIT_PEER_RAIFLE"]) / "code"))

from ranker import LinearPDGDRanker

LEARNING_RATE = 0.1


def step(model: np.ndarray, features: np.ndarray, clicks: np.ndarray) -> np.ndarray:
    """The update (P,) of a list of k documents (k, d) by its clicks (k,)."""
    ranker, parameters, rows, order, weights = _list(model.tobytes(), features.tobytes(), features.shape)
    given = torch.tensor(np.asarray(clicks, dtype=np.float32))
    gradient = ranker.grad(parameters, rows, order, given, weights)
    return LEARNING_RATE * gradient.detach().numpy().astype(np.float64)


@lru_cache(maxsize=8)
def _list(model: bytes, features: bytes, shape: tuple[int, int]) -> tuple[object, ...]:
    """What does not depend on clicks: ranker, parameters, rows, ranking, and the weights of position."""
    ranker = LinearPDGDRanker(shape[1])
    parameters = torch.tensor(np.frombuffer(model).astype(np.float32))
    rows = torch.tensor(np.frombuffer(features).reshape(shape).astype(np.float32))
    order = torch.arange(shape[0])  # a recorded list is in the order that the learner weighs
    scores = ranker.forward_multiple(parameters, rows)
    return ranker, parameters, rows, order, ranker.calc_log_pos_bias_weight(order, scores, shape[0])
