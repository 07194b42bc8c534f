"""A small neural ranker in PyTorch that learns from clicks by a listwise softmax loss.

Source of the loss: Cao et al. 2007, "Learning to rank: from pairwise approach to listwise approach", section
4.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

Floats = NDArray[np.float64]

HIDDEN = 16


def new_network(width: int, seed: int = 1) -> nn.Module:
    """A network from `width` features to one score; 769 parameters of 46 features."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(width, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1))


def listwise_loss(scores: torch.Tensor, clicks: torch.Tensor) -> torch.Tensor:
    """Minus the log probability of each clicked document; scores and clicks (k,)."""
    return -(clicks * torch.log_softmax(scores, dim=0)).sum()


class ListwiseLearner:
    """The network as a client trains it: one step of gradient descent after each list."""

    def __init__(self, width: int, learning_rate: float) -> None:
        self.network = new_network(width).double()
        self.learning_rate = learning_rate

    def scores(self, model: Floats, features: Floats) -> Floats:
        """Scores (n,) of documents with features (n, d) under a model (P,)."""
        vector_to_parameters(torch.from_numpy(model), self.network.parameters())
        with torch.no_grad():
            return self.network(torch.from_numpy(features)).squeeze(-1).numpy()

    def update(self, model: Floats, features: Floats, clicks: NDArray[np.bool_]) -> Floats:
        """The change (P,) of the model after a list with features (k, d) and clicks (k,)."""
        vector_to_parameters(torch.from_numpy(model), self.network.parameters())
        optimiser = torch.optim.SGD(self.network.parameters(), lr=self.learning_rate)
        optimiser.zero_grad()
        scores = self.network(torch.from_numpy(features)).squeeze(-1)
        listwise_loss(scores, torch.from_numpy(clicks.astype(np.float64))).backward()
        optimiser.step()
        return parameters_to_vector(self.network.parameters()).detach().numpy() - model
