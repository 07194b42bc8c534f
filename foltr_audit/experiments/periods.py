"""A training beside others: its twins, the periods of a changing intent, and how it serves groups.

Results are plain values by the names of their columns in a report.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from foltr_audit.core.ranking_metrics import OFFLINE_NDCG, ONLINE_NDCG, mean_of_rounds
from foltr_audit.core.records.population import Population
from foltr_audit.core.results import Estimate
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.experiments.run import Run
from foltr_audit.judge.significance import bonferroni, mean_interval, paired_t_test, stars
from foltr_audit.simulation.intent_metrics import (
    DELTA,
    PERIOD,
    PLAYED,
    current,
    of_intent,
    period_metrics,
    period_of_rounds,
    specific_offline,
    specific_online,
)
from foltr_audit.utils.arrays import Floats, Ints

if TYPE_CHECKING:
    from foltr_audit.experiments.store import StoredRun

Values = dict[str, Any]
"""Values of a row by the names of its columns."""


SPECIFIC = "one ranker per intent"
"""The name of rankers of which each learns one intent only."""

SpecRuns = Mapping[Spec, Run]
"""Every Spec that was run, with its run."""

R = TypeVar("R", Run, "StoredRun")


def runs_by_spec(runs: Sequence[Run]) -> SpecRuns:
    return {run.spec: run for run in runs}


def fixed_intents(run: R, among: Mapping[Spec, R]) -> dict[int, R]:
    """The twins with a constant intent of a run whose leading intent changes, by the intent, from 0."""
    environment = run.world.environment
    if environment is None or not environment.change_points:
        return {}
    found: dict[int, R] = {}
    for twin in _twins(run, among):
        there = twin.world.environment
        if there is not None and there.kept is None and len(there.periods) == 1:
            intent = there.periods[0].intent
            found |= {} if intent is None else {intent: twin}
    return found


def specific_rankers(run: Run, among: SpecRuns) -> list[Run]:
    """The rankers that learn each intent of a run alone, in the order of intents; none if one is missing."""
    kept = {intent: twin for twin in _twins(run, among) if (intent := _kept(twin)) is not None}
    environment = run.world.environment
    complete = environment is not None and len(kept) == environment.n_intents
    return [twin for _, twin in sorted(kept.items())] if complete else []


def _twins(run: R, among: Mapping[Spec, R]) -> list[R]:
    return [among[spec] for spec in run.world.twins.values() if spec in among]


def _kept(run: Run) -> int | None:
    return None if run.world.environment is None else run.world.environment.kept


def reference_values(run: Run, metric: str, among: SpecRuns) -> Floats | None:
    """The nDCG of the rankers of one intent that a run is compared with, float64 (rounds,); or None.

    Where intents take turns it is the twin of the leading one, NaN without; where they are mixed, all of them
    together.
    """
    rankers = specific_rankers(run, among)
    if rankers:
        rows = [ranker.trained.rounds for ranker in rankers]
        if metric == OFFLINE_NDCG:
            return specific_offline(rows)
        return specific_online(rows, _interactions(rankers)) if metric == ONLINE_NDCG else None
    twins, environment = fixed_intents(run, among), run.world.environment
    if metric != OFFLINE_NDCG or not twins or environment is None:
        return None
    rounds, per_round = len(run.trained.rounds), run.record.per_round
    period_of = period_of_rounds(rounds, environment, per_round)
    reference = np.full(rounds, np.nan)
    for number, period in enumerate(environment.periods):
        if period.intent is not None and period.intent in twins:
            values = current(twins[period.intent].trained.rounds, environment, per_round)
            reference[period_of == number] = values[period_of == number]
    return reference


def reference_specs(runs: Sequence[Run]) -> set[Spec]:
    """The Specs that only serve for comparison with others."""
    among = runs_by_spec(runs)
    twins = [twin for run in runs for twin in fixed_intents(run, among).values()]
    rankers = [ranker for run in runs for ranker in specific_rankers(run, among)]
    return {run.spec for run in (*twins, *rankers)}


def _interactions(rankers: Sequence[Run]) -> Ints:
    """Interactions that each ranker played in each round, int64 (I, rounds)."""
    counts = [
        [row.get(PLAYED, ranker.record.per_round) for row in ranker.trained.rounds] for ranker in rankers
    ]
    return np.array(counts, dtype=np.int64)


def compared_with_twins(runs: Sequence[Run], among: SpecRuns) -> Iterator[Values]:
    """A metric of repeated runs beside that of each of their twins, with a paired t-test over the runs."""
    pairs: dict[str, list[tuple[dict[str, float], dict[str, float]]]] = {}
    for run in runs:
        for name, twin_metrics in _twin_metrics(run, among):
            pairs.setdefault(name, []).append((_metrics(run), twin_metrics))
    for name, of_twin in pairs.items():
        for metric in (OFFLINE_NDCG, "online_mean"):
            ours, twin = np.array([[mine[metric], theirs[metric]] for mine, theirs in of_twin]).T
            means = {"mean": float(ours.mean()), "mean_twin": float(twin.mean())}
            yield {"twin": name, "metric": metric, **means, **paired_difference(ours, twin)}


def paired_difference(a: Floats, b: Floats) -> dict[str, Any]:
    """The mean difference of pairs (n,) with its interval, and the p-value of a paired t-test.

    Both only of two pairs or more, all finite.
    """
    test = paired_t_test(a, b) if a.size > 1 and np.isfinite(a - b).all() else None
    difference = Estimate(float((a - b).mean()), None if test is None else test.ends)
    return {"pairs": a.size, "difference": difference, "p": None if test is None else test.p}


def corrected(tests: Sequence[Values]) -> Iterator[Values]:
    """The p-values and stars of tests, corrected for all tests of their metric."""
    for test in tests:
        p = [other["p"] for other in tests if other["metric"] == test["metric"] and other["p"] is not None]
        value = None if test["p"] is None else bonferroni(p)[p.index(test["p"])]
        yield {"p_bonferroni": value, "stars": "" if value is None else stars(value)}


def _twin_metrics(run: Run, among: SpecRuns) -> Iterator[tuple[str, dict[str, float]]]:
    """Each twin of a run by its name, with its final offline and mean online nDCG@10."""
    rankers = specific_rankers(run, among)
    if rankers:
        rows, counts = [ranker.trained.rounds for ranker in rankers], _interactions(rankers)
        online = np.array([[row[ONLINE_NDCG] for row in rounds] for rounds in rows])
        known = np.where(np.isnan(online), 0, counts)
        mean = float((known * np.nan_to_num(online)).sum() / max(1, known.sum()))
        yield SPECIFIC, {OFFLINE_NDCG: float(specific_offline(rows)[-1]), "online_mean": mean}
    left_out = {twin.spec for twin in fixed_intents(run, among).values()}
    for name, spec in run.world.twins.items():
        if spec in among and spec not in left_out and _kept(among[spec]) is None:
            yield name, _metrics(among[spec])


def _metrics(run: Run) -> dict[str, float]:
    return {OFFLINE_NDCG: run.trained.ndcg, "online_mean": run.trained.online_mean}


def period_values(runs: Sequence[Run], among: SpecRuns) -> Iterator[Values]:
    """Each period of a changing intent with its metrics, means over the repeated runs that have them.

    Nothing where the leading intent does not change. Numbers of periods and intents begin at 1; `first` and
    `end` are the first interaction and the one after the last; `delta_runs` is the number of runs with the
    twin that `ndcg_delta@10` compares with.
    """
    environment, metrics = runs[0].world.environment, [metrics_of_periods(run, among) for run in runs]
    if environment is None:
        return
    total = len(runs[0].trained.rounds) * runs[0].record.per_round
    for number, period in enumerate(environment.periods if metrics[0] else ()):
        values = {name: np.array([of_run[name][number] for of_run in metrics]) for name in PERIOD}
        yield {
            "runs": len(runs),
            "period": number + 1,
            "first": period.first,
            "end": min(period.end, total) if number + 1 < len(environment.periods) else total,
            "intent": None if period.intent is None else period.intent + 1,
            **{name: _known_mean(of_runs) for name, of_runs in values.items()},
            "delta_runs": int((~np.isnan(values[DELTA])).sum()),
        }


def metrics_of_periods(run: R, among: Mapping[Spec, R]) -> dict[str, Floats]:
    """The metrics of each period of a run, see `period_metrics`; none where the leading intent stays.

    Twins are searched `among` all runs.
    """
    environment = run.world.environment
    if environment is None or not environment.change_points:
        return {}
    twins = {intent: twin.rows for intent, twin in fixed_intents(run, among).items()}
    return period_metrics(run.rows, twins, environment, run.record.per_round)


def _known_mean(values: Floats) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else None


LAST = 10
"""The last tenth of the rounds counts as the last ones, at least one round."""

SERVED = ("online_mean", "online_last", "ndcg@10")
"""Metrics of a group: online nDCG@10 of all rounds and of the last ones, and offline nDCG@10 of the trained
model under the group's own intent."""


