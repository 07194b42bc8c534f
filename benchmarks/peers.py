"""Interactions a second of a published program beside ours: `python -m benchmarks.peers CHECKOUT`.

CHECKOUT is a folder of fpdgd-ictir2021, foltr-pdgd, foltr-es, OnlineLearningToRank or raifle that a user has
cloned. Both read the same file, which `foltr-audit data synth` writes, and take turns on one thread.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.processes import foltr_audit
from benchmarks.tables import number
from benchmarks.timing import WorkRates
from foltr_audit.core.defense_chain import published_chain
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.data.load import load_collection
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.setup import Setup

EPSILON, SENSITIVITY, RATE = 1.2, 3.0, 0.1  # as in examples/peers/play_rounds.py
_MISSING = 3  # its exit code where something is not installed
_SCRIPT = Path(__file__).resolve().parents[1] / "examples" / "peers" / "play_rounds.py"


class PeerProgram(NamedTuple):
    """A published program.

    Attributes:
        name: of its repository.
        marks: files by which a checkout of it is known.
        learner: ours that does the same.
        defended: whether both clip and add noise.
    """

    name: str
    marks: tuple[str, ...]
    learner: str
    defended: bool


PEERS = (
    PeerProgram(
        "fpdgd-ictir2021", ("client/federated_optimize.py", "ranker/PDGDLinearRanker.py"), "fpdgd", True
    ),
    PeerProgram("foltr-pdgd", ("mia.py", "ranker.py", "client.py"), "fpdgd", True),
    PeerProgram("foltr-es", ("foltr/client/client.py", "foltr/click_optimize.py"), "foltr-es", False),
    PeerProgram("OnlineLearningToRank", ("algorithms/PDGD/pdgd.py", "utils/clicks.py"), "pdgd", False),
    PeerProgram("raifle", ("code/ranker.py", "code/attack.py"), "fpdgd", False),
)


class SkippedPeerError(Exception):
    """Why a program cannot be run here, in one line."""


def recognised(checkout: Path) -> PeerProgram:
    """The program in a folder.

    Raises:
        SkippedPeerError: there is none.
    """
    if not checkout.is_dir():
        raise SkippedPeerError(f"{checkout}: no such folder")
    for peer in PEERS:
        if all((checkout / mark).is_file() for mark in peer.marks):
            return peer
    raise SkippedPeerError(f"{checkout}: expected one of {', '.join(peer.name for peer in PEERS)}")


class PeerSetting(NamedTuple):
    """What both play: rounds of clients with so many interactions each, on data of a shape and size."""

    clients: int
    interactions: int
    rounds: int
    queries: int
    shape: str = "mq2007"

    @property
    def features(self) -> int:
        return {"mq2007": 46, "mslr-web10k": 136}[self.shape]


def their_rate(peer: PeerProgram, checkout: Path, python: str, letor: Path, setting: PeerSetting) -> float:
    """Interactions a second of the published program, in a process of its own.

    Raises:
        SkippedPeerError: something that it imports is missing, or it fails.
    """
    sizes = [str(setting.features), *map(str, setting[:3])]
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    done = subprocess.run(
        [python, str(_SCRIPT), peer.name, str(checkout.resolve()), str(letor), *sizes],
        capture_output=True, text=True, check=False, cwd=letor.parent,
        env={**os.environ, **one, "PYTHONDONTWRITEBYTECODE": "1", "MPLBACKEND": "agg"},
    )  # fmt: skip
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["no message"])[-1]
        what = "something is not installed" if done.returncode == _MISSING else "it failed"
        raise SkippedPeerError(f"{peer.name}: {what}: {why}")
    return float(done.stdout.split()[-1])


class OwnRounds:
    """Our engine at the same setting."""

    def __init__(self, peer: PeerProgram, folder: Path, setting: PeerSetting) -> None:
        """Load the data, and play a round, which compiles."""
        given = "" if peer.learner == "foltr-es" else f",learning_rate={RATE}"
        spec = Spec.parse(
            {
                "defense": published_chain(EPSILON, SENSITIVITY) if peer.defended else ("none",),
                "data": {"source": str(folder)},
                "population": {"clients": setting.clients},
                "train": {
                    "learner": f"{peer.learner}:interactions={setting.interactions}{given}",
                    "rounds": 1_000_000,
                    "evaluate_every": 1_000_000,
                    "click_model": "perfect",
                },
            }
        )
        self.setting = setting
        self.federation = Federation(Setup(spec, load_collection(spec.data, spec.seed, cache=False)))
        self.model = np.zeros(setting.features)
        self._play(1)

    def _play(self, rounds: int) -> None:
        for played, _ in zip(self.federation.rounds(self.model), range(rounds), strict=False):
            self.model = played.aggregate

    def rate(self) -> float:
        """Interactions a second of at least half a second of rounds, on one thread."""
        import numba

        before, rounds, start = numba.get_num_threads(), 0, time.process_time()
        numba.set_num_threads(1)
        try:
            while (taken := time.process_time() - start) < 0.5 or not rounds:
                self._play(self.setting.rounds)
                rounds += self.setting.rounds
        finally:
            numba.set_num_threads(before)
        return rounds * self.setting.clients * self.setting.interactions / taken


def compared(checkout: Path, python: str, setting: PeerSetting, repetitions: int) -> list[str]:
    """The lines of the result, theirs and ours in turns.

    Raises:
        SkippedPeerError: the program cannot be run here.
    """
    peer, found = recognised(checkout), {"theirs": list[float](), "ours": list[float]()}
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path) / "data"
        source = ("--like", setting.shape, "--queries", str(setting.queries))
        foltr_audit("data", "synth", "--out", str(folder), *source)
        for turn in range(repetitions):
            found["theirs"].append(their_rate(peer, checkout, python, folder / "train.txt", setting))
            if not turn:
                own = OwnRounds(peer, folder, setting)
            found["ours"].append(own.rate())
    rates = WorkRates(found)
    ratio = rates.ratio("ours", "theirs")
    return [
        f"{peer.name}, {setting.shape}, {setting.clients} clients x {setting.interactions}, one thread, "
        "processor time:",
        f"  theirs  {number(rates.rate('theirs').value)} interactions/s",
        f"  ours    {number(rates.rate('ours').value)} interactions/s ({peer.learner})",
        f"  ratio   {number(ratio.value)} ({number(ratio.low)} .. {number(ratio.high)})",
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; a program that cannot be run is one line, and no failure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("checkout", type=Path, nargs="+", help="folder of a published program")
    parser.add_argument("--python", default=sys.executable, help="interpreter that has what it imports")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows only that it runs")
    parser.add_argument("--repetitions", type=int, default=3, metavar="N")
    parser.add_argument("--shape", choices=("mq2007", "mslr-web10k"), default="mq2007")
    given = parser.parse_args(arguments)
    if given.repetitions < 1:
        parser.error(f"--repetitions: {given.repetitions}; expected 1 or more")
    setting = PeerSetting(5, 2, 1, 20) if given.quick else PeerSetting(100, 4, 2, 200)
    if given.shape != setting.shape:
        setting = setting._replace(interactions=2, shape=given.shape)
    for checkout in given.checkout:
        try:
            lines = compared(checkout, given.python, setting, given.repetitions)
        except SkippedPeerError as error:
            lines = [f"skipped: {error}"]
        print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
