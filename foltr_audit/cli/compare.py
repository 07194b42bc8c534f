"""`foltr-audit compare`: compare defenses by what they claim, leak and cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foltr_audit.cli.common import CommonOptions
from foltr_audit.cli.given import split_methods
from foltr_audit.cli.grid_options import grid_of, open_comparison, parse_numbers
from foltr_audit.cli.options import (
    Backend,
    Jobs,
    Scheduler,
    option,
    split_names,
    takes_options,
)
from foltr_audit.cli.output import save_config, show, warn, warn_of_unloadable
from foltr_audit.cli.protocol_options import FreshOptions
from foltr_audit.errors import UsageError

if TYPE_CHECKING:
    from foltr_audit.experiments.comparison.folder import ComparisonFolder
    from foltr_audit.experiments.comparison.grid import ComparisonGrid
    from foltr_audit.experiments.comparison.workers import Workers

_PANEL = "Grid"
_WITHOUT = ("init", "trace_every", "no_trace", "embed_features", "threads")


@dataclass(frozen=True, kw_only=True)
class GridOptions(FreshOptions):
    """The options of a comparison; those whose field has no dot set a field of `ComparisonGrid`."""

    eps: list[float] | None = option(
        "Claimed epsilon. May be repeated. Default: 1.2, 2.3, 4.5 and 10, as published.", "eps", _PANEL
    )
    defense: list[str] | None = option(
        "An alternative: parts joined by +. A part is published (the learner's own defense for each "
        "eps), proven-MECHANISM (the least noise that accounting proves for one interaction, see "
        "calibrate) or a plug-in, which may contain {eps}, {sensitivity} and {clip} (half of the "
        "sensitivity). May be repeated; none is always included. Default: none, published, published + "
        "secure-aggregation, proven-laplace, proven-click-rr, proven-skellam + secure-aggregation.",
        "defenses",
        _PANEL,
    )
    sensitivity: float | None = option(
        "Sensitivity for every eps. Default: as published, 3 below eps 4.5 and 5 from there.",
        "sensitivity",
        _PANEL,
    )
    sensitivity_grid: str | None = option(
        "Sensitivities, e.g. 1,3,5,7,9. Each eps takes the one with the best nDCG on the validation part.",
        "sensitivity_grid",
        _PANEL,
        read=partial(parse_numbers, option="--sensitivity-grid"),
    )
    delta: float | None = option("Delta of defenses without a pure bound. Default: 1e-5.", "delta", _PANEL)
    method: list[str] | None = option(
        "Attack. May be repeated. Default: olsr, lad and map, or those that fit the learner.",
        "attacks",
        _PANEL,
        read=split_methods,
    )
    click_model: list[str] | None = option(
        "How users click, in training and when attacked. May be repeated. Default: perfect, "
        "navigational and informational.",
        "click_models",
        _PANEL,
        read=split_names,
    )
    scenario: list[str] | None = option(
        "How clients differ; + combines scenarios. May be repeated: scenarios are compared. Default: "
        "uniform.",
        "scenarios",
        _PANEL,
    )
    audit: bool | None = option("Audit each claim too, once for each chain. Default: yes.", "audit", _PANEL)
    trials: int | None = option("Evaluated trials per hypothesis. Default: 2000.", "audit.trials", _PANEL)
    view: list[str] | None = option(
        "Audited views. May be repeated. Default: individual and aggregate.",
        "audit.views",
        _PANEL,
        read=split_names,
    )
    unit: list[str] | None = option(
        "What neighbouring inputs of an audit differ in: click, interaction, query or client. May be "
        "repeated. Default: interaction.",
        "audit.units",
        _PANEL,
        read=split_names,
    )


@partial(takes_options, without=_WITHOUT)
def compare(
    options: GridOptions,
    common: CommonOptions,
    jobs: Jobs = None,
    backend: Backend = "local",
    scheduler: Scheduler = None,
    plot: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE.svg|png|pdf",
            help="Draw attack against utility, and both against epsilon, into a file. May be repeated.",
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Only estimate cells, time, memory and disk, roughly; nothing is run.",
        ),
    ] = False,
) -> None:
    """Run defenses over a grid, and show what each claims, leaks and costs.

    Each finished cell is stored in --out; --resume resumes the grid that is stored there. --config reads a
    grid or a Spec in TOML. Options override it, and --save-config writes the grid that results.
    """
    from foltr_audit.experiments.comparison.workers import Workers
    from foltr_audit.report.pictures.curves import check_picture

    if options.sensitivity is not None and options.sensitivity_grid is not None:
        raise UsageError("--sensitivity and --sensitivity-grid: give one or the other")
    grid = grid_of(common, options.point())
    _refuse_vain_eps(grid, options.eps)
    save_config(common.save_config, grid)
    workers = Workers(backend, jobs, scheduler)
    for picture in plot or ():
        check_picture(picture, common.out)
    if dry_run:
        _estimate(grid, workers, common)
        return
    with open_comparison(common) as folder:
        _compare(grid, folder, workers, common, plot or [])


def _refuse_vain_eps(grid: ComparisonGrid, eps: list[float] | None) -> None:
    from foltr_audit.experiments.comparison.alternatives import DefenseAlternative

    if eps and not any(DefenseAlternative(text).uses_epsilon for text in grid.defenses):
        raise UsageError(
            "--eps: no --defense depends on it; expected published, proven-MECHANISM, or {eps} in a chain"
        )


def _compare(
    grid: ComparisonGrid,
    folder: ComparisonFolder,
    workers: Workers,
    common: CommonOptions,
    pictures: Sequence[Path],
) -> None:
    from foltr_audit.auditing.verdict import refuse_contradiction
    from foltr_audit.core.plugins import Attack
    from foltr_audit.experiments.comparison.compare import compare as run_comparison
    from foltr_audit.experiments.comparison.compare import worst_failure as worst_error
    from foltr_audit.report.pictures.compare_panels import draw_comparison
    from foltr_audit.report.results.compare import CompareReport
    from foltr_audit.report.tables.compare import print_compare, warnings_by_defense
    from foltr_audit.utils.progress import on_terminal

    warn_of_unloadable(Attack)
    progress = on_terminal()
    failed = run_comparison(grid, folder, workers, progress)
    report = CompareReport.of(folder, failed, progress)
    folder.save_results(report.json())
    for picture in pictures:
        draw_comparison(picture, report)
    show(report.json, partial(print_compare, report), json=common.json)
    warn(warnings_by_defense(report.warnings))
    refuse_contradiction(row.plain() for row in report.claims)
    worst = worst_error(failed)
    if worst is not None:
        several = f"{len(failed)} of {len(folder.cells())} cells could not be run; the first: "
        raise type(worst.error)(several + worst.why)


def _estimate(grid: ComparisonGrid, workers: Workers, common: CommonOptions) -> None:
    from foltr_audit.experiments.comparison.compare import plan_cells
    from foltr_audit.experiments.comparison.estimate import estimate
    from foltr_audit.experiments.comparison.folder import ComparisonFolder
    from foltr_audit.experiments.runner import Runner
    from foltr_audit.report.tables.estimate import estimate_json, print_estimate

    study = Runner(with_undefended=False)
    cells = plan_cells(grid, study)
    folder = None if common.out is None or common.overwrite else ComparisonFolder(common.out)
    found = estimate(cells, folder, workers, study)
    show(partial(estimate_json, found), partial(print_estimate, found), json=common.json)
