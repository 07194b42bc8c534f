"""Table 2 and figures 2 and 3 of Wang et al. 2021 on other data: `python -m benchmarks.wang_table_2`.

Trains the preset `wang-2021-table-2` repetition by repetition, stores every run, so that a call that was
ended goes on where it was, and compares systems in pairs. Intervals are Student's over repetitions, as in the
paper.

Source: Wang et al. 2021, "Effective and privacy-preserving federated online learning to rank", sections 4
and 5.1.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.preset_curves import EVERY, FOLDER, CurveFolder, StoredCurve, repetition_specs
from benchmarks.results.declarations import Row
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.experiments.presets import load_preset
from foltr_audit.experiments.runner import Runner
from foltr_audit.judge.significance import FEWEST, paired_t_test
from foltr_audit.utils.arrays import Floats

PRESET = "wang-2021-table-2"
FPDGD, FOLTR_ES = "FPDGD", "FOLtR-ES"
UPDATES, INTERACTIONS = "PDGD, as many updates", "PDGD, as many interactions"
BATCHES = "PDGD, in batches"
LEVELS = ("1.2", "2.3", "4.5", "10")
"""Epsilon of FPDGD; p of .25, .5, .9 and 1 of FOLtR-ES stand beside them in the paper."""

EARLY_SHARE = 0.2
"""The share of the rounds after which the fall of a learning curve is measured."""

Metric = Callable[[StoredCurve], float]


def _early(values: Sequence[float]) -> float:
    return values[max(1, round(EARLY_SHARE * len(values))) - 1]


METRICS: dict[str, Metric] = {
    "nDCG@10": lambda curve: curve.ndcg[-1],
    "MaxRR": lambda curve: curve.maxrr[-1],
    "online sum": lambda curve: curve.online_sum,
    "online at first": lambda curve: curve.online[0],
    "online at last": lambda curve: curve.online[-1],
}
"""What systems are compared by: offline after the last round, online in all rounds and in `EVERY` of them."""

EARLY: dict[str, Metric] = {
    "nDCG@10": lambda curve: _early(curve.ndcg),
    "MaxRR": lambda curve: _early(curve.maxrr),
}
"""The offline metrics after `EARLY_SHARE` of the rounds."""


class TableSystem(NamedTuple):
    """A learner at a level of privacy, in a reading of the paper; a central learner has no level."""

    reading: str
    clicks: str
    learner: str
    level: str


class SystemPair(NamedTuple):
    """What is subtracted from what in a reading under the same clicks: learners, levels and metrics.

    An empty level stands for each of `LEVELS`.
    """

    name: str
    first: tuple[str, str]
    second: tuple[str, str]
    metrics: Mapping[str, tuple[Metric, Metric]]

    def systems(self, place: tuple[str, str], level: str) -> tuple[TableSystem, TableSystem]:
        (one, own), (other, others) = self.first, self.second
        return TableSystem(*place, one, own or level), TableSystem(*place, other, others or level)


_EVERY = {name: (metric, metric) for name, metric in METRICS.items()}
_WHOLE = {name: _EVERY[name] for name in ("nDCG@10", "MaxRR", "online sum")}
_FALL = {name: (METRICS[name], early) for name, early in EARLY.items()}

COMPARISONS = (
    SystemPair("FPDGD less FOLtR-ES", (FPDGD, ""), (FOLTR_ES, ""), _EVERY),
    SystemPair("FPDGD less FPDGD at 10", (FPDGD, ""), (FPDGD, "10"), _WHOLE),
    SystemPair("FOLtR-ES less FOLtR-ES at p = 1", (FOLTR_ES, ""), (FOLTR_ES, "10"), _WHOLE),
    SystemPair("PDGD, as many interactions, less FPDGD", (INTERACTIONS, "-"), (FPDGD, ""), _WHOLE),
    SystemPair("FPDGD less PDGD, as many updates", (FPDGD, ""), (UPDATES, "-"), _WHOLE),
    SystemPair("FPDGD less PDGD, in batches", (FPDGD, ""), (BATCHES, "-"), _WHOLE),
    SystemPair("FOLtR-ES, last round less round 200", (FOLTR_ES, ""), (FOLTR_ES, ""), _FALL),
)


@dataclass(frozen=True)
class TrainedSystems:
    """The curves of every system, one for each repetition.

    Attributes:
        curves: by system, in the order of the preset.
    """

    curves: dict[TableSystem, list[StoredCurve]]

    def values(self, system: TableSystem, metric: Metric) -> Floats:
        """The metric of every repetition, float64 (repetitions,)."""
        return np.array([metric(curve) for curve in self.curves[system]], dtype=np.float64)

    @property
    def places(self) -> list[tuple[str, str]]:
        """Readings and click models."""
        return list(dict.fromkeys((system.reading, system.clicks) for system in self.curves))

    @property
    def seconds(self) -> float:
        """Processor time of all runs."""
        return sum(curve.seconds for mine in self.curves.values() for curve in mine)


def named_systems(
    preset: str, data: str, repetition: int, rounds: int | None
) -> Iterator[tuple[TableSystem, Spec]]:
    """The Specs of a repetition by their systems; the levels of a learner are in the order of the preset."""
    seen: dict[tuple[str, str, str], int] = {}
    for reading, cell, spec in repetition_specs(preset, data, repetition, rounds):
        key = reading, spec.train.click_model, cell
        seen[key] = seen.get(key, -1) + 1
        yield TableSystem(*key, LEVELS[seen[key]] if cell in (FPDGD, FOLTR_ES) else "-"), spec


def train_systems(
    store: CurveFolder, data: str, repetitions: int, rounds: int | None = None
) -> TrainedSystems:
    """Train what is not stored yet, one repetition after the other."""
    curves: dict[TableSystem, list[StoredCurve]] = {}
    for repetition in range(repetitions):
        for system, spec in named_systems(PRESET, data, repetition, rounds):
            curves.setdefault(system, []).append(store.curve(spec))
        print(f"repetition {repetition + 1} of {repetitions}", file=sys.stderr, flush=True)
    return TrainedSystems(curves)


def interval(values: Floats) -> list[float] | None:
    """Student's 95 % interval of the mean of values (n,); None of fewer than `FEWEST`."""
    if values.size < FEWEST:
        return None
    return list(paired_t_test(values, np.zeros(values.size)).interval)


