"""Compares systems of the presets on intents, run by run, from the JSON that runs of single seeds printed.

    for preset in zhuang-2021-table-3 zhuang-2021-figure-2 zhuang-2021-table-5; do for seed in 1 2 3; do
        foltr-audit study run $preset --data DATA --intents QRELS --scale .2 --runs 1 --seed $seed --json \
            > FOLDER/$preset-$seed.json
    done; done
    python -m benchmarks.real_intents FOLDER

Each line has the mean of a metric for two systems, and the mean of their paired differences with Student's
95 % interval over the seeds. A metric of several periods is their mean in each run. Presets with fewer than
three seeds in the folder are left out.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from foltr_audit.judge.significance import FEWEST, paired_t_test

CLICKS = ("perfect", "navigational", "informational")
_CHANGES = (2, 3, 4)
_FIRST, _SECOND = "swap:changes=5,first=1,period=0,second=2", "swap:changes=5,first=2,period=0,second=1"
_EACH = tuple(f"mixed:only={intent}" for intent in (1, 2, 3, 4))

Row = dict[str, object]


@dataclass(frozen=True)
class MeanValue:
    """What is averaged in a run: a metric of systems, named by learner or scenario, and of periods.

    Without periods it is a metric of the whole run.
    """

    systems: tuple[str, ...]
    metric: str
    periods: tuple[int, ...] = ()

    def of(self, run: Row, clicks: str) -> float:
        rows = cast(list[Row], run["periods" if self.periods else "utility"])
        found = [
            cast(float, row[self.metric])
            for row in rows
            if row["trained_on"] == clicks
            and (not self.periods or row["period"] in self.periods)
            and any(self._is(row, system) for system in self.systems)
        ]
        return float(np.mean(found))

    @staticmethod
    def _is(row: Row, system: str) -> bool:
        names = (str(row.get("population.scenario", "")), str(row["learner"]))
        return any(name == system or name.startswith(f"{system}:") for name in names)

    def __str__(self) -> str:
        name = "intents 1 to 4 apart" if self.systems == _EACH else " ".join(self.systems)
        return f"{name} {self.metric} {','.join(map(str, self.periods))}".rstrip()


def _pair(one: str, other: str, metric: str, periods: tuple[int, ...] = ()) -> tuple[MeanValue, MeanValue]:
    return MeanValue((one,), metric, periods), MeanValue((other,), metric, periods)


PAIRS = {
    "zhuang-2021-table-3": (
        *(_pair("pdgd", other, "ndcg_drop@10", _CHANGES) for other in ("dbgd", "coltr")),
        *(_pair("pdgd", other, "online_mean", (1, 2, 3, 4)) for other in ("dbgd", "coltr")),
        *(_pair("pdgd", "dbgd", "online_mean", (period,)) for period in (1, 2, 3, 4)),
    ),
    "zhuang-2021-figure-2": (
        *(_pair("abrupt", other, "ndcg_drop@10", _CHANGES) for other in ("smooth-abrupt", "leaking")),
        *(_pair("abrupt", other, "ndcg_delta@10", _CHANGES) for other in ("smooth-abrupt", "leaking")),
    ),
    "zhuang-2021-table-5": tuple(
        (MeanValue((swap,), "ndcg_delta@10", (2, 4, 6)), MeanValue((swap,), "ndcg_delta@10", (3, 5)))
        for swap in (_FIRST, _SECOND)
    ),
    "zhuang-2021-table-6": tuple(
        (MeanValue(_EACH, metric), MeanValue(("mixed:only=0",), metric))
        for metric in ("online_mean", "ndcg@10")
    ),
    "wang-2022-type-1": tuple(
        _pair("intent-skew:strength=1", "intent-skew:strength=0", metric)
        for metric in ("online_mean", "ndcg@10")
    ),
}


def differences(runs: Sequence[Row], pairs: Sequence[tuple[MeanValue, MeanValue]]) -> Iterator[str]:
    """A line for each click model and pair of systems."""
    for clicks in CLICKS:
        for one, other in pairs:
            a, b = (np.array([value.of(run, clicks) for run in runs]) for value in (one, other))
            found = paired_t_test(a, b)
            low, high = found.interval
            yield (
                f"{clicks}: {one} {a.mean():.3f}, {other} {b.mean():.3f}: "
                f"{found.difference:+.3f} [{low:+.3f}, {high:+.3f}] over {found.pairs} seeds"
            )


def main(folder: str) -> None:
    """Print the differences of every preset that has runs in the folder."""
    runs: dict[str, list[Row]] = {}
    for path in sorted(Path(folder).glob("*.json")):
        run = json.loads(path.read_text("utf-8"))
        runs.setdefault(run["published"]["preset"], []).append(run)
    for preset, pairs in PAIRS.items():
        if len(runs.get(preset, [])) >= FEWEST:
            print(preset, *differences(runs[preset], pairs), sep="\n  ")


if __name__ == "__main__":
    main(*sys.argv[1:])