class TrainingHistory(NamedTuple):
    """One training.

    Attributes:
        population: who its clients were.
        rounds: the metrics of each round by name.
    """

    population: Population
    rounds: Sequence[Mapping[str, float]]

    @property
    def last(self) -> int:
        """How many rounds count as the last ones."""
        return max(1, len(self.rounds) // LAST)

    def served(self, group: str | None = None) -> tuple[float, float, float]:
        """The metrics of a group, or of all clients, in the order of `SERVED`; NaN where not known."""
        name = ONLINE_NDCG if group is None else f"{ONLINE_NDCG}/{group}"
        online = np.array([row.get(name, np.nan) for row in self.rounds], dtype=np.float64)
        intent = None if group is None else self._intent(group)
        offline = OFFLINE_NDCG if group is None else "" if intent is None else of_intent(intent)
        final = float(self.rounds[-1].get(offline, np.nan)) if self.rounds else np.nan
        return mean_of_rounds(online), mean_of_rounds(online[-self.last :]), final

    def _intent(self, group: str) -> int | None:
        """A group's own intent, from 0; None where it has none, or the population has no such group."""
        if group not in self.population.groups:
            return None
        own = self.population.own(np.array([self.population.groups.index(group)]))
        values = [
            trait.values[int(number[0])] for trait, number in zip(self.population.traits, own, strict=True)
        ]
        return next((value.intent for value in values if value.intent is not None), None)


def served_groups(trainings: Sequence[TrainingHistory]) -> list[Values]:
    """How repeated trainings serve each group of clients, worst served (lowest online nDCG@10) first.

    Metrics are means over trainings, beside those of all clients (`_all`) and the difference to them
    (`_difference`); intervals are Student's over three or more trainings. Nothing of a single group.
    """
    names = dict.fromkeys(name for training in trainings for name in training.population.groups)
    if len(names) < 2:
        return []
    everybody = np.array([training.served() for training in trainings])
    groups: list[Values] = []
    for name in names:
        own = np.array([training.served(name) for training in trainings])
        group: Values = {"group": name, "place": 0}
        for number, metric in enumerate(SERVED):
            group |= _group_metric(metric, own[:, number], everybody[:, number])
        groups.append(group)
    groups.sort(key=lambda group: group["online_mean"].value if group["online_mean"].known else inf)
    last = max(training.last for training in trainings)
    return [
        {"runs": len(trainings), "last_rounds": last, **group, "place": place}
        for place, group in enumerate(groups, start=1)
    ]


def _group_metric(name: str, own: Floats, everybody: Floats) -> Values:
    """A metric of a group beside that of all clients in each training, both (runs,)."""
    both = ~np.isnan(own) & ~np.isnan(everybody)
    own, everybody = own[both], everybody[both]
    return {
        name: Estimate(mean_of_rounds(own), mean_interval(own)),
        f"{name}_all": mean_of_rounds(everybody),
        f"{name}_difference": Estimate(mean_of_rounds(own - everybody), mean_interval(own - everybody, -1.0)),
    }
