"""`foltr-audit study merge`: train local models on topic splits, merge them, and compare."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from foltr_audit.cli.common import CommonOptions, takes, use_threads
from foltr_audit.cli.options import Table, flags, option, words
from foltr_audit.cli.output import note, print_line, warn
from foltr_audit.cli.pages import new_app, page
from foltr_audit.cli.runs import print_beside, published_table
from foltr_audit.core.warning_kinds import coded
from foltr_audit.errors import FoltrAuditError, UsageError
from foltr_audit.utils.progress import on_terminal

if TYPE_CHECKING:
    from foltr_audit.experiments.presets import Preset
    from foltr_audit.report.presets import PresetComparison
    from foltr_audit.studies.model_merging import MergeReport
    from foltr_audit.utils.formatting import JsonValue

_STUDY = words(
    "merge.data.source merge.data.fold merge.data.category_feature merge.data.topics "
    "merge.categories merge.splits merge.initial merge.trials merge.trees"
)


class StudyInterruptError(FoltrAuditError):
    """Ctrl-C in a command that cannot resume."""

    exit_code: ClassVar[int] = 130


app = new_app()


@app.command(cls=page("study merge"))
@takes(*_STUDY, "seed", "overwrite", "json", "verbose", "threads")
def merge(
    common: CommonOptions,
    out: Path | None = option("Folder for results.json and the pictures.", metavar="DIR"),
    picture: str = option("Format of the pictures: svg, png or pdf.", "svg"),
) -> None:
    """Train rankers on queries of different topics, merge them, and compare."""
    from foltr_audit.experiments.plan import apply_changes

    point = {name.removeprefix("merge."): value for name, value in common.fields.items()}
    run_merge_study(apply_changes({"data": {}}, point), replace(common, out=out), picture=picture)


def run_merge_study(
    table: Table,
    common: CommonOptions,
    *,
    picture: str = "svg",
    preset: Preset | None = None,
    scale: float = 1,
) -> None:
    """Run a study of merged models, show and save it, and compare it with the figures of a preset."""
    import numba

    from foltr_audit.studies.model_merging import MergeReport, MergeSpec, run_merging
    from foltr_audit.studies.model_merging.output import claimed, save

    if common.overwrite and common.out is None:
        raise UsageError("--overwrite: only with --out")
    spec = MergeSpec.parse(table, "", flags((*_STUDY, "seed")))
    use_threads(common.threads)
    with contextlib.ExitStack() as stack:
        ending = f".{picture}"
        if common.out is not None:
            stack.enter_context(claimed(common.out, ending, overwrite=common.overwrite))
        try:
            study = run_merging(spec, on_terminal(), threads=numba.get_num_threads())
        except KeyboardInterrupt as error:
            raise StudyInterruptError("interrupted; nothing was written") from error
        published = None if preset is None else _comparison(preset, study, scale)
        if common.out is not None:
            save(common.out, ending, study, published_table(published))
            note(f"wrote {common.out}")
    if common.json:
        print_line(study.json(published_table(published)))
    else:  # the tables of the study have the other figures in brackets
        shown = None if published is None else published.only("statistics", "hyperparameters")
        print_beside(shown, [("", study)], MergeReport.show)

    warn(coded("merging", text) for text in study.notes)


def _comparison(preset: Preset, study: MergeReport, scale: float) -> PresetComparison:
    """Published figures with the rows of a study; `choice` is 1 for the first category, 2 for the second."""
    from foltr_audit.experiments.published import StudyExtent
    from foltr_audit.report.presets import PresetComparison

    chosen: dict[object, int] = {category: place for place, category in enumerate(study.categories, start=1)}
    figures: dict[str, list[dict[str, JsonValue]]] = {
        name: [row.plain() for row in getattr(study, name)]
        for name in ("hyperparameters", "local", "statistics", "weights", "merged", "mixtures", "verdicts")
    }
    for row in (*figures["local"], *figures["statistics"]):
        row["choice"] = chosen.get(row["category"])
    for row in figures["merged"]:
        row[str(row["metric"])] = row["value"]
    data = study.dataset
    extent = StudyExtent(data=data["source"], synthetic=data["synthetic"], scale=scale)
    return PresetComparison.of_figures(preset, {"": figures}, extent)
