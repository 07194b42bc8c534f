"""What a comparison will take, as a table and as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rich.markup import escape

from foltr_audit.experiments.comparison.estimate import CostEstimate, KindCostEstimate
from foltr_audit.report.render.terminal import print_table
from foltr_audit.report.results.plain_report import PlainReport
from foltr_audit.report.tables.table import Column, make_table
from foltr_audit.utils.rows import ResultRow

if TYPE_CHECKING:
    from rich.console import Console

_MIB = 2.0**20


@dataclass(frozen=True, kw_only=True)
class KindCostRow(ResultRow):
    """What the cells of one kind take; see `KindCostEstimate`."""

    kind: str
    cells: int
    done: int
    to_run: int
    seconds: float
    disk: float

    @classmethod
    def of(cls, kind: KindCostEstimate) -> KindCostRow:
        """The row of a kind."""
        return cls(
            kind=kind.kind,
            cells=kind.cells,
            done=kind.done,
            to_run=kind.to_run,
            seconds=kind.seconds,
            disk=kind.disk,
        )


@dataclass(frozen=True, kw_only=True)
class EstimateReport(PlainReport):
    """What a comparison will take, in seconds and bytes; see `CostEstimate`."""

    SCHEMA: ClassVar[str] = "foltr-audit/estimate/2"

    kinds: tuple[KindCostRow, ...]
    workers: int
    seconds: float
    memory_per_worker: float
    memory_in_all: float
    disk: float
    rests_on: str

    @classmethod
    def of(cls, found: CostEstimate) -> EstimateReport:
        """The report on an estimate."""
        return cls(
            kinds=tuple(map(KindCostRow.of, found.kinds)),
            workers=found.workers,
            seconds=found.seconds,
            memory_per_worker=found.memory,
            memory_in_all=found.memory_in_all,
            disk=found.disk,
            rests_on=found.rests_on,
        )


_COLUMNS: list[Column[KindCostRow]] = [
    Column("kind", lambda row: row.kind, "words"),
    Column("cells", lambda row: f"{row.cells:,}"),
    Column("done", lambda row: f"{row.done:,}"),
    Column("to run", lambda row: f"{row.to_run:,}"),
    Column("work", lambda row: duration(row.seconds)),
    Column("disk", lambda row: _size(row.disk)),
]


def print_estimate(found: EstimateReport, console: Console) -> None:
    """Cells by kind, and what all of them take."""
    caption = "work: of one worker; disk: what the cells are stored in"
    print_table(make_table("what it will take", _COLUMNS, found.kinds, caption=caption), console)
    console.print(
        f"\nabout {duration(found.seconds)} with {found.workers} at once, "
        f"{_size(found.memory_in_all)} of memory ({_size(found.memory_per_worker)} each), "
        f"{_size(found.disk)} of disk",
        style="bold",
        highlight=False,
    )
    console.print(escape(found.rests_on), highlight=False)


def duration(seconds: float) -> str:
    """Seconds as text.

    >>> duration(42.4), duration(312), duration(9000)
    ('42 s', '5 min', '2 h 30 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def _size(count: float) -> str:
    mib = count / _MIB
    return f"{mib:,.1f} MiB" if mib < 10 else f"{mib:,.0f} MiB" if mib < 10_000 else f"{mib / 1024:,.0f} GiB"
