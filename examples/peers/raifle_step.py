"""The client step of Pham et al. 2025 (RAIFLE), computed by the program that they published; needs PyTorch.

    export FOLTR_AUDIT_PEER_RAIFLE=/path/to/raifle
    foltr-audit attack --trace trace --client-step raifle_step.py:step --method map --method raifle

Clicks may lie between 0 and 1, as in the published attack.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(os.environ["FOLTR_AUDIT_PEER_RAIFLE"]) / "code"))

from ranker import LinearPDGDRanker

LEARNING_RATE = 0.1


def step(model: np.ndarray, features: np.ndarray, clicks: np.ndarray) -> np.ndarray:
    """The update (P,) of a list of k documents (k, d) by its clicks (k,)."""
    ranker = LinearPDGDRanker(model.size)
    order = torch.arange(len(features))  # a recorded list is in the order that the learner weighs
    given = [torch.tensor(np.asarray(each, dtype=np.float32)) for each in (model, features, clicks)]
    gradient = ranker.grad(given[0], given[1], order, given[2])
    return LEARNING_RATE * gradient.detach().numpy().astype(np.float64)
