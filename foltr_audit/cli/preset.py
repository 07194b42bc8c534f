"""`foltr-audit study list`, `show` and `run`: published tables and figures as presets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foltr_audit.cli.attack import run_attacks
from foltr_audit.cli.common import ANSWER, CommonOptions, takes
from foltr_audit.cli.merge import run_merge_study
from foltr_audit.cli.options import DATA, Json, drawing, option, refuse_given, switch, words
from foltr_audit.cli.output import print_json, print_line, show_table
from foltr_audit.cli.pages import new_app, page
from foltr_audit.cli.runs import PresetSelection, check_scale
from foltr_audit.cli.train import run_training
from foltr_audit.errors import DataError, UsageError

if TYPE_CHECKING:
    from foltr_audit.experiments.presets import Preset

app = new_app()
Name = Annotated[str, typer.Argument(help="Name of a preset: see study list.")]


@app.command("list", cls=page("study list"))
def list_(json: Json = False) -> None:
    """Show what each preset reproduces, which data it needs, and how large it is."""
    from foltr_audit.experiments.presets import load_preset, preset_names
    from foltr_audit.report.presets import preset_row, preset_table

    presets = [load_preset(name) for name in preset_names()]
    if json:
        print_json("studies/1", presets=[preset_row(preset) for preset in presets])
    else:
        show_table(preset_table(presets))


@app.command(cls=page("study show"))
def show(name: Name, json: Json = False) -> None:
    """Show a preset as TOML for --config, with its data and published numbers as comments."""
    from foltr_audit.experiments.presets import load_preset
    from foltr_audit.report.presets import preset_document, preset_text

    preset = load_preset(name)
    if json:
        print_json("study/1", **preset_document(preset))
    else:
        print_line(preset_text(preset))


@app.command(cls=page("study run"))
@takes(*words("fold data.intents runs seed out resume overwrite json verbose threads"), *ANSWER)
def run(
    name: Name,
    common: CommonOptions,
    synthetic: bool = switch("--synthetic", "Use the synthetic twin of the data.", DATA),
    scale: float = option(
        "Factor of rounds, repeats and repetitions; the number of clients does not change.", 1.0
    ),
    data: str | None = option("The data that the preset needs: see study show.", panel=DATA),
    category_feature: int | None = option(
        "For a preset of kind merge: feature with the category of a document, from 1.", panel=DATA
    ),
    reading: str | None = option(
        "published: what the authors' program did; written: what their text says. Default: both."
    ),
    plot: list[Path] | None = drawing("Draw the learning curves, or what attacks read against epsilon,"),
) -> None:
    """Run a preset and show the published numbers next to those found.

    Where the authors' program did something else than their text says, both are played.
    """
    from foltr_audit.experiments.plan import apply_changes
    from foltr_audit.experiments.presets import load_preset

    preset = load_preset(name)
    unfit = f"not with {preset.name}, which is of kind {preset.kind}"
    common = common.setting(data__source=_source(preset, data, synthetic=synthetic))
    if preset.kind == "merge":
        unused = {"plot": plot, "runs": common.runs, "fold": common.fold, "reading": reading}
        unused |= {"intents": common.fields.get("data.intents"), "resume": common.resume}
        refuse_given(unused, unfit)
        check_scale(scale)
        changes = common.setting(data__category_feature=category_feature).fields
        run_merge_study(apply_changes(preset.merging(scale), changes), common, preset=preset, scale=scale)
        return
    refuse_given({"category-feature": category_feature}, unfit)
    chosen = PresetSelection.of(preset, common, scale=scale, reading=reading)
    if preset.kind == "attack":
        run_attacks(chosen.plan, common, plot or (), chosen)
    else:
        run_training(chosen.plan, common, plot or (), chosen)


def _source(preset: Preset, data: str | None, *, synthetic: bool) -> str:
    """The data to run on: those of --data, or their synthetic twin with --synthetic."""
    needed = f"{preset.data.needs}: {preset.data.get}; or --synthetic for the twin, {preset.data.twin}"
    if data is not None and synthetic:
        raise UsageError("--data and --synthetic: give one or the other")
    if synthetic:
        return preset.data.twin
    if data is None:
        raise UsageError(f"study run {preset.name}: no --data; it needs {needed}")
    if not data.startswith("synthetic:") and not Path(data).exists():
        raise DataError(f"--data: {data}: no such file or folder; {preset.name} needs {needed}")
    return data
