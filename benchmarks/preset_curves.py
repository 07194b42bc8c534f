"""Runs of a training preset, repetition by repetition, each stored as soon as it has ended.

A repetition is every cell of the preset, in each of its readings, on one fold. `study run PRESET --data DATA
--runs N` trains the same models cell by cell: a long run that is ended early has nothing then of the last
systems.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

from benchmarks.results.files import write_atomically
from foltr_audit.core.ranking_metrics import OFFLINE_NDCG, ONLINE_NDCG
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.data.load import folds
from foltr_audit.experiments.plan import apply_changes
from foltr_audit.experiments.presets import load_preset
from foltr_audit.experiments.runner import Runner
from foltr_audit.experiments.stages import TrainResult
from foltr_audit.experiments.versions import code_of

FOLDER = Path(__file__).parents[1] / "build" / "curves"
"""Where runs are stored, unless another folder is given."""

EVERY = 10
"""Rounds between two evaluations of the global model."""


@dataclass(frozen=True, kw_only=True)
class StoredCurve:
    """What is kept of one run.

    Attributes:
        rounds: the evaluated rounds, from 1.
        ndcg, maxrr: offline nDCG@10 and expected MaxRR after each of them.
        online: mean online nDCG@10 of the rounds since the evaluated one before.
        online_sum: discounted sum of the online nDCG@10 of all rounds.
        seconds: processor time.
    """

    rounds: list[int]
    ndcg: list[float]
    maxrr: list[float]
    online: list[float]
    online_sum: float
    seconds: float

    @classmethod
    def of(cls, trained: TrainResult, seconds: float) -> StoredCurve:
        """The curve of a training that was evaluated after every `EVERY` rounds."""
        every, ends = trained.rounds, range(EVERY - 1, len(trained.rounds), EVERY)
        return cls(
            rounds=[end + 1 for end in ends],
            ndcg=[every[end][OFFLINE_NDCG] for end in ends],
            maxrr=[every[end]["offline_maxrr@10"] for end in ends],
            online=[
                sum(one[ONLINE_NDCG] for one in every[end + 1 - EVERY : end + 1]) / EVERY for end in ends
            ],
            online_sum=trained.online_sum,
            seconds=round(seconds, 2),
        )


@dataclass(frozen=True)
class CurveFolder:
    """A folder of curves; a run whose curve is stored is not played again.

    Attributes:
        folder: it is made with the first curve.
        runner: runs what is not stored.
    """

    folder: Path
    runner: Runner

    def curve(self, spec: Spec) -> StoredCurve:
        """The curve of a Spec, stored or played now."""
        path = self.folder / f"{self._key(spec)}.json"
        if path.exists():
            return StoredCurve(**json.loads(path.read_text(encoding="utf-8")))
        begun = time.process_time()
        found = StoredCurve.of(self.runner.run(spec).trained, time.process_time() - begun)
        write_atomically(path, f"{json.dumps(asdict(found))}\n".encode())
        return found

    def _key(self, spec: Spec) -> str:
        """Names a Spec by what its data hold, wherever they are, and the code that plays it."""
        data = self.runner.setup(spec).collection.fingerprint
        table = [apply_changes(spec.table(), {"data.source": data}), code_of(spec)]
        return sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()[:24]


def repetition_specs(
    preset: str, data: str, repetition: int, rounds: int | None = None
) -> Iterator[tuple[str, str, Spec]]:
    """The Specs of one repetition with the names of their readings and cells.

    Repetition i takes fold i modulo K + 1.

    Args:
        preset: name of a preset of kind `train`.
        data: its data.
        repetition: number of the repetition, from 0.
        rounds: fewer rounds than the preset has, for tests.
    """
    there = folds(Spec.parse({"data": {"source": data}}).data)
    changes: dict[str, object] = {
        "data.source": data,
        "repetition": repetition,
        "train.evaluate_every": EVERY,
    }
    if there:
        changes["data.fold"] = there[repetition % len(there)]
    if rounds is not None:
        changes["train.rounds"] = rounds
    found = load_preset(preset)
    for reading in found.reading_names:
        for cell, tables in found.tables(reading=reading).items():
            for table in tables:
                yield reading, cell, Spec.parse(apply_changes(table, changes))
