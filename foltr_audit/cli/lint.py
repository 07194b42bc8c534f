"""`foltr-audit lint`: compare what a system declares about its privacy with what follows from it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from foltr_audit.cli.common import CommonOptions
from foltr_audit.cli.lazy import takes
from foltr_audit.cli.options import refuse_others
from foltr_audit.cli.output import show
from foltr_audit.errors import UsageError

LINTED = (
    *("eps", "sensitivity", "defense", "data.source", "fold", "population.clients", "population.cohort"),
    *("population.separation", "population.cohorts"),
    *("population.scenario", "learner", "interactions", "train.rounds", "rank_with", "clip_without_pairs"),
    *("train.ranker", "trace.message", "trace.dtype", "seed", "config", "json"),
)
"""The options that say what a system is."""


@takes(*LINTED)
def lint(
    ctx: typer.Context,
    common: CommonOptions,
    path: Annotated[
        Path | None,
        typer.Argument(
            metavar="PATH",
            help="A Spec in TOML, a Run folder, or a trace. Default: the Spec of the options.",
        ),
    ] = None,
) -> None:
    """Compare what a system declares about its privacy with what follows from it, without running it.

    Exit code 1 if a claim does not follow from what is declared. trace lint looks for leaks in recorded
    messages instead.
    """
    from foltr_audit.experiments.lint_subjects import subjects_at, subjects_of
    from foltr_audit.report.results.system_lint import SystemLintReport, print_lint

    if path is not None:
        refuse_others(ctx, {"path", "json"}, "not with PATH, which says what the system is")
        try:
            subjects = tuple(subjects_at(path))
        except UsageError as error:
            raise UsageError(str(error) if str(path) in str(error) else f"{path}: {error}") from error
    else:
        subjects = tuple(subjects_of(common.plan().specs))
    report = SystemLintReport.of(subjects)
    show(report.json, partial(print_lint, report), json=common.json)
    if report.errors:
        raise typer.Exit(1)
