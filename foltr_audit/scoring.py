"""Attack metrics with bootstrap intervals over queries, and random guessing in closed form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import floor

import numpy as np
from numpy.typing import NDArray

from foltr_audit.judge import Evidence
from foltr_audit.rng import Streams

METRICS = ("accuracy", "balanced_accuracy", "precision", "recall", "f1", "exact", "auc")
"""Metrics of a row, all between 0 and 1, higher = more is leaked."""

RESAMPLES = 1000
RANDOM_SIZES = (3, 4)
"""Sizes of the random guesses that are always shown (Pham 2022, table 4)."""

Interval = tuple[float, float]


@dataclass(frozen=True)
class Score:
    """One metric: its value, and its 95 % interval (None where fewer than two queries speak)."""

    value: float
    ci95: Interval | None


@dataclass(frozen=True)
class Scored:
    """A guesser's scores on the judged lists.

    Attributes:
        method: label of the attack, or `random:k=...`.
        metrics: by name, see `METRICS`.
        precision_undefined: lists without a guess; they do not count in the mean precision.
    """

    method: str
    metrics: dict[str, Score]
    precision_undefined: int


def list_metrics(
    tp: NDArray[np.float64],
    guessed: NDArray[np.float64],
    clicked: NDArray[np.float64],
    length: NDArray[np.float64],
    exact: NDArray[np.float64],
) -> dict[str, NDArray[np.float64]]:
    """Metrics of each list from its counts, all float64 (L,); NaN where a metric is undefined.

    Lists have at least one click. Where everything was clicked, balanced accuracy is the recall.
    """
    tn = length - guessed - clicked + tp
    unclicked = length - clicked
    recall = tp / clicked
    with np.errstate(invalid="ignore"):
        specificity = np.where(unclicked > 0, tn / unclicked, recall)
        precision = np.where(guessed > 0, tp / guessed, np.nan)
    return {
        "accuracy": (tp + tn) / length,
        "balanced_accuracy": (recall + specificity) / 2,
        "precision": precision,
        "recall": recall,
        "f1": 2 * tp / (guessed + clicked),
        "exact": exact,
    }


class Scorer:
    """Scores every guesser on the same lists with the same resamples."""

    def __init__(self, evidence: Evidence, streams: Streams, resamples: int = RESAMPLES) -> None:
        """Draw the resamples of queries once; they depend on the seed and the number of queries only."""
        self.evidence = evidence
        self.names, self.cluster = np.unique(evidence.query, return_inverse=True)
        self.clicked = evidence.clicks.sum(axis=1).astype(np.float64)
        self.length = evidence.is_document.sum(axis=1).astype(np.float64)
        n = self.names.size
        draws = streams.generator("bootstrap").integers(0, max(n, 1), size=(resamples, n))
        self.weights = np.stack([np.bincount(draw, minlength=n) for draw in draws]).astype(np.int64)

    def scores(self) -> Iterator[Scored]:
        """Random guessing first, then every attack in its order."""
        for size in RANDOM_SIZES:
            yield self._random(f"random:k={size}", float(size))
        yield self._random("random:k=mean", self.mean_clicks)
        for label in self.evidence.guessed:
            yield self._attack(label)

    @cached_property
    def mean_clicks(self) -> float:
        """Mean number of clicks of the judged lists."""
        return float(self.clicked.mean()) if self.clicked.size else float("nan")

    def _attack(self, label: str) -> Scored:
        guess = self.evidence.guessed[label].guess & self.evidence.is_document
        tp = (guess & self.evidence.clicks).sum(axis=1).astype(np.float64)
        guessed = guess.sum(axis=1).astype(np.float64)
        exact = (guess == self.evidence.clicks).all(axis=1).astype(np.float64)
        metrics = self._means(list_metrics(tp, guessed, self.clicked, self.length, exact))
        metrics["auc"] = self._auc(self.evidence.guessed[label].scores)
        return Scored(label, metrics, int((guessed == 0).sum()))

    def _random(self, method: str, size: float) -> Scored:
        """The expectation of naming `size` documents at random; between two whole sizes a mixture."""
        if not self.length.size:
            return Scored(method, {name: Score(float("nan"), None) for name in METRICS}, 0)
        share = size - floor(size)
        low, high = self._random_lists(floor(size)), self._random_lists(floor(size) + 1)
        mixed = {name: (1 - share) * low[name] + share * high[name] if share else low[name] for name in low}
        metrics = self._means(mixed)
        metrics["auc"] = self._mean(np.full(self.length.size, 0.5))
        return Scored(method, metrics, 0)

    def _random_lists(self, size: int) -> dict[str, NDArray[np.float64]]:
        from scipy.special import comb

        guessed = np.minimum(float(size), self.length)
        tp = guessed * self.clicked / self.length
        exact = np.where(guessed == self.clicked, 1.0 / comb(self.length, guessed), 0.0)
        return list_metrics(tp, guessed, self.clicked, self.length, exact)

    def _means(self, lists: dict[str, NDArray[np.float64]]) -> dict[str, Score]:
        return {name: self._mean(values) for name, values in lists.items()}

    def _mean(self, values: NDArray[np.float64]) -> Score:
        """Mean over the lists where a metric is defined, with its interval."""
        defined = ~np.isnan(values)
        n = self.names.size
        if not defined.any():
            return Score(float("nan"), None)
        sums = np.bincount(self.cluster[defined], weights=values[defined], minlength=n)
        counts = np.bincount(self.cluster[defined], minlength=n).astype(np.float64)
        totals = np.einsum("bq,q->b", self.weights, counts)
        means = np.divide(
            np.einsum("bq,q->b", self.weights, sums),
            totals,
            out=np.full_like(totals, np.nan),
            where=totals > 0,
        )
        return Score(float(values[defined].mean()), _interval(means, int((counts > 0).sum())))

    def _auc(self, scores: NDArray[np.float64]) -> Score:
        """Area under the ROC curve over all shown documents of all lists, ties one half."""
        from foltr_audit.kernels.auc import weighted_auc

        here = self.evidence.is_document
        values, positive = scores[here], self.evidence.clicks[here]
        cluster = np.broadcast_to(self.cluster[:, np.newaxis], here.shape)[here]
        order = np.argsort(values, kind="stable")
        ranked = values[order]
        tie = np.cumsum(np.concatenate([[False], ranked[1:] != ranked[:-1]])[: ranked.size])
        everybody = np.ones((1, self.names.size), dtype=np.int64)
        weights = np.concatenate([everybody, self.weights])
        curve = weighted_auc(positive[order], tie, np.ascontiguousarray(cluster[order]), weights)
        return Score(float(curve[0]), _interval(curve[1:], self.names.size))


def _interval(resampled: NDArray[np.float64], queries: int) -> Interval | None:
    """The middle 95 % of resampled values, if at least two queries speak."""
    known = resampled[~np.isnan(resampled)]
    if queries < 2 or not known.size:
        return None
    low, high = np.quantile(known, [0.025, 0.975])
    return float(low), float(high)
