"""`foltr-audit train`: train without an attack or audit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from foltr_audit.cli.common import ANSWER, SHARED, CommonOptions, takes
from foltr_audit.cli.options import drawing, option, switch
from foltr_audit.cli.output import note, print_line, warn
from foltr_audit.cli.pages import new_app, page
from foltr_audit.cli.runs import PresetSelection, print_beside, published_table, store

if TYPE_CHECKING:
    from foltr_audit.experiments.plan import Plan

app = new_app()


@app.command(cls=page("train"))
@takes(*SHARED, *ANSWER)
def train(
    common: CommonOptions,
    click_model: str | None = option("How users click. Default: perfect."),
    plot: list[Path] | None = drawing("Draw the learning curves"),
    twins: bool = switch(
        "--twins",
        "Also train the twins of each scenario (one intent alone, evenly dealt, ...) and compare with them.",
    ),
) -> None:
    """Train a ranker and show the metrics of every round."""
    run_training(common.setting(train__click_model=click_model).plan(), common, plot or (), twins=twins)


def run_training(
    plan: Plan,
    common: CommonOptions,
    pictures: Sequence[Path] = (),
    chosen: PresetSelection | None = None,
    *,
    twins: bool = False,
) -> None:
    """Run a plan that trains only, show and save its report, and compare it with the figures of a preset."""
    from foltr_audit.report.train import TrainReport, speed_text, train_speed, wire_costs

    report, runs, published = store(
        plan, common, TrainReport.of, pictures=pictures, chosen=chosen, twins=twins
    )
    if common.out is not None:
        report.save_rounds(common.out)
    if common.json:
        print_line(report.json(train_speed(runs) | published_table(published)))
    else:
        whole = partial(TrainReport.show, rounds=published is None)
        draw = whole if common.full else partial(TrainReport.show_short, quiet=common.quiet)
        parts = [] if chosen is None else [*chosen.reports(TrainReport.of, runs)]
        print_beside(published, parts or [("", report)], draw)
    warn(report.coded_warnings, full=common.full, quiet=common.quiet)
    for picture in pictures:
        report.save(picture)
    if common.json or common.quiet:
        return
    note(speed_text(train_speed(runs)))
    for run in runs:
        for cost in wire_costs(run):
            note(cost)
