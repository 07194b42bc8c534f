"""The cells that a comparison will run, as a table and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.comparison.grid import CellPlan
from foltr_audit.report.render.terminal import print_table
from foltr_audit.report.results.plain_report import PlainReport
from foltr_audit.report.results.wording import counted
from foltr_audit.report.tables.table import Column, make_table
from foltr_audit.utils.rows import ResultRow

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, kw_only=True)
class CellCount(ResultRow):
    """How many cells of a kind a grid has, and how many of them are stored."""

    kind: str
    cells: int
    done: int
    to_run: int


@dataclass(frozen=True, kw_only=True)
class PlannedCell(ResultRow):
    """A cell: its defense, clicks and run, its kind, the hash of its Spec, and whether it is stored."""

    name: str
    kind: str
    spec_hash: str
    done: bool


@dataclass(frozen=True, kw_only=True)
class PlannedCells(PlainReport):
    """The cells of a grid."""

    SCHEMA: ClassVar[str] = "foltr-audit/estimate/2"

    kinds: tuple[CellCount, ...]
    cells: tuple[PlannedCell, ...]

    @classmethod
    def of(cls, cells: Sequence[CellPlan], folder: ComparisonFolder | None) -> PlannedCells:
        """The cells, some of which a folder may hold."""
        rows = tuple(
            PlannedCell(
                name=cell.name,
                kind=cell.kind,
                spec_hash=cell.spec.hash,
                done=folder is not None and folder.done(cell.spec),
            )
            for cell in cells
        )
        planned, done = Counter(row.kind for row in rows), Counter(row.kind for row in rows if row.done)
        kinds = (
            CellCount(kind=kind, cells=count, done=done[kind], to_run=count - done[kind])
            for kind, count in planned.items()
        )
        return cls(kinds=tuple(kinds), cells=rows)


def print_planned(planned: PlannedCells, console: Console) -> None:
    """Every cell, and the number of each kind."""
    print_table(make_table("cells", _CELLS, planned.cells), console)
    console.print()
    print_table(make_table("number of cells", _KINDS, planned.kinds), console)
    to_run = sum(row.to_run for row in planned.kinds)
    console.print(f"\n{counted(to_run, 'cell')} to run", style="bold", highlight=False)


_CELLS: list[Column[PlannedCell]] = [
    Column("cell", lambda row: row.spec_hash[:12], "name"),
    Column("kind", lambda row: row.kind, "words"),
    Column("defense, clicks and run", lambda row: row.name, "words"),
    Column("done", lambda row: "yes" if row.done else "no", "words"),
]
_KINDS: list[Column[CellCount]] = [
    Column("kind", lambda row: row.kind, "words"),
    Column("cells", lambda row: f"{row.cells:,}"),
    Column("done", lambda row: f"{row.done:,}"),
    Column("to run", lambda row: f"{row.to_run:,}"),
]
