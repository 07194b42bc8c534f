"""Does one piece of work at one size: `python -m benchmarks.scale_worker SUBJECT SIZE SMALL`.

A process of its own for each size. The work is done at the size SMALL before, so that imports and kernels
do not count. Prints processor seconds, and the growth of resident memory at its peak in bytes.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.reader_memory import peak, resident
from foltr_audit.core.defense_chain import published_chain
from foltr_audit.core.records import Collection, Dataset
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.data.load import load_collection
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.setup import Setup

DATA = "synthetic:mq2007:100"
QUERIES = 12  # of the data with long lists or many features


def spec_of(clients: int, *, cohort: int | None = None, rounds: int = 1, chain: bool = True) -> Spec:
    """Rounds of FPDGD with one interaction a client, defended as published."""
    population = {"clients": clients} | ({} if cohort is None else {"cohort": cohort})
    return Spec.parse(
        {
            "defense": published_chain(1.2, 3.0) if chain else ("none",),
            "data": {"source": DATA},
            "population": population,
            "train": {"learner": "fpdgd:interactions=1", "rounds": rounds, "evaluate_every": rounds},
        }
    )


def _data() -> Collection:
    spec = spec_of(1)
    return load_collection(spec.data, spec.seed, cache=False)


def made_up(documents: int, features: int) -> Collection:
    """Data of a few queries with so many documents each and so many features."""
    rng = np.random.default_rng(1)

    def part(name: str, queries: int) -> Dataset:
        rows = queries * documents
        return Dataset(
            features=rng.standard_normal((rows, features), dtype=np.float32),
            labels=rng.integers(0, 3, rows),
            offsets=np.arange(0, rows + 1, documents),
            query_ids=tuple(f"{name}-{number}" for number in range(queries)),
            document_ids=("",) * rows,
        )

    return Collection(
        train=part("train", QUERIES), vali=part("vali", 1), test=part("test", QUERIES),
        source="made up", synthetic=True, fold=0, fingerprint="0" * 64, normalised="zscore",
    )  # fmt: skip


def clients(size: int) -> Callable[[], object]:
    """One round of so many clients."""
    federation = Federation(Setup(spec_of(size), _data()))
    start = np.zeros(federation.setup.ranker.n_parameters)
    return lambda: federation.play(start, 0)


def rounds(size: int) -> Callable[[], object]:
    """So many rounds of cohorts of 1 % of 100,000 clients, with a trace."""
    from foltr_audit.experiments.runs.folder import RunFolder
    from foltr_audit.experiments.stages import train

    spec = spec_of(100_000, cohort=1_000, rounds=size)
    setup = Setup(spec, _data())

    def work() -> None:
        with tempfile.TemporaryDirectory() as folder:
            train(setup, RunFolder.create(Path(folder) / "run", spec, resume=False))

    return work


def cells(size: int) -> Callable[[], object]:
    """A comparison of so many cells that take some milliseconds each, and its report."""
    from foltr_audit.experiments.comparison.folder import ComparisonFolder
    from foltr_audit.experiments.comparison.grid import CellPlan, ComparisonGrid, DefenseLabel
    from foltr_audit.experiments.comparison.runner import run_cells
    from foltr_audit.experiments.comparison.workers import Workers
    from foltr_audit.report.compare import CompareReport

    table = {
        "data": {"source": "synthetic:mq2007:30"},
        "population": {"clients": 3},
        "train": {"rounds": 1},
        "trace": {"every": 0},
    }

    def work() -> None:
        planned = [
            CellPlan(Spec.parse({**table, "repetition": run}, ""), "attack", DefenseLabel("none"))
            for run in range(size)
        ]
        with tempfile.TemporaryDirectory() as path:
            folder = ComparisonFolder.create(Path(path), resume=False, overwrite=False)
            folder.save_index(ComparisonGrid.parse({}), planned, [])
            run_cells([cell.spec for cell in planned], folder, Workers(jobs=1))
            CompareReport.of(folder)

    return work


def _attacked(collection: Collection, clients: int) -> Callable[[], object]:
    """A round of clients on the data, and attacks on one message of each query."""
    from foltr_audit.core.settings.attack import AttackSpec
    from foltr_audit.experiments.stages import attack_fresh
    from foltr_audit.simulation.fresh_clients import FreshClients

    setup = Setup(spec_of(clients), collection)
    fresh = FreshClients(
        setup, AttackSpec(methods=("olsr", "lad", "map"), repeats=1, on=("test",), min_documents=1)
    )
    federation = Federation(setup)
    start = np.zeros(setup.ranker.n_parameters)

    def work() -> None:
        after = federation.play(start, 0).aggregate
        attack_fresh(setup, fresh, after)

    return work


def documents(size: int) -> Callable[[], object]:
    """Lists of so many documents: a round of 1,000 clients, its evaluation, and attacks."""
    return _attacked(made_up(size, 46), 1_000)


def features(size: int) -> Callable[[], object]:
    """So many features: a round of 1,000 clients, its evaluation, and attacks."""
    return _attacked(made_up(50, size), 1_000)


WORK: dict[str, Callable[[int], Callable[[], object]]] = {
    "clients": clients,
    "rounds": rounds,
    "cells": cells,
    "documents": documents,
    "features": features,
}


def measured(subject: str, size: int, small: int) -> tuple[float, int]:
    """Processor seconds of the work, and bytes by which memory grows at its peak, data included."""
    WORK[subject](small)()
    before = resident()
    work = WORK[subject](size)
    start = time.process_time()
    work()
    return time.process_time() - start, peak() - before


def main() -> None:
    """Measure what the arguments name."""
    subject, size, small = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    seconds, memory = measured(subject, size, small)
    sys.stdout.write(f"{seconds} {memory}\n")


if __name__ == "__main__":
    main()
