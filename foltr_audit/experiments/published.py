"""What is compared with published figures: means of folds, and intervals over queries or seeds."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from foltr_audit.core.ranking_metrics import online_sum
from foltr_audit.core.results import UNKNOWN, Interval
from foltr_audit.core.settings.experiment import flat
from foltr_audit.experiments.presets import RANDOM, AttackFigures, Publication, PublishedFigure
from foltr_audit.experiments.run import Run
from foltr_audit.judge.bootstrap import QueryBootstrap, QueryMetric, above_all, mean_of
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.judge.scoring import AttackScorer
from foltr_audit.judge.significance import FEWEST, mean_interval
from foltr_audit.rng import Streams
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
"""What is published of attacks: means over lists with a click; the precision over those with a guess."""

ABOVE_OTHERS = "_above_others"
"""Ends the name of a figure less the highest of the other attacks."""


def attack_figures(published: Publication, runs: Sequence[Run]) -> Iterator[dict[str, Any]]:
    """The figures of each method in runs, beside the published ones: means of folds of means of their runs.

    A baseline that nothing was published on, and a method that did not answer, are left out. Intervals are
    over queries. How far an attack is above the best of the others is not known of random guesses.
    """
    sizes = [each.method for each in published.attacks if each.method.startswith(RANDOM)]
    folds = [run.spec.data.fold for run in runs]
    streams = Streams(runs[0].spec.seed)
    for click_model, first in runs[0].attacks.evidence.items():
        scorers = [AttackScorer(run.attacks.evidence[click_model], streams) for run in runs]
        judged = [scorer.evidence for scorer in scorers]
        resamples = QueryBootstrap(np.concatenate([lists.query for lists in judged]), streams)
        found = {
            method: _figures([_of_lists(method, scorer) for scorer in scorers], folds, resamples)
            for method in dict.fromkeys((*sizes, *first.guessed))
            if method in sizes
            or all(_is_compared(method, lists, published.of(method, click_model)) for lists in judged)
        }
        for method, figures in found.items():
            given = published.of(method, click_model)
            others = [found[other] for other in found if other not in (method, *sizes)]
            yield {
                "method": method,
                "click_model": click_model,
                "folds": len(set(folds)),
                "lists": sum(int(lists.query.size) for lists in judged),
                **figures,
                **{
                    name + ABOVE_OTHERS: UNKNOWN
                    if method in sizes
                    else above_all(figure, [other[name] for other in others])
                    for name, figure in figures.items()
                },
                **{f"published_{name}": getattr(given, name, math.nan) for name in CLICK_FIGURES},
            }


def _is_compared(method: str, lists: ClickEvidence, published: AttackFigures | None) -> bool:
    return method in lists.guessed and (published is not None or method not in lists.baselines)


def _of_lists(method: str, scorer: AttackScorer) -> Mapping[str, Floats]:
    """Metrics of each judged list (L,)."""
    if method.startswith(RANDOM):
        return scorer.random_lists(float(method.removeprefix(RANDOM)))
    return scorer.of_lists(method)


def _figures(
    of_runs: Sequence[Mapping[str, Floats]], folds: Sequence[int], resamples: QueryBootstrap
) -> dict[str, QueryMetric]:
    """`CLICK_FIGURES` from those of each list of each run, which has a fold; undefined ones do not count."""
    run = np.repeat(np.arange(len(of_runs)), [lists["recall"].size for lists in of_runs])
    figures = {}
    for name in CLICK_FIGURES:
        values = np.concatenate([lists[name] for lists in of_runs])
        by_fold: dict[int, list[QueryMetric]] = {}
        for number, fold in enumerate(folds):
            mean = resamples.share(np.where(run == number, values, np.nan))
            if mean.known:
                by_fold.setdefault(fold, []).append(mean)
        of_folds = [mean_of(means) for means in by_fold.values()]
        figures[name] = mean_of(of_folds) if of_folds else resamples.share(values)
    return figures


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
    """The interval of a metric: that of a single row, or of the means of several rows by repetition."""
    if len(there) > 1:
        means = np.array(list(by_repetition(there, metric).values()))
        return mean_interval(means, 0.0, _highest(metric)) or (None, None)
    known = there[0].get(INTERVALS) if there else None
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
    seed and another fold, as published. Empty of fewer than `FEWEST` runs.
    """
    if len(runs) < FEWEST:
        return {}
    folds = [run.spec.data.fold for run in runs]
    values = {name: np.array([of_run[name] for of_run in metrics]) for name in metrics[0]}
    found = {
        name: stratified_interval(each.tolist(), folds) or mean_interval(each, -math.inf, math.inf)
        for name, each in values.items()
        if np.isfinite(each).all()
    }
    return {
        name: [max(0.0, ends[0]), min(_highest(name), ends[1])]
        for name, ends in found.items()
        if ends is not None
    }


def _highest(metric: str) -> float:
    return math.inf if metric == SUM else 1.0


REPETITIONS = "repetitions"
"""The field of a row with each metric of each of its runs, by metric and repetition."""


def by_repetition(rows: Sequence[Fields], metric: str) -> dict[str, float]:
    """The means of a metric over rows, by repetition; of those in which each row knows it."""
    there = [values for row in rows if isinstance(values := row.get(REPETITIONS), dict)]
    each = [of if isinstance(of := values.get(metric), dict) else {} for values in there]
    known = [
        {name: value for name, value in of.items() if isinstance(value, float) and math.isfinite(value)}
        for of in each
    ]
    names = [name for name in known[0] if all(name in of for of in known)] if known else []
    return {name: sum(of[name] for of in known) / len(known) for name in names}


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
