"""What a FOLtR-ES message (a seed and online metrics) reveals about the clicks behind it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import ClassVar, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from foltr_audit.core.ranking_metrics import LIST_LENGTH, ListMetric, list_metric
from foltr_audit.inference.pattern_decoder import PatternAnswer, PatternDecoder, Prior
from foltr_audit.inference.seeded_clients import (
    SeededClients,
    first_half,
    interactions,
    perturbed_scores,
    why_not_seeded,
)
from foltr_audit.plugins import Attack, Inference, View
from foltr_audit.privacy.randomized_response import RandomizedResponse
from foltr_audit.utils.arrays import Bools, Features, Floats, Ints

MOST_SUMS = 1 << 16
"""Most distinct sums; tables of more would take too much memory."""


class ReciprocalRankSums(NamedTuple):
    """The possible sums of some reciprocal ranks, in whole units.

    Attributes:
        unit: units in 1: the least common multiple of the ranks.
        totals: sums of n values, sorted, int64 (T,).
        after: index, among the sums of j + 1 values, of a sum of j plus value r, int32 (n, widest, v).
        sizes: number of distinct sums of j values, j = 0 .. n, int64 (n + 1,).
    """

    unit: int
    totals: Ints
    after: NDArray[np.int32]
    sizes: Ints

    def nearest(self, means: Floats) -> Ints:
        """Index of the sum nearest to each mean (m,) of n values, int64 (m,)."""
        wanted = means * (self.sizes.size - 1) * self.unit
        right = np.clip(np.searchsorted(self.totals, wanted), 1, max(1, self.totals.size - 1))
        if self.totals.size < 2:
            return np.zeros(means.size, dtype=np.int64)
        low, high = self.totals[right - 1], self.totals[right]
        return np.asarray(np.where(wanted - low <= high - wanted, right - 1, right), dtype=np.int64)


@lru_cache(maxsize=16)
def reachable_sums(n: int, k: int) -> ReciprocalRankSums | None:
    """The sums of n reciprocal ranks of up to k documents each; None if there are more than `MOST_SUMS`."""
    unit = math.lcm(*range(1, k + 1))
    values = np.array([0, *(unit // rank for rank in range(1, k + 1))], dtype=np.int64)
    levels, tables = [np.zeros(1, dtype=np.int64)], []
    for _ in range(n):
        ahead = levels[-1][:, np.newaxis] + values
        levels.append(np.unique(ahead))
        if levels[-1].size > MOST_SUMS:
            return None
        tables.append(np.searchsorted(levels[-1], ahead).astype(np.int32))
    after = np.zeros((n, max((len(table) for table in tables), default=1), k + 1), dtype=np.int32)
    for j, table in enumerate(tables):
        after[j, : len(table)] = table
    return ReciprocalRankSums(unit, levels[-1], after, np.array([level.size for level in levels]))


def mean_likelihoods(means: Floats, laws: Floats) -> Floats:
    """P(mean | value r of interaction i), where the others follow their laws: float64 (m, n, v).

    The means (m,) are of n reciprocal ranks each. They may be rounded: the nearest possible one is used. The
    laws are P(value) of every interaction, of no click and then of each rank of the first, (m, n, v).
    """
    from foltr_audit.kernels.click_sums import sum_likelihoods

    _, n, v = laws.shape
    sums = reachable_sums(n, v - 1)
    if sums is None:
        raise ValueError(f"{n} reciprocal ranks of up to {v - 1} make more than {MOST_SUMS} sums")
    places = sums.nearest(np.asarray(means, dtype=np.float64))
    return sum_likelihoods(np.ascontiguousarray(laws), places, sums.after, sums.sizes)


_EQUAL = 1e-9  # probabilities that differ by less, relatively, count as equal


class ESFirstClick(Attack):
    """Replays the perturbed ranking from the seed and weighs every possible rank of the first click.

    The posterior combines the click belief with the law of the privatised metric. It is exact: for one
    interaction in a half by Bayes' rule, for several by a sum over all multisets of reciprocal ranks that
    explain the mean. Clicks after the first one follow the belief. The guess is the most probable first
    click and the later documents that, given it, were more likely clicked than not. A single DCG value
    reveals the whole click pattern; means of several are refused. An observer without the law assumes a p
    halfway between 1 / v and 1, the middle of its possible range.

    Sees: seed and metrics, the global model, sigma, features of the shown documents (their order follows
    from the seed), the metric, the law of its privatisation, the click model with the usual grades by
    position, or with `prior=relevance` the grades of the documents.

    Source: Kharitonov 2019, "Federated online learning to rank with evolution strategies", sections 4 and 5,
    for the message and its law; Baum et al. 1970 for the recursions over the interactions of a mean.
    """

    name: ClassVar[str] = "es-first-click"
    strongest: ClassVar[bool] = True
    reads: ClassVar[frozenset[str]] = frozenset({"es"})
    needs: ClassVar[frozenset[str]] = frozenset({"shown", "metric"})
    probabilities: ClassVar[bool] = True

    prior: Prior = Field("position", description="belief before the message: position, relevance or uniform")

    def why_not(self, view: View) -> str | None:
        return super().why_not(view) or _why_no_order(view) or _why_no_metric(view)

    def exact_posterior(self, view: View) -> bool:
        """Whether its patterns are the true posterior: grades, click model and the metric's law are known."""
        known = view.knowledge
        return (
            self.prior == "relevance"
            and view.labels is not None
            and known.belief is not None
            and _law(view, 2) is not None
        )

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        """The score is the posterior probability of a click."""
        metric = list_metric(str(view.knowledge.metric))
        here = view.trimmed()
        order = None if view.knowledge.order else replayed_order(here)
        seen = here if order is None else _reordered(here, order)
        answer = _PatternPosterior(seen.trimmed(), metric, self.prior).answer().widened(here.shown.shape[2])
        return (answer if order is None else _restored(answer, order)).widened(view.shown.shape[2])


