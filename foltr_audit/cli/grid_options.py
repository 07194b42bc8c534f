"""Turns options into the grid of a comparison, and opens the folder that stores it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from foltr_audit.cli.common import CommonOptions, changed_learner, folds_of
from foltr_audit.cli.given import read_text
from foltr_audit.cli.options import Table
from foltr_audit.cli.output import note
from foltr_audit.errors import UsageError

if TYPE_CHECKING:
    from foltr_audit.experiments.comparison.folder import ComparisonFolder
    from foltr_audit.experiments.comparison.grid import ComparisonGrid


def grid_of(common: CommonOptions, changes: Mapping[str, Any]) -> ComparisonGrid:
    """The grid of --config, or with --resume that of --out, changed by the options.

    Args:
        common: the shared options.
        changes: what the command's own options set: fields of `ComparisonGrid` by name, and fields of the
            Spec that all cells share by dotted name.

    Raises:
        UsageError: a value is out of range.
    """
    from foltr_audit.experiments.comparison.grid import ComparisonGrid
    from foltr_audit.experiments.plan import apply_changes

    table = _start(common).table()
    of_spec = {name: value for name, value in changes.items() if "." in name}
    table["spec"] = apply_changes(table["spec"], common.point() | of_spec)
    table |= {name: value for name, value in changes.items() if name not in of_spec}
    table["learners"] = _learners(common, table["learners"])
    table |= _repetitions(common, table)
    return ComparisonGrid.parse(table)


def _start(common: CommonOptions) -> ComparisonGrid:
    from foltr_audit.experiments.comparison.folder import GRID, ComparisonFolder
    from foltr_audit.experiments.comparison.grid import ComparisonGrid

    if common.config is not None:
        return ComparisonGrid.from_toml(read_text(common.config, "--config"), str(common.config))
    if common.resume and common.out is not None and (common.out / GRID).is_file():
        return ComparisonFolder(common.out).grid
    return ComparisonGrid()


def parse_numbers(text: str, option: str) -> list[float]:
    """Parse numbers separated by commas.

    Raises:
        UsageError: the value of the option is something else.
    """
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise UsageError(f"{option}: {text!r}; expected numbers separated by commas") from error


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
def open_comparison(common: CommonOptions) -> Iterator[ComparisonFolder]:
    """Open the comparison folder of --out; without --out a temporary one, and stderr says so.

    Raises:
        UsageError: --resume or --overwrite without --out, or a folder that holds something else.
    """
    from foltr_audit.experiments.comparison.folder import comparison_folder

    if common.out is None and not (common.resume or common.overwrite):  # these are refused below
        note("nothing is stored: with --out DIR every cell is, and --resume can resume")
    with comparison_folder(common.out, resume=common.resume, overwrite=common.overwrite) as folder:
        yield folder
