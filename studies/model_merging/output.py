"""The folder of a study of model merging: `results.json` and two pictures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from foltr_audit.recorder import atomic_files
from foltr_audit.studies.model_merging.report import MergeReport
from foltr_audit.studies.model_merging.splits import PAIR

from foltr_audit.errors import UsageError
from foltr_audit.experiments.runs.folder import RESULTS, lock_folder, report_write_errors
from foltr_audit.report.documents import Row
from foltr_audit.report.picture_style import COLOURS, FORMATS, new_figure, save_picture
from foltr_audit.utils.optional_dependencies import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_MOST_TICKS = 40


def draw_categories(study: MergeReport) -> Figure:
    """Relevant documents and queries of each category in the training part, most queries first."""
    figure = new_figure(9.0, 3.4)
    figure.suptitle(f"Categories in the training part of {_source(study)}", fontsize=11.0)
    rows = sorted(study.histogram, key=lambda row: (-row["queries"], row["category"]))
    axes = figure.subplots(1, 2)
    chosen = "the first and the second" if study.clients == PAIR else "those of clients"
    bars = {
        "relevant documents": [row["relevant_documents"] for row in rows],
        "queries": [row["queries"] for row in rows],
    }
    for axis, (title, heights) in zip(axes, bars.items(), strict=True):
        places = range(len(rows))
        colours = [_colour(row["category"], study.categories) for row in rows]
        axis.bar(places, heights, color=colours)
        axis.set_title(title)
        axis.set_xlabel(f"category; in colour: {chosen}")
        step = -(-len(rows) // _MOST_TICKS)
        axis.set_xticks(list(places)[::step], [str(row["category"]) for row in rows[::step]])
        axis.grid(visible=False, axis="x")
        axis.set_axisbelow(True)
    return figure


def _colour(category: int, chosen: Sequence[int]) -> str:
    return COLOURS[chosen.index(category) % len(COLOURS)] if category in chosen else "#999999"


_LEAST_SHOWN = 0.005
"""Bars of a smaller share of the gain would be invisible."""


def draw_importances(study: MergeReport) -> Figure:
    """The share of the gain of the most important features of every stacked model."""
    stacked = dict.fromkeys(row["model"] for row in study.merged if row["method"] == "stacking")
    splits = list(dict.fromkeys(row["split"] for row in study.merged))
    models = [(split, model) for split in splits for model in stacked]
    columns = max(1, len(splits))
    lines = max(1, -(-len(models) // columns))
    figure = new_figure(3.0 * columns + 1.0, 2.6 * lines + 0.6)
    figure.suptitle(f"Features of stacked models on\n{_source(study)}", fontsize=11.0)
    last = study.dataset["features"]
    axes = figure.subplots(lines, columns, squeeze=False)
    for place, axis in enumerate(axes.T.ravel()):
        if place < len(models):
            _draw_model(axis, *models[place], study.importances, last)
        else:
            axis.set_axis_off()
    return figure


def _draw_model(axis: Axes, split: int, model: str, rows: Sequence[Row], last: int) -> None:
    mine = [row for row in rows if (row["split"], row["model"]) == (split, model)][::-1]
    mine = [row for row in mine if row["gain_share"] >= _LEAST_SHOWN]
    if not mine:
        axis.text(0.5, 0.5, "no tree could split", ha="center", va="center", transform=axis.transAxes)
    axis.barh(
        range(len(mine)),
        [row["gain_share"] for row in mine],
        color=[COLOURS[1] if row["feature"] > last else COLOURS[0] for row in mine],
    )
    labels = [
        f"score of M_{row['feature'] - last}" if row["feature"] > last else str(row["feature"])
        for row in mine
    ]
    axis.set_yticks(range(len(mine)), labels, fontsize=7.5)
    axis.set_title(f"split {split}: {model}")
    axis.set_xlabel("share of the gain")
    axis.grid(visible=False, axis="y")
    axis.set_axisbelow(True)


def _source(study: MergeReport) -> str:
    kind = "synthetic data" if study.dataset["synthetic"] else "data"
    return f"{kind} {study.dataset['source']}"


_PICTURES = {"categories": draw_categories, "importances": draw_importances}
"""By their names without the ending."""

_OURS = {RESULTS, *(f"{name}{ending}" for name in _PICTURES for ending in FORMATS)}


@contextmanager
def claimed(path: Path, ending: str, *, overwrite: bool) -> Iterator[None]:
    """Lock a folder for one study, made if missing; it is checked before the study runs."""
    if ending not in FORMATS:
        known = ", ".join(name[1:] for name in FORMATS)
        raise UsageError(f"--picture: {ending[1:]!r}; expected one of {known}")
    require("plot", "--out")
    with lock_folder(path):
        held = sorted(file.name for file in path.iterdir())
        if held and not overwrite:
            raise UsageError(f"--out: {path} is not empty; give --overwrite to replace the files in it")
        for name in held:
            if not _is_ours(name):
                raise UsageError(
                    f"--overwrite: {path} holds {name!r}, which is not a file of a merging study"
                )
        yield


def save(path: Path, ending: str, study: MergeReport, extra: Mapping[str, object] | None = None) -> None:
    """Write a study, with `extra` fields in its JSON, and replace the files of an earlier one.

    The same study gives the same bytes.
    """
    with report_write_errors(path):
        for file in path.iterdir():
            if _is_ours(file.name):
                file.unlink()
    for name, draw in _PICTURES.items():
        save_picture(path / f"{name}{ending}", partial(draw, study))
    with report_write_errors(path):
        atomic_files.write_text(path / RESULTS, study.json(extra) + "\n")


def _is_ours(name: str) -> bool:
    return name in _OURS or atomic_files.is_temporary(name)