def _law(view: View, values: int) -> RandomizedResponse | None:
    """The law of one metric with this many values, or None if the observer does not know it."""
    text = view.knowledge.noise
    return None if text is None else RandomizedResponse.parse(text, values)


def replayed_order(view: View) -> Ints:
    """Indices of each list's documents in the order in which the perturbed models show them, (n, B, k)."""
    # The last key counts first: padding at the end, then by score. Nobody but the client knows the order of
    # equal scores.
    return np.lexsort((view.shown, -perturbed_scores(view), ~view.is_document), axis=-1)


def _why_no_order(view: View) -> str | None:
    known = view.knowledge
    if known.order:
        return None
    if view.seeds is None or not known.has("sigma") or not known.features:
        return "the observer knows neither the order nor seed, sigma and features, from which it follows"
    if known.perturbation is None:
        return (
            "the observer does not know: order, nor how perturbations follow from seeds (fact perturbation)"
        )
    return "the observer does not know: order (lists are sampled)" if known.lists == "sampled" else None


def _why_no_metric(view: View) -> str | None:
    metric = view.knowledge.metric
    most = int(first_half(view).max(initial=0))
    if metric not in ("maxrr", "dcg"):
        return f"unknown metric {metric!r}; expected maxrr or dcg"
    if view.width > LIST_LENGTH:
        return f"a list has {view.width} documents; expected up to {LIST_LENGTH}"
    if metric == "dcg" and most > 1:
        return f"it decodes averages of MaxRR only; here DCG of {most} interactions"
    if metric == "maxrr" and most > 1 and reachable_sums(most, LIST_LENGTH) is None:
        return f"averages over {most} interactions have more than {MOST_SUMS} values"
    needed = 2 if view.knowledge.antithetic else 1
    width = view.messages.shape[1]
    return None if width >= needed else f"a message has {width} metrics; expected {needed}"


