"""The two workloads: data and rounds of the size that the papers simulate."""

from __future__ import annotations

from dataclasses import dataclass, replace

from benchmarks.options import BenchmarkOptions
from foltr_audit.core.defense_chain import published_chain
from foltr_audit.core.records import Collection
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.data.load import load_collection
from foltr_audit.simulation.setup import Setup

EPS, SENSITIVITY = 1.2, 3.0
CLICK_MODEL = "perfect"
_ENDLESS = 1_000_000  # rounds of a Spec; a benchmark stops when it has enough


@dataclass(frozen=True)
class WorkloadShape:
    """A data source and the clients of one round over it."""

    name: str
    source: str
    clients: int
    interactions: int

    @property
    def per_round(self) -> int:
        return self.clients * self.interactions

    def spec(self, *, defended: bool, learner: str = "fpdgd", ranker: str = "linear") -> Spec:
        """The experiment of a learner: defended as FPDGD was and evaluated every round, or neither."""
        return Spec.parse(
            {
                "defense": published_chain(EPS, SENSITIVITY) if defended else ("none",),
                "data": {"source": self.source},
                "population": {"clients": self.clients},
                "train": {
                    "learner": f"{learner}{',' if ':' in learner else ':'}interactions={self.interactions}",
                    "ranker": ranker,
                    "rounds": _ENDLESS,
                    "click_model": CLICK_MODEL,
                    "evaluate_every": 1 if defended else _ENDLESS,
                },
            }
        )

    def collection(self) -> Collection:
        """The normalised data, in memory."""
        spec = self.spec(defended=False)
        return load_collection(spec.data, spec.seed, cache=False)

    def bare(self, collection: Collection, learner: str = "fpdgd", ranker: str = "linear") -> Setup:
        """Simulation only: no noise, no evaluation, and one test query to prepare it for."""
        spec = self.spec(defended=False, learner=learner, ranker=ranker)
        return Setup(spec, replace(collection, test=collection.test.select([0])))

    def whole(self, collection: Collection) -> Setup:
        """Rounds as in the papers: clip, noise, and an evaluation on the whole test part."""
        return Setup(self.spec(defended=True), collection)


def mq2007(options: BenchmarkOptions) -> WorkloadShape:
    """1,000 clients with 4 interactions each on MQ2007-like data."""
    if options.quick:
        return WorkloadShape("mq2007", "synthetic:mq2007:30", 60, 2)
    return WorkloadShape("mq2007", "synthetic:mq2007", 1000, 4)


def mslr(options: BenchmarkOptions) -> WorkloadShape:
    """1,000 clients with 2 interactions each on MSLR-WEB10k-like data."""
    if options.quick:
        return WorkloadShape("mslr", "synthetic:mslr-web10k:20", 20, 2)
    source = "synthetic:mslr-web10k" if options.full else "synthetic:mslr-web10k:2000"
    return WorkloadShape("mslr", source, 1000, 2)
