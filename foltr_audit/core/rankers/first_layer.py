"""Where the first layer of a neural ranker lies in its flat vector of parameters."""

from __future__ import annotations

from typing import NamedTuple

from foltr_audit.utils.arrays import Floats


class FirstLayer(NamedTuple):
    """The place of a first layer and of the weights that follow its units.

    Attributes:
        start: index of the first weight; the weights W1 (units, inputs) follow row by row.
        units: number of units.
        inputs: number of inputs of each unit, the features of a document.
        output: index of the first of the `units` weights of the score, for a network with one hidden layer;
            None for a deeper one, and for a linear ranker, whose score is its one unit.
        bias: index of the first of the `units` biases; None without biases.
    """

    start: int
    units: int
    inputs: int
    output: int | None = None
    bias: int | None = None

    @property
    def stop(self) -> int:
        """Index after the last weight."""
        return self.start + self.units * self.inputs

    def rows(self, vectors: Floats) -> Floats:
        """The first layer's part of vectors (n, P), (n, units, inputs)."""
        return vectors[:, self.start : self.stop].reshape(len(vectors), self.units, self.inputs)

    def problem(self, parameters: int, features: int) -> str | None:
        """Why it does not fit P parameters and documents of d features, or None."""
        if self.inputs != features:
            return f"its first layer has {self.inputs} inputs, and documents have {features} features"
        last = max(place for place in (self.stop, (self.output or 0) + self.units) if place)
        if min(self.start, self.units) < 0 or last > parameters:
            return f"its first layer ends at number {last} of {parameters} parameters"
        return None
