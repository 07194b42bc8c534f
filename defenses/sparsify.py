"""Sparsification: clients send only a few coordinates of their update."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from pydantic import Field

from foltr_audit.plugins import Defense, NormScaling, PrivacyEvent, RoundContext
from foltr_audit.utils.arrays import Floats


class TopK(Defense):
    """Sends the k largest coordinates of the update; the others stay as in the global model.

    Guarantees: none, for any relation, unit or view. No norm of an update grows, so an earlier bound on
    updates still holds, but one on models does not. The clicks decide which coordinates are sent, so this
    choice alone reveals something about them.

    Source: Aji & Heafield 2017, "Sparse communication for distributed gradient descent", section 3.
    """

    name: ClassVar[str] = "top-k"
    leaves_out: ClassVar[bool] = True

    k: int = Field(ge=1, description="number of coordinates sent; of equal sizes, the first")

    def on_message(self, models: Floats, context: RoundContext) -> Floats:
        """Models that differ from the global one in at most k coordinates, float64 (C, P)."""
        sizes = np.abs(models - context.parameters)
        kept = np.zeros(models.shape, dtype=np.bool_)
        # Stable, as the parameter promises: of equal sizes the first coordinates are sent.
        largest = np.argsort(-sizes, axis=1, kind="stable")[:, : self.k]
        np.put_along_axis(kept, largest, True, axis=1)
        return np.where(kept, models, context.parameters)

    def message_bits(self, parameters: int, number: int) -> float:
        """Bits for the values that are sent and for their indices."""
        places = math.ceil(math.log2(parameters)) if parameters > 1 else 0
        return float(min(self.k, parameters) * (number + places))

    def events(self, context: RoundContext) -> tuple[PrivacyEvent, ...]:
        """Updates never grow."""
        return (NormScaling(factor=1.0, of="update"),)


class RandomK(Defense):
    """Sends k coordinates of the update that are drawn for the round, the same for all clients.

    Guarantees: none, for any relation, unit or view. The coordinates are public and independent of the data,
    so their pattern reveals nothing. With `rescale` the update is multiplied by P / k: its expectation is
    then the whole update, and norms may grow by the same factor.

    Source: Konecny et al. 2016, "Federated learning: strategies for improving communication efficiency",
    section 2 (random mask); unbiased form: Stich, Cordonnier & Jaggi 2018, "Sparsified SGD with memory".
    """

    name: ClassVar[str] = "random-k"
    leaves_out: ClassVar[bool] = True

    k: int = Field(ge=1, description="number of coordinates sent")
    rescale: bool = Field(default=False, description="multiply what is sent by P / k")

    def _factor(self, coordinates: int) -> float:
        return max(1.0, coordinates / self.k) if self.rescale else 1.0

    def on_message(self, models: Floats, context: RoundContext) -> Floats:
        """Models that differ from the global one only in the round's coordinates, float64 (C, P)."""
        P = models.shape[1]
        # The stream of a fixed id, whoever takes part: all clients must leave out the same coordinates.
        everybody = np.zeros(1, dtype=np.int64)
        public = context.source.clients(f"{context.prefix}random-k", context.round, everybody)
        kept = np.zeros(P, dtype=np.bool_)
        kept[np.argsort(public.uniform(P)[0], kind="stable")[: self.k]] = True
        factor = self._factor(P)
        if factor > 1.0:
            models = context.parameters + factor * (models - context.parameters)
        return np.where(kept, models, context.parameters)

    def message_bits(self, parameters: int, number: int) -> float:
        """Bits for the values that are sent; their indices are public."""
        return float(min(self.k, parameters) * number)

    def events(self, context: RoundContext) -> tuple[PrivacyEvent, ...]:
        """Updates never grow, or by up to P / k if they are rescaled."""
        return (NormScaling(factor=self._factor(context.parameters.size), of="update"),)
