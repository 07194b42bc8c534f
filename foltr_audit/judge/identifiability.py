"""What a message can reveal to any attack: its equations, and clicks whose effect is lost in rounding."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from foltr_audit.core.plugins import View
from foltr_audit.inference.linear_systems import least_squares, roundings, singular_vectors, with_model_column
from foltr_audit.inference.replay import NEEDS, Replay, why_no_replay
from foltr_audit.utils.arrays import Bools, Floats, Ints

_FLOOR = 1e-10  # singular values below this, relative to the largest, count as 0
_SURE = 8.0  # rounding errors (standard deviations) that a weight must exceed


class Identifiability(NamedTuple):
    """Facts about each list of n messages of up to B lists.

    Attributes:
        independent: documents whose Jacobian is no combination of the others' in the message, bool (n, B, k).
        rank: rank of the message's columns, int64 (n, B), the same for all its lists.
        unknowns: its documents, int64 (n, B), the same for all its lists.
        faintest: PDGD coefficients below this are lost in the rounding of the message, float64 (n, B, k).
        weights: PDGD's pair weights at the global model, float64 (n, B, k, k); 0 where they are not known.
        only_first: lists whose message depends on their first click alone, bool (n, B).
    """

    independent: Bools
    rank: Ints
    unknowns: Ints
    faintest: Floats
    weights: Floats
    only_first: Bools

    def at(self, rows: tuple[Ints, Ints]) -> Identifiability:
        """The facts about some lists, by message and place; without messages about none."""
        return Identifiability._make(array[rows] for array in self)

    def told(self, clicks: Bools, observed: Bools) -> Bools:
        """Documents (L, k) of lists with these clicks that a message without noise reveals.

        The fields must have been picked for these lists. A document is revealed if its column is independent
        and it has no coefficient or one above rounding. In lists that send their first click alone, documents
        below it are not.
        """
        c = np.where(observed, np.where(clicks, 1.0, 0.0), 0.0)
        W = self.weights * (observed[:, :, np.newaxis] & observed[:, np.newaxis])
        coefficients = np.abs(np.einsum("lij,li->li", W, c) - np.einsum("lij,lj->li", W, c))
        below = self.only_first[:, np.newaxis] & (np.cumsum(clicks, axis=1) - clicks > 0)
        received = ~observed | (coefficients > self.faintest) | ~self._known
        return np.asarray(self.independent & received & ~below)

    @property
    def _known(self) -> Bools:
        return np.asarray(self.weights.any(axis=(1, 2)))[:, np.newaxis]


def identifiability(view: View) -> Identifiability:
    """What the messages of a view can reveal about their documents.

    Where a message has several lists, all are taken at the global model; the drift of the local model is
    ignored.
    """
    if view.kind in ("es", "clicks"):
        return _of_metrics(view) if view.kind == "es" else _of_clicks(view)
    n, B, k = view.shown.shape
    columns = view.columns
    if not columns.size:
        return nothing_identifiable(n, B, k)
    # Columns get one size first. The floor is relative to the largest singular value, and documents with
    # small features would fall below it, although scaling a column does not change which are independent.
    sizes = np.max(np.abs(columns), axis=1, keepdims=True, initial=0.0)
    scaled = np.divide(columns, sizes, out=np.zeros_like(columns), where=sizes > 0)
    _, s, Vt = singular_vectors(scaled)
    kept = s > _FLOOR * s.max(axis=1, keepdims=True, initial=0.0)
    inside = np.einsum("nr,nrm->nm", kept, Vt**2)  # 1 where a unit vector lies in the row space
    independent = (inside > 1 - 1e-6).reshape(n, B, k) & view.is_document
    rank = np.broadcast_to(kept.sum(axis=1)[:, np.newaxis], (n, B)).astype(np.int64)
    unknowns = np.broadcast_to(view.is_document.sum(axis=(1, 2))[:, np.newaxis], (n, B)).astype(np.int64)
    known = columns if view.knowledge.clip is None else with_model_column(view)
    fit = least_squares(known, view.click_updates, roundings(view), view.feature_resolution)
    errors = fit.errors[:, : B * k].reshape(n, B, k)
    faintest = _SURE * errors / (view.knowledge.learning_rate or 1.0)
    only_first = np.zeros((n, B), dtype=np.bool_)
    return Identifiability(independent, rank, unknowns, faintest, _pair_weights(view), only_first)


def _of_clicks(view: View) -> Identifiability:
    """Clicks that travel in clear reveal everything."""
    n, B, k = view.shown.shape
    documents = np.repeat(view.is_document.sum(axis=(1, 2))[:, np.newaxis], B, axis=1)
    facts = nothing_identifiable(n, B, k)
    return facts._replace(independent=view.is_document, rank=documents, unknowns=documents)


def _of_metrics(view: View) -> Identifiability:
    """Online metrics: a single one reveals its list, with MaxRR down to the first click.

    A mean of several metrics counts as revealing nothing. The rank counts the metrics that a message has.
    """
    n, B, k = view.shown.shape
    there = view.is_document.any(axis=2)
    count = np.where(there, np.arange(1, B + 1), 0).max(axis=1, initial=0)
    half = (count + 1) // 2 if view.knowledge.antithetic else count
    alone = (
        np.where(np.arange(B) < half[:, np.newaxis], half[:, np.newaxis], (count - half)[:, np.newaxis]) == 1
    )
    metrics = (half > 0).astype(np.int64) + (count > half)
    facts = nothing_identifiable(n, B, k)
    return facts._replace(
        independent=view.is_document & alone[..., np.newaxis],
        rank=np.repeat(metrics[:, np.newaxis], B, axis=1),
        unknowns=np.repeat(view.is_document.sum(axis=(1, 2))[:, np.newaxis], B, axis=1),
        only_first=np.full((n, B), view.knowledge.metric != "dcg"),
    )


def nothing_identifiable(n: int, B: int, k: int) -> Identifiability:
    """The facts about lists without documents."""
    counts, sizes = np.zeros((n, B), dtype=np.int64), np.zeros((n, B, k))
    return Identifiability(sizes > 0, counts, counts, sizes, np.zeros((n, B, k, k)), counts > 0)


def _pair_weights(view: View) -> Floats:
    n, B, k = view.shown.shape
    weights = np.zeros((n, B, k, k))
    if all(view.knowledge.has(name) for name in NEEDS) and why_no_replay(view) is None:
        replay, every = Replay(view), np.arange(n)
        for b in range(B):
            weights[:, b] = replay.weights(view.parameters, every, b)
    return weights
