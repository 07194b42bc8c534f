"""`foltr-audit train`: training alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foltr_audit.cli import options as o
from foltr_audit.cli.common import CommonOptions, takes_common, use_threads
from foltr_audit.cli.output import note, print_line, save_config, stdout_console, warn
from foltr_audit.cli.preset_plan import PresetSelection, beside

if TYPE_CHECKING:
    from foltr_audit.experiments.plan import Plan


@takes_common
def train(
    common: CommonOptions,
    click_model: Annotated[
        str | None, typer.Option("--click-model", help="How users click. Default: perfect.")
    ] = None,
    plot: o.Plot = None,
    twins: Annotated[
        bool,
        typer.Option(
            "--twins",
            help="Also train what each scenario is held against (one intent alone, evenly dealt, ...) "
            "and compare.",
        ),
    ] = False,
) -> None:
    """Train a ranker and show the metrics of every round."""
    point = {} if click_model is None else {"train.click_model": click_model}
    run_training(common.plan(point), common, plot or (), twins=twins)


def run_training(
    plan: Plan,
    common: CommonOptions,
    pictures: Sequence[Path] = (),
    chosen: PresetSelection | None = None,
    *,
    twins: bool = False,
) -> None:
    """Run a plan that trains only, and show and keep its report, beside what a preset says was published.

    Args:
        plan: what to run.
        common: the shared options.
        pictures: files to draw the learning curves into.
        chosen: the preset that the plan comes from.
        twins: also train what each scenario is held against.

    Raises:
        FoltrAuditError: something cannot be run, drawn or written.
    """
    from foltr_audit.experiments.runner import Runner, run_plan
    from foltr_audit.report.pictures.curves import check_picture, save_curves
    from foltr_audit.report.results.train import TrainReport, TrainSpeed, WireCost
    from foltr_audit.report.tables.train import print_train
    from foltr_audit.utils.progress import on_terminal

    output = common.output()
    for picture in pictures:
        check_picture(picture, common.out)
    save_config(common.save_config, plan)
    use_threads(common.threads)
    study = Runner(on_terminal())
    plan = study.with_twins(plan) if twins else plan
    cells = run_plan(plan, output, study)
    report = TrainReport.of(plan, cells)
    published = None if chosen is None else chosen.comparison(cells)
    if output is not None:
        output.save_results(report.json(beside(published)))
        report.save_rounds(output.path)
    for picture in pictures:
        save_curves(picture, cells, report.dataset)
    if common.json:
        print_line(report.json(TrainSpeed.of(cells).row() | beside(published)))
        warn(row["warning"] for row in report.warnings)
        return
    console = stdout_console("" if published is None else published.extent.label)
    if published is not None:
        console.print(published.heading, style="bold", highlight=False, markup=False)
    print_train(report, console, rounds=published is None)
    if published is not None:
        console.print()
        published.print(console)
    warn(row["warning"] for row in report.warnings)
    note(str(TrainSpeed.of(cells)))
    for cell in cells:
        for cost in WireCost.of(cell):
            note(str(cost))
