"""Coefficients of lists with far-apart weights: the shared scale gives every bit of the general functions."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from foltr_audit.kernels.jit import read_only
from foltr_audit.kernels.pdgd import pair_weights, pdgd_coefficients

K = 10


def general(
    scores: NDArray[np.float64], shown: NDArray[np.int64], clicks: NDArray[np.bool_], candidates: bool
) -> NDArray[np.float64]:
    """The coefficients (k,) of one list from the weights of all of its pairs."""
    starts = np.array([0, scores.size])
    [weights] = pair_weights(scores, starts, shown[np.newaxis], candidates)
    out = np.zeros(K)
    length = int((shown >= 0).sum())
    last = int(np.flatnonzero(clicks)[-1]) if clicks.any() else -2
    for p in range(min(last + 2, length)):
        for q in range(p + 1, min(last + 2, length)):
            if clicks[p] != clicks[q]:
                out[p] += weights[p, q] if clicks[p] else -weights[p, q]
                out[q] += weights[p, q] if clicks[q] else -weights[p, q]
    return out


@pytest.mark.parametrize("candidates", [False, True])
@pytest.mark.parametrize("spread", [150.0, 400.0, 590.0, 720.0, 1500.0])
def test_far_lists_have_the_bits_of_the_general_functions(spread: float, candidates: bool) -> None:
    rng = np.random.default_rng(int(spread))
    seen = 0
    for documents in (2, 9, 10, 11, 17, 60):
        for _ in range(20):
            # Both ends are shown, so that every list is far from the close ones, which have other sums.
            scores = rng.uniform(0, spread, documents)
            scores[:2] = 0.0, spread
            top = np.concatenate([[0, 1], 2 + rng.permutation(documents - 2)])[: min(K, documents)]
            shown = np.full(K, -1)
            shown[: top.size] = rng.permutation(top)
            clicks = (rng.random(K) < 0.3) & (shown >= 0)
            starts = np.array([0, documents])
            found, pairs = pdgd_coefficients(
                scores, starts, shown[np.newaxis], read_only(clicks[np.newaxis]), candidates, True
            )
            np.testing.assert_array_equal(found[0], general(scores, shown, clicks, candidates))
            assert np.isfinite(found).all()
            seen += int(pairs[0] > 0)
    assert seen > 40
