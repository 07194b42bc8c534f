"""What a server that learns from clicks itself gets, and what it makes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.records.round_context import RoundContext
from foltr_audit.rng import ClientStreams
from foltr_audit.utils.arrays import Bools, Floats, Ints

if TYPE_CHECKING:
    from foltr_audit.core.records.dataset import Dataset


@dataclass(frozen=True, kw_only=True, eq=False)
class Users:
    """Users who search one data set through one server, and click by a cascade model.

    Attributes:
        data: the data set.
        grades: what decides on clicks, for one way to click after the other, int8 (ways documents,).
        lifts: where in them the grades of each interaction begin, int64 (N,).
        click: P(click | grade), float64 (G,).
        stop: P(stop | click, grade), float64 (G,).
        clicks: the purpose of the random numbers of their clicks.
        context: the round; its `clients` are the numbers 0 .. N-1 of its interactions.
    """

    data: Dataset
    grades: NDArray[np.int8]
    lifts: Ints
    click: Floats
    stop: Floats
    clicks: str
    context: RoundContext

    def streams(self, purpose: str) -> ClientStreams:
        """One random stream per interaction for a purpose."""
        return self.context.streams(purpose)


@dataclass(frozen=True, kw_only=True, eq=False)
class CentralResult:
    """What a central learner made of the N interactions of a round.

    Attributes:
        parameters: the model afterwards, float64 (P,).
        state: what the learner remembers beside it, float64 (S,).
        shown: the lists, int64 (N, k), padded with -1.
        clicks: bool (N, k).
    """

    parameters: Floats
    state: Floats
    shown: Ints
    clicks: Bools
