"""`foltr-audit train`: training alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foltr_audit.cli.common import Common, takes_common, use_threads
from foltr_audit.cli.output import note, print_line, save_config, stdout_console


@takes_common
def train(
    common: Common,
    click_model: Annotated[
        str | None, typer.Option("--click-model", help="How users click. Default: perfect.")
    ] = None,
    plot: Annotated[
        list[Path] | None,
        typer.Option(
            "--plot",
            metavar="FILE.svg|png|pdf",
            help="Draw the learning curves into a file; may be repeated.",
        ),
    ] = None,
) -> None:
    """Train a ranker and show the metrics of every round."""
    from foltr_audit.progress import on_terminal
    from foltr_audit.report.curves import check_picture, save_curves
    from foltr_audit.report.layout import print_warnings
    from foltr_audit.report.train import Speed, TrainReport, WireCost
    from foltr_audit.report.train_tables import print_train
    from foltr_audit.study import Study, run_plan

    point = {} if click_model is None else {"train.click_model": click_model}
    plan, output = common.plan(point), common.output()
    for picture in plot or ():
        check_picture(picture, common.out)
    save_config(common.save_config, plan)
    use_threads(common.threads)
    cells = run_plan(plan, output, Study(on_terminal()))
    report = TrainReport.of(plan, cells)
    if output is not None:
        output.save_results(report.json())
        report.save_rounds(output.path)
    for picture in plot or ():
        save_curves(picture, cells, report.dataset)
    if common.json:
        print_line(report.json(Speed.of(cells).row()))
    else:
        console = stdout_console()
        print_train(report, console)
        print_warnings((warning for cell in cells for warning in cell.warnings), console)
        note(str(Speed.of(cells)))
        for cell in cells:
            for cost in WireCost.of(cell):
                note(str(cost))
