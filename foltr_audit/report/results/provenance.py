"""Where the numbers of a comparison come from: versions, seeds, and commands that reproduce them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

from foltr_audit.experiments.comparison.folder import CELLS, GRID, ComparisonFolder
from foltr_audit.experiments.runs.folder import SPEC

PACKAGES = (
    *("foltr-audit", "numpy", "numba", "scipy", "polars", "pydantic", "statsmodels", "dp-accounting"),
    *("matplotlib", "jinja2"),
)
"""Packages that numbers or pictures depend on."""


class CellCommand(NamedTuple):
    """How one cell is run on its own.

    Attributes:
        name: its defense and run.
        kind: `attack` or `audit`.
        command: inside the comparison's folder.
    """

    name: str
    kind: str
    command: str


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """What is needed to reproduce a comparison.

    Attributes:
        grid: its grid, TOML.
        seeds: of its cells.
        versions: of packages here, where the report is made.
        cells: how each cell is run on its own.
    """

    grid: str
    seeds: Sequence[int]
    versions: Mapping[str, str]
    cells: Sequence[CellCommand]

    @classmethod
    def of(cls, folder: ComparisonFolder) -> Provenance:
        """The provenance of a folder.

        Raises:
            TraceError: it is damaged.
        """
        planned = folder.cells()
        return cls(
            grid=folder.grid.public.toml,
            seeds=sorted({cell.spec.seed for cell in planned}),
            versions=versions(),
            cells=[
                CellCommand(
                    cell.name,
                    cell.kind,
                    f"foltr-audit {cell.kind} --config {CELLS}/{cell.spec.hash[:12]}/{SPEC}",
                )
                for cell in planned
            ],
        )

    @property
    def command(self) -> str:
        """The command that repeats the whole comparison, inside its folder."""
        return f"foltr-audit compare --config {GRID} --out ANOTHER-FOLDER"


def versions() -> dict[str, str]:
    """Versions of Python and of `PACKAGES`, here and now."""
    import platform

    found = {"Python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "unknown"
    return found
