"""How many messages the declared step explains, each by the click pattern that reproduces most numbers.

Numbers count as reproduced up to rounding, and up to noise that leaves enough of them to compare.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from foltr_audit.core.records.view import View
from foltr_audit.inference.pattern_decoder import patterns_as_clicks
from foltr_audit.inference.replay import Replay, StepReplay
from foltr_audit.inference.seeded_clients import perturbed_scores
from foltr_audit.privacy.noise import AdditiveNoise, parse_law
from foltr_audit.utils.arrays import Bools, Floats, Ints

LEAST_DOCUMENTS = 4
"""Shorter lists are in the order of seeds by chance too often."""

_SINGLE_PRECISION = 1e-5  # of a list's largest score: clients of FOLtR-ES may compute in it
_RELATIVE = 1e-4  # of the usual size of an update: numbers closer than this count as equal
_MOVED = 8.0  # tolerances that a number must exceed to count as moved
_NUMBERS = 1 << 21  # numbers of the steps of one message at a time: 16 MB
_ARITHMETIC = 2.0**-18  # error of float32 arithmetic over one step, relative to an update's numbers

_SPARE = 0.2  # share of the numbers that sparse noise must leave nearly unchanged
_USUAL = 0.75  # of the noise that a tolerance for dense noise covers
_LEAST = 4  # numbers that must be reproduced at least on average
_LEAST_DENSE = 8  # numbers that must stand out of dense noise
_STANDS_OUT = 5.0  # times as many numbers must stand out as noise alone would make


class MatchTolerance(NamedTuple):
    """How near a number must come to count as reproduced.

    Attributes:
        near: tolerance of each number of a message, (n, P), without the part that depends on the step.
        step: that part, relative to the size of a step.
        moved: numbers that count, (n, P): those that are far enough from 0.
    """

    near: Floats
    step: float
    moved: Bools


@dataclass(frozen=True)
class ExplanationThreshold:
    """What counts as an explained message.

    Attributes:
        size: the usual size of an update's numbers.
        noise: size of noise that a reproduced number may have.
        share: the share of the moved numbers that must be reproduced.
        least: the fewest numbers that must have moved for a message to count.
        by_noise: the most numbers that noise alone moves.
    """

    size: float
    noise: float = 0.0
    share: float = 0.5
    least: int = _LEAST
    by_noise: float = 0.0

    @classmethod
    def of(cls, views: Sequence[View]) -> Self | None:
        """What counts as explained under the declared noise; None: noise hides all.

        Where noise leaves a fifth of the numbers nearly unchanged, these decide. Otherwise a tolerance covers
        three quarters of the noise, and only numbers count that are four times as large.
        """
        size = float(np.median(np.concatenate([usual_size(view) for view in views])))
        stated, P = views[0].knowledge.noise, views[0].parameters.shape[1]
        law = None if stated in (None, "none") else parse_law(str(stated))
        within = None if law is None else law.probability_within(_RELATIVE * size)
        if law is None or within is None:
            return cls(size)
        untouched = float(within)
        if untouched >= _SPARE:
            least = int(np.ceil(_LEAST / untouched))
            return cls(size, share=untouched / 2, least=least, by_noise=_most_moved(1 - untouched, P))
        noise = _usual_noise(law, size)
        if noise is None:
            return None
        outside = 1.0 - float(law.probability_within(4.0 * noise) or 0.0)
        standing = np.concatenate([np.abs(view.updates).reshape(-1) > 4.0 * noise for view in views])
        if standing.mean() <= _STANDS_OUT * outside:
            return None
        return cls(size, noise=noise, least=_LEAST_DENSE, by_noise=_most_moved(outside, P))

    def tolerance(self, view: View) -> MatchTolerance:
        """The tolerance for rounding, features' included, and for noise."""
        resolution = max(view.knowledge.resolution, view.feature_resolution)
        values = 4.0 * resolution * (np.abs(view.messages) + np.abs(view.parameters))
        usual = np.maximum(usual_size(view), 0.1 * self.size)[:, np.newaxis]
        near = _RELATIVE * usual + values + self.noise
        far = 4.0 * self.noise if self.noise else _MOVED * near
        return MatchTolerance(near, 8.0 * resolution, np.abs(view.updates) > far)


def usual_size(view: View) -> Floats:
    """The median size of each update's numbers that are not 0, (n,)."""
    sizes = np.abs(view.updates)
    known = np.where(sizes > 0, sizes, np.nan)
    known[~(sizes > 0).any(axis=1)] = 0.0
    return np.asarray(np.nanmedian(known, axis=1))


def _most_moved(probability: float, P: int) -> float:
    """The most of P numbers that noise moves: the mean and three standard deviations."""
    probability = min(max(probability, 0.0), 1.0)
    return float(P * probability + 3.0 * np.sqrt(P * probability * (1.0 - probability)))


def _usual_noise(law: AdditiveNoise, size: float) -> float | None:
    """The size that three quarters of the noise are within, if it is below the usual size of an update."""
    sizes = size * np.geomspace(_RELATIVE, 1.0, 200)
    inside = law.probability_within(sizes)
    if inside is None or not np.any(inside >= _USUAL):
        return None
    return float(sizes[np.argmax(inside >= _USUAL)])


@dataclass(frozen=True)
class ExplanationCount:
    """How many of the messages that count are explained.

    Attributes:
        explained: how many.
        messages: how many count.
        clicked: the mean share of a list that is clicked where it is explained.
    """

    explained: int
    messages: int
    clicked: float

    @property
    def share(self) -> float:
        """The share of messages; 0 without any."""
        return self.explained / self.messages if self.messages else 0.0


