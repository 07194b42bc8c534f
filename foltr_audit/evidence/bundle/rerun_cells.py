"""Re-runs cells of a comparison and compares their findings with the stored ones."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from foltr_audit.core.settings.experiment import Spec
from foltr_audit.errors import FoltrAuditError
from foltr_audit.evidence.bundle.differences import (
    EXACT,
    OTHER_BYTES,
    NumericTolerance,
    array_differences,
    first_lines,
    table_differences,
)
from foltr_audit.evidence.bundle.integrity import CheckUnavailableError
from foltr_audit.evidence.bundle.place import DataLocator, DataPlaces
from foltr_audit.experiments.comparison.cell_arrays import ARRAYS, read_arrays
from foltr_audit.experiments.comparison.cells import Files
from foltr_audit.experiments.comparison.facts import FACTS, read_facts
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.comparison.runner import run_cell
from foltr_audit.experiments.comparison.workers import Workers
from foltr_audit.experiments.plan import Table
from foltr_audit.utils.progress import SILENT, Progress

_DIGEST = "arrays_sha256"


class CellTask(NamedTuple):
    """A cell to re-run.

    Attributes:
        number: its position among the cells to re-run.
        spec: its Spec as a plain table.
        fingerprint: the fingerprint of its data.
        places: where its data are on this machine.
    """

    number: int
    spec: Table
    fingerprint: str
    places: DataPlaces


class CellRerun(NamedTuple):
    """What a worker returns: the files of a cell, or why there are none.

    Attributes:
        number: the position of the cell among those to re-run.
        files: its files by name.
        missing: what the cell needs and this machine does not have.
        problem: why the cell could not run.
    """

    number: int
    files: Files
    missing: str = ""
    problem: str = ""


class CellComparison(NamedTuple):
    """The comparison of a re-run cell with its stored form.

    Attributes:
        spec: the Spec of the cell.
        missing: why it could not be re-run; then it is not compared.
        problems: the differences.
        same_bytes: whether every file is the same byte for byte.
    """

    spec: Spec
    missing: str = ""
    problems: tuple[str, ...] = ()
    same_bytes: bool = False


_LOCATORS: dict[DataPlaces, DataLocator] = {}
"""The data of this process, by their places: a worker loads them once for all its cells."""


def rerun(task: CellTask) -> CellRerun:
    """Re-run one cell in a worker process."""
    spec = Spec.parse(task.spec, "")
    locator = _LOCATORS.setdefault(task.places, DataLocator(task.places))
    try:
        runner = locator.runner(spec, task.fingerprint, with_undefended=False)
        return CellRerun(task.number, run_cell(spec, runner))
    except CheckUnavailableError as error:
        return CellRerun(task.number, {}, missing=str(error))
    except FoltrAuditError as error:
        return CellRerun(task.number, {}, problem=f"cannot be run: {error}")


class CellRerunner:
    """Re-runs some cells of an unpacked comparison.

    Attributes:
        folder: the comparison.
        lists: whether it contains the arrays of the cells.
        places: where the data are on this machine.
        tolerance: the tolerance of numbers.
    """

    def __init__(self, root: Path, *, lists: bool, places: DataPlaces, tolerance: NumericTolerance) -> None:
        self.folder = ComparisonFolder(root)
        self.lists = lists
        self.places = places
        self.tolerance = tolerance

    def compare(
        self, specs: Sequence[Spec], workers: Workers, into: Path, progress: Progress = SILENT
    ) -> list[CellComparison]:
        """Re-run cells into the comparison `into`, and compare each with its stored form, in order."""
        tasks = [
            CellTask(i, spec.table(), self._fingerprint(spec), self.places) for i, spec in enumerate(specs)
        ]
        found: dict[int, CellComparison] = {}
        with progress.task("re-run", len(tasks)) as tick:
            for again in workers.results(rerun, tasks) if tasks else ():
                spec = specs[again.number]
                found[again.number] = self._compare(spec, again)
                if again.files:
                    ComparisonFolder(into).write(spec, again.files)
                tick()
        return [found[number] for number in sorted(found)]

    def _fingerprint(self, spec: Spec) -> str:
        return read_facts(self.folder.cell(spec), spec).data.fingerprint

    def _compare(self, spec: Spec, again: CellRerun) -> CellComparison:
        if again.missing or again.problem:
            return CellComparison(spec, again.missing, (again.problem,) if again.problem else ())
        if self._same_bytes(spec, again.files):
            return CellComparison(spec, same_bytes=True)
        problems = first_lines(self._differences(spec, again.files))
        if not problems and self.tolerance == EXACT:
            problems = [OTHER_BYTES]
        return CellComparison(spec, problems=tuple(problems))

    def _same_bytes(self, spec: Spec, files: Files) -> bool:
        if not self.lists:
            return (self.folder.cell(spec) / FACTS).read_bytes() == files[FACTS]
        return all((self.folder.cell(spec) / name).read_bytes() == content for name, content in files.items())

    def _differences(self, spec: Spec, files: Files) -> Iterator[str]:
        place = self.folder.cell(spec)
        stored, found = (json.loads(text) for text in ((place / FACTS).read_bytes(), files[FACTS]))
        digests = [str(facts.pop(_DIGEST, None)) for facts in (stored, found)]
        if digests[0] != digests[1] and not self.lists and self.tolerance == EXACT:
            yield f"{ARRAYS}: SHA-256 {digests[0][:12]}, found {digests[1][:12]}"
        yield from table_differences(stored, found, self.tolerance, FACTS)
        if self.lists:
            there = read_arrays(place / ARRAYS)
            for line in array_differences(there, read_arrays(files[ARRAYS]), self.tolerance):
                yield f"{ARRAYS}: {line}"
