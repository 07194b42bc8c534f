"""Small comparisons of many cells, run by a process of their own that may be killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from foltr_audit.cli.main import INTERRUPTED
from foltr_audit.core.spec.experiment import Spec
from foltr_audit.errors import FoltrAuditError
from foltr_audit.experiments.comparison.expansion import Label, Planned
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.comparison.grid import Grid
from foltr_audit.experiments.comparison.runner import Failed, run_cells
from foltr_audit.experiments.comparison.workers import Workers


def tiny_cells(count: int, **more: Any) -> list[Planned]:
    """So many cells that differ in their repetition alone and take some milliseconds each."""
    table = {
        "data": {"source": "synthetic:mq2007:30"},
        "population": {"clients": 3},
        "train": {"rounds": 1},
        "trace": {"every": 0},
        **more,
    }
    return [
        Planned(Spec.parse({**table, "repetition": run}, ""), "attack", Label("none")) for run in range(count)
    ]


def begun(path: Path, cells: Sequence[Planned]) -> ComparisonFolder:
    """The folder of these cells, gone on with."""
    folder = ComparisonFolder.create(path, resume=True, overwrite=False)
    folder.save_index(Grid.parse({}), cells, [])
    return folder


def run_all(path: Path, cells: Sequence[Planned], workers: Workers) -> list[Failed]:
    """Run what is missing in a folder."""
    return run_cells([cell.spec for cell in cells], begun(path, cells), workers)


class Counted(ComparisonFolder):
    """Notes every cell that it stores, in a file that several processes share."""

    def write(self, spec: Spec, files: dict[str, bytes]) -> None:
        super().write(spec, files)
        with (self.path.parent / f"{self.path.name}.count").open("a") as file:
            file.write(f"{spec.hash[:12]}\n")


def start(path: Path, count: int, jobs: int) -> subprocess.Popen[str]:
    """A process that runs so many tiny cells, and whose stores are counted."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.many_cells", str(path), str(count), str(jobs)],
        cwd=Path(__file__).resolve().parents[1],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def stored(path: Path) -> list[str]:
    """Names of the finished cells."""
    return sorted(file.parent.name for file in path.glob("cells/*/cell.json"))


def main(path: Path, count: int, jobs: int) -> int:
    """Run, and end as a command would."""
    cells = tiny_cells(count)
    try:
        begun(path, cells)
        run_cells([cell.spec for cell in cells], Counted(path), Workers(jobs=jobs))
    except FoltrAuditError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
