"""Searches for the clicks on several lists of one message together, by replaying the client's steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import permutations
from typing import NamedTuple

import numpy as np

from foltr_audit.inference.list_decoder import ListDecoder
from foltr_audit.inference.list_evidence import ListLikelihood
from foltr_audit.inference.pattern_decoder import PatternDecoder, patterns_as_clicks
from foltr_audit.inference.relaxation import ClickRelaxation
from foltr_audit.privacy.noise import ScaleFreeNoise
from foltr_audit.utils.arrays import Bools, Floats, Ints

_TURNS = 6  # times the relaxed start recomputes the drift of the local model
_TRIED = 32  # patterns of one list that are tried with the best pattern of another
_SOFT = tuple(ScaleFreeNoise(resolution=10.0**level) for level in (-1.5, -2, -2.5, -3, -3.5, -4, -5))
_SOFT_SWEEPS = 2  # passes over the lists at each of these resolutions
_HISTORIES = 16  # click histories kept for each message by the start from lists alone
_CHUNK = 64  # messages searched at once: bounds the memory of their hypotheses


class SearchState(NamedTuple):
    """State of the search: H hypotheses, each about one message.

    Attributes:
        message: the message of each, int64 (H,).
        clicks: bool (H, B, k).
        value: log posterior, float64 (H,).
    """

    message: Ints
    clicks: Bools
    value: Floats

    def at(self, rows: Ints) -> SearchState:
        """Some of the hypotheses."""
        return SearchState(self.message[rows], self.clicks[rows], self.value[rows])

    def with_rows(self, rows: Ints, new: SearchState) -> SearchState:
        """The hypotheses with some of them replaced."""
        clicks, value = self.clicks.copy(), self.value.copy()
        clicks[rows], value[rows] = new.clicks, new.value
        return SearchState(self.message, clicks, value)


class BegunPaths(NamedTuple):
    """What hypotheses share that agree in their first b lists.

    Attributes:
        models: local models before these lists and after them, float64 (b + 1, H, P).
        told: b, and the log probability of the lists up to number b, float64 (H,); None where lists are no
            evidence.
    """

    models: Floats
    told: tuple[int, Floats] | None


class JointSearchResult(NamedTuple):
    """What the search found for some messages.

    Attributes:
        best: the best hypothesis for each of H messages.
        votes: share of all ends of the search that clicked each document, float64 (H, B, k).
        lost: where even the best leaves a larger residual than the noise law allows, bool (H,).
    """

    best: SearchState
    votes: Floats
    lost: Bools

    @property
    def clicks(self) -> Bools:
        """The best hypothesis; where the search is lost, the clicks of most of its ends, (H, B, k)."""
        return np.where(self.lost[:, np.newaxis, np.newaxis], self.votes > 0.5, self.best.clicks)


class JointSearch:
    """The search for the most probable clicks of all lists of a message, for each message of a view.

    Where lists depend on the clicks on earlier lists, their probability is multiplied with that of the
    message, and the clicks decoded from lists alone are one more start.

    Source: iterated conditional modes, Besag 1986, "On the statistical analysis of dirty pictures",
    section 2.5.
    """

    def __init__(self, decoder: PatternDecoder, shortlist: int, sweeps: int, *, lists: bool = False) -> None:
        """Prepare the search.

        Args:
            decoder: the view, the belief before its messages, and the noise law.
            shortlist: patterns of a list that are replayed exactly.
            sweeps: most passes over the lists.
            lists: whether lists are evidence about the clicks before them; only for views that
                `why_no_evidence` accepts.
        """
        self.decoder = decoder
        self.evidence = ListLikelihood(decoder) if lists else None
        self.view = decoder.view
        patterns = 1 << self.view.shown.shape[2]
        self.shortlist, self.tried = min(shortlist, patterns), min(_TRIED, patterns)
        self.sweeps = sweeps

    def found(self) -> Iterator[JointSearchResult]:
        """Results for all messages, in chunks and in order; none for messages without lists."""
        n, B, _ = self.view.shown.shape
        starts = ClickRelaxation(self.view).starts(_TURNS)
        if self.evidence is not None:
            told = ListDecoder(self.decoder, _HISTORIES).clicks(np.arange(n))
            starts = np.concatenate([told[:, np.newaxis], starts], axis=1)
        for first in range(0, n if B else 0, _CHUNK):
            rows = np.arange(first, min(first + _CHUNK, n))
            best, votes = self.best(rows, starts[rows])
            # Without a criterion the usual fit is infinite: every message is below it, and none is lost.
            explained = ~self.unexplained(best) | (self.decoder.usual_fit == np.inf)
            yield JointSearchResult(best, votes, ~explained)

    def best(self, rows: Ints, starts: Bools) -> tuple[SearchState, Floats]:
        """The best hypothesis found for each of some messages, from starts (rows, S, B, k).

        Also the share of all ends of the search that clicked each document, (rows, B, k).
        """
        n, S, B, _ = starts.shape
        message = np.repeat(rows, S)
        begin = starts.reshape(n * S, *starts.shape[2:])
        clicks = np.concatenate([begin, self.softened(message, begin)]) if B > 1 else begin
        message = np.tile(message, clicks.shape[0] // message.size)
        ends = self.settled(
            SearchState(message, clicks, self.values(message, clicks)), self.sweep, self.sweeps
        )
        # Every message has equally many ends, so sorted rows form a table. A stable sort keeps their order:
        # of equally good ends the same one wins in every run.
        by_message = np.argsort(ends.message, kind="stable").reshape(n, -1)
        best = ends.at(by_message[np.arange(n), ends.value[by_message].argmax(axis=1)])
        votes = ends.clicks[by_message].mean(axis=1)
        open_ = np.flatnonzero(self.unexplained(best))
        if open_.size and B > 1:
            best = best.with_rows(open_, self.settled(best.at(open_), self.paired_sweep, self.sweeps))
        return best, votes

    def softened(self, message: Ints, clicks: Bools) -> Bools:
        """Search results from clicks (H, B, k), with numbers exact to few digits at first, then to more.

        The exact likelihood of sparse noise barely distinguishes a wrong hypothesis from a slightly better
        one; a coarse likelihood has fewer local optima. Blake & Zisserman 1987, "Visual reconstruction",
        chapter 7, call this graduated non-convexity.
        """
        for law in _SOFT:
            coarse = JointSearch(
                replace(self.decoder, law=law), self.shortlist, self.sweeps, lists=self.evidence is not None
            )
            state = SearchState(message, clicks, coarse.values(message, clicks))
            clicks = coarse.settled(state, coarse.sweep, _SOFT_SWEEPS).clicks
        return clicks

    def settled(
        self, state: SearchState, move: Callable[[SearchState], SearchState], most: int
    ) -> SearchState:
        """Move every hypothesis until it stops improving, at most `most` times."""
        moving = np.arange(state.message.size)
        for _ in range(most):
            part = state.at(moving)
            after = move(part)
            state = state.with_rows(moving, after)
            moving = moving[after.value > part.value]
            if not moving.size:
                break
        return state

    def sweep(self, state: SearchState) -> SearchState:
        """Replace the pattern of every list in turn by the best one given the others."""
        for b in range(state.clicks.shape[1]):
            state = self.better(state, self.alternatives(state, b, self.shortlist), b)
        return state

    def paired_sweep(self, state: SearchState) -> SearchState:
        """Try the likely patterns of each list, each with the best pattern of every other list in turn."""
        for b, other in permutations(range(state.clicks.shape[1]), 2):
            clicks = self.alternatives(state, b, self.tried)
            message = np.repeat(state.message, self.tried)
            guess = SearchState(message, clicks, np.zeros(message.size))
            state = self.better(state, self.alternatives(guess, other, 1), min(b, other))
        return self.sweep(state)

    def alternatives(self, state: SearchState, b: int, most: int) -> Bools:
        """Each hypothesis with its `most` most likely patterns of list b instead, bool (H most, B, k)."""
        from foltr_audit.kernels.patterns import best_patterns

        likely = best_patterns(self.posteriors(state, b), most)
        clicks = np.repeat(state.clicks, most, axis=0)
        clicks[:, b] = patterns_as_clicks(likely.reshape(-1), clicks.shape[2])
        return clicks

    def better(self, state: SearchState, tried: Bools, same: int) -> SearchState:
        """Each hypothesis, or the best of its alternatives (H T, B, k) if that is better.

        Alternatives agree with their hypothesis in the first `same` lists.
        """
        T = tried.shape[0] // state.message.size
        begun = self.begun(state, same, T)
        values = self.values(np.repeat(state.message, T), tried, begun).reshape(-1, T)
        at, pick = np.arange(state.message.size), values.argmax(axis=1)
        better = values[at, pick] > state.value
        clicks = np.where(better[:, np.newaxis, np.newaxis], tried[pick + T * at], state.clicks)
        return SearchState(state.message, clicks, np.where(better, values[at, pick], state.value))

    def begun(self, state: SearchState, same: int, times: int) -> BegunPaths:
        """The first `same` lists of each hypothesis, as its `times` alternatives share them."""
        models = self.decoder.replay.walk(state.message, state.clicks[:, :same])
        told = None
        if self.evidence is not None:
            told = same, np.repeat(self.evidence.of_path(models, state.message), times)
        return BegunPaths(np.repeat(models, times, axis=1), told)

    def values(self, message: Ints, clicks: Bools, begun: BegunPaths | None = None) -> Floats:
        """Log posterior of hypotheses, up to a constant for each message: (H,)."""
        models, told = (None, None) if begun is None else begun
        path = self.decoder.replay.paths(message, clicks, models)
        fit = self.decoder.fit(message, path[-1])
        if self.evidence is not None:
            fit += self.evidence.of_path(path[:-1], message, told)
        for b in range(clicks.shape[1]):
            fit += self.decoder.log_prior_of(message, b, clicks[:, b])
        return fit

    def unexplained(self, state: SearchState) -> Bools:
        """Hypotheses that leave a larger residual of a message than the noise law allows, (H,)."""
        final = self.decoder.replay.paths(state.message, state.clicks)[-1]
        return self.decoder.fit(state.message, final) < self.decoder.usual_fit

    def posteriors(self, state: SearchState, b: int) -> Floats:
        """Log posterior of every pattern of list b, the others fixed and later steps unchanged: (H, 2^k)."""
        path = self.decoder.replay.paths(state.message, state.clicks)
        local = self.decoder.replay.before(path, state.message, b)
        rest = path[-1] - path[b + 1] + (path[b] - local)
        likely = self.decoder.likelihoods(state.message, b, local, rest)
        return likely + self.decoder.log_priors(state.message, b)

    def conditionals(self, state: SearchState, patterns: Floats | None = None) -> tuple[Floats, Floats]:
        """P(click) of each document (n, B, k) and P(any click) of each list (n, B), given the other lists.

        Fills `patterns` (n, B, 2^k), if given, with the probability of each click pattern.
        """
        from foltr_audit.kernels.pattern_posterior import pattern_probabilities
        from foltr_audit.kernels.patterns import marginals

        n, B, k = state.clicks.shape
        scores, any_click = np.zeros((n, B, k)), np.zeros((n, B))
        for b in range(B):
            lengths = self.decoder.replay.lengths[state.message, b]
            posterior = self.posteriors(state, b)
            if self.evidence is not None:
                before = self.decoder.replay.paths(state.message, state.clicks)[b]
                posterior = self.evidence.of_patterns(before, state.message, b, posterior, state.clicks)
            scores[:, b], _, any_click[:, b], _ = marginals(posterior, lengths, k)
            if patterns is not None:
                patterns[:, b] = pattern_probabilities(posterior, lengths)
        return scores, any_click


def joint_clicks(decoder: PatternDecoder, shortlist: int, sweeps: int) -> Bools:
    """Clicks on all lists of a view's messages, bool (n, B, k); without sweeps the relaxed ones, rounded."""
    if not sweeps:
        return np.asarray(ClickRelaxation(decoder.view).starts(_TURNS)[:, 0])
    clicks = np.zeros(decoder.view.shown.shape, np.bool_)
    for found in JointSearch(decoder, shortlist, sweeps).found():
        clicks[found.best.message] = found.clicks
    return clicks
