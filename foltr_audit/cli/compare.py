"""`foltr-audit compare`: compare defenses by what they claim, leak and cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from foltr_audit.auditing.verdict import refuse_contradiction
from foltr_audit.cli.common import (
    ANSWER,
    FRESH,
    IN_CELLS,
    CommonOptions,
    OtherHelp,
    changed_learner,
    check_pictures,
    folds_of,
    open_comparison,
    shared_but,
    takes,
)
from foltr_audit.cli.options import (
    GRID,
    Backend,
    Jobs,
    Scheduler,
    Table,
    drawing,
    read_text,
    switch,
    words,
)
from foltr_audit.cli.output import print_json, save_config, stdout_console, warn_of_unloadable
from foltr_audit.cli.pages import new_app, page
from foltr_audit.errors import UsageError
from foltr_audit.utils.progress import on_terminal

if TYPE_CHECKING:
    from foltr_audit.experiments.comparison.folder import ComparisonFolder
    from foltr_audit.experiments.comparison.grid import ComparisonGrid
    from foltr_audit.experiments.comparison.workers import Workers

_GRID: tuple[str | OtherHelp, ...] = (
    *words("grid.eps grid.defenses grid.sensitivity grid.sensitivity_grid grid.delta grid.attacks"),
    *words("grid.click_models grid.scenarios grid.audit grid.every_observer"),
    OtherHelp("audit.trials", "Evaluated trials per hypothesis. Default: 2000.", GRID),
    OtherHelp("audit.views", "Audited views. May be repeated. Default: individual and aggregate.", GRID),
    OtherHelp(
        "audit.units",
        "What neighbouring inputs of an audit differ in: click, interaction, query or client. May be "
        "repeated. Default: interaction.",
        GRID,
    ),
)
_SHARED = shared_but(
    "runs out resume eps sensitivity defense population.scenario train.init trace.every no_trace "
    "trace.embed_features config save_config threads"
)
_FILES = (
    OtherHelp("config", "Start from a grid or a Spec in TOML. Options override it."),
    OtherHelp("save_config", "Write the grid to a file."),
)
_RUNS = "Number of repetitions; run i uses fold i mod K. Default: 3, or K with --fold all."

app = new_app()


@app.command(cls=page("compare"))
@takes(*FRESH, *_GRID, *_SHARED, *IN_CELLS, *_FILES, OtherHelp("runs", _RUNS), *ANSWER)
def compare(
    common: CommonOptions,
    jobs: Jobs = None,
    backend: Backend = "local",
    scheduler: Scheduler = None,
    plot: list[Path] | None = drawing("Draw what attacks read and what defenses cost against epsilon"),
    dry_run: bool = switch("--dry-run", "Only list the cells and their number; nothing is run."),
) -> None:
    """Run defenses over a grid, and show what each claims, leaks and costs.

    Each finished cell is stored in --out; --resume resumes the grid that is stored there. --config reads a
    grid or a Spec in TOML. Options override it, and --save-config writes the grid that results.
    """
    from foltr_audit.experiments.comparison.alternatives import DefenseAlternative
    from foltr_audit.experiments.comparison.workers import Workers

    given = common.of_table("grid")
    if "sensitivity" in given and "sensitivity_grid" in given:
        raise UsageError("--sensitivity and --sensitivity-grid: give one or the other")
    grid = grid_of(common)
    if given.get("eps") and not any(DefenseAlternative(text).uses_epsilon for text in grid.defenses):
        raise UsageError(
            "--eps: no --defense depends on it; expected published, proven-MECHANISM, or {eps} in a chain"
        )
    workers = Workers(backend, jobs, scheduler)
    check_pictures(plot or (), common.out)
    save_config(common.save_config, grid)
    if dry_run:
        _list_cells(grid, common)
        return
    with open_comparison(common) as folder:
        _compare(grid, folder, workers, common, plot or [])


def grid_of(common: CommonOptions) -> ComparisonGrid:
    """The grid of --config, or with --resume that of --out, changed by the options."""
    from foltr_audit.experiments.comparison.folder import GRID, ComparisonFolder
    from foltr_audit.experiments.comparison.grid import ComparisonGrid
    from foltr_audit.experiments.plan import apply_changes, table_in, with_users

    grid = ComparisonGrid()
    if common.config is not None:
        grid = ComparisonGrid.from_toml(read_text(common.config, "--config"), str(common.config))
    elif common.resume and common.out is not None and (common.out / GRID).is_file():
        grid = ComparisonFolder(common.out).grid
    table = grid.table()
    of_cells = {name: value for name, value in common.point().items() if not name.startswith("grid.")}
    table["spec"] = with_users(apply_changes(table_in(table, "spec"), of_cells))
    table |= common.of_table("grid")
    learners = [point["train.learner"] for point in common.learner_axis("attack") if point]
    changes = common.learner_changes()
    table["learners"] = [changed_learner(text, changes) for text in learners or grid.learners]
    table |= _repetitions(common, table)
    return ComparisonGrid.parse(table)


def _repetitions(common: CommonOptions, table: Table) -> Table:
    if common.runs is not None and common.runs < 1:
        raise UsageError(f"--runs: {common.runs}; expected at least 1")
    found: Table = {} if common.runs is None else {"runs": common.runs}
    folds = folds_of(common.fold, table["spec"].get("data", {}).get("source"))
    if folds:
        found["folds"] = list(folds)
        found["runs"] = common.runs or max(table["runs"], len(folds))
    return found


def _compare(
    grid: ComparisonGrid,
    folder: ComparisonFolder,
    workers: Workers,
    common: CommonOptions,
    pictures: Sequence[Path],
) -> None:
    from foltr_audit.core.plugins import Attack
    from foltr_audit.experiments.comparison import runner
    from foltr_audit.report.compare import CompareReport

    warn_of_unloadable(Attack)
    progress = on_terminal()
    failed = runner.compare(grid, folder, workers, progress)
    report = CompareReport.of(folder, failed, progress)
    if common.out is not None:
        folder.save_results(report.json())
    common.show(report, pictures)
    refuse_contradiction(report.claims)
    worst = runner.worst_failure(failed)
    if worst is not None:
        several = f"{len(failed)} of {len(folder.cells())} cells could not be run; the first: "
        raise runner.failure_error(worst, several)


def _list_cells(grid: ComparisonGrid, common: CommonOptions) -> None:
    from foltr_audit.experiments.comparison.folder import ComparisonFolder
    from foltr_audit.experiments.comparison.runner import plan_cells
    from foltr_audit.experiments.runner import Runner
    from foltr_audit.report.lists import cell_rows, kind_rows, print_cells

    folder = None if common.out is None or common.overwrite else ComparisonFolder(common.out, resumed=True)
    cells = cell_rows(plan_cells(grid, Runner(with_undefended=False)), folder)
    if common.json:
        print_json("estimate/2", kinds=kind_rows(cells), cells=cells)
    else:
        print_cells(cells, stdout_console())
