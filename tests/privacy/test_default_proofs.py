"""The losses that a noise law proves by default."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from foltr_audit.privacy.loss.losses import Norms, PureLoss, SensitivityBound
from foltr_audit.privacy.noise import AdditiveNoise


class _Stair(AdditiveNoise):
    """A law of somebody else on a grid, which states its worst loss only."""

    name: ClassVar[str] = "stair"
    scale = 1.0
    variance = 1.0
    text = "stair:scale=1"
    grid = 0.5

    def log_density(self, x: ArrayLike) -> NDArray[np.float64]:
        return -np.abs(np.asarray(x, dtype=np.float64))

    def sample(self, streams: object, size: int) -> NDArray[np.float64]:
        raise NotImplementedError

    def summed(self, count: int) -> AdditiveNoise:
        return self

    def worst_loss(self, shifts: ArrayLike) -> NDArray[np.float64]:
        return np.abs(np.asarray(shifts, dtype=np.float64))


@pytest.mark.parametrize(("grid", "stretch", "proven"), [(0.5, 1.0, 3.0), (0.0, 1.0, None), (0.5, 2.0, None)])
def test_a_law_that_states_its_worst_loss_only_proves_it_on_its_grid(
    grid: float, stretch: float, proven: float | None
) -> None:
    hidden = SensitivityBound(
        apart=Norms(3.0, 2.0, 1.0), parameters=3, grid=grid, where="on each message", stretch=stretch
    )
    (proof,) = _Stair().proofs(hidden)
    assert proof.loss == (None if proven is None else PureLoss(proven))
