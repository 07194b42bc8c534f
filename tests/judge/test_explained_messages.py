"""Steps of every click pattern, by the replay and by sums over pairs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from foltr_audit.inference.replay import Replay
from foltr_audit.judge.explained_messages import PdgdSteps, coefficients
from tests.fixtures import tiny


@pytest.mark.parametrize("pairs", ["all", "last-click+1"])
@pytest.mark.parametrize("normaliser", ["shown", "candidates"])
def test_steps_of_all_patterns_are_those_of_the_replay(pairs: str, normaliser: str) -> None:
    seen = tiny.view(6, seed=4, k=5)
    known = replace(seen.knowledge, pairs=pairs, normaliser=normaliser)
    view = replace(seen, knowledge=known)
    pdgd, replay = PdgdSteps(view), Replay(view)
    for i in range(len(view)):
        ((_, updates, _),) = pdgd.of(i)
        length = int(replay.lengths[i, 0])
        for pattern in range(1 << length):
            clicks = np.zeros((1, 5), dtype=np.bool_)
            clicks[0, :length] = (pattern >> np.arange(length)) & 1
            stepped = replay.step(view.parameters[[i]], np.array([i]), 0, clicks)[0] - view.parameters[i]
            np.testing.assert_allclose(updates[pattern], stepped, rtol=0, atol=1e-14)


def test_coefficients_are_sums_over_pairs() -> None:
    rng = np.random.default_rng(2)
    weights = rng.random((4, 4))
    weights = np.triu(weights, 1) + np.triu(weights, 1).T
    clicks = np.array([[False, True, False, False]])
    (found,) = coefficients(weights, clicks, only_observed=True)
    assert found == pytest.approx([-weights[0, 1], weights[0, 1] + weights[1, 2], -weights[1, 2], 0.0])
