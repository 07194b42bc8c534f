"""Likelihoods and priors of click patterns, from what an observer knows; the basis of every decoder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np

from foltr_audit.core.records.view import Inference, Knowledge, View
from foltr_audit.inference.replay import Replay, StepReplay
from foltr_audit.privacy.noise import AdditiveNoise, NoiseLaw, RoundingNoise, ScaleFreeNoise, parse_law
from foltr_audit.utils.array_memo import remembered
from foltr_audit.utils.arrays import Bools, Floats, Ints

if TYPE_CHECKING:
    from foltr_audit.kernels.density import DensityTable
    from foltr_audit.kernels.patterns import ClipRule

Prior = Literal["position", "relevance", "uniform"]

_RARE = 4.0  # standard deviations below the mean where the fit of the right clicks rarely is
_CHUNK_PATTERNS = 1 << 19  # patterns in one chunk: 4 MB for each float64 per pattern


def noise_law(known: Knowledge) -> AdditiveNoise | RoundingNoise | ScaleFreeNoise:
    """The law of the residual of a message under the right model.

    Without noise it is the law of rounding; an unknown law is assumed to be heavy-tailed without a scale.
    """
    resolution = max(known.resolution, known.encoding_error)
    if known.noise == "none":
        return RoundingNoise(resolution=resolution)
    law = None if known.noise is None else parse_law(known.noise)
    return law or ScaleFreeNoise(resolution=resolution)


@lru_cache(maxsize=64)
def density_table(law: NoiseLaw) -> DensityTable:
    from foltr_audit.kernels.density import tabulate

    return tabulate(law.log_density, law.scale)


@lru_cache(maxsize=64)
def usual_log_density(law: NoiseLaw, least: float) -> tuple[float, float, float]:
    """Mean and standard deviation of a law's log density at its own draws, and how many lie below `least`.

    Draws below `least` count as `least`. By the trapezoid rule over |x| on a logarithmic scale.
    """
    from scipy.integrate import trapezoid

    # The density of a noise share may be infinite at 0, with much of its mass many decades below its scale;
    # a grid of equal steps would miss it.
    x = np.geomspace(least, 1e4 * law.scale, 20_001)
    values = law.log_density(x)
    density = 2.0 * np.exp(values)
    small = max(0.0, 1.0 - float(trapezoid(density, x)))
    mean = float(trapezoid(density * values, x)) + small * float(values[0])
    far = (values - mean) ** 2
    spread = float(trapezoid(density * far, x)) + small * float(far[0])
    return mean, float(np.sqrt(spread)), small


def why_too_long(view: View) -> str | None:
    from foltr_audit.kernels.patterns import MOST_WEIGHED

    if view.width <= MOST_WEIGHED:
        return None
    return f"a list has {view.width} documents; it weighs every click pattern of up to {MOST_WEIGHED}"


def click_beliefs(view: View, prior: Prior) -> tuple[Floats, Floats]:
    """P(click | examined) and P(stop | clicked) of each document before its message, each (n, B, k)."""
    belief, shape = view.knowledge.belief, view.shown.shape
    if prior == "uniform" or belief is None:
        return np.full(shape, 0.5), np.zeros(shape)
    if prior == "relevance" and view.labels is not None:
        return belief.by_grade(view.labels)
    click, stop = belief.by_position(shape[2])
    return np.broadcast_to(click, shape), np.broadcast_to(stop, shape)


@dataclass(frozen=True, eq=False)
class PatternDecoder:
    """Weighs the click patterns of a view's lists.

    `prior` says how likely clicks are before the message: by `position`, by known `relevance`, or `uniform`;
    one that the observer does not know falls back to `position`, then to `uniform`. Where a defense
    randomises clicks by a known law, patterns are those of the true clicks, or of the `reported` ones, from
    which clients learn.
    """

    view: View
    prior: Prior = "position"
    law: NoiseLaw | None = None
    reported: bool = False

    @cached_property
    def replay(self) -> Replay:
        return Replay(self.view)

    @cached_property
    def table(self) -> DensityTable:
        return density_table(self.law or noise_law(self.view.knowledge))

    @cached_property
    def ball(self) -> ClipRule:
        from foltr_audit.kernels.patterns import ClipRule

        known = self.view.knowledge
        if known.update_clip is not None:
            return ClipRule(known.update_clip.norm, known.update_clip.ord, True)
        norm, order = (known.clip.norm, known.clip.ord) if known.clip else (np.inf, 2)
        return ClipRule(norm, order, known.clip_without_pairs)

    @cached_property
    def usual_fit(self) -> float:
        """Log likelihood that the right clicks rarely fall below; infinite if it is not a criterion.

        It is a criterion if most of the noise is nearly 0, since then wrong clicks fit worse.
        """
        law, P = noise_law(self.view.knowledge), self.view.parameters.shape[1]
        least = max(self.view.knowledge.resolution, 1e-9 * law.scale)
        mean, spread, small = usual_log_density(law, least)
        return P * mean - _RARE * spread * float(np.sqrt(P)) if small > 0.5 else np.inf

    def fit(self, messages: Ints, models: Floats) -> Floats:
        """Log likelihood of final local models (H, P), given some messages (H,): (H,)."""
        from foltr_audit.kernels.patterns import log_likelihoods

        return log_likelihoods(self.view.models[messages] - models, self.table)

    def chunks(self) -> Iterator[Ints]:
        n, _, k = self.view.shown.shape
        size = max(1, _CHUNK_PATTERNS >> k)
        for first in range(0, n, size):
            yield np.arange(first, min(first + size, n))

    def likelihoods(self, messages: Ints, b: int, models: Floats, rest: Floats | None = None) -> Floats:
        """Log likelihood of every pattern of list b of some messages (H,): (H, 2^k).

        `models` (H, P) are the local models before that interaction, `rest` (H, P) the sum of
        later steps.
        """
        by_step = self.view.knowledge.client_step is not None
        found = (self._by_client_step if by_step else self._by_pdgd)(messages, b, models, rest)
        return found if self.reported else self.before_reports(found, messages, b)

    def before_reports(self, likelihoods: Floats, messages: Ints, b: int) -> Floats:
        """Log likelihood of every pattern of true clicks on list b of some messages (H,), (H, 2^k).

        From that of every pattern of reported clicks, which is the same without a click law.
        """
        from foltr_audit.kernels.patterns import before_reports

        law, lengths = self.view.knowledge.click_law, self.view.is_document[messages, b].sum(axis=1)
        if law is None:
            return likelihoods
        return before_reports(likelihoods, lengths, (law.unclicked, law.clicked))

    def of_true_clicks(self, posterior: Floats, messages: Ints, b: int) -> Floats:
        """Log posterior of every pattern of true clicks on list b of some messages (H,), (H, 2^k).

        From that of every pattern of reported clicks, which is the same without a click law.
        """
        if self.view.knowledge.click_law is None:
            return posterior
        true, reported = (replace(self, reported=kind).log_priors(messages, b) for kind in (False, True))
        possible = (posterior > -np.inf) & (reported > -np.inf)
        likely = np.subtract(posterior, reported, out=np.full(posterior.shape, -np.inf), where=possible)
        return self.before_reports(likely, messages, b) + true

    def _by_pdgd(self, messages: Ints, b: int, models: Floats, rest: Floats | None) -> Floats:
        from foltr_audit.kernels.patterns import pattern_likelihoods

        replay = self.replay
        received = self.view.models[messages]
        # A clip of the update is one of the model whose origin is the model that the update starts from.
        origin = models if self.view.knowledge.update_clip is not None else np.zeros_like(models)
        received = received - origin if rest is None else received - origin - rest
        return pattern_likelihoods(
            np.ascontiguousarray(received),
            np.ascontiguousarray(models - origin),
            replay.learning_rate * replay.jacobian(models, messages, b),
            replay.weights(models, messages, b),
            replay.lengths[messages, b],
            replay.only_observed,
            self.ball,
            self.table,
        )

    def _by_client_step(self, messages: Ints, b: int, models: Floats, rest: Floats | None) -> Floats:
        from foltr_audit.kernels.patterns import log_likelihoods

        replayed = StepReplay(self.view)
        out = np.full((messages.size, 1 << self.view.shown.shape[2]), -np.inf)
        for row, i in enumerate(messages.tolist()):
            received = self.view.models[i] if rest is None else self.view.models[i] - rest[row]
            for first, local in replayed.patterns(i, b, models[row]):
                out[row, first : first + len(local)] = log_likelihoods(received - local, self.table)
        return out

    def coefficients(self, messages: Ints) -> tuple[Floats, Floats]:
        """What each pattern of the first list of some messages (H,) adds to an update, as a sum of columns.

        The terms of `kernels.patterns.pattern_terms`, whose first k + 1 numbers are coefficients of the
        columns, (H, P, k + 1): documents and, last, the model.
        """
        from foltr_audit.kernels.patterns import pattern_terms

        replay = self.replay
        theta = np.ascontiguousarray(self.view.parameters[messages])
        J = np.ascontiguousarray(replay.jacobian(theta, messages, 0))
        weights, lengths = replay.weights(theta, messages, 0), replay.lengths[messages, 0]
        terms = pattern_terms(
            weights, J, theta, lengths, replay.learning_rate, replay.only_observed, self.ball
        )
        return terms, np.concatenate([J.transpose(0, 2, 1), theta[:, :, np.newaxis]], axis=2)

    def lists(self) -> Iterator[tuple[Ints, Ints]]:
        """Some lists at a time: their messages (H,), and their numbers in these (H,).

        Of few messages with many lists several numbers together, as in sums over all clients.
        """
        B = self.view.shown.shape[1]
        for messages in self.chunks():
            together = max(1, (_CHUNK_PATTERNS >> self.view.shown.shape[2]) // messages.size)
            for b in range(0, B, together):
                numbers = np.arange(b, min(b + together, B))
                yield np.tile(messages, numbers.size), np.repeat(numbers, messages.size)

    def log_priors(self, messages: Ints, b: int) -> Floats:
        """Log prior of every pattern of list b of some messages (H,): (H, 2^k)."""
        priors, _, which = self.distinct_log_priors(messages, b)
        return priors[which]

    def distinct_log_priors(self, messages: Ints, b: int | Ints) -> tuple[Floats, Ints, Ints]:
        """The different log priors of list b, or lists b (H,), of some messages (H,): most lists are alike.

        Log priors of every pattern (D, 2^k), the lengths of their lists (D,), and which of them each message
        has, (H,). Do not write to them.
        """
        from foltr_audit.kernels.patterns import cascade_log_priors

        (click, stop), reports = (each[messages, b] for each in self._beliefs), self._reports
        lengths = self.view.is_document[messages, b].sum(axis=1)
        facts = np.column_stack([click, stop, lengths])
        _, first, which = np.unique(facts, axis=0, return_index=True, return_inverse=True)
        click, stop, lengths = (np.ascontiguousarray(one[first]) for one in (click, stop, lengths))

        def key() -> tuple[object, ...]:
            return "log priors", click.shape, click.tobytes(), stop.tobytes(), lengths.tobytes(), reports

        # Attacks, and the judge, ask for those of one view.
        priors = remembered(key, lambda: cascade_log_priors(click, stop, lengths, reports))
        return priors, lengths, which.reshape(-1)

    def log_prior_of(self, messages: Ints, b: int | Ints, clicks: Bools) -> Floats:
        """Log prior of clicks (H, k) on list b, or lists b (H,), of some messages (H,): (H,)."""
        from foltr_audit.kernels.patterns import cascade_log_prior

        lengths = self.view.is_document[messages, b].sum(axis=1)
        patterns = clicks @ (1 << np.arange(clicks.shape[1]))
        click, stop = (np.ascontiguousarray(each[messages, b]) for each in self._beliefs)
        return cascade_log_prior(click, stop, lengths, patterns, self._reports)

    @property
    def _reports(self) -> tuple[float, float]:
        """The click law where patterns are those of reported clicks."""
        from foltr_audit.kernels.patterns import AS_THEY_ARE

        law = self.view.knowledge.click_law
        return (law.unclicked, law.clicked) if self.reported and law is not None else AS_THEY_ARE

    @cached_property
    def _beliefs(self) -> tuple[Floats, Floats]:
        return click_beliefs(self.view, self.prior)


def patterns_as_clicks(patterns: Ints, k: int) -> Bools:
    """Patterns (...) as clicks (..., k): document j is clicked where bit j is set.

    >>> patterns_as_clicks(np.array([5]), 3)
    array([[ True, False,  True]])
    """
    return np.asarray((patterns[..., np.newaxis] >> np.arange(k)) & 1 == 1)


Guess = Literal["pattern", "marginal"]


def shares(evidence: Floats) -> Floats:
    """Softmax over the last axis; 0 throughout where all are -inf, e.g. in a list without documents."""
    from scipy.special import softmax

    if not evidence.size:
        return np.zeros(evidence.shape)
    # `softmax` returns NaN for a row of -inf, so such rows are replaced before and after.
    possible = evidence.max(axis=-1, keepdims=True) > -np.inf
    return np.where(possible, softmax(np.where(possible, evidence, 0.0), axis=-1), 0.0)


class PatternAnswer:
    """The answer of an attack, list by list from posteriors of click patterns; lists without one have none.

    Attributes:
        scores, guess: P(click) and the most probable clicks of each document, (n, B, k).
        any_click: P(any click), (n, B).
        patterns: probability of each pattern, (n, B, 2^k); None for lists of more than `most` documents.
    """

    def __init__(self, shape: tuple[int, int, int], most: int) -> None:
        n, B, k = shape
        self.scores, self.guess, self.any_click = np.zeros(shape), np.zeros(shape, np.bool_), np.zeros((n, B))
        self.patterns = np.zeros((n, B, 1 << k)) if k <= most else None

    def add(self, rows: Ints, b: int, posterior: Floats, lengths: Ints) -> None:
        """List b of some messages (H,): log posterior up to a constant, (H, 2^k), and lengths (H,)."""
        from foltr_audit.kernels.patterns import marginals, pattern_probabilities

        k = self.scores.shape[2]
        self.scores[rows, b], best, self.any_click[rows, b], _ = marginals(posterior, lengths, k)
        self.guess[rows, b] = patterns_as_clicks(best, k)
        if self.patterns is not None:
            self.patterns[rows, b] = pattern_probabilities(posterior, lengths)

    def inference(self) -> Inference:
        return Inference(
            scores=self.scores, guess=self.guess, any_click=self.any_click, patterns=self.patterns
        )


def answer_of(
    decoder: PatternDecoder, posteriors: Iterable[tuple[Ints, int, Floats]], guess: Guess
) -> Inference:
    """The answer of an attack on the view of a decoder, from the posterior of each list.

    Each has numbers of messages (H,), which of their lists, and the log posterior of all click patterns of
    that list up to a constant, (H, 2^k). The guess is the most probable pattern, or every document that is
    more likely clicked than not.
    """
    from foltr_audit.kernels.patterns import MOST_WEIGHED

    answer = PatternAnswer(decoder.view.shown.shape, MOST_WEIGHED)
    for rows, b, posterior in posteriors:
        answer.add(rows, b, posterior, decoder.replay.lengths[rows, b])
    if guess == "marginal":
        answer.guess = answer.scores > 0.5
    return answer.inference()
