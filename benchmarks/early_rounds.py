"""What makes FPDGD worse than FOLtR-ES in the first rounds: `python -m benchmarks.early_rounds --data DATA`.

The program of Wang et al. 2021 differs from its text in the scaling of features, the clip and the start. Each
is changed alone, for all values that the others have, and rounds 1 to 10 are compared fold by fold.

Source: Wang et al. 2021, "Effective and privacy-preserving federated online learning to rank", section 5.1.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from benchmarks.results.declarations import Row
from benchmarks.wang_table_2 import FOLTR_ES, FPDGD, LEVELS, interval
from foltr_audit.core.ranking_metrics import ONLINE_NDCG
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.data.load import folds
from foltr_audit.experiments.runner import Runner
from foltr_audit.utils.arrays import Floats

ROUNDS = 10
SENSITIVITY = dict(zip(LEVELS, (3, 3, 5, 5), strict=True))
TRUE_ANSWER = dict(zip(LEVELS, (0.25, 0.5, 0.9, 1), strict=True))
CLICKS = ("perfect", "navigational", "informational")
SCALING, START, CLIP = ("zscore", "none"), ("zeros", "random:0.01"), (0.5, 1.0)
"""What the text says, or leaves open, and what the program does."""


def spec_of(data: str, fold: int, learner: str, clicks: str, level: str, **how: Any) -> Spec:
    """A system in one fold; `how`: its `scaling`, and of FPDGD `start`, and `clip` as a share of Delta."""
    train: dict[str, object] = {"learner": "foltr-es:interactions=4,metric=maxrr"}
    defense = [f"metric-rr:p={TRUE_ANSWER[level]}"]
    if learner == FPDGD:
        bound = SENSITIVITY[level]
        train = {"learner": "fpdgd:interactions=4", "init": how["start"]}
        defense = [f"clip:norm={how['clip'] * bound}", f"gamma-laplace:eps={level},sensitivity={bound}"]
    train |= {"rounds": ROUNDS, "evaluate_every": ROUNDS, "click_model": clicks}
    return Spec.parse(
        {
            "repetition": fold,
            "defense": defense,
            "data": {"source": data, "fold": fold, "normalise": how["scaling"]},
            "population": {"clients": 1000},
            "train": train,
            "trace": {"every": 0},
        }
    )


def early(runner: Runner, data: str, learner: str, clicks: str, level: str, **how: Any) -> Floats:
    """Mean online nDCG@10 of the first rounds in each fold, float64 (folds,)."""
    numbers = folds(Spec.parse({"data": {"source": data}}).data) or (0,)
    trained = [runner.run(spec_of(data, fold, learner, clicks, level, **how)).trained for fold in numbers]
    return np.array([np.mean([row[ONLINE_NDCG] for row in one.rounds]) for one in trained])


def rows(data: str) -> Iterator[Row]:
    """The difference that each change makes, for every click model, level and value of the others."""
    mean = partial(early, Runner(), data)
    for clicks, level in product(CLICKS, LEVELS):
        found: Mapping[tuple[Any, ...], Floats] = {
            (scaling, start, clip): mean(FPDGD, clicks, level, scaling=scaling, start=start, clip=clip)
            for scaling, start, clip in product(SCALING, START, CLIP)
        }
        for place, change in enumerate(("scaling", "start", "clip")):
            for here in found:
                there = (*here[:place], (SCALING, START, CLIP)[place][1], *here[place + 1 :])
                if here != there:
                    beside = ", ".join(map(str, (*here[:place], *here[place + 1 :])))
                    yield _row(FPDGD, change, beside, clicks, level, found[there] - found[here])
        raw, scaled = (mean(FOLTR_ES, clicks, level, scaling=scaling) for scaling in reversed(SCALING))
        yield _row(FOLTR_ES, "scaling", "", clicks, level, raw - scaled)


def _row(learner: str, change: str, beside: str, clicks: str, level: str, difference: Floats) -> Row:
    """A row; `beside` names the values of the other two."""
    about = {"learner": learner, "change": change, "beside": beside, "clicks": clicks, "level": level}
    return {**about, "difference": float(difference.mean()), "difference ci95": interval(difference)}


def main(given: Sequence[str] | None = None) -> None:
    """Print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="synthetic:mq2007", help="Data set; with folds all of them.")
    data = parser.parse_args(given).data
    print(json.dumps({"config": {"runs": 1, "rounds": ROUNDS}, "changes": list(rows(data))}, indent=1))


if __name__ == "__main__":
    main()
