"""Input and output of a central learner, whose server learns from clicks."""

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
        grades: the grades that decide on clicks, one block of all documents for each combination of click
            model and intent, int8 (combinations * documents,).
        lifts: start of the block of each interaction in `grades`, int64 (N,).
        click: P(click | grade), float64 (G,).
        stop: P(stop | click, grade), float64 (G,).
        clicks: purpose of the random streams of clicks.
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
    """What a central learner computes from the N interactions of a round.

    Attributes:
        parameters: the model afterwards, float64 (P,).
        state: state of the learner in addition to the model, float64 (S,).
        shown: the lists, int64 (N, k), padded with -1.
        clicks: bool (N, k).
    """

    parameters: Floats
    state: Floats
    shown: Ints
    clicks: Bools
