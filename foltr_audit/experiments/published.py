"""What is compared with published figures: means of folds, and intervals over seeds."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from foltr_audit.core.ranking_metrics import online_sum
from foltr_audit.core.results import Interval
from foltr_audit.core.settings.experiment import flat
from foltr_audit.experiments.presets import RANDOM, AttackFigures, Publication, PublishedFigure
from foltr_audit.experiments.run import Run
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.judge.significance import mean_interval
from foltr_audit.utils.arrays import Floats
from foltr_audit.utils.formatting import JsonValue


class ParameterOverride(NamedTuple):
    """An option, or a field of the Spec, that changed a published study: its values now, and the study's."""

    option: str
    value: str
    published: str


@dataclass(frozen=True, kw_only=True)
class StudyExtent:
    """How much of a published study was run, and on what.

    Rounds, repeats and repetitions were multiplied by `scale`.
    """

    data: str
    synthetic: bool
    scale: float = 1.0
    overridden: tuple[ParameterOverride, ...] = ()

    @property
    def label(self) -> str:
        """A note for the title of every table; empty for the unchanged study on real data."""
        return ", ".join([*(["synthetic data"] if self.synthetic else []), *self._changes()])

    def __str__(self) -> str:
        kind = "synthetic data" if self.synthetic else "data"
        return ", ".join([f"{kind} {self.data}", *self._changes()])

    def _changes(self) -> Iterator[str]:
        if self.scale < 1:
            yield f"scale {self.scale:g}"
        if self.overridden:
            given = ", ".join(f"{each.option} {each.value}" for each in self.overridden)
            yield f"with {given} instead of {' and '.join(each.published for each in self.overridden)}"


CLICK_FIGURES = ("accuracy", "precision", "recall")
"""What is published of attacks."""

ClickFigures = Mapping[str, float]
"""`CLICK_FIGURES` of a method: means over lists with a click; the precision over those with a guess."""


def attack_figures(published: Publication, runs: Sequence[Run]) -> Iterator[dict[str, Any]]:
    """The figures of each method in runs, beside the published ones: means of folds of means of their runs.

    A baseline that nothing was published on, and a method that did not answer, are left out.
    """
    sizes = [each.method for each in published.attacks if each.method.startswith(RANDOM)]
    folds = [run.spec.data.fold for run in runs]
    for click_model, first in runs[0].attacks.evidence.items():
        evidence = [run.attacks.evidence[click_model] for run in runs]
        clicked = [lists.at(lists.has_click) for lists in evidence]
        for method in dict.fromkeys((*sizes, *first.guessed)):
            given = published.of(method, click_model)
            if not (method in sizes or all(_is_compared(method, lists, given) for lists in clicked)):
                continue
            figures = [_of_lists(method, lists) for lists in clicked]
            yield {
                "method": method,
                "click_model": click_model,
                "folds": len(set(folds)),
                "lists": sum(int(lists.query.size) for lists in clicked),
                **{
                    name: _mean_of_folds(list(zip(folds, (each[name] for each in figures), strict=True)))
                    for name in CLICK_FIGURES
                },
                **{f"published_{name}": getattr(given, name, math.nan) for name in CLICK_FIGURES},
            }


def _is_compared(method: str, lists: ClickEvidence, published: AttackFigures | None) -> bool:
    return method in lists.guessed and (published is not None or method not in lists.baselines)


def _of_lists(method: str, lists: ClickEvidence) -> ClickFigures:
    """Means over the lists of one run; NaN where no list defines one."""
    clicked = lists.clicks.sum(axis=1).astype(np.float64)
    length = lists.is_document.sum(axis=1).astype(np.float64)
    if method.startswith(RANDOM):  # expectations: which documents are named is independent of the clicks
        guessed = np.minimum(float(method.removeprefix(RANDOM)), length)
        hits = np.divide(guessed * clicked, length, out=np.zeros_like(length), where=length > 0)
    else:
        guess = lists.guessed[method].guess & lists.is_document
        guessed = guess.sum(axis=1).astype(np.float64)
        hits = (guess & lists.clicks).sum(axis=1).astype(np.float64)
    return {
        "accuracy": _mean_ratio(length - clicked - guessed + 2 * hits, length),
        "precision": _mean_ratio(hits, guessed),
        "recall": _mean_ratio(hits, clicked),
    }


def _mean_ratio(numerator: Floats, denominator: Floats) -> float:
    """Mean quotient where the denominator is not 0."""
    defined = denominator > 0
    return float((numerator[defined] / denominator[defined]).mean()) if defined.any() else math.nan


