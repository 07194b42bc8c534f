"""Re-runs cells of a comparison and holds what they find against what is stored."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from foltr_audit.core.spec.experiment import Spec
from foltr_audit.errors import FoltrAuditError
from foltr_audit.evidence.bundle.differences import (
    EXACT,
    OTHER_BYTES,
    NumericTolerance,
    array_differences,
    named,
    table_differences,
)
from foltr_audit.evidence.bundle.integrity import CheckUnavailableError
from foltr_audit.evidence.bundle.place import DataLocator
from foltr_audit.experiments.comparison.cell_arrays import ARRAYS, cell_arrays
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
        number: which of them it is.
        spec: its Spec as a plain table.
        fingerprint: of its data.
        data: another place of the data.
    """

    number: int
    spec: Table
    fingerprint: str
    data: str | None


class CellRerun(NamedTuple):
    """What a worker sends back: the files of a cell, or why there are none.

    Attributes:
        number: which of the cells it is.
        files: what it found.
        missing: what is not here that it needs.
        problem: why it could not be run.
    """

    number: int
    files: Files
    missing: str = ""
    problem: str = ""


class CellComparison(NamedTuple):
    """A cell beside its stored form.

    Attributes:
        spec: the cell.
        missing: why it could not be re-run; then it was not compared.
        problems: what differs.
        same_bytes: every file is the same byte for byte.
    """

    spec: Spec
    missing: str = ""
    problems: tuple[str, ...] = ()
    same_bytes: bool = False


_KEPT: dict[str | None, DataLocator] = {}
"""The last data of this process."""


def work(piece: CellTask) -> CellRerun:
    """Re-run one cell in a worker process."""
    spec = Spec.parse(piece.spec, "")
    place = _KEPT.setdefault(piece.data, DataLocator(piece.data))
    try:
        study = place.study(spec, piece.fingerprint, with_undefended=False)
        return CellRerun(piece.number, run_cell(spec, study))
    except CheckUnavailableError as error:
        return CellRerun(piece.number, {}, missing=str(error))
    except FoltrAuditError as error:
        return CellRerun(piece.number, {}, problem=f"cannot be run: {error}")


class CellRerunner:
    """Re-runs some cells of an unpacked comparison.

    Attributes:
        folder: the comparison.
        lists: whether the cells' arrays are in it.
        data: another place of the data.
        tolerance: within which numbers must agree.
    """

    def __init__(self, root: Path, *, lists: bool, data: str | None, tolerance: NumericTolerance) -> None:
        self.folder = ComparisonFolder(root)
        self.lists = lists
        self.data = data
        self.tolerance = tolerance

    def compared(
        self, specs: Sequence[Spec], workers: Workers, into: Path, progress: Progress = SILENT
    ) -> list[CellComparison]:
        """Each cell beside its stored form, in order; what they found is stored in the comparison `into`."""
        pieces = [
            CellTask(i, spec.table(), self._fingerprint(spec), self.data) for i, spec in enumerate(specs)
        ]
        found: dict[int, CellComparison] = {}
        with progress.task("re-run", len(pieces)) as tick:
            for again in workers.results(work, pieces) if pieces else ():
                spec = specs[again.number]
                found[again.number] = self._compare(spec, again)
                if again.files:
                    ComparisonFolder(into).write(spec, again.files)
                tick()
        return [found[number] for number in sorted(found)]

    def _fingerprint(self, spec: Spec) -> str:
        return str(self._facts(spec)["data"]["fingerprint"])

    def _facts(self, spec: Spec) -> dict[str, Any]:
        return read_facts(self.folder.cell(spec), spec)[0]

    def _compare(self, spec: Spec, again: CellRerun) -> CellComparison:
        if again.missing or again.problem:
            return CellComparison(spec, again.missing, (again.problem,) if again.problem else ())
        if self._same_bytes(spec, again.files):
            return CellComparison(spec, same_bytes=True)
        problems = named(self._differences(spec, again.files))
        if not problems and self.tolerance == EXACT:
            problems = [OTHER_BYTES]
        return CellComparison(spec, problems=tuple(problems))

    def _same_bytes(self, spec: Spec, files: Files) -> bool:
        if not self.lists:
            return (self.folder.cell(spec) / FACTS).read_bytes() == files[FACTS]
        return all((self.folder.cell(spec) / name).read_bytes() == content for name, content in files.items())

    def _differences(self, spec: Spec, files: Files) -> Iterator[str]:
        stored, found = self._facts(spec), json.loads(files[FACTS])
        digests = [str(facts.pop(_DIGEST, None)) for facts in (stored, found)]
        if digests[0] != digests[1] and not self.lists and self.tolerance == EXACT:
            yield f"{ARRAYS}: SHA-256 {digests[0][:12]}, found {digests[1][:12]}"
        yield from table_differences(stored, found, self.tolerance, FACTS)
        if self.lists:
            there = cell_arrays(self.folder.cell(spec) / ARRAYS)
            for line in array_differences(there, cell_arrays(files[ARRAYS]), self.tolerance):
                yield f"{ARRAYS}: {line}"
