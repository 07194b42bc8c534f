"""Clicks decoded from shown lists alone, list after list, by a beam of the most probable histories."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from foltr_audit.inference.list_evidence import ListLikelihood
from foltr_audit.inference.pattern_decoder import PatternDecoder, patterns_as_clicks
from foltr_audit.utils.arrays import Bools, Floats, Ints

_NEGLIGIBLE = 20.0  # histories this far below a message's best one, in log probability, are dropped
_ENOUGH = 0.99  # share of the posterior that kept histories must have before earlier lists are smoothed


class ClickHistories(NamedTuple):
    """Histories of clicks on the lists so far, several for each message.

    Attributes:
        message: the message of each history, int64 (H,), sorted.
        patterns: the click pattern of each list, int64 (H, B); 0 for the lists that are not decoded yet.
        models: the local models that they lead to, float64 (H, P).
        weight: log posterior up to a constant per message, float64 (H,).
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
        """Decode a view that `why_no_evidence` accepts, with this many histories for each message."""
        self.decoder = decoder
        self.evidence = ListLikelihood(decoder)
        self.histories = histories

    def posteriors(self, messages: Ints) -> list[Floats]:
        """Log posterior of every pattern of each list of some messages (H,), B times (H, 2^k)."""
        view = self.decoder.view
        _, B, k = view.shown.shape
        found = [np.full((messages.size, 1 << k), -np.inf) for _ in range(B)]
        now = ClickHistories(
            np.arange(messages.size),
            np.zeros((messages.size, B), dtype=np.int64),
            view.parameters[messages],
            np.zeros(messages.size),
        )
        held = np.ones(messages.size)
        for b in range(B):
            priors = self.decoder.log_priors(messages[now.message], b) + now.weight[:, np.newaxis]
            weights = self.evidence.of_patterns(now.models, messages[now.message], b, priors)
            # Several histories of a message add to one row; indexed assignment would keep the last one only.
            np.logaddexp.at(found[b], now.message, weights)
            if b + 1 < B:
                now, share = self._kept(now, weights, messages, b)
                held *= share
                self._smooth(found[: b + 1], now, held >= _ENOUGH)
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
