"""What options mean for a comparison: its grid, and the folder that it is kept in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foltr_audit.cli.common import CommonOptions, changed_learner, folds_of
from foltr_audit.cli.given import read_text
from foltr_audit.cli.output import note
from foltr_audit.errors import UsageError

if TYPE_CHECKING:
    from foltr_audit.experiments.comparison.folder import ComparisonFolder
    from foltr_audit.experiments.comparison.grid import ComparisonGrid

Table = dict[str, Any]


def grid_of(common: CommonOptions, axes: Mapping[str, Any], point: Mapping[str, Any]) -> ComparisonGrid:
    """The grid of --config, or with --resume that of --out, with what the options change.

    Args:
        common: the shared options.
        axes: fields of `ComparisonGrid` by name; None where an option was not given.
        point: fields of the Specs that all cells share, by dotted name; likewise.

    Raises:
        UsageError: a value that cannot be meant.
    """
    from foltr_audit.experiments.comparison.grid import ComparisonGrid
    from foltr_audit.experiments.plan import changed

    table = _start(common).table()
    given = {name: value for name, value in {**common.point(), **point}.items() if value is not None}
    table["spec"] = changed(table["spec"], given)
    table |= {name: value for name, value in axes.items() if value is not None}
    table["learners"] = _learners(common, table["learners"])
    table |= _repetitions(common, table)
    return ComparisonGrid.parse(table)


def _start(common: CommonOptions) -> ComparisonGrid:
    from foltr_audit.experiments.comparison.folder import GRID, ComparisonFolder
    from foltr_audit.experiments.comparison.grid import ComparisonGrid

    if common.config is not None:
        return _read(common.config)
    if common.resume and common.out is not None and (common.out / GRID).is_file():
        return ComparisonFolder(common.out).grid
    return ComparisonGrid()


def numbers(text: str | None, option: str) -> list[float] | None:
    """Numbers with commas between them.

    Raises:
        UsageError: something else.
    """
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise UsageError(f"{option}: {text!r}; expected numbers with commas between them") from error


def _read(path: Path) -> ComparisonGrid:
    from foltr_audit.experiments.comparison.grid import ComparisonGrid

    return ComparisonGrid.from_toml(read_text(path, "--config"), str(path))


def _learners(common: CommonOptions, present: Sequence[str]) -> list[str]:
    texts = [point["train.learner"] for point in common.learner_axis("attack") if point] or present
    changes = common.learner_changes()
    return [changed_learner(text, changes) for text in texts]


def _repetitions(common: CommonOptions, table: Mapping[str, Any]) -> Table:
    if common.runs is not None and common.runs < 1:
        raise UsageError(f"--runs: {common.runs}; expected at least 1")
    found: Table = {} if common.runs is None else {"runs": common.runs}
    folds = folds_of(common.fold, table["spec"].get("data", {}).get("source"))
    if folds:
        found["folds"] = list(folds)
        found["runs"] = common.runs or max(table["runs"], len(folds))
    return found


@contextmanager
def kept_comparison(common: CommonOptions) -> Iterator[ComparisonFolder]:
    """The comparison folder of --out; without it one that is gone afterwards, which is said.

    Raises:
        UsageError: --resume or --overwrite that cannot be meant, or a folder that holds something else.
    """
    from foltr_audit.experiments.comparison.folder import comparison_folder

    if common.out is None and not (common.resume or common.overwrite):  # these are refused below
        note("nothing is kept: --out DIR keeps every cell, and --resume goes on")
    with comparison_folder(common.out, resume=common.resume, overwrite=common.overwrite) as folder:
        yield folder