def _reordered(view: View, order: Ints) -> View:
    labels = None if view.labels is None else np.take_along_axis(view.labels, order, axis=2)
    features = cast(Features, np.take_along_axis(view.features, order[..., np.newaxis], axis=2))
    return replace(
        view, shown=np.take_along_axis(view.shown, order, axis=2), features=features, labels=labels
    )


def _restored(answer: Inference, order: Ints) -> Inference:
    scores, guess = np.empty_like(answer.scores), np.empty_like(answer.guess)
    np.put_along_axis(scores, order, answer.scores, axis=2)
    np.put_along_axis(guess, order, answer.guess, axis=2)
    patterns = None
    if answer.patterns is not None:
        n, B, k = order.shape
        size = answer.patterns.shape[2]
        numbers = np.zeros((n, B, size), dtype=np.int64)
        for place in range(size.bit_length() - 1):
            numbers += ((np.arange(size) >> place) & 1) << order[:, :, place : place + 1]
        patterns = np.zeros((n, B, 1 << k))
        np.put_along_axis(patterns, numbers, answer.patterns, axis=2)
    return replace(answer, scores=scores, guess=guess, patterns=patterns)


@dataclass(frozen=True, eq=False)
class _PatternPosterior:
    """Posterior of the click patterns of a view's lists, whose documents are in the order shown."""

    view: View
    metric: ListMetric
    prior: Prior

    @cached_property
    def law(self) -> RandomizedResponse:
        """The law by which a value is reported; an assumed one if it is unknown."""
        v = self.metric.values.size
        return _law(self.view, v) or RandomizedResponse((1 + 1 / v) / 2, v)

    def through(self, weights: Floats) -> Floats:
        """Maps weights (..., v) of true values to weights of reports, or back: `weights @ law.matrix`."""
        other = (1.0 - self.law.p) / (self.law.values - 1)
        return np.asarray(other * weights.sum(axis=-1, keepdims=True) + (self.law.p - other) * weights)

    def answer(self) -> Inference:
        from foltr_audit.kernels.patterns import MOST_DOCUMENTS

        _, B, k = self.view.shown.shape
        answer = PatternAnswer(self.view.shown.shape, MOST_DOCUMENTS)
        believer, blind = PatternDecoder(self.view, self.prior), PatternDecoder(self.view, "uniform")
        outcomes = self.metric.outcomes[: 1 << k]
        for rows in believer.chunks():
            likely, without = self.likelihoods(believer, blind, rows)
            for b in range(B):
                beliefs = believer.log_priors(rows, b)
                beliefs[without[:, b]] = blind.log_priors(rows[without[:, b]], b)
                # An outcome that the message rules out correctly gets the logarithm -inf.
                with np.errstate(divide="ignore"):
                    posterior = beliefs + np.log(likely[:, b, outcomes])
                lengths = self.view.is_document[rows, b].sum(axis=1)
                answer.add(rows, b, posterior, lengths)
                answer.guess[rows, b] = self.named(posterior, lengths)
        return answer.inference()

    def named(self, posterior: Floats, lengths: Ints) -> Bools:
        """Clicks (H, k) of the most probable outcome, each more likely than not given that outcome.

        Of equally probable outcomes the first is chosen.
        """
        from foltr_audit.kernels.patterns import marginals

        k = self.view.shown.shape[2]
        outcomes = self.metric.outcomes[: 1 << k]
        weights = np.exp(posterior - posterior.max(axis=1, keepdims=True))
        by_outcome = _by_outcome(weights, outcomes, self.metric.values.size)
        best = (by_outcome >= (1 - _EQUAL) * by_outcome.max(axis=1, keepdims=True)).argmax(axis=1)
        given = np.where(outcomes == best[:, np.newaxis], posterior, -np.inf)
        return np.asarray(marginals(given, lengths, k)[0] > 0.5)

    def likelihoods(
        self, believer: PatternDecoder, blind: PatternDecoder, rows: Ints
    ) -> tuple[Floats, Bools]:
        """P(message | outcome of a list) of some messages, (H, B, v); the other lists follow the belief.

        Also the lists (H, B) whose message is impossible under the belief; these are weighed by a uniform
        one. A message that no clicks explain at all is ignored.
        """
        likely, impossible = self.by_belief(believer, rows)
        without = np.flatnonzero(impossible.any(axis=1))
        if not without.size:
            return likely, impossible
        other, nothing = self.by_belief(blind, rows[without])
        other[nothing] = 1.0
        chosen = impossible[without]
        likely[without] = np.where(chosen[..., np.newaxis], other, likely[without])
        impossible[without] = chosen & ~nothing
        return likely, impossible

    def by_belief(self, decoder: PatternDecoder, rows: Ints) -> tuple[Floats, Bools]:
        """P(message | outcome of a list), (H, B, v), and lists whose message has no explanation, (H, B)."""
        B, v = self.view.shown.shape[1], self.metric.values.size
        beliefs = np.zeros((rows.size, B, v))
        for b in range(B):
            weights = np.exp(decoder.log_priors(rows, b))
            beliefs[:, b] = _by_outcome(weights, self.metric.outcomes[: weights.shape[1]], v)
        likely = np.ones((rows.size, B, v))
        counts, firsts = interactions(self.view)[rows], first_half(self.view)[rows]
        for count in np.unique(counts[counts > 0]).tolist():
            mine = np.flatnonzero(counts == count)
            half = int(firsts[mine[0]])
            for number, places in enumerate((slice(0, half), slice(half, count))):
                if places.start < places.stop:
                    means = self.view.messages[rows[mine], number]
                    likely[mine, places] = self.half(means, beliefs[mine, places])
        return likely, (likely * beliefs).sum(axis=2) <= 0.0

    def half(self, means: Floats, beliefs: Floats) -> Floats:
        """P(mean | outcome) for each of n interactions with beliefs (H, n, v): (H, n, v)."""
        if beliefs.shape[1] == 1:
            reports = np.arange(self.metric.values.size) == self.metric.nearest(means)[:, np.newaxis]
            return self.through(reports[:, np.newaxis].astype(np.float64))
        return self.through(mean_likelihoods(means, self.through(beliefs)))


