"""Estimates how many clients clicked each document of one list from the sum of their updates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from foltr_audit.core.records.view import ClickBelief, Knowledge, View
from foltr_audit.inference.pattern_decoder import PatternDecoder, Prior, density_table, noise_law
from foltr_audit.privacy.noise import NoiseLaw, RoundingNoise, ScaleFreeNoise
from foltr_audit.utils.arrays import Floats, Ints

if TYPE_CHECKING:
    from foltr_audit.kernels.click_sums import SumNoiseTable, UpdateSums

# Chances are products in several orders, which differ in their last digits. Those that agree in twelve
# digits are merged: otherwise their number would multiply with every position.
_DIGITS = 12


def cascade_rates(click: Floats, stop: Floats) -> Floats:
    """Expected clicks per client on each document, (..., k), for probabilities as in `ClickBelief`."""
    read_on = np.cumprod(1.0 - click * stop, axis=-1)
    examined = np.concatenate([np.ones_like(click[..., :1]), read_on[..., :-1]], axis=-1)
    return np.asarray(examined * click)


def median_rates(belief: ClickBelief, k: int) -> Floats:
    """The median of each position's click rate, (k,), over the unknown grades of a list.

    The median has the least mean absolute error. The chance that a position is examined is a product over
    the grades above it, in any order, so it has few different values.
    """
    grades = belief.grades[np.minimum(np.arange(k), len(belief.grades) - 1)]
    examined, chances = np.ones(1), np.ones(1)
    medians = np.empty(k)
    for j in range(k):
        weights = chances[:, np.newaxis] * grades[j]
        rates = (examined[:, np.newaxis] * belief.click).reshape(-1)
        medians[j] = weighted_median(rates, weights.reshape(-1))
        below = np.round(examined[:, np.newaxis] * (1.0 - belief.click * belief.stop), _DIGITS)
        examined, place = np.unique(below.reshape(-1), return_inverse=True)
        chances = np.zeros(examined.size)
        np.add.at(chances, place.reshape(-1), weights.reshape(-1))
    return medians


def weighted_median(values: Floats, weights: Floats) -> float:
    """The smallest value such that it and all smaller values have at least half of the weight."""
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(total, 0.5 * total[-1])])


_CHUNK_NUMBERS = 1 << 22  # size of the tables of click patterns in one chunk: 32 MB
_FAINT = 1e-6  # smaller numbers, relative to the most that one client can add, count as 0
_NOTHING = 1e-100  # least value for the most that one client can add, which is a divisor
_FARTHEST = 1e140  # sums are clipped to this size, so that their squares are finite
_STEP = 1e-2  # step in ln |x| of the finite differences; their error is of order _STEP^4
_STEEP = 1e-7  # smaller slopes are lost in rounding


def law_of_sum(known: Knowledge, clients: int) -> NoiseLaw:
    """The law of the noise in a sum over some clients; unknown noise stays unknown."""
    law = noise_law(known)
    if isinstance(law, RoundingNoise):
        # Rounding errors of different clients are independent, so their variances add up.
        return replace(law, resolution=law.resolution * clients**0.5)
    return law if isinstance(law, ScaleFreeNoise) else law.summed(clients)


def steepness(law: NoiseLaw) -> Callable[[Floats], Floats]:
    """`- d ln f(x) / d ln |x|` of a law with density f.

    Divided by x^2, it is the mean precision given x if the law is a scale mixture of normals (Dempster,
    Laird & Rubin 1980, "Iteratively reweighted least squares for linear regression when errors are
    normal/independent distributed"). Near 0, where rounding hides it, that precision is constant.
    """

    def measured(x: Floats) -> Floats:
        ratio = np.exp(_STEP)
        near = law.log_density(x / ratio) - law.log_density(x * ratio)
        far = law.log_density(x / ratio**2) - law.log_density(x * ratio**2)
        return np.asarray((8 * near - far) / (12 * _STEP))

    grid = law.scale * 10.0 ** np.linspace(-8, 0, 81)
    steep = np.flatnonzero(measured(grid) > _STEEP)
    least = float(grid[steep[0] if steep.size else -1])

    def of(x: Floats) -> Floats:
        size = np.abs(x)
        return np.asarray(measured(np.maximum(size, least)) * np.minimum(size / least, 1.0) ** 2)

    return of


@lru_cache(maxsize=64)
def noise_tables(law: NoiseLaw) -> SumNoiseTable:
    from foltr_audit.kernels.click_sums import SumNoiseTable
    from foltr_audit.kernels.density import tabulate

    density, steep = density_table(law), steepness(law)
    return SumNoiseTable(
        density.inverse_scale, density.cubics, tabulate(lambda x: -steep(x), law.scale).cubics
    )


@dataclass(frozen=True, eq=False)
class CountDecoder:
    """Decodes sums of updates: counts of clicks by document.

    A client's update is `J^T (s v) + (s - 1) theta`, with v the coefficients that PDGD computes from the
    clicks and s the factor of the clip. So the sum has k + 1 coefficients, whatever the length of the
    model, and they are sums over independent clients. The prior is that of `PatternDecoder`, but uniform over
    rates.
    """

    view: View
    prior: Prior = "position"

    def counts(self, starts: Ints) -> Floats:
        """Expected clicks on each document, float64 (n, k).

        `starts` (S, k) are the grades of the shown documents from which searches start, S >= 1.
        """
        n, B, k = self.view.shown.shape
        out = np.zeros((n, k))
        for rows in self._chunks() if B and k else ():
            noise = noise_tables(law_of_sum(self.view.knowledge, int(self.view.clients[rows[0]])))
            out[rows] = self._decoded(rows, noise, starts)
        return out

    def _chunks(self) -> Iterator[Ints]:
        """Chunks of sums over equally many clients, with a bounded number of patterns."""
        _, _, k = self.view.shown.shape
        # All sums of a chunk have the same number of clients, which decides the law of the summed noise.
        size = max(1, (_CHUNK_NUMBERS >> k) // (2 * k + 1))
        for clients in np.unique(self.view.clients):
            rows = np.flatnonzero(self.view.clients == clients)
            for first in range(0, rows.size, size):
                yield rows[first : first + size]

    def _decoded(self, rows: Ints, noise: SumNoiseTable, starts: Ints) -> Floats:
        from foltr_audit.kernels.click_sums import (
            GradeBelief,
            counts_by_any_rate,
            counts_by_cascade,
            counts_by_grades,
        )

        sums, belief = self.sums(rows), self.view.knowledge.belief
        if self.prior == "uniform" or belief is None:
            return counts_by_any_rate(sums, noise)
        if self.prior == "relevance" and self.view.labels is not None:
            click, stop = belief.by_grade(self.view.labels[rows, 0])
            return counts_by_cascade(sums, noise, click, stop)
        grades = GradeBelief(belief.click.copy(), belief.stop.copy(), _log_chances(belief, starts.shape[1]))
        return counts_by_grades(sums, noise, grades, starts)

    def sums(self, rows: Ints) -> UpdateSums:
        from foltr_audit.kernels.click_sums import UpdateSums

        terms, design = PatternDecoder(self.view).coefficients(rows)
        documents = slice(self.view.shown.shape[2])
        most = np.abs(terms[:, :, documents]).max(axis=(1, 2)) * np.abs(design[..., documents]).max(
            axis=(1, 2)
        )
        return UpdateSums(
            received=np.clip(self.view.updates[rows], -_FARTHEST, _FARTHEST),
            design=np.ascontiguousarray(design),
            terms=terms,
            lengths=self.view.is_document[rows, 0].sum(axis=1),
            clients=self.view.clients[rows].copy(),
            finest=np.maximum(_FAINT * most, _NOTHING),
        )


def _log_chances(belief: ClickBelief, k: int) -> Floats:
    """Log of how often each of k positions shows each grade, (k, G)."""
    chances = belief.grades[np.minimum(np.arange(k), len(belief.grades) - 1)]
    # A grade that a position never shows gets a finite logarithm instead of -inf.
    return np.log(np.maximum(chances, 1e-300))
