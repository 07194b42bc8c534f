"""Steps of clients, replayed from what an observer knows: PDGD's, or those of a client step.

A hypothesis is a message's number with the clicks on its lists. Replays of many hypotheses run at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from foltr_audit.core.pdgd import observed_documents
from foltr_audit.core.records.view import View, checked_updates
from foltr_audit.privacy.events import Ball
from foltr_audit.utils.arrays import Bools, Floats, Ints

if TYPE_CHECKING:
    from foltr_audit.core.plugins.client_step import ClientStep

_NUMBERS = 1 << 22  # numbers of the updates that are computed at once: 32 MB

WHOLE_UPDATE = (
    "fact update_clip_norm: the clip of a whole update can be replayed for messages of one list "
    "without a clip of the model only"
)
"""Why messages whose updates are clipped are not replayed."""


def why_no_step_replay(view: View) -> str | None:
    known = view.knowledge
    several = view.shown.shape[1] > 1 or known.clip is not None
    return WHOLE_UPDATE if known.update_clip is not None and several else None


@dataclass(frozen=True, eq=False)
class ViewReplay(ABC):
    """The steps behind the messages of a view. Of several lists each step starts where the last ended."""

    view: View

    @abstractmethod
    def step(self, models: Floats, messages: Ints, b: int, clicks: Bools) -> Floats:
        """Local models (H, P) after list b of some messages (H,) with clicks (H, k), and the clips."""

    @abstractmethod
    def patterns(self, i: int, b: int, model: Floats) -> Iterator[tuple[int, Floats]]:
        """Local models after every click pattern of a list, some at a time: the first pattern and (H, P)."""

    @cached_property
    def lengths(self) -> Ints:
        """Number of documents of each list, int64 (n, B)."""
        return np.asarray(self.view.is_document.sum(axis=2))

    def moved(self, model: Floats, updates: Floats) -> Floats:
        """A local model (P,) after each of several updates (H, P), and the clips: (H, P)."""
        known = self.view.knowledge
        acts = np.asarray(known.clip_without_pairs | updates.any(axis=1))[:, np.newaxis]
        models = model + into_ball(updates, known.update_clip)
        return np.where(acts, into_ball(models, known.clip), models)

    @cached_property
    def first(self) -> Ints:
        """The first list of each list's client, int64 (n, B): in a sum, each client starts again."""
        n, B, _ = self.view.shown.shape
        senders, place = self.view.senders, np.broadcast_to(np.arange(B), (n, B))
        if senders is None:
            return np.zeros((n, B), dtype=np.int64)
        begins = np.ones((n, B), dtype=np.bool_)
        begins[:, 1:] = senders[:, 1:] != senders[:, :-1]
        return np.array(np.maximum.accumulate(np.where(begins, place, 0), axis=1), dtype=np.int64)

    def before(self, path: Floats, messages: Ints, b: int) -> Floats:
        """The local models (H, P) before interaction b, from the models of a path (B + 1, H, P).

        In a sum, a path adds up the changes of all clients, and a local model has those of its own alone.
        """
        if self.view.senders is None:
            return np.asarray(path[b])
        first = path[self.first[messages, b], np.arange(messages.size)]
        return np.asarray(self.view.parameters[messages] + (path[b] - first))

    def updates(self, clicks: Bools) -> Floats:
        """The updates (n, P) of clicks (n, B, k)."""
        return np.asarray(self.paths(np.arange(len(self.view)), clicks)[-1] - self.view.parameters)

    def paths(self, messages: Ints, clicks: Bools, begun: Floats | None = None) -> Floats:
        """Local models before each interaction and at the end, (B + 1, H, P), of clicks (H, B, k).

        Of a sum, they have the changes of all clients so far; see `before`. Models before the first
        interactions, as `walk` finds them, are not computed again if they are given as `begun` (b + 1, H, P).
        """
        path = self.walk(messages, clicks, begun)
        if self.view.knowledge.update_clip is not None:
            path[-1] = path[0] + into_ball(path[-1] - path[0], self.view.knowledge.update_clip)
        return path

    def walk(self, messages: Ints, clicks: Bools, begun: Floats | None = None) -> Floats:
        """Local models before each of the first b interactions and after them, (b + 1, H, P).

        Of clicks (H, b, k); without the clip of whole updates. `begun` as for `paths`.
        """
        path = np.empty((clicks.shape[1] + 1, messages.size, self.view.parameters.shape[1]))
        done = 0 if begun is None else len(begun) - 1
        path[: done + 1] = self.view.parameters[messages] if begun is None else begun
        for b in range(done, clicks.shape[1]):
            local = self.before(path, messages, b)
            path[b + 1] = self.step(local, messages, b, clicks[:, b])
            if self.view.senders is not None:
                path[b + 1] += path[b] - local
        return path

    def _click_patterns(self, i: int, b: int) -> Iterator[tuple[int, Bools]]:
        """All click patterns of a list, some at a time: the number of the first, and (H, L)."""
        L = int(self.lengths[i, b])
        each = max(1, _NUMBERS // max(1, self.view.parameters.shape[1]))
        for first in range(0, 1 << L, each):
            numbers = np.arange(first, min(first + each, 1 << L))
            yield first, (numbers[:, np.newaxis] >> np.arange(L)) & 1 == 1


@dataclass(frozen=True, eq=False)
class StepReplay(ViewReplay):
    """The steps behind the messages of a view that has a client step.

    `drawn` has one for each message where the chance in it was drawn.
    """

    drawn: Sequence[ClientStep] | None = None

    @property
    def client_step(self) -> ClientStep:
        step = self.view.knowledge.client_step
        if step is None:
            raise ValueError("a replay of a client step needs one")
        return step

    def models(self, i: int, b: int, model: Floats, clicks: Floats) -> Floats:
        """Local models (H, P) after clicks (H, L) on list b of message i, from a local model (P,)."""
        rows = self.view.features[i, b, : clicks.shape[1]]
        step = self.client_step if self.drawn is None else self.drawn[i]
        return self.moved(model, checked_updates(step, model, rows, clicks))

    def step(self, models: Floats, messages: Ints, b: int, clicks: Bools) -> Floats:
        out = models.copy()
        for h in np.flatnonzero(self.lengths[messages, b]).tolist():
            i = int(messages[h])
            here = clicks[h : h + 1, : self.lengths[i, b]].astype(np.float64)
            out[h] = self.models(i, b, models[h], here)[0]
        return out

    def patterns(self, i: int, b: int, model: Floats) -> Iterator[tuple[int, Floats]]:
        for first, clicks in self._click_patterns(i, b):
            yield first, self.models(i, b, model, clicks.astype(np.float64))


def into_ball(vectors: Floats, ball: Ball | None) -> Floats:
    """Vectors (H, P), each scaled into a ball; the same without one."""
    return vectors if ball is None else ball.projected(np.ascontiguousarray(vectors))


def pair_coefficients(weights: Floats, clicks: Bools, observed: Bools) -> Floats:
    """What PDGD multiplies the Jacobian row of each document of H lists by, (H, k).

    Of clicks and observed documents (H, k), with pair weights (k, k) or (H, k, k).
    """
    seen = observed.astype(np.float64)
    clicked = seen * clicks
    ahead, behind = (np.matmul(weights, each[..., np.newaxis])[..., 0] for each in (seen, clicked))
    return np.asarray(seen * (clicked * ahead - behind))


NEEDS = frozenset({"features", "shown", "order", "learning_rate", "pairs", "normaliser"})
"""Knowledge that a replay needs."""


def why_no_replay(view: View) -> str | None:
    """Why the clients' steps cannot be replayed although `NEEDS` are known, or None."""
    known = view.knowledge
    if known.client_step is not None:
        return f"it replays PDGD, and the clients take the step {known.client_step.text}"
    if known.normaliser == "candidates" and not known.has("candidates"):
        return "the observer does not know: candidates (PDGD normalises over them)"
    if known.pairs not in ("all", "last-click+1"):
        return f"unknown pairs {known.pairs!r}; expected all or last-click+1"
    if known.update_clip is not None and (view.shown.shape[1] > 1 or known.clip is not None):
        return WHOLE_UPDATE
    if known.normaliser not in ("shown", "candidates"):
        return f"unknown normaliser {known.normaliser!r}; expected shown or candidates"
    return None


class Replay(ViewReplay):
    """The local steps behind the messages of a view that `why_no_replay` accepts."""

    @property
    def only_observed(self) -> bool:
        return self.view.knowledge.pairs == "last-click+1"

    @property
    def learning_rate(self) -> float:
        return float(self.view.knowledge.learning_rate or 0.0)

    @property
    def over_candidates(self) -> bool:
        return self.view.knowledge.normaliser == "candidates"

    def weights(self, models: Floats, messages: Ints, b: int) -> Floats:
        """PDGD's pair weights of list b of some messages (H,) at local models (H, P): (H, k, k)."""
        from foltr_audit.kernels.pdgd import pair_weights

        scores, starts, shown = self._scored(models, messages, b)
        return pair_weights(scores, starts, shown, self.over_candidates)

    def jacobian(self, models: Floats, messages: Ints, b: int) -> Floats:
        """Jacobian rows of the documents of list b at local models (H, P): (H, k, P), 0 at the padding."""
        rows = self.view.ranker.jacobian(models, self.view.features[messages, b])
        return np.where(self.view.is_document[messages, b][..., np.newaxis], rows, 0.0)

    def step(self, models: Floats, messages: Ints, b: int, clicks: Bools) -> Floats:
        from foltr_audit.kernels.jit import read_only
        from foltr_audit.kernels.pdgd import pdgd_coefficients

        scores, starts, shown = self._scored(models, messages, b)
        clicked = read_only(np.ascontiguousarray(clicks))
        coefficients, pairs = pdgd_coefficients(
            scores, starts, shown, clicked, self.over_candidates, self.only_observed
        )
        gradient = np.einsum("hk,hkp->hp", coefficients, self.jacobian(models, messages, b))
        moved = (pairs > 0)[:, np.newaxis]
        stepped = np.where(moved, models + self.learning_rate * gradient, models)
        there = (self.lengths[messages, b] > 0)[:, np.newaxis]
        acts = there & (moved | self.view.knowledge.clip_without_pairs)
        return np.where(acts, into_ball(stepped, self.view.knowledge.clip), stepped)

    def patterns(self, i: int, b: int, model: Floats) -> Iterator[tuple[int, Floats]]:
        row, L = np.array([i]), self.lengths[i, b]
        rows = self.learning_rate * self.jacobian(model[np.newaxis], row, b)[0, :L]
        weights = self.weights(model[np.newaxis], row, b)[0, :L, :L]
        for first, clicks in self._click_patterns(i, b):
            there = np.ones(clicks.shape, np.bool_)
            observed = observed_documents(clicks, there, only_observed=self.only_observed)
            yield first, self.moved(model, pair_coefficients(weights, clicks, observed) @ rows)

    def _scored(self, models: Floats, messages: Ints, b: int) -> tuple[Floats, Ints, Ints]:
        """Flat scores, `starts` (H + 1,) and the lists (H, k) as indices into each row of scores."""
        shown = self.view.shown[messages, b]
        if self.over_candidates:
            scores, starts = self.candidate_scores(models, messages, b)
            return scores, starts, shown
        k = shown.shape[1]
        scores = self.view.ranker.score(models, self.view.features[messages, b])
        starts = np.arange(messages.size + 1) * k
        places = np.where(shown >= 0, np.arange(k), -1)
        return np.ascontiguousarray(scores).reshape(-1), starts, places

    def candidate_scores(self, models: Floats, messages: Ints, b: int) -> tuple[Floats, Ints]:
        """Scores of all candidates of list b of some messages (H,) at local models (H, P), and `starts`."""
        candidates = self.view.candidates
        if candidates is None:
            raise ValueError("a replay over candidates needs them")
        # The query of a missing list is -1. Any query will do instead, since no step follows.
        query = np.maximum(candidates.query[messages, b], 0)
        return self.view.ranker.scores(np.ascontiguousarray(models), candidates, query)


def replay_of(view: View) -> ViewReplay:
    """A replay of the client step of a view, or of PDGD."""
    return Replay(view) if view.knowledge.client_step is None else StepReplay(view)
