"""How many of several clients clicked each document, from the sum of what they sent for one list."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from foltr_audit.decoding import Prior, density_table, noise_law, patterns_as_clicks
from foltr_audit.noise_laws import GammaShare, Gaussian, NoiseLaw, Rounding
from foltr_audit.records.belief import ClickBelief
from foltr_audit.records.view import Knowledge, View
from foltr_audit.replay import Replay

if TYPE_CHECKING:
    from foltr_audit.kernels.click_sums import Noise, Sums

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_CHUNK_NUMBERS = 1 << 22
_FAINT = 1e-5  # a residual that small, relative to what one client can add, is as good as none
_FARTHEST = 1e140  # sums count as at most that far from 0: their squares are numbers
_STEP = 1e-2  # by how much ln |x| moves where a slope is taken
_STEEP = 1e-7  # slopes from which a weight is told apart from rounding


def law_of_sum(known: Knowledge, clients: int) -> NoiseLaw:
    """The law of the noise in a sum over so many clients; unknown noise stays unknown."""
    law = noise_law(known)
    if isinstance(law, GammaShare):
        return replace(law, count=law.count * clients)
    if isinstance(law, Gaussian):
        return replace(law, sigma=law.sigma * clients**0.5)
    if isinstance(law, Rounding):
        return replace(law, resolution=law.resolution * clients**0.5)
    return law


def log_precision(law: NoiseLaw) -> Callable[[Floats], Floats]:
    """The logarithm of `-f'(x) / (x f(x))` of a law with density f.

    It is the mean precision given x where the law is a scale mixture of normals (Dempster, Laird & Rubin
    1980, section 2), and never rises with |x|. Below the point where it is lost in rounding, it is constant.
    """

    def steepness(x: Floats) -> Floats:
        ratio = np.exp(_STEP)
        near = law.log_density(x / ratio) - law.log_density(x * ratio)
        far = law.log_density(x / ratio**2) - law.log_density(x * ratio**2)
        return np.asarray((8 * near - far) / (12 * _STEP))

    grid = law.scale * 10.0 ** np.linspace(-8, 0, 81)
    steep = np.flatnonzero(steepness(grid) > _STEEP)
    least = float(grid[steep[0] if steep.size else -1])

    def logarithm(x: Floats) -> Floats:
        x = np.maximum(np.abs(x), least)
        return np.asarray(np.log(np.maximum(steepness(x), 1e-300)) - 2 * np.log(x))

    return logarithm


@lru_cache(maxsize=64)
def noise_tables(law: NoiseLaw) -> Noise:
    """The law for kernels."""
    from foltr_audit.kernels.click_sums import Noise
    from foltr_audit.kernels.density import tabulate

    density, precision = density_table(law), tabulate(log_precision(law), law.scale)
    return Noise(density.inverse_scale, density.cubics, precision.cubics)


@dataclass(frozen=True, eq=False)
class CountDecoder:
    """Decodes sums of updates: counts of clicks by document.

    A client's update is `J^T (s v) + (s - 1) theta`, v what PDGD makes of the clicks and s what the clip
    leaves. So the sum has k + 1 coefficients however long the model is, and they are sums over clients
    who do not know of each other.

    Attributes:
        view: sums of updates, one list each; `why_no_replay` must have found nothing against it.
        prior: what is believed of clicks before: grades usual at a `position`, known `relevance`, or
            `uniform`, any rate alike; a prior that the observer does not know falls back as in `Decoder`.
    """

    view: View
    prior: Prior = "position"

    @cached_property
    def replay(self) -> Replay:
        """The local steps."""
        return Replay(self.view)

    def counts(self, starts: Ints) -> Floats:
        """Expected clicks on each document, float64 (n, k).

        `starts` (S, k) are grades where a search for those of the shown documents begins, S >= 1.
        """
        n, B, k = self.view.shown.shape
        out = np.zeros((n, k))
        for rows in self._chunks() if B and k else ():
            noise = noise_tables(law_of_sum(self.view.knowledge, int(self.view.clients[rows[0]])))
            out[rows] = self._decoded(rows, noise, starts)
        return out

    def _chunks(self) -> Iterator[Ints]:
        """Sums over as many clients each, a bounded number of patterns at a time."""
        _, _, k = self.view.shown.shape
        size = max(1, (_CHUNK_NUMBERS >> k) // max(2 * k + 1, self.view.parameters.shape[1]))
        for clients in np.unique(self.view.clients):
            rows = np.flatnonzero(self.view.clients == clients)
            for first in range(0, rows.size, size):
                yield rows[first : first + size]

    def _decoded(self, rows: Ints, noise: Noise, starts: Ints) -> Floats:
        from foltr_audit.kernels.click_sums import counts_by_cascade, counts_by_moments
        from foltr_audit.kernels.grade_search import Grades, counts_by_grades

        sums, belief = self.sums(rows), self.view.knowledge.belief
        if self.prior == "uniform" or belief is None:
            return counts_by_moments(sums, noise, *_any_rate(sums))
        if self.prior == "relevance" and self.view.labels is not None:
            click, stop = belief.by_grade(self.view.labels[rows, 0])
            return counts_by_cascade(sums, noise, click, stop)
        grades = Grades(belief.click.copy(), belief.stop.copy(), _log_chances(belief, starts.shape[1]))
        return counts_by_grades(sums, noise, grades, starts)

    def sums(self, rows: Ints) -> Sums:
        """Some sums for kernels."""
        from foltr_audit.kernels.click_sums import Sums

        k = self.view.shown.shape[2]
        theta = self.view.parameters[rows]
        J = self.replay.jacobian(theta, rows, 0)
        design = np.concatenate([J.transpose(0, 2, 1), theta[:, :, np.newaxis]], axis=2)
        lengths = self.replay.lengths[rows, 0]
        steps = self._steps(rows)
        kept = self._kept(theta[:, np.newaxis] + steps @ J, lengths)
        clicks = np.broadcast_to(patterns_as_clicks(np.arange(1 << k), k), steps.shape)
        terms = np.concatenate([steps * kept, kept - 1.0, clicks], axis=2)
        most = np.abs(steps).max(axis=(1, 2)) * np.abs(J).max(axis=(1, 2))
        return Sums(
            received=np.clip(self.view.updates[rows], -_FARTHEST, _FARTHEST),
            design=np.ascontiguousarray(design),
            terms=terms,
            lengths=lengths,
            clients=self.view.clients[rows].copy(),
            floors=np.where(most > 0, _FAINT * most, 1.0),
        )

    def _steps(self, rows: Ints) -> Floats:
        """What PDGD's step adds to each document's coefficient for every pattern, (H, 2^k, k)."""
        k = self.view.shown.shape[2]
        weights = self.replay.weights(self.view.parameters[rows], rows, 0)
        clicks = patterns_as_clicks(np.arange(1 << k), k)
        last = np.where(clicks, np.arange(k), -1).max(axis=1, initial=-1)
        steps = np.zeros((rows.size, 1 << k, k))
        for at in range(k):
            observed = np.arange(k) < (at + 2 if self.replay.only_observed else k)
            W = weights * (observed[:, np.newaxis] & observed)
            L = W.sum(axis=2)[:, :, np.newaxis] * np.eye(k) - W
            here = last == at
            steps[:, here] = clicks[here].astype(np.float64) @ L
        return self.replay.learning_rate * steps

    def _kept(self, models: Floats, lengths: Ints) -> Floats:
        """What the clip leaves of every pattern's model (H, 2^k, P): shares (H, 2^k, 1)."""
        known = self.view.knowledge
        kept = np.ones((*models.shape[:2], 1))
        if known.clip is None:
            return kept
        size = np.linalg.norm(models, ord=known.clip.ord, axis=2, keepdims=True)
        np.divide(known.clip.norm, size, out=kept, where=size > known.clip.norm)
        if not known.clip_without_pairs:
            every = np.arange(len(lengths))
            kept[every, 0] = 1.0
            kept[every, (1 << lengths) - 1] = 1.0
        return kept


