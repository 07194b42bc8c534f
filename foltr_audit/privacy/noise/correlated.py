"""Gaussian noise for the sums of all rounds of a run, correlated from round to round."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from foltr_audit.privacy.factorization import square_root_coefficients
from foltr_audit.privacy.noise.gaussian import Gaussian
from foltr_audit.rng import ClientStreams
from foltr_audit.utils.arrays import Floats

_RUNS = 8  # whose last rounds are remembered

StreamOf = Callable[[int], ClientStreams]
"""The server's stream of a round."""


@dataclass
class _LastRounds:
    """The noise of a run's last rounds, float64 (bands - 1, P), the next round's number in `following`."""

    noise: Floats
    following: int = 0


@dataclass
class CorrelatedGaussian:
    """The noise `C^-1 z` of every round, in any order of rounds, from the streams of the rounds alone.

    Row t is `z_t - sum_k c_k N_(t-k)` over the bands k >= 1: `C N = z`. The last rounds of a few runs are
    remembered, so that a run costs `bands` additions a round; after a jump, as when a run is resumed, the
    rows are computed again from the first round, with the same bytes.

    Source: see `foltr_audit.privacy.factorization`.
    """

    _runs: OrderedDict[tuple[object, ...], _LastRounds] = field(default_factory=OrderedDict)

    def of_round(self, round_: int, sigma: float, bands: int, size: int, stream: StreamOf) -> Floats:
        """The noise of one round, float64 (size,).

        Args:
            round_: number of the round, from 0.
            sigma: standard deviation of the independent noise z.
            bands: bands of C; with 1 rounds are independent.
            size: coordinates P.
            stream: the stream that the row of z of a round is drawn from.
        """
        law = Gaussian(sigma=sigma)
        if bands == 1:
            return np.asarray(law.sample(stream(round_), size)[0])
        first = stream(0)
        key = (first.key, first.purpose, sigma, bands, size)
        last = self._runs.pop(key, None)
        if last is None or last.following > round_:
            last = _LastRounds(np.zeros((bands - 1, size)))
        weights = square_root_coefficients(bands)[:0:-1, np.newaxis]
        row = np.zeros(size)
        for following in range(last.following, round_ + 1):
            row = law.sample(stream(following), size)[0] - (weights * last.noise).sum(axis=0)
            last.noise[:-1] = last.noise[1:]
            last.noise[-1] = row
        last.following = round_ + 1
        self._runs[key] = last
        while len(self._runs) > _RUNS:
            self._runs.popitem(last=False)
        return row.copy()
