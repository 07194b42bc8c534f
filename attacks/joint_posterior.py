"""Decodes the lists of several interactions in one message together, by replaying the client's steps."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from foltr_audit.decoding import Decoder, Prior, patterns_as_clicks, why_too_long
from foltr_audit.plugins import Attack, Inference, View
from foltr_audit.relaxed import RelaxedClicks
from foltr_audit.replay import NEEDS, why_no_replay

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_TURNS = 3  # times the relaxed start reckons the drift of the local model anew
_CHUNK = 64  # messages searched at once: bounds the memory of their hypotheses


class State(NamedTuple):
    """Where the search stands: H hypotheses, each of one message.

    Attributes:
        message: the message of each, int64 (H,).
        clicks: bool (H, B, k).
        value: log posterior, float64 (H,).
    """

    message: Ints
    clicks: Bools
    value: Floats

    def at(self, rows: Ints) -> State:
        """Some of the hypotheses."""
        return State(self.message[rows], self.clicks[rows], self.value[rows])


class JointMaximumPosterior(Attack):
    """Searches for the most probable clicks of all lists of a message at once.

    Starts from relaxed solutions, rounded. Then one list after the other takes its best pattern given the
    others: all 2^k are weighed with the later steps held fixed, and the `shortlist` best of them replayed
    exactly, drift of the local model and clips included, until no list changes. The start with the highest
    posterior wins. It is a search: with many lists it may miss the maximum.

    Sees: the message, the global model, features and order of the shown lists, PDGD's settings, the clip,
    the noise law, the click model with the grades that positions usually show.

    Source: iterated conditional modes, Besag 1986, "On the statistical analysis of dirty pictures",
    section 2.5, on the posterior of `map`.
    """

    name: ClassVar[str] = "joint-map"
    needs: ClassVar[frozenset[str]] = NEEDS
    probabilities: ClassVar[bool] = True

    prior: Prior = Field("position", description="belief before the message: position, relevance or uniform")
    shortlist: int = Field(32, ge=1, le=1024, description="patterns of a list that are replayed exactly")
    sweeps: int = Field(12, ge=1, le=1000, description="most passes over the lists")

    def why_not(self, view: View) -> str | None:
        """Also refuses lists with too many patterns."""
        return super().why_not(view) or why_no_replay(view) or why_too_long(view)

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        """The score is the posterior probability of a click given the guess of all other lists."""
        del rng
        n, B, k = view.shown.shape
        scores, guess, any_click = np.zeros((n, B, k)), np.zeros((n, B, k), np.bool_), np.zeros((n, B))
        search = _Search(Decoder(view, self.prior), self.shortlist, self.sweeps)
        starts = RelaxedClicks(view).starts(_TURNS)
        for first in range(0, n if B else 0, _CHUNK):
            rows = np.arange(first, min(first + _CHUNK, n))
            best = search.best(rows, starts[rows])
            guess[rows] = best.clicks
            scores[rows], any_click[rows] = search.conditionals(best)
        return Inference(scores=scores, guess=guess, any_click=any_click)


class _Search:
    """The search for the most probable clicks of some messages."""

    def __init__(self, decoder: Decoder, shortlist: int, sweeps: int) -> None:
        self.decoder = decoder
        self.view = decoder.view
        self.shortlist = min(shortlist, 1 << self.view.shown.shape[2])
        self.sweeps = sweeps

    def best(self, rows: Ints, starts: Bools) -> State:
        """The best hypothesis found for each of some messages, from starts (rows, S, B, k)."""
        S = starts.shape[1]
        message = np.repeat(rows, S)
        clicks = starts.reshape(rows.size * S, *starts.shape[2:])
        state = State(message, clicks, self.values(message, clicks))
        moving = np.arange(message.size)
        for _ in range(self.sweeps):
            if not moving.size:
                break
            part = state.at(moving)
            after = self.sweep(part)
            state.clicks[moving], state.value[moving] = after.clicks, after.value
            moving = moving[after.value > part.value]
        winner = state.value.reshape(rows.size, S).argmax(axis=1) + S * np.arange(rows.size)
        return state.at(winner)

    def values(self, message: Ints, clicks: Bools) -> Floats:
        """Log posterior of hypotheses, up to one constant a message: (H,)."""
        from foltr_audit.kernels.patterns import log_likelihoods

        final = self.decoder.replay.paths(message, clicks)[-1]
        fit = log_likelihoods(self.view.models[message] - final, self.decoder.table)
        return fit + self.priors(message, clicks)

    def priors(self, message: Ints, clicks: Bools) -> Floats:
        """Log prior of hypotheses, (H,)."""
        total = np.zeros(message.size)
        for b in range(clicks.shape[1]):
            total += self.decoder.log_prior_of(message, b, clicks[:, b])
        return total

    def sweep(self, state: State) -> State:
        """Every list in its turn takes its best pattern given the others."""
        for b in range(state.clicks.shape[1]):
            state = self.improved(state, b)
        return state

    def improved(self, state: State, b: int) -> State:
        """The hypotheses with the best pattern for list b, if one is better."""
        from foltr_audit.kernels.patterns import best_patterns

        M, k = self.shortlist, state.clicks.shape[2]
        likely = best_patterns(self.posteriors(state, b), M)
        message = np.repeat(state.message, M)
        tried = np.repeat(state.clicks, M, axis=0)
        tried[:, b] = patterns_as_clicks(likely.reshape(-1), k)
        tried[:, b] &= self.view.is_document[message, b]
        values = self.values(message, tried).reshape(-1, M)
        pick = values.argmax(axis=1)
        at = np.arange(pick.size)
        better = values[at, pick] > state.value
        clicks = np.where(better[:, np.newaxis, np.newaxis], tried[pick + M * at], state.clicks)
        return State(state.message, clicks, np.where(better, values[at, pick], state.value))

    def posteriors(self, state: State, b: int) -> Floats:
        """Log posterior of every pattern of list b, the others fixed and later steps unchanged: (H, 2^k)."""
        path = self.decoder.replay.paths(state.message, state.clicks)
        rest = path[-1] - path[b + 1]
        likely = self.decoder.likelihoods(state.message, b, path[b], rest)
        return likely + self.decoder.log_priors(state.message, b)

    def conditionals(self, state: State) -> tuple[Floats, Floats]:
        """P(click) of each document (n, B, k) and P(any click) of each list (n, B), the others as guessed."""
        from foltr_audit.kernels.patterns import marginals

        n, B, k = state.clicks.shape
        scores, any_click = np.zeros((n, B, k)), np.zeros((n, B))
        for b in range(B):
            lengths = self.decoder.replay.lengths[state.message, b]
            scores[:, b], _, any_click[:, b], _ = marginals(self.posteriors(state, b), lengths, k)
        return scores, any_click
