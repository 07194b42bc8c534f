"""What features of heavy tails do to messages, clips and secure sums: `python -m benchmarks.heavy_tails`.

For each normalisation, 1,000 clients train FPDGD without a defense and with the published clip. A message is
out of range if secure aggregation would refuse it: a coordinate beyond the range of its fixed-point numbers.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from foltr_audit.defenses.secure_aggregation import SecureAggregation

from foltr_audit.core.records.interactions import Payload
from foltr_audit.core.settings.data import DataSpec
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.data.load import load_collection
from foltr_audit.errors import DataError
from foltr_audit.experiments.stages import first_model
from foltr_audit.judge.significance import mean_interval
from foltr_audit.privacy.secure_aggregation import FixedPoint
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.setup import Setup
from foltr_audit.utils.arrays import Bools

NORMALISATIONS = ("none", "zscore", "query-minmax")
CHAINS = ("none", "clip:norm=1.5")
FAR = 10.0


def data_of(source: str, normalise: str, seed: int) -> dict[str, Any]:
    """The data of a Spec; run i takes fold i of data in folds."""
    folds = len(list(Path(source).glob("Fold*")))
    return {"source": source, "normalise": normalise} | ({"fold": (seed - 1) % folds + 1} if folds else {})


def out_of_range(messages: Payload, encoding: FixedPoint) -> Bools:
    """Whether each of these messages (M, P) has a coordinate that cannot be encoded, bool (M,)."""
    return np.asarray(~(np.abs(messages.astype(np.float64)) <= encoding.range).all(axis=1))


def feature_figures(data: str, normalise: str) -> dict[str, float]:
    """How far the features of a collection reach: of the training part, and of the other parts."""
    collection = load_collection(DataSpec.parse(data_of(data, normalise, 1)), 1)
    train = np.abs(collection.train.features)
    others = max(float(np.abs(part.features).max()) for part in (collection.vali, collection.test))
    return {
        "features": train.shape[1],
        "largest_train": float(train.max()),
        "largest_elsewhere": others,
        "far_share": float((train > FAR).mean()),
    }


def run_figures(data: str, normalise: str, chain: str, rounds: int, seed: int) -> dict[str, float]:
    """One run: shares of clipped steps and of messages out of range, the largest coordinate, and nDCG@10.

    Raises:
        DataError: the model is no longer finite.
    """
    spec = Spec.parse(
        {
            "seed": seed,
            "defense": [chain],
            "data": data_of(data, normalise, seed),
            "train": {"rounds": rounds, "evaluate_every": rounds},
            "trace": {"every": 0},
        }
    )
    setup = Setup(spec, load_collection(spec.data, seed))
    encoding = SecureAggregation().encoding
    clipped, largest, refused = [], [], []
    for played in Federation(setup).rounds(first_model(setup)):
        largest.append(np.abs(played.sent.messages).max())
        refused.append(out_of_range(played.sent.messages, encoding))
        clipped.append(played.metrics["clipped"])
    return {
        "clipped": float(np.mean(clipped)),
        "largest_coordinate": float(max(largest)),
        "out_of_range": float(np.mean(refused)),
        "rounds_refused": float(np.mean([each.any() for each in refused])),
        "ndcg@10": float(played.metrics["offline_ndcg@10"]),
    }


def row(data: str, normalise: str, chain: str, rounds: int, seeds: int) -> dict[str, Any]:
    """Means over runs with 95 % intervals; `diverged` counts the runs whose model did not stay finite."""
    done, diverged = [], 0
    for seed in range(1, seeds + 1):
        try:
            done.append(run_figures(data, normalise, chain, rounds, seed))
        except DataError:
            diverged += 1
    found: dict[str, Any] = {"normalise": normalise, "defense": chain, "runs": seeds, "diverged": diverged}
    found |= feature_figures(data, normalise)
    for key in done[0] if done else ():
        values = np.array([one[key] for one in done])
        whole = key == "largest_coordinate"
        found[key] = float(values.max() if whole else values.mean())
        found[f"{key}_ci95"] = None if whole else mean_interval(values)
    return found


def main(given: Sequence[str] | None = None) -> None:
    """Print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="synthetic:mslr-web10k:100", help="Data set.")
    parser.add_argument("--rounds", type=int, default=20, help="Rounds of a run.")
    parser.add_argument("--seeds", type=int, default=5, help="Repetitions.")
    options = parser.parse_args(given)
    made = partial(row, options.data, rounds=options.rounds, seeds=options.seeds)
    report = {
        "schema": "foltr-audit/heavy-tails/1",
        "config": {"seed": 1, "cells": [{"repetition": i} for i in range(options.seeds)]},
        "range": SecureAggregation().encoding.range,
        "rows": [made(normalise=one, chain=chain) for one in NORMALISATIONS for chain in CHAINS],
    }
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
