"""Small runs of every learner, defense, scenario, click model and attack, for comparison between machines.

`python -m tests.digests` writes what they give to `tests/digests.json`.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from foltr_audit.core.plugins import Attack, ClickModel, Defense, Learner, Poisoning, Scenario
from foltr_audit.core.plugins.registry import names
from foltr_audit.core.records import Collection
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.data.load import load_collection
from foltr_audit.rng import Streams
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.setup import Setup
from foltr_audit.testing.attack_checks import view_for
from tests.fixtures.plugin_examples import example

STORED = Path(__file__).with_suffix(".json")
SOURCE = "synthetic:mq2007:15"  # 46 features: sums of whole lanes, of half of them, and of what is left
INTENTS = "synthetic:4"
DIGITS = 7

RUNS: dict[str, dict[str, Any]] = {
    "fpdgd, all pairs": {"train": {"learner": "fpdgd:pairs=all,normaliser=shown"}},
    "fpdgd, global model ranks": {"train": {"learner": "fpdgd:rank_with=global"}},
    "fpdgd, neural": {"train": {"ranker": "neural:hidden=5"}},
    "fpdgd, two hidden layers": {"train": {"ranker": "neural:hidden=5,layers=2"}},
    "foltr-es, dcg": {"train": {"learner": "foltr-es:metric=dcg"}},
    "clip, L1": {"defense": ["clip:norm=.5,ord=1"]},
    "gamma-laplace, two shares": {
        "defense": ["gamma-laplace:eps=1.2,sensitivity=3"],
        "population": {"clients": 2, "cohort": 2},
    },
    "skellam, small mean": {"defense": ["skellam:delta=1e-05,sensitivity=3,sigma=1.5,step=1"]},
    "separation of three rounds": {"population": {"clients": 9, "cohort": 2, "separation": 3}},
    "bulyan, one malicious": {"defense": ["bulyan:malicious=1"]},
    "norm-bound of updates": {"defense": ["norm-bound:norm=.01"], "trace": {"message": "update"}},
    "float64 features": {"data": {"dtype": "float64"}},
}
"""Runs beside those of each plug-in, by name."""


@cache
def data_of(spec: Spec) -> Collection:
    return load_collection(spec.data, spec.seed, cache=False)


def digest(arrays: Iterable[tuple[str, Any]]) -> str:
    """The start of the SHA-256 of named arrays and numbers: their types, shapes and bytes."""
    found = hashlib.sha256()
    for name, value in arrays:
        array = np.asarray(value)
        found.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:16]


def arrays_of(record: object) -> Iterator[tuple[str, Any]]:
    names = [item.name for item in fields(record)]  # type: ignore[arg-type]
    if "messages" in names:  # they stand behind the counts, wherever a record declares them
        names.remove("messages")
        names.insert(names.index("counts") + 1, "messages")
    for name in names:
        value = getattr(record, name)
        if isinstance(value, np.ndarray):
            yield name, value


def run(changes: Mapping[str, Any]) -> str:
    """The digest of two rounds: messages, models, lists, clicks, and metrics."""
    table: dict[str, Any] = {
        "data": {"source": SOURCE},
        "population": {"clients": 12, "cohort": 9},
        "train": {"rounds": 2, "click_model": "informational"},
    }
    for name, change in changes.items():
        table[name] = {**table.get(name, {}), **change} if isinstance(change, dict) else change
    spec = Spec.parse(table)
    setup = Setup(spec, data_of(spec))
    start = np.linspace(-0.4, 0.5, setup.ranker.n_parameters)

    def found() -> Iterator[tuple[str, Any]]:
        for played in Federation(setup).rounds(start):
            for part in played.recorded():
                yield from arrays_of(part)
            yield from sorted(played.metrics.items())

    return digest(found())


def with_defense(name: str) -> dict[str, Any]:
    """A run of a defense, under a learner that it can protect."""
    learner = "foltr-es" if example(Defense, name).stages == ("metric",) else "fpdgd"
    return {"defense": [example(Defense, name).text], "train": {"learner": learner}}


def runs() -> dict[str, Callable[[], str]]:
    """Every small run by name."""
    changes: dict[str, dict[str, Any]] = {
        **{f"learner {name}": {"train": {"learner": example(Learner, name).text}} for name in names(Learner)},
        **{f"defense {name}": with_defense(name) for name in names(Defense)},
        **{
            f"scenario {name}": {
                "population": {"scenario": example(Scenario, name).text},
                "data": {"intents": INTENTS},
            }
            for name in names(Scenario)
        },
        **{
            f"poisoning {name}": {"population": {"poisoning": example(Poisoning, name).text}}
            for name in names(Poisoning)
        },
        **{f"clicks {name}": {"train": {"click_model": name}} for name in names(ClickModel)},
        **RUNS,
    }
    return {name: partial(run, change) for name, change in changes.items()}


def attacked(name: str) -> dict[str, Any]:
    """What an attack says of a small view: which documents it names, and scores over the largest one."""
    attack = example(Attack, name)
    seen = view_for(attack, 4)
    said = attack.infer(seen, Streams(1).generator("digests"))
    here = seen.is_document
    scores = said.scores[here]
    largest = float(np.abs(scores).max(initial=0.0)) or 1.0
    return {
        "names": "".join("1" if guess else "0" for guess in said.guess[here]),
        "scores": [round(float(score), DIGITS) for score in scores / largest],
    }


def everything() -> dict[str, dict[str, Any]]:
    """Digests of all runs, and what all attacks say."""
    return {
        "runs": {name: make() for name, make in runs().items()},
        "attacks": {name: attacked(name) for name in names(Attack)},
    }


if __name__ == "__main__":
    text = json.dumps(everything(), indent=1) + "\n"
    if sys.argv[1:] == ["-"]:
        sys.stdout.write(text)
    else:
        STORED.write_text(text, encoding="utf-8")
