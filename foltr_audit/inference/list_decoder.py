"""Clicks decoded from shown lists alone, list after list, by a beam of the most probable histories.

A local model ranks each list after it has learnt from the clicks on the lists before it in the same round.
Noise is added only when the message is sent, so it does not hide these clicks in the list.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from foltr_audit.core.records.view import View
from foltr_audit.inference.pattern_decoder import PatternDecoder, patterns_as_clicks
from foltr_audit.utils.arrays import Bools, Floats, Ints

NEEDS = frozenset({"candidates", "lists", "rank_with"})
"""Knowledge that weighing lists needs in addition to that of a replay."""

_BROKEN = -50.0  # log probability of each broken rank of a list in score order; impossible, but comparable
_SAME_SCORE = 1e-10  # relative: how far two computations of one score may differ
_RULED_OUT = 20.0  # patterns this far below the best, in log probability, are not weighed further
_HYPOTHESES = 1 << 15  # local models in one chunk: bounds the memory of their scores


def why_no_evidence(view: View) -> str | None:
    known = view.knowledge
    if view.is_document.any(axis=2).sum(axis=1).max(initial=0) < 2:
        return "one list a message: no list follows from a click"
    if view.observer == "aggregate":
        return "sums: which model ranked a list is not weighed"
    if known.rank_with != "local":
        return "the global model ranks all lists of a round: no list follows from a click"
    if known.lists not in ("deterministic", "sampled"):
        return f"it reads deterministic or sampled lists, not {known.lists}"
    if not known.has("candidates"):
        return "the observer does not know: candidates (a list is chosen among them)"
    return None


@dataclass(frozen=True, eq=False)
class ListLikelihood:
    """Weighs lists of views that `why_no_evidence` accepts by the local models that ranked them.

    Source: Plackett-Luce sampling as in Oosterhuis & de Rijke 2018, "Differentiable unbiased online
    learning to rank", eq. 2; a list in score order has probability 0 or 1.
    """

    decoder: PatternDecoder

    def of_models(self, models: Floats, messages: Ints, b: int) -> Floats:
        """Log probability of list b of some messages (H,) under local models (H, P) before it, (H,)."""
        from foltr_audit.kernels.plackett_luce import broken_ranks, list_log_probabilities

        view, replay = self.decoder.view, self.decoder.replay
        found = np.zeros(messages.size)
        there = np.flatnonzero(replay.lengths[messages, b] > 0)
        for first in range(0, there.size, _HYPOTHESES):
            rows = there[first : first + _HYPOTHESES]
            scores, starts = replay.candidate_scores(models[rows], messages[rows], b)
            shown = np.ascontiguousarray(view.shown[messages[rows], b])
            if view.knowledge.lists == "sampled":
                found[rows] = list_log_probabilities(scores, starts, shown)
            else:
                found[rows] = _BROKEN * broken_ranks(scores, starts, shown, _SAME_SCORE)
        return found

    def of_path(self, path: Floats, messages: Ints, told: tuple[int, Floats] | None = None) -> Floats:
        """Log probability of all lists after the first, (H,), from local models before each, (B, H, P).

        `told`: that of the lists up to a number b is known, (H,), and not computed again.
        """
        done, found = (0, np.zeros(messages.size)) if told is None else (told[0], told[1].copy())
        for b in range(done + 1, len(path)):
            found += self.of_models(path[b], messages, b)
        return found

    def of_patterns(
        self, models: Floats, messages: Ints, b: int, priors: Floats, clicks: Bools | None = None
    ) -> Floats:
        """Log probability of every click pattern of list b and of the lists after it, (H, 2^k).

        From local models (H, P) before list b of some messages (H,), and the log probability of each pattern
        before any list, (H, 2^k). Without clicks (H, B, k) on later lists the next one alone is weighed.
        """
        B = self.decoder.view.shown.shape[1]
        found = priors.copy()
        each = max(1, _HYPOTHESES // priors.shape[1])
        for first in range(0, messages.size if b + 1 < B else 0, each):
            rows = slice(first, first + each)
            stepped = self._stepped(models[rows], messages[rows], b)
            several = np.repeat(messages[rows], priors.shape[1])
            found[rows] += self.of_models(stepped, several, b + 1).reshape(-1, priors.shape[1])
            if clicks is not None and b + 2 < B:
                # `rows` is a slice, so `found[rows]` is a view, and the call changes `found` itself.
                self._weigh_later(found[rows], stepped, messages[rows], b, clicks[rows])
        return found

    def _stepped(self, models: Floats, messages: Ints, b: int) -> Floats:
        """Local models after every pattern of list b, (H 2^k, P)."""
        from foltr_audit.kernels.patterns import pattern_models

        replay = self.decoder.replay
        found = pattern_models(
            np.ascontiguousarray(models),
            replay.learning_rate * replay.jacobian(models, messages, b),
            replay.weights(models, messages, b),
            replay.lengths[messages, b],
            replay.only_observed,
            self.decoder.ball,
        )
        return found.reshape(-1, models.shape[1])

    def _weigh_later(self, found: Floats, stepped: Floats, messages: Ints, b: int, clicks: Bools) -> None:
        """Add to `found` (H, 2^k) the evidence of the lists after the next one, given the clicks before them.

        Patterns that the next list nearly rules out get the least evidence of the other patterns.
        """
        row, pattern = np.nonzero(found >= found.max(axis=1, keepdims=True) - _RULED_OUT)
        models, several = stepped[row * found.shape[1] + pattern], messages[row]
        total = np.zeros(row.size)
        for later in range(b + 1, clicks.shape[1] - 1):
            models = self.decoder.replay.step(models, several, later, clicks[row, later])
            total += self.of_models(models, several, later + 1)
        added = np.full(found.shape, np.inf)
        added[row, pattern] = total
        worst = added.min(axis=1, keepdims=True)
        found += np.where(np.isfinite(added), added, worst)


_NEGLIGIBLE = 20.0  # histories this far below a message's best one, in log probability, are dropped
_ENOUGH = 0.99  # share of the posterior that kept histories must have before earlier lists are smoothed


class ClickHistories(NamedTuple):
    """Histories of clicks on the lists so far, several for each message, (H,), which are sorted.

    The pattern of each list, (H, B), 0 for lists that are not decoded yet, the local models that they lead
    to, (H, P), and the log posterior up to a constant per message, (H,).
    """

    message: Ints
    patterns: Ints
    models: Floats
    weight: Floats


class ListDecoder:
    """Weighs the clicks on each list by the lists that follow it, without reading any message.

    Every pattern of a list is weighed after each history in the beam. A list's posterior includes the
    evidence of the next list, and that of later lists if the beam has nearly all of the posterior.

    Source: beam search over the forward recursion, e.g. Rabiner 1989, "A tutorial on hidden Markov models",
    section III.
    """

    def __init__(self, decoder: PatternDecoder, histories: int) -> None:
        """Decode a view that `why_no_evidence` accepts, with this many histories for each message.

        Where a defense randomises clicks, those that clients learn from.
        """
        self.decoder = replace(decoder, reported=True)
        self.evidence = ListLikelihood(self.decoder)
        self.histories = histories

    def posteriors(self, messages: Ints) -> list[Floats]:
        """Log posterior of every pattern of each list of some messages (H,), B times (H, 2^k)."""
        view = self.decoder.view
        found: list[Floats] = []
        B = view.shown.shape[1]
        now = ClickHistories(
            np.arange(messages.size),
            np.zeros((messages.size, B), dtype=np.int64),
            view.parameters[messages],
            np.zeros(messages.size),
        )
        held = np.ones(messages.size)
        for b in range(B - 1):
            prior = self.decoder.log_priors(messages, b)
            weights = prior[now.message] + now.weight[:, np.newaxis]
            weights = self.evidence.of_patterns(now.models, messages[now.message], b, weights)
            # Several histories add to one row; indexed assignment would keep the last one only.
            posterior = np.full(prior.shape, -np.inf)
            np.logaddexp.at(posterior, now.message, weights)
            # A list that none follows keeps its prior, so that equal priors stay equal to the last bit.
            followed = self.decoder.replay.lengths[messages, b + 1] > 0
            found.append(np.where(followed[:, np.newaxis], posterior, prior))
            now, share = self._kept(now, weights, messages, b)
            held *= share
            self._smooth(found, now, held >= _ENOUGH)
        if B:
            found.append(self.decoder.log_priors(messages, B - 1))
        return found

    def clicks(self, messages: Ints) -> Bools:
        """The most probable clicks on each list of some messages (H,), (H, B, k)."""
        k = self.decoder.view.shown.shape[2]
        best = [posterior.argmax(axis=1) for posterior in self.posteriors(messages)]
        return patterns_as_clicks(np.stack(best, axis=1), k)

    def _kept(
        self, now: ClickHistories, weights: Floats, messages: Ints, b: int
    ) -> tuple[ClickHistories, Floats]:
        """The best histories with list b, and their share of each message's posterior."""
        rows, patterns, share = [], [], np.ones(messages.size)
        firsts = np.searchsorted(now.message, np.arange(messages.size + 1))
        for i, (first, last) in enumerate(pairwise(firsts.tolist())):
            mine = weights[first:last].ravel()
            best = mine.max()
            likely = np.flatnonzero(mine >= best - _NEGLIGIBLE)
            kept = likely[np.argsort(-mine[likely], kind="stable")[: self.histories]]
            share[i] = np.exp(mine[kept] - best).sum() / np.exp(mine - best).sum()
            rows.append(first + kept // weights.shape[1])
            patterns.append(kept % weights.shape[1])
        row, pattern = np.concatenate(rows), np.concatenate(patterns)
        chosen = now.patterns[row]
        chosen[:, b] = pattern
        clicks = patterns_as_clicks(pattern, self.decoder.view.shown.shape[2])
        message = now.message[row]
        models = self.decoder.replay.step(now.models[row], messages[message], b, clicks)
        return ClickHistories(message, chosen, models, weights[row, pattern]), share

    @staticmethod
    def _smooth(found: list[Floats], now: ClickHistories, enough: Bools) -> None:
        """Recompute the posterior of earlier lists from the histories, for messages where these suffice."""
        rows = np.flatnonzero(enough[now.message])
        for b, posterior in enumerate(found):
            posterior[enough] = -np.inf
            np.logaddexp.at(posterior, (now.message[rows], now.patterns[rows, b]), now.weight[rows])
