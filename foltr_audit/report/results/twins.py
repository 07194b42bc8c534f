"""Runs compared with their twins, which ran the same Spec in another world."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from foltr_audit.core.ranking_metrics import OFFLINE_NDCG, ONLINE_NDCG
from foltr_audit.core.records.population import Environment
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.experiments.runner import RunResult
from foltr_audit.judge.significance import PairedTest, bonferroni, paired_t_test, stars
from foltr_audit.report.results.base import RunGroup, Setting, groups
from foltr_audit.simulation.intent_metrics import (
    PLAYED,
    current,
    period_of_rounds,
    specific_offline,
    specific_online,
)
from foltr_audit.utils.arrays import Floats, Ints
from foltr_audit.utils.rows import Estimate, ResultRow, column

SPECIFIC = "one ranker per intent"
"""The name of rankers of which each learns one intent only."""

SpecRuns = Mapping[Spec, RunResult]
"""The result of every Spec that was run."""


def runs_by_spec(cells: Sequence[RunResult]) -> SpecRuns:
    """The cells by their Spec."""
    return {cell.spec: cell for cell in cells}


def fixed_intents(cell: RunResult, among: SpecRuns) -> dict[int, RunResult]:
    """The twins with a constant intent of a cell whose leading intent changes, by the intent, from 0."""
    if cell.world.environment is None or not cell.world.environment.change_points:
        return {}
    twins = [among[spec] for spec in cell.world.twins.values() if spec in among]
    return {intent: twin for twin in twins if (intent := _only_intent(twin.world.environment)) is not None}


def specific_rankers(cell: RunResult, among: SpecRuns) -> list[RunResult]:
    """The rankers that learn each intent of a cell alone, in the order of intents; none if one is missing."""
    twins = [among[spec] for spec in cell.world.twins.values() if spec in among]
    kept = {
        twin.world.environment.kept: twin
        for twin in twins
        if twin.world.environment is not None and twin.world.environment.kept is not None
    }
    complete = cell.world.environment is not None and len(kept) == cell.world.environment.n_intents
    return [twin for _, twin in sorted(kept.items())] if complete else []


def _only_intent(environment: Environment | None) -> int | None:
    if environment is None or environment.kept is not None or len(environment.periods) != 1:
        return None
    return environment.periods[0].intent


def reference_values(cell: RunResult, metric: str, among: SpecRuns) -> Floats | None:
    """The metric of the rankers of one intent that a cell is compared with, float64 (rounds,); or None.

    Where intents take turns it is the twin of the leading one, NaN without; where they are mixed, all of them
    together.
    """
    specific = specific_rankers(cell, among)
    if specific:
        rows = [each.trained.rounds for each in specific]
        return (
            specific_offline(rows)
            if metric == OFFLINE_NDCG
            else specific_online(rows, count_interactions(specific))
        )
    twins = fixed_intents(cell, among)
    if metric != OFFLINE_NDCG or not twins or cell.world.environment is None:
        return None
    environment, rounds = cell.world.environment, len(cell.trained.rounds)
    where = period_of_rounds(rounds, environment, cell.world.per_round)
    found = np.full(rounds, np.nan)
    for number, period in enumerate(environment.periods):
        if period.intent is not None and period.intent in twins:
            values = current(twins[period.intent].trained.rounds, environment, cell.world.per_round)
            found[where == number] = values[where == number]
    return found


def reference_specs(cells: Sequence[RunResult]) -> set[Spec]:
    """The Specs that only serve for comparison with others."""
    among = runs_by_spec(cells)
    twins = [twin for cell in cells for twin in fixed_intents(cell, among).values()]
    rankers = [ranker for cell in cells for ranker in specific_rankers(cell, among)]
    return {each.spec for each in (*twins, *rankers)}


def count_interactions(rankers: Sequence[RunResult]) -> Ints:
    """Interactions that each ranker played in each round, int64 (I, rounds)."""
    counts = [
        [row.get(PLAYED, ranker.world.per_round) for row in ranker.trained.rounds] for ranker in rankers
    ]
    return np.array(counts, dtype=np.int64)


# --- pairs ----------------------------------------------------------------------------------------


class TwinPair(NamedTuple):
    """Final offline and mean online nDCG@10 of a run and of its twin."""

    name: str
    ours: Mapping[str, float]
    twin: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class TwinRow(ResultRow):
    """A metric of a setting compared with that of one of its twins, with a paired t-test over its runs.

    Attributes:
        setting: what was run.
        twin: name of the twin.
        metric: name of the metric.
        pairs: number of runs.
        mean, mean_twin: over the runs.
        difference: run less twin.
        p: of the test; None of a single run.
        p_bonferroni: corrected for the tests of the metric; `stars` say how small it is.
    """

    setting: Setting = column(embedded=True)
    twin: str
    metric: str
    pairs: int
    mean: float
    mean_twin: float
    difference: Estimate
    p: float | None
    p_bonferroni: float | None = None
    stars: str = ""


def twin_rows(cells: Sequence[RunResult]) -> tuple[TwinRow, ...]:
    """One row per group, twin and metric."""
    among, rows = runs_by_spec(cells), []
    for group in groups(cells):
        pairs = [pair for cell in group.cells for pair in _pairs(cell, among)]
        for name in dict.fromkeys(pair.name for pair in pairs):
            chosen = [pair for pair in pairs if pair.name == name]
            rows += [_row(group, name, metric, chosen) for metric in (OFFLINE_NDCG, "online_mean")]
    tests = {
        row.metric: [other.p for other in rows if other.metric == row.metric and other.p is not None]
        for row in rows
    }
    return tuple(_corrected(row, tests[row.metric]) for row in rows)


def _pairs(cell: RunResult, among: SpecRuns) -> Iterator[TwinPair]:
    rankers, ours = specific_rankers(cell, among), _own(cell)
    if rankers:
        rows, counts = [each.trained.rounds for each in rankers], count_interactions(rankers)
        online = np.array([[row[ONLINE_NDCG] for row in each] for each in rows])
        known = np.where(np.isnan(online), 0, counts)
        mean = float((known * np.nan_to_num(online)).sum() / max(1, known.sum()))
        yield TwinPair(SPECIFIC, ours, {OFFLINE_NDCG: float(specific_offline(rows)[-1]), "online_mean": mean})
    left_out = {each.spec for each in (*rankers, *fixed_intents(cell, among).values())}
    for name, spec in cell.world.twins.items():
        if spec in among and spec not in left_out and not _alone(among[spec]):
            yield TwinPair(name, ours, _own(among[spec]))


def _alone(cell: RunResult) -> bool:
    return cell.world.environment is not None and cell.world.environment.kept is not None


def _own(cell: RunResult) -> dict[str, float]:
    return {OFFLINE_NDCG: cell.trained.ndcg, "online_mean": cell.trained.online_mean}


def _row(group: RunGroup, name: str, metric: str, pairs: Sequence[TwinPair]) -> TwinRow:
    ours = np.array([pair.ours[metric] for pair in pairs])
    twin = np.array([pair.twin[metric] for pair in pairs])
    test = _test(ours, twin)
    return TwinRow(
        setting=group.setting,
        twin=name,
        metric=metric,
        pairs=len(pairs),
        mean=float(ours.mean()),
        mean_twin=float(twin.mean()),
        difference=Estimate(float((ours - twin).mean()), None if test is None else test.ends),
        p=None if test is None else test.p,
    )


def _test(ours: Floats, twin: Floats) -> PairedTest | None:
    finite = np.isfinite(ours).all() and np.isfinite(twin).all()
    return paired_t_test(ours, twin) if ours.size > 1 and finite else None


def _corrected(row: TwinRow, tests: Sequence[float]) -> TwinRow:
    """The row with its p corrected for all `tests` of its metric."""
    if row.p is None:
        return row
    corrected = bonferroni(tests)[tests.index(row.p)]
    return replace(row, p_bonferroni=corrected, stars=stars(corrected))
