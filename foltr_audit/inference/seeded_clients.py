"""Clients of FOLtR-ES, replayed from the seed that they send."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from foltr_audit.core.records.view import Knowledge, View
from foltr_audit.utils.arrays import Bools, Features, Floats, Ints, Words
from foltr_audit.utils.seed_generators import NUMPY_RANDOMSTATE, numpy_normals, numpy_state

SEED_BITS = 32
"""A seed of NumPy's RandomState is below 2^32."""


def perturbations(known: Knowledge, seeds: Words, parameters: int) -> Floats:
    """The perturbation that each seed (n,) makes of a model of P parameters, float64 (n, P).

    By foltr-audit's own streams, or by NumPy's RandomState, whose normal numbers are rounded to single
    precision (Kharitonov's published program); 0 for a seed that RandomState does not take.
    """
    sigma = float(known.sigma or 0.0)
    if known.perturbation != NUMPY_RANDOMSTATE:
        from foltr_audit.kernels.evolution import seed_normals

        return sigma * seed_normals(seeds, parameters)
    out, here = np.zeros((seeds.size, parameters)), is_seed(seeds)
    out[here] = numpy_normals(seeds[here], sigma, parameters)
    return out


def perturbed_scores(view: View) -> Floats:
    """Scores of the shown documents under the perturbed models of their lists, float64 (n, B, k)."""
    n, B, k = view.shown.shape
    seeds = np.zeros(n, dtype=np.uint64) if view.seeds is None else view.seeds
    moved = perturbations(view.knowledge, seeds, view.parameters.shape[1])
    later = np.arange(B) >= first_half(view)[:, np.newaxis]
    models = (
        view.parameters[:, np.newaxis] + np.where(later, -1.0, 1.0)[..., np.newaxis] * moved[:, np.newaxis]
    )
    pages = _ListDocuments(view.features.reshape(n * B * k, -1), k * np.arange(n * B + 1))
    scores, _ = view.ranker.scores(models.reshape(n * B, -1), pages, np.arange(n * B))
    return scores.reshape(n, B, k)


class _ListDocuments(NamedTuple):
    """Each list as the candidates of a separate query (`rankers.base.Documents`)."""

    features: Features
    offsets: Ints


def is_seed(seeds: Words) -> Bools:
    return np.asarray(seeds < np.uint64(1 << SEED_BITS))


def why_not_seeded(view: View) -> str | None:
    if view.knowledge.perturbation != NUMPY_RANDOMSTATE:
        return "the observer does not know that seeds drive NumPy's RandomState (fact perturbation)"
    if view.seeds is None or not is_seed(view.seeds).all():
        return f"it replays seeds of RandomState: expected one below 2^{SEED_BITS} in each message"
    return None


@dataclass(frozen=True, eq=False)
class SeededClients:
    """Clients that seed one RandomState by the seed they send, and draw queries and clicks from it.

    They draw in this order, interaction after interaction: the number of a query, evenly; then down the
    list for each document whether it is clicked and, if so, whether the user stops.
    """

    view: View

    @cached_property
    def seeds(self) -> Words:
        """The seed of each message, uint64 (n,); without any, one that RandomState does not take."""
        seeds = self.view.seeds
        return np.full(len(self.view), 1 << SEED_BITS, dtype=np.uint64) if seeds is None else seeds

    @property
    def queries(self) -> int:
        """Number of queries that a client draws from; 0 if it is not known."""
        candidates = self.view.candidates
        return 0 if candidates is None else candidates.offsets.size - 1

    def replayed(self) -> tuple[Bools, Bools]:
        """Clicks (n, B, k), and which lists (n, B) the seed explains: they answer the query that it draws."""
        n, B, k = self.view.shown.shape
        clicks, explained = np.zeros((n, B, k), np.bool_), np.zeros((n, B), np.bool_)
        candidates = self.view.candidates
        if candidates is None or not self.queries:
            return clicks, explained
        chances, order = self._chances, self.order
        for row in np.flatnonzero(is_seed(self.seeds)):
            state = numpy_state(int(self.seeds[row]))
            for b in range(B):
                if state.randint(0, self.queries) != candidates.query[row, b]:
                    break
                explained[row, b] = True
                places = order[row, b][self.view.is_document[row, b, order[row, b]]]
                for place in places:
                    click, stop = chances[:, row, b, place]
                    clicks[row, b, place] = state.uniform() < click
                    if clicks[row, b, place] and state.uniform() < stop:
                        break
        return clicks, explained

    @cached_property
    def _chances(self) -> Floats:
        """P(click | examined) and P(stop | clicked) of each shown document, float64 (2, n, B, k)."""
        belief, labels = self.view.knowledge.belief, self.view.labels
        if belief is None or labels is None:
            return np.zeros((2, *self.view.shown.shape))
        return np.stack(belief.by_grade(labels))

    @cached_property
    def order(self) -> Ints:
        """Indices of each list's documents in the order shown, int64 (n, B, k), padding last."""
        shown = self.view.shown
        if self.view.knowledge.order:
            return np.argsort(~self.view.is_document, axis=2, kind="stable")
        from foltr_audit.kernels.numpy_order import ascending

        ranks = np.full(shown.shape, shown.size)
        for b in range(shown.shape[1]):
            for row, scores in self._scores(b):
                # NumPy's order of equal scores, turned around as the clients do.
                ranked = np.argsort(ascending(scores.astype(np.float32))[::-1])
                here = self.view.is_document[row, b]
                ranks[row, b, here] = ranked[shown[row, b, here]]
        return np.argsort(ranks, axis=2, kind="stable")

    def _scores(self, b: int) -> list[tuple[int, Floats]]:
        """Scores of all candidates of list b at each message's perturbed model, with the message's row."""
        view, candidates = self.view, self.view.candidates
        if candidates is None:
            return []
        moved = perturbations(view.knowledge, self.seeds, view.parameters.shape[1])
        later = b >= first_half(view)
        models = view.parameters + np.where(later, -1.0, 1.0)[:, np.newaxis] * moved
        rows = np.flatnonzero(view.is_document[:, b].any(axis=1))
        models = models[rows].astype(np.float32).astype(np.float64)
        scores, starts = view.ranker.scores(models, candidates, candidates.query[rows, b])
        return [(int(row), scores[starts[i] : starts[i + 1]]) for i, row in enumerate(rows)]


def interactions(view: View) -> Ints:
    places = np.arange(1, view.shown.shape[1] + 1)
    return np.asarray(np.where(view.is_document.any(axis=2), places, 0).max(axis=1, initial=0))


def first_half(view: View) -> Ints:
    """How many interactions were at the perturbed model and not at the mirrored one, int64 (n,)."""
    count = interactions(view)
    return (count + 1) // 2 if view.knowledge.antithetic else count
