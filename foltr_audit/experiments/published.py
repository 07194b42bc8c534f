"""What is compared with published figures: means of folds, intervals over queries or seeds, and tests.

Differences that the authors of a table tested are tested again: paired t-tests over repetitions, by fold,
seed and repetition. All tests of a metric in a table are one family for Bonferroni's correction.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from foltr_audit.core.ranking_metrics import online_sum
from foltr_audit.core.results import UNKNOWN, Interval
from foltr_audit.core.settings.experiment import flat
from foltr_audit.experiments.periods import paired_difference
from foltr_audit.experiments.presets import RANDOM, Publication, PublishedFigure, PublishedTest
from foltr_audit.experiments.run import Run
from foltr_audit.judge.bootstrap import QueryBootstrap, QueryMetric, above_all, mean_of
from foltr_audit.judge.scoring import AttackScorer
from foltr_audit.judge.significance import FEWEST, bonferroni, mean_interval
from foltr_audit.rng import Streams
from foltr_audit.simulation.intent_metrics import PERIOD
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
        return self._text("synthetic data" if self.synthetic else "")

    def __str__(self) -> str:
        return self._text(f"{'synthetic data' if self.synthetic else 'data'} {self.data}")

    def _text(self, data: str) -> str:
        given = ", ".join(f"{each.option} {each.value}" for each in self.overridden)
        instead = " and ".join(each.published for each in self.overridden)
        changes = f"scale {self.scale:g}" * (self.scale < 1), given and f"with {given} instead of {instead}"
        return ", ".join(filter(None, (data, *changes)))


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
        found = {}
        for method in dict.fromkeys((*sizes, *first.guessed)):
            if method in sizes:
                guessed = float(method.removeprefix(RANDOM))
                found[method] = _figures([each.random_lists(guessed) for each in scorers], folds, resamples)
            elif all(method in lists.guessed for lists in judged) and (
                published.of(method, click_model) or not any(method in lists.baselines for lists in judged)
            ):
                found[method] = _figures([each.of_lists(method) for each in scorers], folds, resamples)
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


def _figures(
    of_runs: Sequence[Mapping[str, Floats]], folds: Sequence[int], resamples: QueryBootstrap
) -> dict[str, QueryMetric]:
    """`CLICK_FIGURES` from those of each list (L,) of each run, which has a fold; undefined do not count."""
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

PERIOD_COLUMN = "period"
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
    1. A discounted sum also as a mean over its rounds, where these are known.
    """
    where = flat(figure.where)
    there = [row for row in _rows_at(rows, where) if figure.metric in row]
    values = [value for row in there if isinstance(value := row[figure.metric], int | float)]
    mean = sum(values) / len(values) if values else None
    rounds = there[0].get("train.rounds") if there else None

    def a_round(value: float | None, rounds: Collection[int]) -> float | None:
        known = figure.metric == SUM and value is not None and len(rounds) == 1
        return value / online_sum(np.ones(max(rounds))) if known and value is not None else None

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
        "published_a_round": a_round(figure.value, full_rounds),
        "found_a_round": a_round(mean, [rounds] if isinstance(rounds, int) else ()),
    }


def _rows_at(rows: Sequence[Fields], where: Fields) -> list[Fields]:
    """The rows of a place; those of a period only where the place names a period."""
    place = {PERIOD_COLUMN: None, **where}
    return [row for row in rows if all(row.get(name) == value for name, value in place.items())]


def _interval_in(there: Sequence[Fields], metric: str) -> tuple[float | None, float | None]:
    """The interval of a metric: that of a single row, or of the means of several rows by repetition."""
    if len(there) > 1:
        means = np.array(list(by_repetition(there, metric).values()))
        return mean_interval(means, 0.0, _highest(metric)) or (None, None)
    known = there[0].get(INTERVALS) if there else None
    ends = known.get(metric) if isinstance(known, dict) else None
    return (float(ends[0]), float(ends[1])) if isinstance(ends, list) else (None, None)  # type: ignore[arg-type]


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


def repeated_metrics(runs: Sequence[Run], metrics: Sequence[Mapping[str, float]]) -> JsonValue:
    """The field `REPETITIONS` of a row about runs with such metrics."""
    named = [
        f"fold {run.spec.data.fold}, seed {run.spec.seed}, repetition {run.spec.repetition}" for run in runs
    ]
    return {name: dict(zip(named, (of_run[name] for of_run in metrics), strict=True)) for name in metrics[0]}


def published_tests(
    published: Publication, found: Mapping[str, Sequence[Fields]]
) -> Iterator[dict[str, Any]]:
    """The tests of a publication on the rows that were found for each cell, by its name: rows of `TESTED`.

    A system is compared with others at the places of its numbers; where no repetition of both is there, the
    test is left out. `p` is None of a single pair, `comparisons` the size of the family, and `mark` that of
    the place, by the corrected p-values of all that it is tested against; empty without one.
    """
    for declared in published.tests:
        named = declared.cell, declared.metric
        figures = [figure for figure in published.figures if (figure.cell, figure.metric) == named]
        places = [list(_at_place(declared, flat(figure.where), found)) for figure in figures]
        tested = [one["p"] for place in places for one in place if one["p"] is not None]
        corrected = iter(bonferroni(tested))
        better = declared.metric not in PERIOD or PERIOD[declared.metric].higher_is_better
        for place in places:
            p = [None if one["p"] is None else next(corrected) for one in place]
            gains = [(one["difference"].value > 0) == better for one in place]
            mark = declared.mark(gains, p) if len(place) == len(declared.against) else ""
            for one, p_bonferroni in zip(place, p, strict=True):
                yield {**one, "p_bonferroni": p_bonferroni, "comparisons": len(tested), "mark": mark}


def mark_of(figure: PublishedFigure, tests: Sequence[Mapping[str, Any]]) -> str:
    """The mark that is found for a published number; empty without one."""
    place = [figure.cell, figure.metric, flat(figure.where)]
    return next(
        (test["mark"] for test in tests if [test["cell"], test["metric"], test["where"]] == place), ""
    )


def _at_place(
    declared: PublishedTest, where: Mapping[str, JsonValue], found: Mapping[str, Sequence[Fields]]
) -> Iterator[dict[str, Any]]:
    """The comparisons of a place, not yet corrected and marked."""
    ours = by_repetition(_rows_at(found.get(declared.cell, ()), where), declared.metric)
    where_other = declared.place_of_others(where)
    for other in declared.against:
        theirs = by_repetition(_rows_at(found.get(other, ()), where_other), declared.metric)
        both = [repetition for repetition in ours if repetition in theirs]
        if both:
            a, b = (np.array([values[repetition] for repetition in both]) for values in (ours, theirs))
            yield {
                "cell": declared.cell,
                "where": where,
                "metric": declared.metric,
                "against": other,
                "where_other": where_other,
                **paired_difference(a, b),
            }
