"""Systems to be compared: Runs that differ only in repetition, fold and seed, with their names and pairs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from foltr_audit.core.settings.data import path_name
from foltr_audit.core.settings.defaults import PROTOCOLS
from foltr_audit.core.settings.experiment import Spec, flat
from foltr_audit.errors import UsageError, suggest_name
from foltr_audit.experiments.periods import metrics_of_periods
from foltr_audit.experiments.store import StoredRun, read_runs
from foltr_audit.simulation.intent_metrics import DELTA, DROP, of_period
from foltr_audit.utils.formatting import JsonValue, json_text

Fields = dict[str, JsonValue]

_OF_A_REPETITION = ("seed", "repetition", "data.fold")
_ONLY_RECORDED = ("trace.every", "trace.embed_features")
LEARNER = "train.learner"
_WORDS = {"None": "none", "True": "yes", "False": "no"}


class RunKey(NamedTuple):
    """What two Runs of a pair have in common; the fingerprint is of the data before normalisation."""

    fingerprint: str
    fold: int
    seed: int
    repetition: int

    @classmethod
    def of(cls, run: StoredRun) -> RunKey:
        return cls(run.data.fingerprint, run.spec.data.fold, run.spec.seed, run.spec.repetition)

    def __str__(self) -> str:
        fold = f" fold {self.fold}," if self.fold else ""
        return f"repetition {self.repetition},{fold} seed {self.seed}"


@dataclass(frozen=True, kw_only=True, eq=False)
class RankingSystem:
    """Runs of one `--out` folder that repeat each other.

    Its name and its `fields` are the Spec fields in which the compared systems differ, and the folder where
    these do not suffice. Twins of its runs are searched `among` all that are compared.
    """

    name: str
    folder: Path
    fields: Fields
    runs: dict[RunKey, StoredRun]
    among: Mapping[Spec, StoredRun]

    @property
    def rounds(self) -> int:
        return next(iter(self.runs.values())).spec.train.rounds

    @cached_property
    def _of_periods(self) -> dict[RunKey, dict[str, float]]:
        return {
            key: {
                of_period(name, number): float(value)
                for name, values in metrics_of_periods(run, self.among).items()
                for number, value in enumerate(values)
                if (name, number) != (DROP, 0)  # before the first period there is nothing
            }
            for key, run in self.runs.items()
        }

    def metrics(self, key: RunKey) -> dict[str, float]:
        """The metrics of a Run: of its last round, of all rounds, and of each period of a changing intent."""
        return self.runs[key].metrics | self._of_periods[key]

    def has(self, metric: str) -> bool:
        """Whether all Runs have a metric; only one of periods needs the plug-ins of their scenarios."""
        return all(
            metric in run.metrics or math.isfinite(self._of_periods[key].get(metric, math.nan))
            for key, run in self.runs.items()
        )

    def value(self, key: RunKey, metric: str) -> float:
        """A metric of a Run; a `UsageError` if it was not measured."""
        of_rounds = self.runs[key].metrics
        value = of_rounds[metric] if metric in of_rounds else self._of_periods[key][metric]
        if not math.isfinite(value):
            run = self.runs[key].spec.hash[:12]
            raise UsageError(f"--metric: {metric} of Run {run} is {value:g}; expected a finite number")
        return value

    @property
    def data(self) -> str:
        """The source of its data, with fold."""
        run = next(iter(self.runs.values()))
        fold = run.spec.data.fold
        return path_name(run.spec.data.source) + (f" fold {fold}" if fold else "")


def read_systems(folders: Sequence[Path]) -> list[RankingSystem]:
    """The systems in some `--out` folders, in order; a `UsageError` where it is only one.

    They are named by the fields in which they differ, and where these do not suffice by the folder's name, or
    by its whole path.
    """
    among: dict[Path, StoredRun] = {}
    grouped: dict[tuple[Path, str], list[StoredRun]] = {}
    for folder in folders:
        for path, run in read_runs(folder).items():
            if path.resolve() in among:
                raise UsageError(f"{path}: given twice; expected different Runs")
            among[path.resolve()] = run
            grouped.setdefault((folder, json_text(_setting(run))), []).append(run)
    if len(grouped) < 2:
        raise UsageError(
            f"{folders[0]}: only one system, of {len(among)} Run{'s' * (len(among) != 1)}; expected two "
            "or more, e.g. two folders"
        )
    differing = _differing([_setting(runs[0]) for runs in grouped.values()])
    learners = without_shared_parameters([str(table[LEARNER]) for table in differing if LEARNER in table])
    labels = [
        ", ".join(
            f"{name}={learners[str(value)] if name == LEARNER else _text(value)}"
            for name, value in table.items()
        )
        for table in differing
    ]
    places = {folder.resolve() for folder, _ in grouped}
    unique = len({place.name for place in places}) == len(places)
    systems = []
    for label, fields, ((folder, _), runs) in zip(labels, differing, grouped.items(), strict=True):
        place = folder.resolve().name if unique else str(folder)
        alone = label and labels.count(label) == 1
        systems.append(
            RankingSystem(
                name=label if alone else f"{label} ({place})" if label else place,
                folder=folder,
                fields=fields,
                runs={RunKey.of(run): run for run in runs},
                among={run.spec: run for run in among.values()},
            )
        )
    return systems


def find_metric(systems: Sequence[RankingSystem], name: str) -> dict[str, list[RankingSystem]]:
    """The metrics that a name stands for, each with the systems that have it, at least two.

    A name without its number stands for all: `ndcg_drop@10` and `ndcg_drop@10/period` for each period.
    """
    having = [system for system in systems if system.has(name)]
    if len(having) == len(systems):
        return {name: having}
    known = dict.fromkeys(one for system in systems for key in system.runs for one in system.metrics(key))
    several = (f"{name} ", f"{name}/period ")
    names = [one for one in known if one == name or (name not in known and one.startswith(several))]
    if not names:
        raise UsageError(f"--metric: unknown metric {name!r}; {suggest_name(name, known)}")
    every = {one: [system for system in systems if system.has(one)] for one in names}
    found = {one: having for one, having in every.items() if len(having) > 1}
    if not found:
        alone = next((having[0].name for having in every.values() if having), None)
        told = "no system has it in all Runs" if alone is None else f"only {alone} has it"
        twins = ", with a twin under each intent (train --twins)" if name.startswith(DELTA) else ""
        raise UsageError(f"--metric: {name}: {told}; expected two systems{twins}")
    return found


def match_runs(a: RankingSystem, b: RankingSystem, *, paired_only: bool = False) -> list[RunKey]:
    """The repetitions of which both systems have a Run, in order; two at least.

    `paired_only`: leave out Runs without a partner instead of refusing them.
    """
    both = [repetition for repetition in a.runs if repetition in b.runs]
    if not {one.fingerprint for one in a.runs} & {one.fingerprint for one in b.runs}:
        raise UsageError(
            f"{a.name} and {b.name}: different data, {a.data} and {b.data}; expected the same for pairs"
        )
    for here, there in ((a, b), (b, a)) if not paired_only else ():
        for repetition in here.runs:
            if repetition not in there.runs:
                raise UsageError(
                    f"{there.name}: no Run of {repetition} on the same data, which {here.name} has; "
                    "--paired-only leaves out Runs without a partner"
                )
    if len(both) < 2:
        raise UsageError(
            f"{a.name} and {b.name}: {len(both)} pair{'s' * (len(both) != 1)} of Runs of the same data, "
            "fold, seed and repetition; expected 2 or more (see --runs)"
        )
    return both


def _setting(run: StoredRun) -> Fields:
    """The fields of a Spec that repetitions share, by dotted name, and whether it has the optional tables.

    How much of a run is recorded is left out, since it changes none of its results.
    """
    left_out = (*_OF_A_REPETITION, *_ONLY_RECORDED)
    table = {name: value for name, value in flat(run.spec.table()).items() if name not in left_out}
    return table | {name: getattr(run.spec, name) is not None for name in PROTOCOLS}


def _differing(tables: Sequence[Fields]) -> list[Fields]:
    """Of each table the fields in which they differ; None where a field has no value.

    Those of an optional table only where there is that table.
    """

    def has(table: Fields, name: str) -> bool:
        top, _, inner = name.partition(".")
        return not inner or top not in PROTOCOLS or bool(table[top])

    names = dict.fromkeys(name for table in tables for name in table)
    differ = [
        name
        for name in names
        if len({json_text(table.get(name)) for table in tables if has(table, name)}) > 1
    ]
    return [{name: table.get(name) for name in differ if has(table, name)} for table in tables]


def without_shared_parameters(texts: Sequence[str]) -> dict[str, str]:
    """Texts of plug-ins, each without the parameters that all plug-ins of its name share.

    >>> without_shared_parameters(["a:x=1,y=2", "a:x=1,y=3", "b:x=1"])
    {'a:x=1,y=2': 'a:y=2', 'a:x=1,y=3': 'a:y=3', 'b:x=1': 'b'}
    """
    found = {}
    for text in texts:
        name, _, parameters = text.partition(":")
        others = [other.partition(":")[2].split(",") for other in texts if other.partition(":")[0] == name]
        own = [part for part in parameters.split(",") if not all(part in other for other in others)]
        found[text] = ":".join(filter(None, (name, ",".join(own))))
    return found


def _text(value: object) -> str:
    if isinstance(value, list):
        return "+".join(map(str, value)) or "none"
    return _WORDS.get(str(value), str(value))