def _by_outcome(weights: Floats, outcomes: Ints, v: int) -> Floats:
    """Sums of weights (H, 2^k) of patterns by their outcome, (H, v)."""
    H = weights.shape[0]
    places = v * np.arange(H)[:, np.newaxis] + outcomes
    return np.bincount(places.reshape(-1), weights.reshape(-1), H * v).reshape(H, v).astype(np.float64)


class ESSeed(Attack):
    """Replays the client from the seed it sent: its queries and all its clicks.

    The published program of FOLtR-ES seeds the client's own generator with the seed of the message. So
    queries and clicks follow from the seed, the grades and the click model; the metric is not looked at, and
    its randomisation protects nothing. A list is read if it answers the query that the seed draws; the lists
    after one that does not are left unread, with scores of 0.

    Sees: the seed, the shown lists, all candidates, grades, the click model; the order, or else the global
    model and sigma, from which it follows. Expects the fact `perturbation=numpy-randomstate`.

    Source: Kharitonov 2019, "Federated online learning to rank with evolution strategies", section 4, for
    the message; `get_click_feedback` of the program that was published with it.
    """

    name: ClassVar[str] = "es-seed"
    strongest: ClassVar[bool] = True
    reads: ClassVar[frozenset[str]] = frozenset({"es"})
    needs: ClassVar[frozenset[str]] = frozenset({"shown", "candidates", "relevance", "click_model", "belief"})

    def why_not(self, view: View) -> str | None:
        known = view.knowledge
        reason = super().why_not(view) or why_not_seeded(view)
        if reason is None and not known.order and not (known.has("sigma") and known.lists == "deterministic"):
            return (
                "the observer does not know: order, nor sigma and deterministic lists, from which it follows"
            )
        return reason

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        """The score is 1 for a replayed click, else 0."""
        clicks, _ = SeededClients(view).replayed()
        return Inference(scores=clicks.astype(np.float64), guess=clicks)
