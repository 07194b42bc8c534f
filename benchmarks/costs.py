"""Measures the costs that `compare --dry-run` estimates from: `python -m benchmarks.costs`."""

from __future__ import annotations

import resource
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from benchmarks import machine
from foltr_audit.core.plugins import Attack
from foltr_audit.core.plugins.registry import names, plugin_class
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.errors import FoltrAuditError
from foltr_audit.experiments.comparison.cell_arrays import ARRAYS
from foltr_audit.experiments.comparison.cells import pack_cell
from foltr_audit.experiments.comparison.estimate import COSTS
from foltr_audit.experiments.comparison.workers import one_thread
from foltr_audit.experiments.plan import Table
from foltr_audit.experiments.runner import Runner
from foltr_audit.utils.progress import NO_TICK, Tick

_BASE: Table = {
    "data": {"source": "synthetic:mq2007:200"},
    "population": {"clients": 50},
    "train": {"rounds": 200, "evaluate_every": 200},
    "trace": {"every": 0},
}


_SEEDS = count(1)


class _StageTimer:
    """A progress that adds up the seconds of each stage, by the first word of its name."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def task(self, name: str, total: int, interactions: int = 0) -> Iterator[Tick]:
        start = time.perf_counter()
        yield NO_TICK
        self.seconds[name.partition(" ")[0]] += time.perf_counter() - start


def _play(**tables: Table) -> tuple[dict[str, float], int, int]:
    """Seconds by stage (`rest`: of none), bytes of arrays and attacked lists; the second of two runs."""
    for _ in range(2):  # the first compiles kernels
        # Every run has a seed of its own: what a process keeps for the next one would cost nothing.
        spec = Spec.parse({**_BASE, "seed": next(_SEEDS), **tables}, "")
        timer, start = _StageTimer(), time.perf_counter()
        study = Runner(timer, with_undefended=False)
        cell = study.run(spec)
        packed = pack_cell(cell, study.setup(spec))
        timer.seconds["rest"] = time.perf_counter() - start - sum(timer.seconds.values())
    evidence = next(iter(cell.attacks.evidence.values()), None)
    return timer.seconds, len(packed[ARRAYS]), 0 if evidence is None else len(evidence.query)


def measure() -> dict[str, float | str | dict[str, float]]:
    """The table, by the names of the fields in `experiments.comparison.estimate`."""
    setup = Runner(with_undefended=False).setup(Spec.parse(_BASE, ""))
    size, rounds = setup.ranker.n_parameters, setup.spec.train.rounds
    work = rounds * setup.spec.population.cohort_size * setup.clients.interactions * setup.learner.slowness
    base, plain_bytes, _ = _play()
    often, _, _ = _play(train={"rounds": rounds, "evaluate_every": 1})
    documents = setup.collection.test.labels.size
    attacks: dict[str, float] = {}
    list_bytes = 0.0
    for name in names(Attack):
        if plugin_class(Attack, name).asks != "clicks":
            continue
        try:
            took, packed, lists = _play(attack={"methods": [name]})
        except FoltrAuditError as error:
            print(f"{name}: left out: {error}", file=sys.stderr)
            continue
        attacks[name] = sum(took.values()) - took["train"] - took["rest"]
        attacks[name] /= max(1, lists)
        list_bytes = max(list_bytes, (packed - plain_bytes) / max(1, lists))
    least = min(attacks.values())  # of sending a message and judging it, whatever the attack
    few, _, _ = _play(audit={"trials": 100})
    many, _, _ = _play(audit={"trials": 1100})
    audit = Spec.parse({**_BASE, "audit": {}}, "").audit
    assert audit is not None  # noqa: S101
    games = len(audit.views) * len(audit.units) * len(audit.canaries) * len(audit.models)
    queries = sum(int((setup.collection.part(n).lengths >= audit.min_documents).sum()) for n in audit.on)
    return {
        "machine": str(machine.describe()["cpu"]),
        "worker_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0,
        "cell_seconds": base["rest"],
        "interaction_seconds": base["train"] / work / size,
        "evaluation_seconds": max(0.0, often["train"] - base["train"]) / (rounds - 1) / documents / size,
        "search_seconds": few["search"] / games / queries,
        "trial_seconds": max(0.0, _games(many) - _games(few)) / 1000 / games,
        "list_bytes": list_bytes,
        "message_seconds": least,
        "attack_seconds": {name: value - least for name, value in attacks.items()},
    }


def _games(took: dict[str, float]) -> float:
    return sum(took.values()) - took["train"] - took["search"]


def main() -> None:
    """Measure, and write the table into the package."""
    with one_thread():
        table = measure()
    attacks = table.pop("attack_seconds")
    lines = ["# Written by `python -m benchmarks.costs`. Seconds per interaction and parameter, per round,"]
    lines += ["# document and parameter, per attacked list, per query and per trial of an audit's game."]
    for name, value in table.items():
        lines.append(f'{name} = "{value}"' if isinstance(value, str) else f"{name} = {value:.3g}")
    lines += ["", "[attack_seconds]"]
    if isinstance(attacks, dict):
        lines += [f"{name} = {value:.3g}" for name, value in attacks.items()]
    COSTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
