"""`foltr-audit significance`: whether recorded systems differ by more than chance."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foltr_audit.cli.output import print_line, stdout_console


def significance(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN", help="Folders that --out has made, each of one or several Runs."),
    ],
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            help="A recorded metric's last value, e.g. offline_ndcg@10 (final for short), or online_sum, "
            "online_mean; several. Default: final and online_sum, or online_mean where rounds differ.",
        ),
    ] = None,
    paired_only: Annotated[
        bool,
        typer.Option("--paired-only", help="Leave out Runs without a partner, instead of refusing them."),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Test every two systems for a difference: paired t-test, Bonferroni's correction, effect size.

    Runs that differ in fold, seed and repetition only make one system; those of a pair agree in them.
    """
    from foltr_audit.experiments.runs.systems import systems_in
    from foltr_audit.report.tables.significance import SignificanceReport

    report = SignificanceReport.of(systems_in(runs), metric or (), paired_only=paired_only)
    if json:
        print_line(report.json())
    else:
        report.print(stdout_console())
