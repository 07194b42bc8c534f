"""Differences that the authors of a table tested, tested again: paired t-tests over repetitions, and marks.

Two systems are compared at the places of the published numbers. Their values are paired by fold, seed and
repetition, and all tests of a metric in a table are one family for Bonferroni's correction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from foltr_audit.core.results import Estimate
from foltr_audit.core.settings.experiment import flat
from foltr_audit.experiments.presets import Publication, PublishedFigure, PublishedTest
from foltr_audit.experiments.published import Fields, by_repetition, is_at
from foltr_audit.experiments.run import Run
from foltr_audit.judge.significance import bonferroni, paired_t_test
from foltr_audit.simulation.intent_metrics import PERIOD
from foltr_audit.utils.formatting import JsonValue


@dataclass(frozen=True, kw_only=True)
class PlaceTest:
    """A system against another one at the place of a published number.

    Attributes:
        where, where_other: columns and Spec fields that select the rows of each.
        difference: mean of the system's values minus those of the other, with its interval.
        p, p_bonferroni: of the difference; None of a single pair.
        comparisons: number of tests in the family.
        mark: that of the place, by corrected p-values of all that it is tested against; empty without one.
    """

    cell: str
    where: Mapping[str, JsonValue]
    metric: str
    against: str
    where_other: Mapping[str, JsonValue]
    pairs: int
    difference: Estimate
    p: float | None
    p_bonferroni: float | None = None
    comparisons: int = 0
    mark: str = ""


def repeated_metrics(runs: Sequence[Run], metrics: Sequence[Mapping[str, float]]) -> JsonValue:
    """The field `REPETITIONS` of a row about runs with such metrics."""
    named = [
        f"fold {run.spec.data.fold}, seed {run.spec.seed}, repetition {run.spec.repetition}" for run in runs
    ]
    return {name: dict(zip(named, (of_run[name] for of_run in metrics), strict=True)) for name in metrics[0]}


def published_tests(published: Publication, found: Mapping[str, Sequence[Fields]]) -> Iterator[PlaceTest]:
    """The tests of a publication on the rows that were found for each cell, by its name.

    A test is left out where no repetition of both systems is at its place.
    """
    for declared in published.tests:
        named = declared.cell, declared.metric
        figures = [figure for figure in published.figures if (figure.cell, figure.metric) == named]
        places = [list(_at_place(declared, flat(figure.where), found)) for figure in figures]
        tested = [one.p for place in places for one in place if one.p is not None]
        corrected = iter(bonferroni(tested))
        better = declared.metric not in PERIOD or PERIOD[declared.metric].higher_is_better
        for place in places:
            p = [None if one.p is None else next(corrected) for one in place]
            gains = [(one.difference.value > 0) == better for one in place]
            mark = declared.mark(gains, p) if len(place) == len(declared.against) else ""
            for one, p_bonferroni in zip(place, p, strict=True):
                yield replace(one, p_bonferroni=p_bonferroni, comparisons=len(tested), mark=mark)


def mark_of(figure: PublishedFigure, tests: Sequence[PlaceTest]) -> str:
    """The mark that is found for a published number; empty without one."""
    place = figure.cell, figure.metric, flat(figure.where)
    return next((test.mark for test in tests if (test.cell, test.metric, test.where) == place), "")


def _at_place(
    declared: PublishedTest, where: Mapping[str, JsonValue], found: Mapping[str, Sequence[Fields]]
) -> Iterator[PlaceTest]:
    """The comparisons of a place, not yet corrected and marked."""
    ours = by_repetition(_rows_at(found, declared.cell, where), declared.metric)
    where_other = declared.place_of_others(where)
    for other in declared.against:
        theirs = by_repetition(_rows_at(found, other, where_other), declared.metric)
        both = [repetition for repetition in ours if repetition in theirs]
        if both:
            a, b = (np.array([values[repetition] for repetition in both]) for values in (ours, theirs))
            test = paired_t_test(a, b) if len(both) > 1 else None
            yield PlaceTest(
                cell=declared.cell,
                where=where,
                metric=declared.metric,
                against=other,
                where_other=where_other,
                pairs=a.size,
                difference=Estimate(float((a - b).mean()), None if test is None else test.ends),
                p=None if test is None else test.p,
            )


def _rows_at(
    found: Mapping[str, Sequence[Fields]], cell: str, where: Mapping[str, JsonValue]
) -> list[Fields]:
    return [row for row in found.get(cell, ()) if is_at(row, where)]
