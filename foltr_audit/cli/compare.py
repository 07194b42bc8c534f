"""`foltr-audit compare`: defenses side by side, by what they claim, give away and cost."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foltr_audit.cli import options as o
from foltr_audit.cli.common import CommonOptions, listed, takes_common
from foltr_audit.cli.given import split_methods
from foltr_audit.cli.grid_options import grid_of, kept_comparison, numbers
from foltr_audit.cli.output import print_line, save_config, stdout_console, warn, warn_of_unloadable
from foltr_audit.errors import UsageError

if TYPE_CHECKING:
    from foltr_audit.experiments.comparison.folder import ComparisonFolder
    from foltr_audit.experiments.comparison.grid import ComparisonGrid
    from foltr_audit.experiments.comparison.workers import Workers

_PANEL = "Grid"
_WITHOUT = ("init", "trace_every", "no_trace", "embed_features", "threads")


@partial(takes_common, without=_WITHOUT)
def compare(
    common: CommonOptions,
    eps: Annotated[
        list[float] | None,
        typer.Option(
            "--eps",
            help="Claimed epsilon; several. Default: 1.2, 2.3, 4.5, 10, the published ones.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    defense: Annotated[
        list[str] | None,
        typer.Option(
            "--defense",
            help="An alternative, parts joined by +: published (the learner's own for each eps), "
            "proven-MECHANISM (least noise that accounting proves for one interaction, see calibrate), or "
            "plug-ins, with {eps}, {sensitivity} and {clip} (half of it) in them; several; none is always "
            "there. Default: none, published, published + secure-aggregation, proven-laplace, "
            "proven-click-rr, proven-skellam + secure-aggregation.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    sensitivity: Annotated[
        float | None,
        typer.Option(
            "--sensitivity",
            help="Delta of every eps. Default: the published pairs, 3 below 4.5 and 5 from there.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    sensitivity_grid: Annotated[
        str | None,
        typer.Option(
            "--sensitivity-grid",
            help="Deltas, e.g. 1,3,5,7,9: for each eps the one with the best nDCG on the validation part.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(
            "--delta", help="Delta of what has no pure bound. Default: 1e-5.", rich_help_panel=_PANEL
        ),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            "--method",
            help="Attack; several. Default: olsr, lad, map, or what fits the learner.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    click_model: Annotated[
        list[str] | None,
        typer.Option(
            "--click-model",
            help="How users click, in training and attacked; several. Default: all three.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    scenario: Annotated[
        list[str] | None,
        typer.Option(
            "--scenario",
            help="Who the clients are; several are compared, + joins. Default: uniform.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    audit: Annotated[
        bool | None,
        typer.Option(
            "--audit/--no-audit",
            help="Check each claim too, once per chain. Default: yes.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(
            "--trials", help="Trials per hypothesis of an audit. Default: 2000.", rich_help_panel=_PANEL
        ),
    ] = None,
    view: Annotated[
        list[str] | None,
        typer.Option(
            "--view",
            help="Views that are audited. Default: individual,aggregate.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    unit: Annotated[
        list[str] | None,
        typer.Option(
            "--unit",
            help="What neighbours of an audit differ in: click, interaction (default), query or client; "
            "several.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            help="fresh (default): one new client per query; training: the messages of the rounds.",
        ),
    ] = None,
    repeats: Annotated[
        int | None,
        typer.Option("--repeats", help="Draws of clicks and noise per attacked query. Default: 1."),
    ] = None,
    attack_on: Annotated[
        str | None, typer.Option("--attack-on", help="Parts whose queries are attacked. Default: vali,test.")
    ] = None,
    attack_interactions: Annotated[
        int | None,
        typer.Option("--attack-interactions", help="Interactions behind each attacked message. Default: 1."),
    ] = None,
    jobs: o.Jobs = None,
    backend: o.Backend = "local",
    scheduler: o.Scheduler = None,
    plot: Annotated[
        list[Path] | None,
        typer.Option(
            "--plot",
            metavar="FILE.svg|png|pdf",
            help="Draw attack against utility, and both against epsilon, into a file; may be repeated.",
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Only tell cells, time, memory and disk, from a shortened cell of each sort."
        ),
    ] = False,
) -> None:
    """Run defenses over a grid, and show what each claims, gives away and costs.

    Cells are kept one by one in --out: --resume goes on with the grid that is kept there. --config takes a
    grid or a Spec in TOML. Options override either, --save-config writes what they make.
    """
    from foltr_audit.experiments.comparison.workers import Workers
    from foltr_audit.report.pictures.curves import check_picture

    axes = {
        "eps": eps or None,
        "defenses": defense or None,
        "sensitivity": sensitivity,
        "sensitivity_grid": numbers(sensitivity_grid, "--sensitivity-grid"),
        "delta": delta,
        "attacks": split_methods(method),
        "click_models": listed(click_model),
        "scenarios": scenario or None,
        "audit": audit,
    }
    point = {
        "audit.trials": trials,
        "audit.views": listed(view),
        "audit.units": listed(unit),
        "attack.target": target,
        "attack.repeats": repeats,
        "attack.on": None if attack_on is None else [part.strip() for part in attack_on.split(",")],
        "attack.interactions": attack_interactions,
    }
    if sensitivity is not None and sensitivity_grid is not None:
        raise UsageError("--sensitivity and --sensitivity-grid: give one or the other")
    grid = grid_of(common, axes, point)
    _refuse_vain_eps(grid, eps)
    save_config(common.save_config, grid)
    workers = Workers(backend, jobs, scheduler)
    for picture in plot or ():
        check_picture(picture, common.out)
    if dry_run:
        _estimate(grid, workers, common)
        return
    with kept_comparison(common) as folder:
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
    from foltr_audit.experiments.comparison.compare import worst as worst_error
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
    if common.json:
        print_line(report.json())
    else:
        print_compare(report, stdout_console())
    warn(warnings_by_defense(report.warnings))
    refuse_contradiction(report.claims)
    worst = worst_error(failed)
    if worst is not None:
        several = f"{len(failed)} of {len(folder.cells())} cells could not be run; the first: "
        raise type(worst.error)(several + worst.why)


def _estimate(grid: ComparisonGrid, workers: Workers, common: CommonOptions) -> None:
    from foltr_audit.experiments.comparison.compare import foreseen
    from foltr_audit.experiments.comparison.estimate import estimate
    from foltr_audit.experiments.comparison.folder import ComparisonFolder
    from foltr_audit.experiments.runner import Runner
    from foltr_audit.report.tables.estimate import estimate_json, print_estimate
    from foltr_audit.utils.progress import on_terminal

    cells = foreseen(grid, Runner(with_undefended=False))
    folder = None if common.out is None or common.overwrite else ComparisonFolder(common.out)
    found = estimate(cells, folder, workers, on_terminal())
    if common.json:
        print_line(estimate_json(found))
    else:
        print_estimate(found, stdout_console())
