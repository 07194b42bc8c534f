"""Interactions a second: the plain loop, the engine, and the bare scoring of the same queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numba
import numpy as np
from numpy.typing import NDArray

from benchmarks.figures import BenchmarkFigure
from benchmarks.options import BenchmarkOptions
from benchmarks.plain_loop import PlainLoop
from benchmarks.plain_users import click_setting
from benchmarks.scratch_folder import ScratchFolder
from benchmarks.shapes import CLICK_MODEL, EPS, SENSITIVITY, WorkloadShape
from benchmarks.timing import TimingTask, WorkRates, interleave
from foltr_audit.core.records import Collection
from foltr_audit.experiments.stages import first_model
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.recorder import record_rounds, trace_header
from foltr_audit.simulation.setup import Setup
from foltr_audit.utils.progress import NO_TICK

_WARM_ROUNDS = 3  # everybody starts from a model that has learnt something
_QUERY_ROUNDS = 8  # rounds whose queries the bare scoring goes through

Work = Callable[[int], object]


@contextmanager
def on_threads(count: int) -> Iterator[None]:
    """Run parallel kernels on this many threads."""
    before = numba.get_num_threads()
    numba.set_num_threads(count)
    try:
        yield
    finally:
        numba.set_num_threads(before)


def threads_here() -> list[int]:
    """Numbers of threads to measure: 1, and 2 where there are as many."""
    return [1, 2] if numba.config.NUMBA_NUM_THREADS >= 2 else [1]  # type: ignore[attr-defined]


def threaded(work: Work, count: int) -> Work:
    """The same work on this many threads."""

    def on_count(times: int) -> None:
        with on_threads(count):
            work(times)

    return on_count


@dataclass(frozen=True)
class EngineWorkload:
    """The pieces of work of one shape; `n` is always a number of rounds.

    Attributes:
        shape: data, clients and interactions.
        collection: its data.
    """

    shape: WorkloadShape
    collection: Collection

    @cached_property
    def bare(self) -> Setup:
        return self.shape.bare(self.collection)

    @cached_property
    def whole(self) -> Setup:
        """Simulation, noise and evaluation."""
        return self.shape.whole(self.collection)

    @cached_property
    def model(self) -> NDArray[np.float64]:
        """The model that every piece of work starts from, (P,)."""
        rounds = Federation(self.bare).rounds(first_model(self.bare))
        return [played.aggregate for played in islice(rounds, _WARM_ROUNDS)][-1]

    def plain(self, *, defended: bool) -> Work:
        features, labels = PlainLoop.queries_of(self.collection.train)
        click, stop = click_setting(CLICK_MODEL, self.collection.largest_label)
        loop = PlainLoop(
            features=features,
            labels=labels,
            click=click,
            stop=stop,
            clients=self.shape.clients,
            interactions=self.shape.interactions,
            learning_rate=float(self.bare.learner.facts["learning_rate"]),
            clip=SENSITIVITY / 2 if defended else None,
            noise=SENSITIVITY / EPS if defended else 0.0,
        )
        rng = np.random.default_rng(1)

        return lambda n: loop.rounds(self.model, n, rng)

    def engine(self, setup: Setup) -> Work:
        """Rounds of the engine, kept nowhere."""
        federation = Federation(setup)

        def work(n: int) -> None:
            for _ in islice(federation.rounds(self.model), n):
                pass

        return work

    @cached_property
    def traces(self) -> ScratchFolder:
        """What `traced` writes."""
        return ScratchFolder()

    def traced(self, setup: Setup) -> Work:
        """Rounds of the engine, written to a folder."""
        federation = Federation(setup)
        header = trace_header(setup, setup.spec.train.click_model, self.shape.clients)

        def work(n: int) -> None:
            record_rounds(
                lambda first, last: islice(federation.rounds(self.model), n),
                header,
                self.traces.fresh() / "trace",
                setup.collection,
                resume=False,
                keep=False,
                tick=NO_TICK,
            )

        return work

    @cached_property
    def asked(self) -> list[NDArray[np.int64]]:
        """What the engine has to score in a few rounds, in its order: by step, and by query inside a step.

        All clients have the same model in their first step, which needs each query once.
        """
        rounds = islice(Federation(self.bare).rounds(self.model), _QUERY_ROUNDS)
        steps = [played.sent.interactions.queries.T for played in rounds]
        return [np.concatenate([np.unique(first), *np.sort(later, axis=1)]) for first, *later in steps]

    def scoring(self) -> Work:
        """The engine's scoring alone: a round's queries in one call, one model for all of them."""
        parameters, data = self.model[np.newaxis], self.collection.train

        def work(n: int) -> None:
            for round_ in range(n):
                self.bare.ranker.scores(parameters, data, self.asked[round_ % _QUERY_ROUNDS])

        return work

    def contestants(self) -> list[TimingTask]:
        """Everything that is compared, in the order of its turns."""
        work: dict[str, Work] = {
            "plain": self.plain(defended=False),
            "plain_defended": self.plain(defended=True),
        }
        for count in threads_here():
            for name, piece in {
                "engine": self.engine(self.bare),
                "scoring": self.scoring(),
                "whole": self.engine(self.whole),
                "engine_traced": self.traced(self.bare),
                "whole_traced": self.traced(self.whole),
            }.items():
                work[f"{name}_{count}"] = threaded(piece, count)
        return [
            TimingTask(name, piece, self.shape.per_round, tidy=self.traces.clear)
            for name, piece in work.items()
        ]


_TEXTS = {
    "plain": "plain NumPy loop",
    "plain_defended": "plain NumPy loop with clip and noise",
    "engine": "engine, bare simulation",
    "scoring": "the scoring that a round needs, alone (the limit)",
    "whole": "engine, clip, noise and evaluation every round",
    "engine_traced": "engine, bare simulation, with trace",
    "whole_traced": "engine, clip, noise, evaluation, with trace",
}


def engine(shape: WorkloadShape, options: BenchmarkOptions) -> list[BenchmarkFigure]:
    """Rates and ratios of one shape."""
    workload = EngineWorkload(shape, shape.collection())
    rates = interleave(workload.contestants(), options.turns, options.least)
    figures = []
    for name in rates.by_name:
        piece, _, count = name.rpartition("_")
        known = count.isdigit()
        text = f"{_TEXTS[piece]}, {_threads(count)}" if known else _TEXTS[name]
        figures.append(BenchmarkFigure.of(f"{shape.name}.{name}", text, rates.rate(name), "interactions/s"))
    return figures + ratios(shape.name, rates)


def ratios(name: str, rates: WorkRates) -> list[BenchmarkFigure]:
    """The ratios that have targets, and the same ratios for other numbers of threads."""
    wanted = [
        ("engine_over_plain", "engine / plain loop, 1 thread", "engine_1", "plain"),
        ("whole_over_plain", "whole round / plain loop with clip and noise, 1 thread", "whole_1",
         "plain_defended"),
        ("engine_of_limit", "engine / scoring alone (the limit), 1 thread", "engine_1", "scoring_1"),
        ("whole_over_bare", "time of a whole round / bare simulation, 1 thread", "engine_1", "whole_1"),
    ]  # fmt: skip
    for count in threads_here():
        key = "" if count == threads_here()[-1] else f"_{count}"  # the last one is for all threads
        text = f"time with trace / without, {_threads(str(count))}"
        wanted += [
            (f"trace_over_none{key}", f"{text}, whole rounds", f"whole_{count}", f"whole_traced_{count}"),
            (f"bare_trace_over_none{key}", f"{text}, bare simulation", f"engine_{count}",
             f"engine_traced_{count}"),
        ]  # fmt: skip
    if 2 in threads_here():
        wanted += [
            ("two_threads", "engine, 2 threads / 1 thread", "engine_2", "engine_1"),
            ("scoring_two_threads", "scoring alone, 2 threads / 1 thread", "scoring_2", "scoring_1"),
        ]
    return [BenchmarkFigure.of(f"{name}.{key}", text, rates.ratio(a, b), "x") for key, text, a, b in wanted]


def _threads(count: str) -> str:
    return "1 thread" if count == "1" else f"{count} threads"
