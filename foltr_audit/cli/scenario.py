"""`foltr-audit scenario`: published tables and figures as presets, to list, to read and to run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foltr_audit.cli import options as o
from foltr_audit.cli.attack import run_attacks
from foltr_audit.cli.common import CommonOptions
from foltr_audit.cli.merge import play_merging
from foltr_audit.cli.output import print_line, stdout_console
from foltr_audit.cli.preset_plan import PresetSelection, check_scale
from foltr_audit.cli.train import run_training
from foltr_audit.errors import DataError, UsageError

if TYPE_CHECKING:
    from foltr_audit.experiments.presets import Preset

app = typer.Typer(
    help="Published tables and figures as presets: list them, show one, or run it beside its numbers.",
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(help="Name of a preset, see scenario list.")]


@app.command("list")
def list_(json: o.Json = False) -> None:
    """Show what presets repeat, which data they need, and how large they are."""
    from foltr_audit.experiments.presets import load_preset, preset_names
    from foltr_audit.report.tables.presets import preset_rows, preset_table

    rows = preset_rows(map(load_preset, preset_names()))
    if json:
        from foltr_audit.utils.formatting import json_text

        print_line(json_text({"schema": "foltr-audit/scenarios/1", "presets": rows}))
    else:
        stdout_console().print(preset_table(rows))


@app.command()
def show(name: Name, json: o.Json = False) -> None:
    """Show a preset as TOML for --config, with its data and published numbers as comments."""
    from foltr_audit.experiments.presets import load_preset
    from foltr_audit.report.tables.presets import preset_details, preset_text

    preset = load_preset(name)
    if json:
        from foltr_audit.utils.formatting import json_text

        print_line(json_text({"schema": "foltr-audit/scenario/1", **preset_details(preset)}))
    else:
        print_line(preset_text(preset))


@app.command()
def run(
    name: Name,
    synthetic: Annotated[
        bool, typer.Option("--synthetic", help="Take the synthetic twin of the data.", rich_help_panel="Data")
    ] = False,
    scale: Annotated[
        float,
        typer.Option(
            "--scale",
            help="Multiply rounds, repeats and repetitions by this; never the number of clients. Default: 1.",
        ),
    ] = 1.0,
    data: Annotated[
        str | None,
        typer.Option(
            "--data", help="The data that the preset needs: see scenario show.", rich_help_panel="Data"
        ),
    ] = None,
    intents: o.Intents = None,
    category_feature: Annotated[
        int | None,
        typer.Option(
            "--category-feature",
            help="Of a preset of kind merge: feature that is the category of a document, from 1.",
            rich_help_panel="Data",
        ),
    ] = None,
    fold: o.Fold = None,
    runs: o.Runs = None,
    seed: o.Seed = None,
    plot: o.Plot = None,
    out: o.Out = None,
    resume: o.Resume = False,
    overwrite: o.Overwrite = False,
    json: o.Json = False,
    threads: o.Threads = None,
) -> None:
    """Run a preset and show the published numbers beside those found."""
    from foltr_audit.experiments.presets import load_preset

    preset = load_preset(name)
    common = CommonOptions(
        data=_source(preset, data, synthetic=synthetic),
        intents=intents,
        fold=fold,
        runs=runs,
        seed=seed,
        out=out,
        resume=resume,
        overwrite=overwrite,
        json=json,
        threads=threads,
    )
    if preset.kind == "merge":
        _refuse(
            preset, {"--plot": plot, "--runs": runs, "--fold": fold, "--intents": intents, "--resume": resume}
        )
        _merge(preset, common, category_feature, scale)
        return
    _refuse(preset, {"--category-feature": category_feature})
    chosen = PresetSelection.of(preset, common, scale=scale)
    if preset.kind == "attack":
        _refuse(preset, {"--plot": plot})
        run_attacks(chosen.plan, common, chosen)
    else:
        run_training(chosen.plan, common, plot or (), chosen)


def _refuse(preset: Preset, options: dict[str, object]) -> None:
    for name, given in options.items():
        if given:
            raise UsageError(f"{name}: not with {preset.name}, which is of kind {preset.kind}")


def _merge(preset: Preset, common: CommonOptions, category_feature: int | None, scale: float) -> None:
    from foltr_audit.experiments.plan import changed

    check_scale(scale)
    given = {"data.source": common.data, "data.category_feature": category_feature, "seed": common.seed}
    point = {name: value for name, value in given.items() if value is not None}
    play_merging(changed(preset.merging(scale), point), common, preset=preset, scale=scale)


def _source(preset: Preset, data: str | None, *, synthetic: bool) -> str:
    """The source to run on: what --data names, or the twin where it was asked for.

    Raises:
        UsageError: neither or both were given.
        DataError: there are no such data; it says how to get them.
    """
    needed = f"{preset.data.needs}: {preset.data.get}; or --synthetic for the twin, {preset.data.twin}"
    if data is not None and synthetic:
        raise UsageError("--data and --synthetic: give one or the other")
    if synthetic:
        return preset.data.twin
    if data is None:
        raise UsageError(f"scenario run {preset.name}: no --data; it needs {needed}")
    if not data.startswith("synthetic:") and not Path(data).exists():
        raise DataError(f"--data: {data}: no such file or folder; {preset.name} needs {needed}")
    return data