def explain(views: Sequence[View], threshold: ExplanationThreshold, sign: int = 1) -> ExplanationCount:
    """How many messages of one list the declared step times `sign` explains, each by its best clicks."""
    explained, messages, clicked = 0, 0, 0.0
    for view in views:
        tolerance = threshold.tolerance(view)
        reproduced, share = _best_patterns(view, tolerance, sign)
        moved = tolerance.moved.sum(axis=1)
        counts = (moved >= threshold.least) & (moved > threshold.by_noise)
        good = counts & (reproduced > threshold.share * moved)
        explained, messages = explained + int(good.sum()), messages + int(counts.sum())
        clicked += float(share[good].sum())
    return ExplanationCount(explained, messages, clicked / max(1, explained))


def _best_patterns(view: View, tolerance: MatchTolerance, sign: int) -> tuple[Ints, Floats]:
    """Moved numbers that the best click pattern of each message reproduces, and the share that it clicks."""
    steps: PdgdSteps | _OwnSteps
    steps = PdgdSteps(view, tolerance.step) if view.knowledge.client_step is None else _OwnSteps(view)
    lengths = view.is_document.sum(axis=2)[:, 0]
    reproduced, clicked = np.zeros(len(view), dtype=np.int64), np.zeros(len(view))
    for i in range(len(view)):
        moved = tolerance.moved[i]
        update, near = sign * view.updates[i, moved], tolerance.near[i, moved]
        for first, updates, slack in steps.of(i):
            count = (np.abs(updates[:, moved] - update) <= near + slack[:, moved]).sum(axis=1)
            best = int(count.argmax())
            if count[best] > reproduced[i]:
                reproduced[i], clicked[i] = count[best], (first + best).bit_count() / max(1, lengths[i])
    return reproduced, clicked


class PdgdSteps:
    """PDGD's updates for every click pattern of messages with one list each."""

    def __init__(self, view: View, rounding: float = 0.0) -> None:
        """Under what the view knows; `rounding` of updates is relative to the size of a step."""
        self.replay, every = Replay(view), np.arange(len(view))
        self.rounding = rounding * abs(self.replay.learning_rate)
        self.weights = self.replay.weights(view.parameters, every, 0)
        self.rows = self.replay.jacobian(view.parameters, every, 0)

    def of(self, i: int) -> Iterator[tuple[int, Floats, Floats]]:
        """The first pattern of some at a time, and their updates and the rounding of these, both (H, P)."""
        L, P = int(self.replay.lengths[i, 0]), self.rows.shape[2]
        rows, weights = self.rows[i, :L], self.weights[i, :L, :L]
        largest = np.abs(rows).max(axis=0, initial=0.0)
        batch = max(1, _NUMBERS // max(1, P))
        for first in range(0, 1 << L, batch):
            clicks = patterns_as_clicks(np.arange(first, min(first + batch, 1 << L)), L)
            by_document = coefficients(weights, clicks, only_observed=self.replay.only_observed)
            size = np.abs(by_document).sum(axis=1)
            updates = self._sent(i, self.replay.learning_rate * (by_document @ rows), size > 0)
            yield first, updates, self.rounding * size[:, np.newaxis] * largest

    def _sent(self, i: int, steps: Floats, have_pairs: Bools) -> Floats:
        """The updates that clients send after these steps, (H, P)."""
        start, known = self.replay.view.parameters[i], self.replay.view.knowledge
        if known.clip is None:
            return self.replay.sent(steps)
        models = start + steps
        acts = have_pairs | known.clip_without_pairs
        return np.asarray(np.where(acts[:, np.newaxis], self.replay.clipped(models), models) - start)


def coefficients(weights: Floats, clicks: Bools, *, only_observed: bool) -> Floats:
    """What each document's Jacobian row is multiplied by, (H, L), of patterns (H, L) with weights (L, L)."""
    c = clicks.astype(np.float64)
    seen = np.ones(c.shape)
    if only_observed:
        rank = np.arange(clicks.shape[1])
        last = np.where(clicks, rank, -2).max(axis=1, initial=-2)[:, np.newaxis]
        seen = (rank <= last + 1).astype(np.float64)
    return np.asarray(seen * (c * (seen @ weights) - (seen * c) @ weights))


class _OwnSteps:
    """The updates of the view's client step for every click pattern of messages with one list each."""

    def __init__(self, view: View) -> None:
        self.replay = StepReplay(view)

    def of(self, i: int) -> Iterator[tuple[int, Floats, Floats]]:
        """As `PdgdSteps.of`."""
        start = self.replay.view.parameters[i]
        for first, local in self.replay.patterns(i, 0, start):
            yield first, local - start, _ARITHMETIC * np.abs(local - start)


def follow_from_seeds(view: View) -> Bools:
    """Which messages have lists in the order of the scores that their seed makes (FOLtR-ES).

    Args:
        view: messages whose seeds, sigma, perturbation and features are known.

    Returns:
        Bool, one for each message with a list of `LEAST_DOCUMENTS` or more.
    """
    long = view.is_document.sum(axis=2) >= LEAST_DOCUMENTS
    scores = np.where(view.is_document, perturbed_scores(view), -np.inf)
    largest = np.abs(np.where(view.is_document, scores, 0.0)).max(axis=2, initial=0.0)
    room = _SINGLE_PRECISION * largest[..., np.newaxis]
    falling = np.all(scores[:, :, 1:] <= scores[:, :, :-1] + room, axis=2)
    return np.asarray((falling | ~long).all(axis=1)[long.any(axis=1)])