def system_rows(trained: TrainedSystems) -> Iterator[Row]:
    """A row for each system: means of its metrics with intervals, and the published online sum."""
    published = _published()
    for system in trained.curves:
        row: dict[str, Any] = {**system._asdict(), "published": published.get(system[1:])}
        for name, metric in {**METRICS, "nDCG@10 early": EARLY["nDCG@10"]}.items():
            values = trained.values(system, metric)
            row |= {name: float(values.mean()), f"{name} ci95": interval(values)}
        yield row


def _published() -> dict[tuple[str, ...], float]:
    """The published online sums by clicks, learner and level; levels are in their order there."""
    found: dict[tuple[str, ...], float] = {}
    for figure in load_preset(PRESET).published.figures:
        place = str(figure.where["trained_on"]), figure.cell
        found[*place, LEVELS[sum(one[:2] == place for one in found)]] = figure.value
    return found


def difference_rows(trained: TrainedSystems) -> Iterator[Row]:
    """A row for each metric, comparison, reading, click model and level: the mean paired difference."""
    for metric, compared in product(METRICS, COMPARISONS):
        if metric not in compared.metrics:
            continue
        one, other = compared.metrics[metric]
        for place, level in product(trained.places, LEVELS):
            first, second = compared.systems(place, level)
            if (first, one) == (second, other):
                continue
            values = trained.values(first, one) - trained.values(second, other)
            yield {
                "metric": metric,
                "comparison": compared.name,
                "reading": place[0],
                "clicks": place[1],
                "level": level,
                "difference": float(values.mean()),
                "difference ci95": interval(values),
            }


def report(trained: TrainedSystems, repetitions: int) -> dict[str, object]:
    """The JSON object that is printed."""
    return {
        "schema": "foltr-audit/wang-table-2/1",
        "config": {"runs": repetitions, "preset": PRESET, "evaluated_every": EVERY},
        "processor_seconds": round(trained.seconds, 1),
        "systems": list(system_rows(trained)),
        "differences": list(difference_rows(trained)),
    }


def main(given: Sequence[str] | None = None) -> None:
    """Print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="synthetic:mq2007", help="Data set; with folds all of them.")
    parser.add_argument("--repetitions", type=int, default=25, help="Repetitions, spread over the folds.")
    parser.add_argument("--rounds", type=int, help="Rounds, if fewer than the preset's.")
    parser.add_argument("--store", type=Path, default=FOLDER, help="Folder of finished runs.")
    options = parser.parse_args(given)
    store = CurveFolder(options.store, Runner())
    trained = train_systems(store, options.data, options.repetitions, options.rounds)
    print(json.dumps(report(trained, options.repetitions), indent=1))


if __name__ == "__main__":
    main()
