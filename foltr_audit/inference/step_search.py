"""Searches for the clicks on several lists of one message together, by a client step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from foltr_audit.core.records.step_effects import effects_of_clicks
from foltr_audit.core.records.view import Inference
from foltr_audit.inference.linear_systems import clicks_in_box, with_model_column
from foltr_audit.inference.pattern_decoder import PatternDecoder, patterns_as_clicks
from foltr_audit.inference.step_replay import StepReplay
from foltr_audit.privacy.noise import ScaleFreeNoise
from foltr_audit.utils.arrays import Bools, Floats

_SOFT = tuple(ScaleFreeNoise(resolution=10.0**level) for level in (-1.5, -2.5, -3.5))
_TURNS = 4  # regressions, each at the local models of the one before
_REPLAYED = 8  # patterns of a list that are replayed through the later lists


class ReplayedClicks(NamedTuple):
    """Clicks on the lists of one message, and the local models that they lead to.

    Attributes:
        clicks: bool (B, k).
        path: local models before each list and at the end, (B + 1, P).
        value: log posterior, up to a constant.
    """

    clicks: Bools
    path: Floats
    value: float


class StepSearch:
    """The search for the most probable clicks of all lists of a message, by a view's client step.

    It starts from least absolute deviations and least squares, with and without passes under a coarser noise
    law. Then each list in turn takes its best pattern given the others: all 2^k patterns are weighed with the
    later steps held fixed, and the best few are replayed through the later lists.

    Source: iterated conditional modes, Besag 1986, "On the statistical analysis of dirty pictures",
    section 2.5.
    """

    def __init__(self, decoder: PatternDecoder, sweeps: int) -> None:
        """Search with the belief and the noise law of a decoder, in at most so many passes over the lists."""
        self.decoder, self.sweeps = decoder, sweeps
        self.view, self.replay = decoder.view, StepReplay(decoder.view)

    def answer(self) -> Inference:
        """The best clicks found; scores are probabilities of a click given the guess of all other lists."""
        from foltr_audit.kernels.pattern_posterior import MOST_DOCUMENTS, pattern_probabilities
        from foltr_audit.kernels.patterns import marginals

        n, B, k = self.view.shown.shape
        scores, guess, any_click = np.zeros((n, B, k)), np.zeros((n, B, k), np.bool_), np.zeros((n, B))
        patterns = np.zeros((n, B, 1 << k)) if k <= MOST_DOCUMENTS else None
        starts = self._starts()
        for i in range(n):
            best = self._best(i, starts[i])
            guess[i] = best.clicks
            for b in range(B):
                posterior, length = (
                    self._posterior(self.decoder, i, b, best.path),
                    self.replay.lengths[i, [b]],
                )
                scores[i, b], _, any_click[i, b], _ = (part[0] for part in marginals(posterior, length, k))
                if patterns is not None:
                    patterns[i, b] = pattern_probabilities(posterior, length)[0]
        return Inference(scores=scores, guess=guess, any_click=any_click, patterns=patterns)

    def _starts(self) -> Bools:
        """Rounded clicks of regressions, each repeated at the local models of the last, (n, 2, B, k)."""
        view, shape = self.view, self.view.shown.shape
        found: list[Bools] = []
        for absolute in (True, False):
            columns, values = with_model_column(view), view.click_updates
            for turn in range(_TURNS if shape[1] > 1 else 1):
                if turn:
                    columns[:, :, :-1], values = self._columns(found.pop())
                solved = clicks_in_box(view, columns, absolute=absolute, values=values).reshape(shape)
                found.append((solved > 0.5) & view.is_document)
        return np.stack(found, axis=1)

    def _columns(self, clicks: Bools) -> tuple[Floats, Floats]:
        """What clicks add at the local models of clicks (n, B, k), (n, P, B k); what they explain, (n, P)."""
        n, B, k = clicks.shape
        P = self.view.parameters.shape[1]
        added, values = np.zeros((n, B, k, P)), self.view.updates.copy()
        for i, b in zip(*np.nonzero(self.replay.lengths), strict=True):
            L = int(self.replay.lengths[i, b])
            if b == 0 or not self.replay.lengths[i, :b].any():
                model = self.view.parameters[i]
            still, added[i, b, :L] = effects_of_clicks(self.replay.step, model, self.view.features[i, b, :L])
            values[i] -= still
            model = self.replay.models(i, int(b), model, clicks[i, b : b + 1, :L].astype(np.float64))[0]
        return added.reshape(n, B * k, P).transpose(0, 2, 1), values

    def _best(self, i: int, starts: Bools) -> ReplayedClicks:
        """The best end of the search for one message, from starts (S, B, k)."""
        ends = []
        for start in starts:
            ends.append(self._settled(self.decoder, i, start, self.sweeps))
            soft = start
            for law in _SOFT:
                soft = self._settled(replace(self.decoder, law=law), i, soft, 1).clicks
            ends.append(self._settled(self.decoder, i, soft, self.sweeps))
        return max(ends, key=lambda end: end.value)

    def _settled(self, decoder: PatternDecoder, i: int, clicks: Bools, most: int) -> ReplayedClicks:
        """Pass over the lists until nothing gets better, at most `most` times."""
        now = self._replayed(decoder, i, clicks)
        for _ in range(most):
            before = now.value
            for b in np.flatnonzero(self.replay.lengths[i]).tolist():
                likely = np.argsort(-self._posterior(decoder, i, b, now.path)[0], kind="stable")
                tried = patterns_as_clicks(likely[: self._enough(i, b)], clicks.shape[1])
                now = max((now, *self._alternatives(decoder, i, b, now, tried)), key=lambda one: one.value)
            if not now.value > before:
                break
        return now

    def _enough(self, i: int, b: int) -> int:
        """How many patterns of a list are replayed: the best alone of the last one, whose weight is exact."""
        return _REPLAYED if self.replay.lengths[i, b + 1 :].any() else 1

    def _alternatives(
        self, decoder: PatternDecoder, i: int, b: int, now: ReplayedClicks, tried: Bools
    ) -> Sequence[ReplayedClicks]:
        """The same clicks with other patterns (H, k) of list b."""
        found = []
        for pattern in tried:
            clicks = now.clicks.copy()
            clicks[b] = pattern
            found.append(self._replayed(decoder, i, clicks, now.path[: b + 1]))
        return found

    def _replayed(
        self, decoder: PatternDecoder, i: int, clicks: Bools, known: Floats | None = None
    ) -> ReplayedClicks:
        """Clicks (B, k) replayed from a part of the path that is known."""
        path = list(self.view.parameters[i : i + 1] if known is None else known)
        for b in range(len(path) - 1, len(clicks)):
            L = int(self.replay.lengths[i, b])
            here = clicks[b : b + 1, :L].astype(np.float64)
            path.append(self.replay.models(i, b, path[-1], here)[0] if L else path[-1])
        row = np.array([i])
        value = float(decoder.fit(row, path[-1][np.newaxis])[0])
        for b in range(len(clicks)):
            value += float(decoder.log_prior_of(row, b, clicks[b : b + 1])[0])
        return ReplayedClicks(clicks, np.array(path), value)

    def _posterior(self, decoder: PatternDecoder, i: int, b: int, path: Floats) -> Floats:
        """Log posterior of every pattern of list b, the others fixed and later steps unchanged: (1, 2^k)."""
        row, rest = np.array([i]), (path[-1] - path[b + 1])[np.newaxis]
        likely = decoder.likelihoods(row, b, path[b][np.newaxis], rest)
        return likely + decoder.log_priors(row, b)
