"""Searches for the clicks on several lists of one message together, by replays of PDGD or a client step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import permutations
from typing import NamedTuple

import numpy as np

from foltr_audit.core.records.view import Inference, View, effects_of_clicks
from foltr_audit.inference.linear_systems import clicks_in_box, with_model_column
from foltr_audit.inference.list_decoder import ListDecoder, ListLikelihood
from foltr_audit.inference.pattern_decoder import PatternAnswer, PatternDecoder, patterns_as_clicks
from foltr_audit.inference.relaxation import ClickRelaxation
from foltr_audit.inference.replay import StepReplay, replay_of
from foltr_audit.privacy.noise import ScaleFreeNoise
from foltr_audit.utils.arrays import Bools, Floats, Ints

_TURNS = 6  # times the relaxed start recomputes the drift of the local model
_TRIED = 32  # patterns of one list that are tried with the best pattern of another
_SOFT = tuple(ScaleFreeNoise(resolution=10.0**level) for level in (-1.5, -2, -2.5, -3, -3.5, -4, -5))
_SOFT_SWEEPS = 2  # passes over the lists at each of these resolutions
_HISTORIES = 16  # click histories kept for each message by the start from lists alone
_STEP_SOFT = tuple(ScaleFreeNoise(resolution=10.0**level) for level in (-1.5, -2.5, -3.5))
_STEP_TURNS = 4  # regressions by a client step, each at the local models of the one before
_REPLAYED = 8  # patterns of a list that are replayed by a client step, which may be slow
_NO_CHANCE = 1e-9  # of a click that no end of a search has
_CHUNK = 64  # messages searched at once: bounds the memory of their hypotheses


class SearchState(NamedTuple):
    """H hypotheses: each about one message, int64 (H,), with clicks (H, B, k) and a log posterior, (H,)."""

    message: Ints
    clicks: Bools
    value: Floats

    def at(self, rows: Ints) -> SearchState:
        return SearchState(self.message[rows], self.clicks[rows], self.value[rows])

    def with_rows(self, rows: Ints, new: SearchState) -> SearchState:
        clicks, value = self.clicks.copy(), self.value.copy()
        clicks[rows], value[rows] = new.clicks, new.value
        return SearchState(self.message, clicks, value)


class BegunPaths(NamedTuple):
    """What hypotheses share that agree in their first b lists: the local models, (b + 1, H, P).

    Also b, and the log probability of the lists up to number b, (H,); None where lists are no evidence.
    """

    models: Floats
    told: tuple[int, Floats] | None


class JointSearchResult(NamedTuple):
    """The best hypothesis for each of H messages, and the share of ends that clicked a document, (H, B, k).

    It is lost where even the best leaves a larger residual than the noise law allows, bool (H,).
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
    message, and the clicks decoded from lists alone are one more start. Where a defense randomises clicks, it
    searches those that clients learn from. By a client step, which may be slow, it starts from fewer places
    and tries less.

    Source: iterated conditional modes, Besag 1986, "On the statistical analysis of dirty pictures",
    section 2.5.
    """

    def __init__(self, decoder: PatternDecoder, shortlist: int, sweeps: int, *, lists: bool = False) -> None:
        """Search with the belief and the noise law of a decoder, in at most so many sweeps over the lists.

        `shortlist` patterns of a list are replayed exactly. Lists may be evidence about the clicks before
        them in views that `why_no_evidence` accepts.
        """
        self.decoder = replace(decoder, reported=True)
        self.evidence = ListLikelihood(self.decoder) if lists else None
        self.view, self.replay = decoder.view, replay_of(decoder.view)
        self.by_step = self.view.knowledge.client_step is not None
        if self.by_step:
            shortlist = _REPLAYED
        patterns = 1 << self.view.shown.shape[2]
        self.shortlist, self.tried = min(shortlist, patterns), min(_TRIED, patterns)
        self.sweeps = sweeps

    def found(self) -> Iterator[JointSearchResult]:
        """Results for all messages, in chunks and in order; none for messages without lists."""
        n, B, _ = self.view.shown.shape
        starts = self.starts()
        if self.evidence is not None:
            told = ListDecoder(self.decoder, _HISTORIES).clicks(np.arange(n))
            starts = np.concatenate([told[:, np.newaxis], starts], axis=1)
        for first in range(0, n if B else 0, _CHUNK):
            rows = np.arange(first, min(first + _CHUNK, n))
            best, votes = self.best(rows, starts[rows])
            # Without a criterion the usual fit is infinite: every message is below it, and none is lost.
            explained = ~self.unexplained(best) | (self.decoder.usual_fit == np.inf) | self.by_step
            yield JointSearchResult(best, votes, ~explained)

    def starts(self) -> Bools:
        """Clicks that the search starts from, (n, S, B, k)."""
        if self.by_step:
            return regression_starts(self.view)
        return ClickRelaxation(self.view).starts(_TURNS)

    def best(self, rows: Ints, starts: Bools) -> tuple[SearchState, Floats]:
        """The best hypothesis found for each of some messages, from starts (rows, S, B, k).

        Also the share of all ends of the search that clicked each document, (rows, B, k).
        """
        n, S, B, _ = starts.shape
        message = np.repeat(rows, S)
        begin = starts.reshape(n * S, *starts.shape[2:])
        clicks = np.concatenate([begin, self.softened(message, begin)]) if B > 1 else begin
        message = np.tile(message, clicks.shape[0] // message.size)
        begun = SearchState(message, clicks, self.values(message, clicks))
        ends = self.settled(begun, self.sweep, self.sweeps)
        # Every message has equally many ends, so sorted rows form a table. A stable sort keeps their order:
        # of equally good ends the same one wins in every run.
        by_message = np.argsort(ends.message, kind="stable").reshape(n, -1)
        best = ends.at(by_message[np.arange(n), ends.value[by_message].argmax(axis=1)])
        votes = ends.clicks[by_message].mean(axis=1)
        open_ = np.flatnonzero(self.unexplained(best))
        if open_.size and B > 1 and not self.by_step:
            best = best.with_rows(open_, self.settled(best.at(open_), self.paired_sweep, self.sweeps))
        return best, votes

    def softened(self, message: Ints, clicks: Bools) -> Bools:
        """Search results from clicks (H, B, k), with numbers exact to few digits at first, then to more.

        The exact likelihood of sparse noise barely distinguishes a wrong hypothesis from a slightly better
        one; a coarse likelihood has fewer local optima. Blake & Zisserman 1987, "Visual reconstruction",
        chapter 7, call this graduated non-convexity.
        """
        laws, sweeps = (_STEP_SOFT, 1) if self.by_step else (_SOFT, _SOFT_SWEEPS)
        for law in laws:
            coarse = JointSearch(
                replace(self.decoder, law=law), self.shortlist, self.sweeps, lists=self.evidence is not None
            )
            state = SearchState(message, clicks, coarse.values(message, clicks))
            clicks = coarse.settled(state, coarse.sweep, sweeps).clicks
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
        models = self.replay.walk(state.message, state.clicks[:, :same])
        told = None
        if self.evidence is not None:
            told = same, np.repeat(self.evidence.of_path(models, state.message), times)
        return BegunPaths(np.repeat(models, times, axis=1), told)

    def values(self, message: Ints, clicks: Bools, begun: BegunPaths | None = None) -> Floats:
        """Log posterior of hypotheses, up to a constant for each message: (H,)."""
        models, told = (None, None) if begun is None else begun
        path = self.replay.paths(message, clicks, models)
        fit = self.decoder.fit(message, path[-1])
        if self.evidence is not None:
            fit += self.evidence.of_path(path[:-1], message, told)
        for b in range(clicks.shape[1]):
            fit += self.decoder.log_prior_of(message, b, clicks[:, b])
        return fit

    def unexplained(self, state: SearchState) -> Bools:
        """Hypotheses that leave a larger residual of a message than the noise law allows, (H,)."""
        final = self.replay.paths(state.message, state.clicks)[-1]
        return self.decoder.fit(state.message, final) < self.decoder.usual_fit

    def posteriors(self, state: SearchState, b: int) -> Floats:
        """Log posterior of every pattern of list b, the others fixed and later steps unchanged: (H, 2^k)."""
        path = self.replay.paths(state.message, state.clicks)
        local = self.replay.before(path, state.message, b)
        rest = path[-1] - path[b + 1] + (path[b] - local)
        likely = self.decoder.likelihoods(state.message, b, local, rest)
        return likely + self.decoder.log_priors(state.message, b)

    def answer(self) -> Inference:
        """The best clicks found; scores are probabilities given the clicks found on the other lists.

        Of a lost message they are the share of ends of the search that clicked each document.
        """
        from foltr_audit.kernels.patterns import MOST_DOCUMENTS

        answer = PatternAnswer(self.view.shown.shape, MOST_DOCUMENTS)
        randomised = self.view.knowledge.click_law is not None
        for found in self.found():
            state, rows = found.best, found.best.message
            for b in range(state.clicks.shape[1]):
                posterior = self.posteriors(state, b)
                if self.evidence is not None:
                    before = self.replay.paths(rows, state.clicks)[b]
                    posterior = self.evidence.of_patterns(before, rows, b, posterior, state.clicks)
                if randomised:
                    posterior[found.lost] = _log_chances(found.votes[found.lost, b])
                    posterior = self.decoder.of_true_clicks(posterior, rows, b)
                answer.add(rows, b, posterior, self.replay.lengths[rows, b])
            if not randomised:
                answer.guess[rows] = found.clicks
                answer.scores[rows[found.lost]] = found.votes[found.lost]
        return answer.inference()


def _log_chances(clicked: Floats) -> Floats:
    """Log probability of every pattern (H, 2^k) of independent clicks with these probabilities (H, k)."""
    clicks = patterns_as_clicks(np.arange(1 << clicked.shape[1]), clicked.shape[1])
    logs = (np.log(np.maximum(chance, _NO_CHANCE)) for chance in (clicked, 1.0 - clicked))
    return np.asarray(sum(log @ where.T for log, where in zip(logs, (clicks, ~clicks), strict=True)))


def joint_clicks(decoder: PatternDecoder, shortlist: int, sweeps: int) -> Bools:
    """Clicks on all lists of a view's messages, bool (n, B, k); without sweeps the relaxed ones, rounded.

    Where a defense randomises clicks, those that clients learn from.
    """
    search = JointSearch(decoder, shortlist, sweeps)
    if not sweeps:
        return np.asarray(search.starts()[:, 0])
    clicks = np.zeros(decoder.view.shown.shape, np.bool_)
    for found in search.found():
        clicks[found.best.message] = found.clicks
    return clicks


def regression_starts(view: View) -> Bools:
    """Rounded clicks of regressions by a client step, each at the local models of the last, (n, 2, B, k)."""
    shape, found = view.shown.shape, list[Bools]()
    for absolute in (True, False):
        columns, values = with_model_column(view), view.click_updates
        for turn in range(_STEP_TURNS if shape[1] > 1 else 1):
            if turn:
                columns[:, :, :-1], values = _added_columns(view, found.pop())
            solved = clicks_in_box(view, columns, absolute=absolute, values=values).reshape(shape)
            found.append((solved > 0.5) & view.is_document)
    return np.stack(found, axis=1)


def _added_columns(view: View, clicks: Bools) -> tuple[Floats, Floats]:
    """What clicks add at the local models of clicks (n, B, k), (n, P, B k); what they explain, (n, P)."""
    n, B, k = clicks.shape
    replay, P = StepReplay(view), view.parameters.shape[1]
    added, values = np.zeros((n, B, k, P)), view.updates.copy()
    models = replay.walk(np.arange(n), clicks)
    for i, b in zip(*np.nonzero(replay.lengths), strict=True):
        L = int(replay.lengths[i, b])
        rows = view.features[i, b, :L]
        still, added[i, b, :L] = effects_of_clicks(replay.client_step, models[b, i], rows)
        values[i] -= still
    return added.reshape(n, B * k, P).transpose(0, 2, 1), values
