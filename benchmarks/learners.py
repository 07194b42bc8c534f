"""Interactions per second of every learner, compared with a plain loop and with bare scoring."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.engine import Work, threaded, threads_here
from benchmarks.figures import BenchmarkFigure
from benchmarks.options import BenchmarkOptions
from benchmarks.plain_central import PlainCOLTR, PlainDBGD, PlainPDGD
from benchmarks.plain_evolution import PlainEvolution
from benchmarks.plain_neural import PlainNeuralLoop
from benchmarks.plain_users import PlainUsers
from benchmarks.shapes import CLICK_MODEL, WorkloadShape, mq2007
from benchmarks.timing import TimingTask, WorkRates, interleave
from foltr_audit.core.records import Collection
from foltr_audit.experiments.stages import first_model
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.setup import Setup

_WARM_ROUNDS = 3  # everybody starts from a model that FPDGD has taught something
_QUERY_ROUNDS = 8  # rounds whose queries the bare scoring goes through


class PlainLearner(Protocol):
    """A plain loop of one learner."""

    def rounds(
        self, parameters: NDArray[np.float64], count: int, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """The global model (P,) after this many rounds."""
        ...


@dataclass(frozen=True)
class LearnerEntry:
    """A learner that is measured.

    Attributes:
        key: its part of the figures' names.
        learner: its text.
        plain: makes its plain loop of users and a shape.
        parallel: whether more threads are of use to the engine.
        ranker: text of the ranker.
    """

    key: str
    learner: str
    plain: Callable[[PlainUsers, WorkloadShape], PlainLearner]
    parallel: bool
    ranker: str = "linear"

    @property
    def text(self) -> str:
        return self.learner if self.ranker == "linear" else f"{self.learner}, {self.ranker}"


def _neural(layers: int) -> Callable[[PlainUsers, WorkloadShape], PlainLearner]:
    def made(users: PlainUsers, shape: WorkloadShape) -> PlainLearner:
        return PlainNeuralLoop(
            users.features,
            users.labels,
            users.click,
            users.stop,
            shape.clients,
            shape.interactions,
            layers=layers,
        )

    return made


ENTRIES = (
    LearnerEntry(
        "foltr_es", "foltr-es", lambda u, s: PlainEvolution(u, s.clients, s.interactions), parallel=True
    ),
    LearnerEntry("pdgd", "pdgd", lambda u, s: PlainPDGD(u, s.per_round), parallel=False),
    LearnerEntry(
        "pdgd_batch", "pdgd:batch=100", lambda u, s: PlainPDGD(u, s.per_round, batch=100), parallel=True
    ),
    LearnerEntry("dbgd", "dbgd", lambda u, s: PlainDBGD(u, s.per_round), parallel=False),
    LearnerEntry(
        "dbgd_probabilistic",
        "dbgd:interleaving=probabilistic",
        lambda u, s: PlainDBGD(u, s.per_round, probabilistic=True),
        parallel=False,
    ),
    LearnerEntry("coltr", "coltr", lambda u, s: PlainCOLTR(u, s.per_round), parallel=False),
    LearnerEntry("neural", "fpdgd", _neural(1), parallel=True, ranker="neural:hidden=64"),
    LearnerEntry("neural_two", "fpdgd", _neural(2), parallel=True, ranker="neural:hidden=64,layers=2"),
)
"""The learners, in the order of their figures."""


@dataclass(frozen=True)
class LearnerWorkload:
    """The pieces of work of one learner; `n` is always a number of rounds.

    Attributes:
        entry: the learner.
        shape: data, clients and interactions.
        collection: its data.
    """

    entry: LearnerEntry
    shape: WorkloadShape
    collection: Collection

    @cached_property
    def setup(self) -> Setup:
        """The engine's experiment."""
        return self.shape.bare(self.collection, self.entry.learner, self.entry.ranker)

    @cached_property
    def model(self) -> NDArray[np.float64]:
        """The model (P,) that every piece of work starts from: FPDGD's, after a few rounds."""
        setup = self.shape.bare(self.collection, ranker=self.entry.ranker)
        rounds = Federation(setup).rounds(first_model(setup))
        return [played.aggregate for played in islice(rounds, _WARM_ROUNDS)][-1]

    def plain(self) -> Work:
        loop = self.entry.plain(PlainUsers.of(self.collection, CLICK_MODEL), self.shape)
        rng = np.random.default_rng(1)
        return lambda n: loop.rounds(self.model, n, rng)

    def engine(self) -> Work:
        """Rounds of the engine, kept nowhere and evaluated never."""
        federation = Federation(self.setup)

        def work(n: int) -> None:
            for _ in islice(federation.rounds(self.model), n):
                pass

        return work

    @cached_property
    def asked(self) -> list[NDArray[np.int64]]:
        """All queries of a few rounds, each (interactions,)."""
        rounds = islice(Federation(self.setup).rounds(self.model), _QUERY_ROUNDS)
        return [played.sent.interactions.queries.T.reshape(-1) for played in rounds]

    def scoring(self) -> Work:
        """The engine's scoring alone: a round's queries in one call, one model for all of them."""
        parameters, data = self.model[np.newaxis], self.collection.train

        def work(n: int) -> None:
            for round_ in range(n):
                self.setup.ranker.scores(parameters, data, self.asked[round_ % _QUERY_ROUNDS])

        return work

    @property
    def threads(self) -> list[int]:
        """Numbers of threads to measure."""
        return threads_here() if self.entry.parallel else [1]

    def rates(self, options: BenchmarkOptions) -> WorkRates:
        """Everything of this learner in turns, with one thread for matrix products."""
        work = {"plain": self.plain()}
        for count in self.threads:
            work[f"engine_{count}"] = threaded(self.engine(), count)
        work["scoring_1"] = threaded(self.scoring(), 1)
        contestants = [TimingTask(name, piece, self.shape.per_round) for name, piece in work.items()]
        with threadpool_limits(1, user_api="blas"):
            return interleave(contestants, options.turns, options.least)


def learners(options: BenchmarkOptions) -> list[BenchmarkFigure]:
    """Rates of every learner at the MQ2007 shape, and their ratios."""
    shape = mq2007(options)
    collection = shape.collection()
    figures = []
    for entry in ENTRIES:
        figures += told(entry, LearnerWorkload(entry, shape, collection).rates(options))
    return figures


def told(entry: LearnerEntry, rates: WorkRates) -> list[BenchmarkFigure]:
    key, name = f"learners.{entry.key}", entry.text
    texts = {
        "plain": f"{name}: plain NumPy loop",
        "engine_1": f"{name}: engine, 1 thread",
        "engine_2": f"{name}: engine, 2 threads",
        "scoring_1": f"{name}: scoring alone (the limit), 1 thread",
    }
    wanted = [
        ("over_plain", "engine / plain loop, 1 thread", "engine_1", "plain"),
        ("over_plain_2", "engine, 2 threads / plain loop", "engine_2", "plain"),
        ("of_limit", "engine / scoring alone, 1 thread", "engine_1", "scoring_1"),
    ]
    return [
        *(
            BenchmarkFigure.of(f"{key}_{piece}", texts[piece], rates.rate(piece), "interactions/s")
            for piece in rates.by_name
        ),
        *(
            BenchmarkFigure.of(f"{key}_{ratio}", f"{name}: {text}", rates.ratio(a, b), "x")
            for ratio, text, a, b in wanted
            if a in rates.by_name
        ),
    ]
