"""`foltr-audit diff`: show the differences between two recorded Runs."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import typer

from foltr_audit.cli.options import Json, argument, switch
from foltr_audit.cli.output import show

DIFFERENT = 1
"""Exit code with --exit-code if the Runs differ."""


def diff(
    a: Path = argument("A Run folder.", "RUN_A"),
    b: Path = argument("Another Run folder.", "RUN_B"),
    exit_code: bool = switch("--exit-code", "Exit with 1 if the Runs differ."),
    json: Json = False,
) -> None:
    """Show how two Runs differ: Specs, results, the first round with other models, and files."""
    from foltr_audit.experiments.runs.differences import RunDiff
    from foltr_audit.experiments.runs.reader import RunReader
    from foltr_audit.report.tables.run_differences import DiffReport, print_diff

    found = RunDiff.of(RunReader.open(a), RunReader.open(b))
    show(DiffReport.of(found).json, partial(print_diff, found), json=json)
    if exit_code and found.differs:
        raise typer.Exit(DIFFERENT)
