"""Speed of the offline evaluation and of the main attack."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.engine import on_threads, threads_here
from benchmarks.figures import BenchmarkFigure
from benchmarks.options import BenchmarkOptions
from benchmarks.shapes import CLICK_MODEL, WorkloadShape, mq2007, mslr
from benchmarks.timing import TimingTask, interleave
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.experiments.stages import first_model, make_attacks
from foltr_audit.judge.clicks import infer_round
from foltr_audit.judge.observer import Observer
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.fresh_clients import FreshClients
from foltr_audit.simulation.recorder import trace_header
from foltr_audit.simulation.setup import Setup

_ATTACKS = {"olsr": "OLSR", "lad": "LAD", "map": "MAP"}


def attacking(options: BenchmarkOptions) -> list[BenchmarkFigure]:
    """Evaluation time and attacked updates a second on both shapes."""
    figures = []
    for shape in (mq2007(options), mslr(options)):
        setup = shape.whole(shape.collection())
        figures += _evaluation(shape, setup, options)
        figures += _attack(shape, setup, options)
    return figures


def _evaluation(shape: WorkloadShape, setup: Setup, options: BenchmarkOptions) -> list[BenchmarkFigure]:
    evaluation, parameters = Federation(setup).evaluation, first_model(setup)

    def on(count: int) -> Callable[[int], None]:
        def work(n: int) -> None:
            with on_threads(count):
                for _ in range(n):
                    evaluation.ndcg(parameters)

        return work

    queries = setup.collection.test.n_queries
    contestants = [TimingTask(str(count), on(count), queries) for count in threads_here()]
    rates = interleave(contestants, options.turns, options.least)
    return [
        BenchmarkFigure.of(
            f"{shape.name}.evaluation_{count}",
            f"evaluation on {queries} test queries, threads: {count}",
            rates.rate(count),
            "queries/s",
        )
        for count in rates.by_name
    ]


def _attack(shape: WorkloadShape, setup: Setup, options: BenchmarkOptions) -> list[BenchmarkFigure]:
    clients = FreshClients(setup, AttackSpec(min_documents=1))
    header = trace_header(setup, CLICK_MODEL, clients.queries.size, 1)
    record, _ = next(clients.rounds(first_model(setup), CLICK_MODEL)).recorded()
    observer = Observer(header, setup.collection)
    attacks = {attack.name: attack for attack in make_attacks(list(_ATTACKS))}

    def with_one(name: str) -> Callable[[int], None]:
        def work(n: int) -> None:
            for _ in range(n):
                infer_round(record, observer, [attacks[name]], setup.streams)

        return work

    systems = [
        system
        for seen in observer.views(record)
        for system in zip(seen.view.columns, seen.view.click_updates, strict=True)
    ]

    def plain(n: int) -> None:
        for _ in range(n):
            for columns, update in systems:
                np.linalg.lstsq(columns, update, rcond=None)

    contestants = [TimingTask(name, with_one(name), record.n_messages) for name in _ATTACKS]
    contestants.append(TimingTask("lstsq", plain, record.n_messages))
    rates = interleave(contestants, options.turns, options.least)
    texts = {**_ATTACKS, "lstsq": "numpy.linalg.lstsq on each message, without its columns"}
    return [
        *(
            BenchmarkFigure.of(f"{shape.name}.{name}", f"{text}, lists of ten", rates.rate(name), "updates/s")
            for name, text in texts.items()
        ),
        # Both find singular values, and OLSR also the rounding error of each weight. QR gave the same answers
        # 2.1 times as fast as lstsq, but a list that holds a document twice needs singular values.
        BenchmarkFigure.of(
            f"{shape.name}.olsr_over_lstsq", "OLSR / numpy.linalg.lstsq", rates.ratio("olsr", "lstsq"), "x"
        ),
    ]
