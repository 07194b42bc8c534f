"""A server whose model lets each hidden unit answer to few documents, so that an update shows them."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from foltr_audit.core.records import Dataset
from foltr_audit.plugins import FirstLayer, RoundContext, Server
from foltr_audit.privacy.noise import Gaussian
from foltr_audit.utils.arrays import Floats


class TrapWeightsServer(Server):
    """Sends all clients a neural model that it made up, in place of the one that it trains.

    The first layer's gradient at a unit is a sum over documents for which the unit is active: the document's
    weight in PDGD, which its click decides, times its features. The bias has the sum of the weights alone.
    So where one document is active, their ratio is the document, and their sign is its click:

    - `known`: all units look in one direction, which is drawn for each round, and their thresholds cut the
      documents of the collection into as many bins of equal size as there are units. The difference of the
      gradients at two neighbouring units is that of the documents in one bin.
    - `random`: half of the weights of a unit, drawn at random, are negative, and the others are smaller by
      `shrink`. Documents whose features are not below 0 then activate few units. The server needs to know
      no document.

    Scores are nearly 0, so lists are nearly random. All clients receive the same model, and its norm is
    small, so that neither masks that depend on the model nor a check of its norm notice. The server's own
    model stays as it was: it learns from the other rounds only.

    Source: `random` is Boenisch et al. 2023, "When the curious abandon honesty: Federated learning is not
    private", section 5 (trap weights); `known` is Fowl et al. 2022, "Robbing the fed: Directly obtaining
    private data in federated learning with modified models", section 4 (bins of an imprint module).
    """

    name: ClassVar[str] = "trap-weights"

    weights: Literal["known", "random"] = Field(
        "known", description="how units are chosen: by the known documents, or at random"
    )
    scale: float = Field(0.03, gt=0, le=1000, description="size of the weights after units, and before them")
    shrink: float = Field(
        0.6, gt=0, le=1, description="positive weights of a `random` unit over its negative ones"
    )
    every: int = Field(1, ge=1, le=1_000_000, description="rounds from one such model to the next")

    def why_not(self, layer: FirstLayer) -> str | None:
        """Refuses rankers without hidden units, and with two layers of them."""
        if layer.output is not None and layer.bias is not None:
            return None
        return "it sets hidden units; expected --ranker neural:hidden=H with one hidden layer"

    def crafted_model(self, context: RoundContext, data: Dataset, layer: FirstLayer) -> Floats | None:
        """See `Server.crafted_model`. Fresh clients, who come after training, always receive such a model."""
        if layer.output is None or layer.bias is None:
            return None
        if not context.prefix and (context.round + 1) % self.every:
            return None
        weights, biases = (
            self._bins(context, data, layer.units) if self.weights == "known" else self._traps(context, layer)
        )
        model = np.zeros_like(context.parameters)
        model[layer.start : layer.stop] = self.scale * weights.ravel()
        model[layer.bias : layer.bias + layer.units] = self.scale * biases
        model[layer.output : layer.output + layer.units] = self.scale
        return model

    def _bins(self, context: RoundContext, data: Dataset, units: int) -> tuple[Floats, Floats]:
        """Weights (units, features) in one direction, and biases (units,) that cut it into bins.

        Sums over the documents have a deviation of 1, and the first unit is active for all of them.
        """
        draws = context.server_stream("trap weights", context.round)
        features = data.features.astype(np.float64)
        spread = features.std(axis=0)
        direction = Gaussian(sigma=1.0).sample(draws, data.n_features)[0]
        direction = np.divide(direction, spread, out=np.zeros_like(direction), where=spread > 0)
        sums = (features * direction).sum(axis=1)  # a product of matrices has other last digits elsewhere
        size = float(sums.std()) or 1.0
        places = np.unique(sums / size)
        # Halfway between two documents, so that rounding moves none of them to another bin.
        edges = np.concatenate([[places[0] - 1.0], (places[1:] + places[:-1]) / 2])
        chosen = edges[np.arange(units) * places.size // units]
        return np.tile(direction / size, (units, 1)), -chosen

    def _traps(self, context: RoundContext, layer: FirstLayer) -> tuple[Floats, Floats]:
        """Weights (units, features), half of them negative, and biases of 0."""
        units, width = layer.units, layer.inputs
        half = width // 2
        draws = context.server_stream("trap weights", context.round)
        sizes = np.abs(Gaussian(sigma=1.0).sample(draws, units * half)[0].reshape(units, half))
        tickets = context.server_stream("trap places", context.round).uniform(units * width)[0]
        order = np.argsort(tickets.reshape(units, width), axis=1, kind="stable")
        weights = np.zeros((units, width))
        np.put_along_axis(weights, order[:, :half], -sizes, axis=1)
        np.put_along_axis(weights, order[:, half : 2 * half], self.shrink * sizes, axis=1)
        return weights, np.zeros(units)
