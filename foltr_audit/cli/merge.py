"""`foltr-audit merge`: local models on topic splits, and what merging them gives."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from foltr_audit.cli import options as o
from foltr_audit.cli.common import CommonOptions, use_threads
from foltr_audit.cli.output import note, print_line, stdout_console, warn
from foltr_audit.cli.preset_plan import beside
from foltr_audit.errors import FoltrAuditError, UsageError

if TYPE_CHECKING:
    from foltr_audit.experiments.presets import Preset
    from foltr_audit.report.tables.published_figures import FigureComparison
    from foltr_audit.studies.model_merging import MergeReport

_NAMES = {
    "data.source": "--data",
    "data.fold": "--fold",
    "data.category_feature": "--category-feature",
    "categories": "--category",
    "splits": "--split",
    "trials": "--trials",
    "trees": "--trees",
    "seed": "--seed",
}


class StudyInterruptError(FoltrAuditError):
    """Ctrl-C in a command that starts anew; 128 and the number of SIGINT."""

    exit_code: ClassVar[int] = 130


def merge(
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            help="Folder or file with LETOR data, or synthetic:istella-s[:QUERIES]. "
            "Default: synthetic:istella-s.",
        ),
    ] = None,
    fold: Annotated[int | None, typer.Option("--fold", help="Fold K of FoldK folders.")] = None,
    category_feature: Annotated[
        int | None,
        typer.Option(
            "--category-feature",
            help="Feature that is the category of a document, from 1. Default: that of synthetic:istella-s.",
        ),
    ] = None,
    category: Annotated[
        list[int] | None,
        typer.Option(
            "--category",
            help="First, then second category. Default: the most frequent query topics.",
        ),
    ] = None,
    split: Annotated[
        list[int] | None,
        typer.Option(
            "--split",
            help="1: exclusive on the first category; 2: no tie-breaking on the first; 3: on the second. "
            "Several. Default: all.",
        ),
    ] = None,
    initial: Annotated[
        bool, typer.Option("--initial", help="Train the models of the initial split as well.")
    ] = False,
    trials: Annotated[
        int | None, typer.Option("--trials", help="Settings that are tried for each model. Default: 6.")
    ] = None,
    trees: Annotated[
        int | None, typer.Option("--trees", help="Most trees of a model, up to 3000. Default: 150.")
    ] = None,
    seed: o.Seed = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for results.json and the pictures.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the files in --out.")] = False,
    picture: Annotated[
        str, typer.Option("--picture", help="Format of the pictures: svg, png or pdf.")
    ] = "svg",
    json: o.Json = False,
    threads: o.Threads = None,
) -> None:
    """Train rankers on queries of different topics, merge them, and compare; needs the extra merge."""
    given: dict[str, Any] = {
        "data": {"source": data, "fold": fold, "category_feature": category_feature},
        "categories": category or None,
        "splits": split or None,
        "initial": initial or None,
        "trials": trials,
        "trees": trees,
        "seed": seed,
    }
    given["data"] = _named(given["data"])
    common = CommonOptions(out=out, overwrite=overwrite, json=json, threads=threads)
    play_merging(_named(given), common, picture=picture)


def play_merging(
    table: dict[str, Any],
    common: CommonOptions,
    *,
    picture: str = "svg",
    preset: Preset | None = None,
    scale: float = 1,
) -> None:
    """Run a study of merged models, and show and keep it, beside what a preset says was published.

    Args:
        table: the table of the study.
        common: the shared options, of which it takes the folder, JSON and threads.
        picture: format of the pictures.
        preset: the preset that the table comes from.
        scale: what its trials and trees were multiplied by.

    Raises:
        FoltrAuditError: something cannot be run or written.
    """
    import numba

    from foltr_audit.studies.model_merging import MergeSpec, run_merging
    from foltr_audit.studies.model_merging.output import MergeFolder
    from foltr_audit.utils.optional_dependencies import require
    from foltr_audit.utils.progress import on_terminal

    if common.overwrite and common.out is None:
        raise UsageError("--overwrite: only with --out")
    spec = MergeSpec.parse(table, "", _NAMES)
    require("merge")
    use_threads(common.threads)
    ending = f".{picture}"
    with contextlib.ExitStack() as held:
        claim = (
            None
            if common.out is None
            else MergeFolder.claimed(common.out, ending, overwrite=common.overwrite)
        )
        folder = None if claim is None else held.enter_context(claim)
        try:
            study = run_merging(spec, on_terminal(), threads=numba.get_num_threads())
        except KeyboardInterrupt as error:
            raise StudyInterruptError("interrupted; nothing was written") from error
        published = None if preset is None else _comparison(preset, study, scale)
        if folder is not None:
            folder.save(study, beside(published))
            note(f"wrote {folder.path}")
    if common.json:
        print_line(study.json(beside(published)))
    else:
        _print(study, published)
    warn(study.notes)


def _print(study: MergeReport, published: FigureComparison | None) -> None:
    from foltr_audit.studies.model_merging.merge_tables import print_merging

    console = stdout_console("" if published is None else published.extent.label)
    if published is not None:
        console.print(published.heading, style="bold", highlight=False, markup=False)
    print_merging(study, console)
    if published is not None:
        console.print()
        published.only("statistics", "hyperparameters").print(console)  # the others stand in brackets


def _comparison(preset: Preset, study: MergeReport, scale: float) -> FigureComparison:
    """Published figures beside the rows of a study; `choice` is 1 of the first category, 2 of the second."""
    from foltr_audit.report.results.published_extent import StudyExtent
    from foltr_audit.report.tables.published_figures import FigureComparison

    chosen = {category: number for number, category in enumerate(study.categories, start=1)}
    found = {
        name: [{**row, "choice": chosen.get(row.get("category"))} for row in getattr(study, name)]
        for name in ("hyperparameters", "local", "statistics", "weights")
    }
    found["merged"] = [{**row, row["metric"]: row["value"]} for row in study.merged]
    extent = StudyExtent(data=study.dataset["source"], synthetic=study.dataset["synthetic"], scale=scale)
    return FigureComparison.of_rows(preset, found, extent)


def _named(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