def _mean_of_folds(values: Sequence[tuple[int, float]]) -> float:
    """The mean over folds of each fold's mean over its runs; undefined ones do not count."""
    by_fold: dict[int, list[float]] = {}
    for fold, value in values:
        if not math.isnan(value):
            by_fold.setdefault(fold, []).append(value)
    return float(np.mean([np.mean(of_fold) for of_fold in by_fold.values()])) if by_fold else math.nan


Fields = Mapping[str, JsonValue]
"""The columns of a row of a report, and the fields of its Spec."""

SUM = "online_sum"
"""The metric that grows with the number of rounds."""

PERIOD = "period"
"""The column that only rows of periods have."""

INTERVALS = "intervals"
"""The field with the intervals of a row's metrics, by metric."""

LEVEL = 0.95
"""Confidence of the intervals."""


def figure_beside(
    figure: PublishedFigure, rows: Sequence[Fields], full_rounds: Collection[int]
) -> dict[str, JsonValue]:
    """A published number and the mean of the rows in its place, with their difference.

    The rows are what was found for its cell; `full_rounds` are the rounds of the Specs of the cell at scale
    1.
    """
    where = flat(figure.where)
    there = [row for row in rows if figure.metric in row and is_at(row, where)]
    values = [value for row in there if isinstance(value := row[figure.metric], int | float)]
    mean = sum(values) / len(values) if values else None
    rounds = there[0].get("train.rounds") if there else None
    low, high = _interval_in(there, figure.metric)
    return {
        "cell": figure.cell,
        "where": where,
        "metric": figure.metric,
        "published": figure.value,
        "approximate": figure.approximate,
        "published_mark": figure.mark,
        "found": mean,
        "low": low,
        "high": high,
        "difference": None if mean is None else mean - figure.value,
        "published_a_round": _a_round(figure, figure.value, full_rounds),
        "found_a_round": _a_round(figure, mean, [rounds] if isinstance(rounds, int) else ()),
    }


def is_at(row: Fields, where: Fields) -> bool:
    """Whether a row is of this place; one of a period only where the place names a period."""
    return all(row.get(name) == value for name, value in {PERIOD: None, **where}.items())


def _interval_in(there: Sequence[Fields], metric: str) -> tuple[float | None, float | None]:
    """The interval of a metric, of a single row only."""
    known = there[0].get(INTERVALS) if len(there) == 1 else None
    match known.get(metric) if isinstance(known, dict) else None:
        case [float(low), float(high)]:
            return low, high
        case _:
            return None, None


def _a_round(figure: PublishedFigure, value: float | None, rounds: Collection[int]) -> float | None:
    """A discounted sum as a mean over its rounds; None of anything else, and of several numbers of rounds."""
    if figure.metric != SUM or value is None or len(rounds) != 1:
        return None
    return value / online_sum(np.ones(max(rounds)))


def trained_metrics(run: Run) -> dict[str, float]:
    """The metrics of a trained model by their columns in a report."""
    trained = run.trained
    return {
        "ndcg@10": trained.ndcg,
        "online_sum": trained.online_sum,
        "online_mean": trained.online_mean,
        "maxrr_last_10": trained.maxrr_last,
    }


def seed_intervals(runs: Sequence[Run], metrics: Sequence[Mapping[str, float]]) -> dict[str, JsonValue]:
    """The interval of the mean of each metric that all runs have, as a list of two numbers.

    Over seeds with the same folds; where a fold was run once, over repetitions, each of which has another
    seed and another fold, as published. Empty of fewer than `FEWEST` of these.
    """
    folds = [run.spec.data.fold for run in runs]
    values = {name: np.array([of_run[name] for of_run in metrics]) for name in metrics[0]}
    found = {
        name: stratified_interval(each.tolist(), folds) or mean_interval(each, 0.0, math.inf)
        for name, each in values.items()
        if np.isfinite(each).all()
    }
    return {name: [max(0.0, ends[0]), ends[1]] for name, ends in found.items() if ends is not None}


def stratified_interval(values: Sequence[float], strata: Sequence[int]) -> Interval | None:
    """Student's interval of the mean of `values` (n,), which vary inside of their strata (n,) only.

    The variance of the mean is the sum over strata of n_s var_s / n^2, with n - S degrees of freedom; None if
    a stratum has a single value.

    Source: Cochran 1977, "Sampling techniques", section 5.3.
    """
    from scipy.special import stdtrit

    numbers, kinds = np.array(values), np.array(strata)
    parts = [numbers[kinds == kind] for kind in np.unique(kinds)]
    if min(part.size for part in parts) < 2:
        return None
    variance = sum(part.size * float(part.var(ddof=1)) for part in parts) / numbers.size**2
    reach = float(stdtrit(numbers.size - len(parts), (1 + LEVEL) / 2)) * math.sqrt(variance)
    mean = float(numbers.mean())
    return mean - reach, mean + reach
