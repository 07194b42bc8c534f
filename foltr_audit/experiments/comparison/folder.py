"""The folder of a comparison: its grid, its list of cells, and a folder for each finished cell.

```
grid.toml           the grid, which --config reads
comparison.json     the cells in order: hash, name, kind and defense; the code that made them; what was left
                    out; chosen sensitivities
cells/NAME/         a finished cell, see `experiments.store`
records.jsonl       cells that could not be run, and why
results.json        what the command printed with --json
report.html         the page that `report` made of all this; nothing reads it
```
A cell is named by the hashes of its Spec and of the code that made it, twelve digits each. One that the
present grid does not have stays, and so does one of other code: a later call may ask for it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from foltr_audit.core.results import Digest, GapRecord
from foltr_audit.core.settings.base import SpecTable
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.errors import TraceError, UsageError, first_problem
from foltr_audit.experiments.comparison.alternatives import DefenseAlternative
from foltr_audit.experiments.comparison.grid import (
    CellPlan,
    ComparisonGrid,
    DefenseLabel,
    GridExclusion,
    Kind,
    SensitivityTrial,
)
from foltr_audit.experiments.runs.folder import (
    ARRAYS,
    RECORDS,
    RESULTS,
    SPEC,
    held_files,
    report_write_errors,
    take_lock,
)
from foltr_audit.experiments.store import Files, StoredRun, read_records, read_run, records_of, records_text
from foltr_audit.experiments.versions import Code, cell_name, code_of
from foltr_audit.recorder import atomic_files
from foltr_audit.utils.reading import file_bytes, file_text, json_table

GRID, INDEX, CELLS, PAGE = "grid.toml", "comparison.json", "cells", "report.html"
SCHEMA = "foltr-audit/comparison/1"

_OURS = re.compile(
    rf"{re.escape(GRID)}|{re.escape(INDEX)}|{re.escape(RESULTS)}|{re.escape(RECORDS)}|{re.escape(PAGE)}"
    rf"|{CELLS}/[0-9a-f]{{12}}-[0-9a-f]{{12}}/({re.escape(SPEC)}|{re.escape(RECORDS)}|{re.escape(ARRAYS)})"
)


def is_part(name: str) -> bool:
    """Whether a comparison may hold a file of this relative path."""
    return _OURS.fullmatch(name) is not None


class _CellEntry(SpecTable):
    spec: Digest
    cell: str = Field(pattern=r"^[0-9a-f]{12}-[0-9a-f]{12}$")
    kind: Kind
    alternative: str
    eps: float | None
    sensitivity: float | None


class _CellIndex(SpecTable):
    """The list of cells, as read from an untrusted file."""

    schema_: Literal["foltr-audit/comparison/1"] = Field(alias="schema")
    code: dict[str, Digest]
    cells: list[_CellEntry]
    left_out: list[GridExclusion]
    sensitivities: list[SensitivityTrial] = Field(default_factory=list)


class ComparisonFolder:
    """The folder of a comparison, which is neither made nor read before it is used."""

    def __init__(self, path: Path, *, resumed: bool = False) -> None:
        """Of its cells those that the index lists, whatever code made them; if `resumed`, of this code."""
        self.path = path
        self.resumed = resumed
        self._cells: dict[str, Path] = {}

    @classmethod
    def create(cls, path: Path, *, resume: bool, overwrite: bool) -> ComparisonFolder:
        """Make the folder, resume it, or empty it.

        Refuses one that is not empty without `resume` or `overwrite`, that holds something else than a
        comparison, or in which another process works on what would be overwritten.
        """
        if path.exists() and not path.is_dir():
            raise UsageError(f"--out: {path} is a file; expected a folder")
        held = held_files(path, is_part, "a comparison", resume=resume, overwrite=overwrite)
        with report_write_errors(path):
            if overwrite and held:
                for cell in sorted((path / CELLS).glob("*")):
                    handle = take_lock(cell)
                    if handle is None:
                        raise UsageError(f"--overwrite: {path} is being written by another comparison")
                    os.close(handle)
                # The index first: without it no reader takes what a kill leaves behind for a comparison.
                for name in (INDEX, GRID, RESULTS, RECORDS, PAGE):
                    (path / name).unlink(missing_ok=True)
                if (path / CELLS).is_dir():
                    shutil.rmtree(path / CELLS)
            (path / CELLS).mkdir(parents=True, exist_ok=True)
        return cls(path, resumed=True)

    @classmethod
    def open(cls, path: Path) -> ComparisonFolder:
        """The comparison in an existing folder."""
        if not path.is_dir():
            raise UsageError(f"{path}: no such folder")
        if not (path / INDEX).is_file():
            raise UsageError(f"{path}: no comparison (no {INDEX}); expected a folder that compare --out made")
        return cls(path)

    @cached_property
    def _listed(self) -> dict[str, str]:
        return {} if self.resumed else {row.spec: row.cell for row in self._index().cells}

    def cell(self, spec: Spec) -> Path:
        if (key := spec.hash) not in self._cells:
            self._cells[key] = self.path / CELLS / (self._listed.get(key) or cell_name(spec))
        return self._cells[key]

    def of_other_code(self, specs: Iterable[Spec]) -> int:
        """How many cells are finished by other code alone."""
        finished = {file.parent.name[:12] for file in (self.path / CELLS).glob(f"*/{RECORDS}")}
        return sum(spec.hash[:12] in finished and not self.done(spec) for spec in specs)

    def is_of_index(self, spec: Spec, code: Code) -> bool:
        """Whether a cell that the index does not list was made by the code of those that it lists."""
        known = self._index().code
        return spec.hash not in self._listed and all(known.get(name, of) == of for name, of in code.items())

    def done(self, spec: Spec) -> bool:
        """Whether a cell is finished."""
        return (self.cell(spec) / RECORDS).is_file()

    def claim(self, spec: Spec) -> int | None:
        """Lock a cell until the returned handle is closed; None where another process has it."""
        return take_lock(self.cell(spec))

    def write(self, spec: Spec, files: Files) -> None:
        """Store a finished cell that is claimed; it is whole or unfinished, also after a kill."""
        folder = self.cell(spec)
        with report_write_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            for left in [file for file in folder.iterdir() if atomic_files.is_temporary(file.name)]:
                left.unlink()  # of a writer that was killed: no other one is at work, since we hold the lock
            atomic_files.write_files(folder, files)

    def read(self, spec: Spec) -> StoredRun:
        """A finished cell; a `TraceError` if it is missing or damaged."""
        if not self.done(spec):
            raise TraceError(
                f"{self.cell(spec)}: unfinished; compare --resume --out {self.path} completes it"
            )
        return read_run(self.cell(spec), spec)

    def save_index(
        self,
        grid: ComparisonGrid,
        cells: Sequence[CellPlan],
        left_out: Sequence[GridExclusion],
        tried: Sequence[SensitivityTrial] = (),
    ) -> None:
        """Write the grid, its cells, and the sensitivities that were tried.

        The Specs of unfinished cells may be lost in a power cut; the same call writes them again.
        """
        named = [
            {"spec": cell.spec.hash, "cell": self.cell(cell.spec).name, "kind": cell.kind} for cell in cells
        ]
        table = {
            "schema": SCHEMA,
            "code": {name: digest for cell in cells for name, digest in code_of(cell.spec).items()},
            "cells": [row | cell.label._asdict() for row, cell in zip(named, cells, strict=True)],
            "left_out": [asdict(exclusion) for exclusion in left_out],
            "sensitivities": [asdict(trial) for trial in tried],
        }
        with report_write_errors(self.path):
            for cell in cells:  # before the index, which must name no Spec that is missing
                place, content = self.cell(cell.spec), cell.spec.toml.encode()
                claim = take_lock(place)
                if claim is None:
                    continue  # the process that runs the cell writes its Spec
                try:
                    if not (place / SPEC).is_file() or (place / SPEC).read_bytes() != content:
                        atomic_files.write_files(place, {SPEC: content}, lasting=False)
                finally:
                    os.close(claim)
            atomic_files.write_text(self.path / GRID, grid.toml)
            atomic_files.write_text(self.path / INDEX, json.dumps(table, indent=1) + "\n")

    @property
    def grid(self) -> ComparisonGrid:
        """The grid that was written last; a `TraceError` if it is missing or damaged."""
        try:
            text = file_text(self.path / GRID, UsageError)
            if "schema" not in text:
                raise TraceError(f"{self.path / GRID}: damaged: expected a grid with its schema")
            return ComparisonGrid.from_toml(text, str(self.path / GRID))
        except UsageError as error:
            raise TraceError(f"damaged comparison: {error}") from error

    def cells(self) -> list[CellPlan]:
        """The cells of the last grid, in order; a `TraceError` if one is missing or damaged."""
        found = []
        for row in self._index().cells:
            # The index is untrusted, but its pattern admits hexadecimal digits alone: the path stays inside.
            file = self.path / CELLS / row.cell / SPEC
            if not file.is_file():
                raise TraceError(f"{file}: missing; compare --resume makes it again")
            try:
                spec = Spec.from_toml(file_text(file, UsageError), str(file))
                label = DefenseLabel(DefenseAlternative(row.alternative).text, row.eps, row.sensitivity)
            except UsageError as error:
                raise TraceError(f"{self.path / INDEX}: damaged comparison: {error}") from error
            if spec.hash != row.spec:
                raise TraceError(f"{file}: not the Spec that {self.path / INDEX} names")
            found.append(CellPlan(spec, row.kind, label))
        return found

    def left_out(self) -> list[GridExclusion]:
        """The combinations of the last grid that cannot be run."""
        return self._index().left_out

    def sensitivities(self) -> list[SensitivityTrial]:
        """The sensitivities that were tried."""
        return self._index().sensitivities

    def _index(self) -> _CellIndex:
        file = self.path / INDEX
        table = json_table(file_bytes(file, TraceError), str(file), TraceError)
        try:
            return _CellIndex.model_validate(table)
        except ValidationError as error:
            raise TraceError(f"{file}: damaged: {first_problem(error, None)}") from error

    def failures(self) -> list[GapRecord]:
        """The cells of the last grid that could not be run."""
        missing = {cell.spec.hash for cell in self.cells() if not self.done(cell.spec)}
        return [gap for gap in self._gaps() if gap.run in missing]

    def save_failures(self, specs: Sequence[Spec], failed: Sequence[GapRecord]) -> None:
        """Write which of some cells could not be run; what is known of others stays."""
        before, tried = self._gaps(), {spec.hash for spec in specs}
        gaps = [*(gap for gap in before if gap.run not in tried), *failed]
        if gaps != before:
            with report_write_errors(self.path):
                atomic_files.write_text(self.path / RECORDS, records_text(gaps))

    def _gaps(self) -> list[GapRecord]:
        file = self.path / RECORDS
        return list(records_of(GapRecord, read_records(file)[1])) if file.is_file() else []

    def save_results(self, text: str) -> None:
        """Write the results of the whole comparison."""
        with report_write_errors(self.path):
            atomic_files.write_text(self.path / RESULTS, text + "\n")


@contextmanager
def comparison_folder(
    path: Path | None, *, resume: bool = False, overwrite: bool = False
) -> Iterator[ComparisonFolder]:
    """The folder of a comparison; without a path a temporary one, which nothing can resume or overwrite."""
    if resume and overwrite:
        raise UsageError("--resume and --overwrite: give one or the other")
    if path is not None:
        yield ComparisonFolder.create(Path(path), resume=resume, overwrite=overwrite)
        return
    if resume or overwrite:
        raise UsageError(f"{'--resume' if resume else '--overwrite'}: only with --out")
    with tempfile.TemporaryDirectory(prefix="foltr-audit-") as name:
        yield ComparisonFolder.create(Path(name), resume=False, overwrite=False)
