"""Replays the runs of FOLtR-ES on MQ2008 whose result arrays are published, from their own seed.

    python -m benchmarks.published_evolution FOLDER

FOLDER has Fold1 to Fold5. Each line has the online MaxRR of one fold, averaged over the last ten rounds. The
published arrays and these runs have the same value in every round until a rounding error of single precision
puts two documents of one list in another order.

Source: Wang, Zhuang & Zuccon 2021, "Federated online learning to rank with evolution strategies: a
reproducibility study", arrays RQ1 with 2,000 clients and p = 1.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import product

import numpy as np
from numpy.typing import NDArray

import foltr_audit as fa
from foltr_audit.core.plugins import ClickModel, MetricLearner
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.ranking_metrics import LAST_ROUNDS
from foltr_audit.core.records import Collection
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.simulation.client import ClientData
from foltr_audit.simulation.evolution import SeededNumbers, SeededPlayer
from foltr_audit.simulation.setup import Setup, learner_as

SEED, CLIENTS, LISTS, ROUNDS = 7, 2000, 4, 250
LEARNER = f"foltr-es:interactions={LISTS},as_published=true"


def first_seeds() -> NDArray[np.uint64]:
    """The first seed of each client: the first word of a generator that is seeded by 7 plus its number."""
    states = [np.random.RandomState(SEED + client) for client in range(CLIENTS)]
    return np.array([state.randint(0, 1 << 32) for state in states], dtype=np.uint64)


def replayed_rounds(data: Collection, ranker: str, click_model: str) -> Iterator[float]:
    """The online MaxRR of each round; a client's next seed is the next word of its generator."""
    setup = Setup(Spec.parse({"train": {"learner": LEARNER, "ranker": ranker}}, ""), data)
    learner, size = learner_as(setup.learner, MetricLearner), setup.ranker.n_parameters
    users = ClientData.alike(data.train, make(ClickModel, click_model), data.largest_label)
    player, counts = SeededPlayer(setup, users), np.full(CLIENTS, LISTS)
    seeds, model, state = first_seeds(), np.zeros(size), learner.first_state(size)
    while True:
        moved, numbers = learner.perturbations(seeds, size), SeededNumbers(seeds, LISTS)
        models = [model + moved, model + moved, model - moved, model - moved]
        *_, clicks = player.play(counts, numbers, models.__getitem__)
        metrics = learner.values[learner.outcomes(clicks)].reshape(CLIENTS, 2, LISTS // 2).mean(axis=2)
        yield float(metrics.mean())
        model, state = learner.update(model, state, seeds, metrics)
        seeds = numbers.next_words(np.arange(CLIENTS))


def main(folder: str) -> None:
    """Print the online MaxRR of every ranker, click model and fold."""
    rankers, users = ("linear", "neural:hidden=10"), ("perfect", "navigational", "informational")
    for ranker, click_model, fold in product(rankers, users, range(1, 6)):
        data = fa.load_data(folder, fold=fold, normalise="none", document_order="file")
        rounds = replayed_rounds(data, ranker, click_model)
        played = [next(rounds) for _ in range(ROUNDS)]
        print(f"{ranker} {click_model} Fold{fold} {np.mean(played[-LAST_ROUNDS:]):.4f}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
