"""Compression: clients send their update in few bits per coordinate, or few coordinates of it."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from pydantic import Field, model_validator

from foltr_audit.plugins import Defense, NormBound, NormScaling, OpaqueChange, PrivacyEvent, RoundContext
from foltr_audit.utils.arrays import Floats

_MOST_LEVELS = 2**52  # so that every grid index is exact in float64


class Quantise(Defense):
    """Rounds each coordinate of the update up or down at random, without bias, to a grid in +-range.

    The grid is `levels` equally spaced values from -range to range, or the multiples of `step` in that range.
    Values beyond the last grid point are clipped to it; one that is no number becomes 0.

    Guarantees: none, for any relation, unit or view: random rounding is not differentially private. It
    bounds each coordinate of an update by `range`; the expectation is the update wherever that is in range.

    Source: Alistarh et al. 2017, "QSGD: communication-efficient SGD via gradient quantization and encoding",
    section 3.1.
    """

    name: ClassVar[str] = "quantise"

    range: float = Field(gt=0, description="largest size of a coordinate of the update")
    levels: int | None = Field(default=None, ge=2, le=_MOST_LEVELS, description="number of grid points")
    step: float | None = Field(default=None, gt=0, description="width of the grid, instead of levels")

    @model_validator(mode="after")
    def _grid_is_known(self) -> Quantise:
        if (self.levels is None) == (self.step is None):
            raise ValueError("expected either levels or step")
        if self.step is not None and not self.step <= self.range <= _MOST_LEVELS * self.step:
            raise ValueError(
                f"step={self.step:g} with range={self.range:g}; expected 1 to 2^52 steps in the range"
            )
        if not 0 < self.width < math.inf:
            raise ValueError(f"range={self.range:g}: no finite grid")
        return self

    @property
    def intervals(self) -> int:
        """Number of grid points minus 1."""
        if self.step is None:
            return (self.levels or 2) - 1
        # A ratio that should be whole may be rounded to just below: in floating point 0.3 / 0.1 < 3.
        return 2 * math.floor(self.range / self.step * (1.0 + 1e-12))

    @property
    def width(self) -> float:
        """Distance between neighbouring grid points."""
        return self.step or 2.0 * self.range / self.intervals

    def on_message(self, models: Floats, context: RoundContext) -> Floats:
        """The global model plus each update on the grid, float64 (C, P)."""
        middle = 0.5 * self.intervals
        with np.errstate(over="ignore"):
            updates = np.nan_to_num((models - context.parameters) / self.width)
        places = np.clip(updates, -middle, middle) + middle
        below = np.floor(places)
        # Rounds up with a probability equal to the fraction, so that the mean is the update.
        above = context.streams("quantise").uniform(models.shape[1]) < places - below
        return context.parameters + self.width * (below + above - middle)

    def message_bits(self, parameters: int, number: int) -> float:
        """Bits for the index of a grid point per parameter."""
        return float(parameters * math.ceil(math.log2(self.intervals + 1)))

    def events(self, context: RoundContext) -> tuple[PrivacyEvent, ...]:
        """An unknown change, and a bound on every coordinate of the update.

        `GridRounding` would be wrong: it means that messages are on a grid, and here only updates are.
        """
        last = 0.5 * self.width * self.intervals
        return (OpaqueChange(mechanism=self.name), NormBound(norm=last, ord=math.inf, of="update"))


class Sign(Defense):
    """Sends the sign of each coordinate of the update, times `scale`.

    Guarantees: none, for any relation, unit or view. It bounds each coordinate of an update by `scale`. A
    coordinate that did not change is sent as 0, which reveals a client that learnt nothing, and so is one
    that is no number.

    Source: Bernstein et al. 2018, "signSGD: compressed optimisation for non-convex problems", algorithm 1.
    """

    name: ClassVar[str] = "sign"

    scale: float = Field(gt=0, description="size of every coordinate that is sent")

    def on_message(self, models: Floats, context: RoundContext) -> Floats:
        """The global model plus or minus `scale`, float64 (C, P)."""
        with np.errstate(over="ignore"):
            updates = np.nan_to_num(models - context.parameters)
        return context.parameters + self.scale * np.sign(updates)

    def message_bits(self, parameters: int, number: int) -> float:
        """One of three values for each parameter: a sign, or no change."""
        return float(math.ceil(parameters * math.log2(3)))

    def events(self, context: RoundContext) -> tuple[PrivacyEvent, ...]:
        """An unknown change, and a bound on every coordinate of the update."""
        return (OpaqueChange(mechanism=self.name), NormBound(norm=self.scale, ord=math.inf, of="update"))


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