def _log_chances(belief: ClickBelief, k: int) -> Floats:
    """Log of how often each of k positions shows each grade, (k, G)."""
    chances = belief.grades[np.minimum(np.arange(k), len(belief.grades) - 1)]
    return np.log(np.maximum(chances, 1e-300))


def _any_rate(sums: Sums) -> tuple[Floats, Floats]:
    """Mean (n, q + k) of sums over clients and their covariance with the steps (n, q + k, q).

    Each document has a click rate of its own that all clients share, anything between 0 and 1 alike.
    """
    n, q, w = sums.lengths.size, sums.design.shape[2], sums.terms.shape[2]
    means, spreads = np.zeros((n, w)), np.zeros((n, w, q))
    for i in range(n):
        m, terms = int(sums.clients[i]), sums.terms[i, : 1 << sums.lengths[i]]
        average = terms.mean(axis=0)
        terms = terms - average
        alone = terms.T @ terms[:, :q] / len(terms)
        together = terms.T @ _of_another_client(terms[:, :q]) / len(terms)
        means[i], spreads[i] = m * average, m * alone + m * (m - 1) * together
    return means, spreads


def _of_another_client(terms: Floats) -> Floats:
    """Mean terms (2^L, q) of a second client of the same rates, given each pattern of the first.

    Who clicked is followed by a click two times out of three (Laplace's rule of succession).
    """
    shape = terms.shape
    for j in range(shape[0].bit_length() - 1):
        both = terms.reshape(-1, 2, 1 << j, shape[1])
        turned = both[:, ::-1]
        terms = ((2 * both + turned) / 3).reshape(shape)
    return terms
