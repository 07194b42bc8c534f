"""`foltr-audit diff`: what differs between two recorded Runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foltr_audit.cli.output import print_line, stdout_console

DIFFERENT = 1
"""Exit code with --exit-code where something differs."""


def diff(
    a: Annotated[Path, typer.Argument(metavar="RUN_A", help="A Run folder.")],
    b: Annotated[Path, typer.Argument(metavar="RUN_B", help="Another one.")],
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="End with exit code 1 where anything differs.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Show what differs between two Runs: Specs, results, the first round of other models, and files."""
    from foltr_audit.experiments.runs.differences import RunDiff
    from foltr_audit.experiments.runs.reader import RunReader
    from foltr_audit.report.tables.run_differences import diff_json, print_diff

    found = RunDiff.of(RunReader.open(a), RunReader.open(b))
    if json:
        print_line(diff_json(found))
    else:
        print_diff(found, stdout_console())
    if exit_code and found.differs:
        raise typer.Exit(DIFFERENT)
