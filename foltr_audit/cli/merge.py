"""`foltr-audit merge`: train local models on topic splits, merge them, and compare."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from foltr_audit.cli.common import CommonOptions, use_threads
from foltr_audit.cli.options import Table, takes_options
from foltr_audit.cli.output import note, print_line, warn
from foltr_audit.cli.preset_plan import print_published, published_table
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
    """Ctrl-C in a command that cannot resume; the exit code is 128 plus the number of SIGINT."""

    exit_code: ClassVar[int] = 130


@partial(takes_options, only=("seed", "overwrite", "json", "threads"))
def merge(
    common: CommonOptions,
    data: Annotated[
        str | None,
        typer.Option(
            help="Folder or file with LETOR data, or synthetic:istella-s[:QUERIES]. Default: "
            "synthetic:istella-s.",
        ),
    ] = None,
    fold: Annotated[int | None, typer.Option(help="Number K of a FoldK folder.")] = None,
    category_feature: Annotated[
        int | None,
        typer.Option(
            help="Feature with the category of a document, from 1. Default: that of synthetic:istella-s."
        ),
    ] = None,
    category: Annotated[
        list[int] | None,
        typer.Option(help="First category, then the second one. Default: the most frequent query topics."),
    ] = None,
    split: Annotated[
        list[int] | None,
        typer.Option(
            help="1: exclusive on the first category; 2: no tie-breaking on the first; 3: no tie-breaking "
            "on the second. May be repeated. Default: all.",
        ),
    ] = None,
    initial: Annotated[
        bool, typer.Option("--initial", help="Train the models of the initial split too.")
    ] = False,
    trials: Annotated[
        int | None, typer.Option(help="Number of settings that are tried for each model. Default: 6.")
    ] = None,
    trees: Annotated[
        int | None, typer.Option(help="Maximum number of trees of a model, up to 3000. Default: 150.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for results.json and the pictures.")] = None,
    picture: Annotated[str, typer.Option(help="Format of the pictures: svg, png or pdf.")] = "svg",
) -> None:
    """Train rankers on queries of different topics, merge them, and compare; needs the extra merge."""
    of_data = {"source": data, "fold": fold, "category_feature": category_feature}
    given = {
        "categories": category or None,
        "splits": split or None,
        "initial": initial or None,
        "trials": trials,
        "trees": trees,
        "seed": common.seed,
    }
    run_merge_study({"data": _given(of_data), **_given(given)}, replace(common, out=out), picture=picture)


def run_merge_study(
    table: Table,
    common: CommonOptions,
    *,
    picture: str = "svg",
    preset: Preset | None = None,
    scale: float = 1,
) -> None:
    """Run a study of merged models, show and save it, and compare it with the figures of a preset.

    Args:
        table: the table of the study.
        common: the shared options, of which the folder, JSON and threads count.
        picture: format of the pictures.
        preset: the preset that the table comes from.
        scale: the factor of its trials and trees.

    Raises:
        FoltrAuditError: something cannot be run or written.
    """
    import numba

    from foltr_audit.studies.model_merging import MergeSpec, run_merging
    from foltr_audit.studies.model_merging.merge_tables import print_merging
    from foltr_audit.studies.model_merging.output import MergeFolder
    from foltr_audit.utils.optional_dependencies import require
    from foltr_audit.utils.progress import on_terminal

    if common.overwrite and common.out is None:
        raise UsageError("--overwrite: only with --out")
    spec = MergeSpec.parse(table, "", _NAMES)
    require("merge")
    use_threads(common.threads)
    with contextlib.ExitStack() as stack:
        folder = None
        if common.out is not None:
            locked = MergeFolder.claim(common.out, f".{picture}", overwrite=common.overwrite)
            folder = stack.enter_context(locked)
        try:
            study = run_merging(spec, on_terminal(), threads=numba.get_num_threads())
        except KeyboardInterrupt as error:
            raise StudyInterruptError("interrupted; nothing was written") from error
        published = None if preset is None else _comparison(preset, study, scale)
        if folder is not None:
            folder.save(study, published_table(published))
            note(f"wrote {folder.path}")
    if common.json:
        print_line(study.json(published_table(published)))
    else:  # the tables of the study have the other figures in brackets
        shown = None if published is None else published.only("statistics", "hyperparameters")
        print_published(shown, partial(print_merging, study))
    warn(study.notes)


def _comparison(preset: Preset, study: MergeReport, scale: float) -> FigureComparison:
    """Published figures with the rows of a study; `choice` is 1 for the first category, 2 for the second."""
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


def _given(values: Table) -> Table:
    return {name: value for name, value in values.items() if value is not None}
