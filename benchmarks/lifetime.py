"""What privacy of a whole run costs in nDCG: `python -m benchmarks.lifetime --data MQ2008`.

Every noise is the least that accounting proves for one client over all rounds together (view aggregate). What
is lost is the nDCG of the same run without a defense, less that with clip and noise, on the test part after
the last round; seeds pair the two.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import stats

from benchmarks.tables import print_lines
from foltr_audit.auditing.noise_for_target import calibrate
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.data.load import load_collection
from foltr_audit.experiments.stages import first_model
from foltr_audit.privacy.accounting import AccountingContext, SumMembers
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.setup import Setup

MINUS = "\N{MINUS SIGN}"
EPSILONS, DELTA = (1.0, 2.0, 4.0, 8.0), 1e-5
CONFIDENCE = 0.95


class CohortSizes(NamedTuple):
    """Who takes part.

    Attributes:
        clients: clients.
        cohort: clients in a round.
        separation: rounds between two of one client, where a mechanism uses them; then everybody takes part
            in each of its turns.
    """

    clients: int
    cohort: int
    separation: int

    @classmethod
    def parse(cls, text: str) -> CohortSizes:
        """Three numbers joined by commas."""
        clients, cohort, separation = map(int, text.split(","))
        return cls(clients, cohort, separation)


class ComparedNoise(NamedTuple):
    """A noise, and what it rests on.

    Attributes:
        name: in words.
        defense: name of the defense.
        secret: the observer does not know who takes part; cohorts are drawn from all clients in each round.
    """

    name: str
    defense: str
    secret: bool = False


COHORTS = (CohortSizes(100_000, 1000, 100), CohortSizes(1000, 100, 10), CohortSizes(1000, 10, 100))
NOISES = (
    ComparedNoise("independent: Skellam shares", "skellam"),
    ComparedNoise("independent, amplified by a secret sample", "correlated-gaussian", secret=True),
    ComparedNoise("correlated over the separation", "correlated-gaussian"),
)


def chain(mechanism: ComparedNoise, who: CohortSizes, eps: float, runs: LifetimeRuns) -> list[str]:
    """Clip, and the least noise that is proven for all rounds."""
    situation = AccountingContext(
        view="aggregate",
        unit="client",
        parameters=runs.collection.n_features,
        members=SumMembers(cohort=who.cohort),
        rounds=runs.rounds,
        separation=1 if mechanism.secret else who.separation,
        sampled=who.cohort / who.clients if mechanism.secret else 1.0,
        cohorts="secret" if mechanism.secret else "any",
        delta=DELTA,
    )
    found = calibrate(mechanism.defense, eps, situation, norm=runs.norm)
    if found.why_not is not None:
        raise ValueError(f"{mechanism.name}: {found.why_not}")
    return [runs.clip, *found.defense[1:]]


class LifetimeRuns:
    """Runs on one data set."""

    def __init__(self, data: str, clicks: str, rounds: int, norm: float) -> None:
        """Nothing is played yet."""
        self.data, self.clicks, self.rounds, self.norm = data, clicks, rounds, norm
        self.collection = load_collection(Spec(data={"source": data}).data, 1)

    @property
    def clip(self) -> str:
        return f"clip:norm={self.norm:g},of=update,at=message"

    @cache  # noqa: B019  the runs of a table, which lives as long
    def ndcg(self, defense: tuple[str, ...], who: CohortSizes, seed: int, *, apart: bool) -> float:
        """The nDCG@10 of the last model."""
        spec = Spec.parse(
            {
                "seed": seed,
                "defense": defense,
                "data": {"source": self.data},
                "population": {
                    "clients": who.clients,
                    "cohort": who.cohort,
                    "separation": who.separation if apart else 1,
                },
                "train": {"rounds": self.rounds, "click_model": self.clicks, "evaluate_every": self.rounds},
                "trace": {"message": "update", "every": 0},
            }
        )
        setup = Setup(spec, self.collection)
        *_, last = Federation(setup).rounds(first_model(setup))
        return float(last.metrics["offline_ndcg@10"])

    def lost(
        self, defense: Sequence[str], who: CohortSizes, seeds: int, *, apart: bool
    ) -> tuple[float, float]:
        """Mean of what is lost, and half of its interval."""
        pairs = [
            self.ndcg(("none",), who, seed, apart=apart) - self.ndcg(tuple(defense), who, seed, apart=apart)
            for seed in range(1, seeds + 1)
        ]
        width = stats.t.ppf(0.5 + CONFIDENCE / 2, seeds - 1) * np.std(pairs, ddof=1) / np.sqrt(seeds)
        return float(np.mean(pairs)), float(width)


def rows(runs: LifetimeRuns, seeds: int, several: Sequence[CohortSizes]) -> Iterator[str]:
    """The table in Markdown, cohorts by cohorts."""
    eps = " | ".join(f"eps {one:g}" for one in EPSILONS)
    yield f"| clients, cohort, separation | noise | {eps} |"
    yield f"|---|---|{'---:|' * len(EPSILONS)}"
    for who in several:
        label = f"{who.clients:,}, {who.cohort:,}, {who.separation}"
        plain = np.mean([runs.ndcg(("none",), who, seed, apart=True) for seed in range(1, seeds + 1)])
        alone = _cell(*runs.lost([runs.clip], who, seeds, apart=True))
        yield f"| {label} | none: nDCG {plain:.3f}; clip alone loses {alone} |{' |' * len(EPSILONS)}"
        for mechanism in NOISES:
            cells = []
            for one in EPSILONS:
                texts = chain(mechanism, who, one, runs)
                cells.append(_cell(*runs.lost(texts, who, seeds, apart=not mechanism.secret)))
            yield f"| {label} | {mechanism.name} | {' | '.join(cells)} |"


def _cell(mean: float, width: float) -> str:
    return f"{mean:.3f} ± {width:.3f}".replace("-", MINUS)


def main(given: Sequence[str] | None = None) -> None:
    """Print the table, or write it to a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="synthetic:mq2007", help="Data set.")
    parser.add_argument("--clicks", default="informational", help="Click model.")
    parser.add_argument("--rounds", type=int, default=100, help="Rounds of a run.")
    parser.add_argument("--norm", type=float, default=0.5, help="Norm that updates are clipped to.")
    parser.add_argument("--seeds", type=int, default=10, help="Repetitions.")
    parser.add_argument(
        "--cohorts",
        type=CohortSizes.parse,
        action="append",
        metavar="CLIENTS,COHORT,SEPARATION",
        help="Who takes part; repeatable. Default: 100000,1000,100, 1000,100,10 and 1000,10,100.",
    )
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="Write the table there, not to stdout.")
    options = parser.parse_args(given)
    runs = LifetimeRuns(options.data, options.clicks, options.rounds, options.norm)
    print_lines(rows(runs, options.seeds, options.cohorts or COHORTS), options.markdown)


if __name__ == "__main__":
    main()
