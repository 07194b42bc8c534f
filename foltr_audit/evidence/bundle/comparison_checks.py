"""Checks whether the grid, cells and results in a comparison's bundle are consistent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from math import prod
from pathlib import Path

from foltr_audit.core.settings.experiment import Spec
from foltr_audit.errors import FoltrAuditError, TraceError, UsageError
from foltr_audit.evidence.bundle.contents import failed_key, failures, missing_cells
from foltr_audit.evidence.bundle.differences import (
    EXACT,
    OTHER_BYTES,
    NumericTolerance,
    first_lines,
    table_differences,
)
from foltr_audit.evidence.bundle.integrity import FOREIGN, BundleCheck, CheckUnavailableError, error_line
from foltr_audit.evidence.bundle.manifest import BundleManifest
from foltr_audit.experiments.comparison.compare import read_trials
from foltr_audit.experiments.comparison.expansion import CellPlan, GridExclusion, GridExpansion
from foltr_audit.experiments.comparison.facts import read_facts
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.comparison.grid import ComparisonGrid
from foltr_audit.experiments.comparison.runner import CellFailure
from foltr_audit.experiments.runner import Runner
from foltr_audit.experiments.runs.folder import RESULTS
from foltr_audit.report.results.compare import CompareReport
from foltr_audit.utils.formatting import json_text
from foltr_audit.utils.progress import SILENT, Progress
from foltr_audit.utils.reading import file_text, json_table

MOST_POINTS = 1_000_000
"""A grid of more points is not expanded: a foreign grid could take all memory."""

_NUMBER = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?![\w.])")


def finished_specs(root: Path, manifest: BundleManifest) -> list[Spec]:
    """The Specs of the finished cells in a bundle, in order of their names."""
    folder = ComparisonFolder(root)
    specs = (Spec.from_toml(file_text(root / name, UsageError), name) for name in sorted(manifest.specs))
    return [spec for spec in specs if folder.done(spec)]


def check_cells(root: Path, manifest: BundleManifest) -> BundleCheck:
    """Check that each cell matches its Spec and is complete, and that no listed cell is missing."""
    folder = ComparisonFolder(root)
    cells, known = folder.cells(), {name for name, _ in failures(root)}
    missing = [cell for cell in missing_cells(folder) if failed_key(cell.spec) not in known]
    problems = [] if manifest.partial else [f"{folder.cell(cell.spec).name}: missing" for cell in missing]
    problems += [
        f"{cell.spec.hash[:12]}: the Spec of a cell to {cell.kind} has no such protocol"
        for cell in _find_mismatches(cells)
    ]
    specs = finished_specs(root, manifest)
    for spec in specs:
        try:
            _check_cell(folder, spec, lists=manifest.lists)
        except FOREIGN as error:
            problems.append(f"{spec.hash[:12]}: {error_line(error)}".replace(f"{root}/", ""))
    lost = f", {len(missing)} missing" if missing else ""
    failed = f", {len(known)} failed to run" if known else ""
    return BundleCheck.of(
        "cells", problems, f"{len(specs)} complete cells that match their Specs{lost}{failed}"
    )


def _find_mismatches(cells: list[CellPlan]) -> Iterator[CellPlan]:
    for cell in cells:
        kinds = {"attack": cell.spec.attack, "audit": cell.spec.audit}
        if cell.kind not in kinds or kinds[cell.kind] is None:
            yield cell


def _check_cell(folder: ComparisonFolder, spec: Spec, *, lists: bool) -> None:
    if lists:
        folder.read(spec)
    else:
        read_facts(folder.cell(spec), spec)


def check_results(root: Path, tolerance: NumericTolerance, progress: Progress = SILENT) -> BundleCheck:
    """Check that the results are what the report computes from the cells."""
    if not (root / RESULTS).is_file():
        raise CheckUnavailableError(
            f"there is no {RESULTS}: the comparison was packed before it was finished"
        )
    folder = ComparisonFolder(root)
    report = CompareReport.of(folder, list(_find_failures(folder)), progress)
    return compare_results(root, report.json(), "recomputed from the cells", tolerance)


def _find_failures(folder: ComparisonFolder) -> Iterator[CellFailure]:
    """The missing cells, in the order in which the results name them."""
    missing = [cell.spec for cell in missing_cells(folder)]
    for name, why in failures(folder.path):
        spec = next((spec for spec in missing if failed_key(spec) == name), None)
        if spec is not None:
            missing.remove(spec)
            yield CellFailure(spec, why, FoltrAuditError.exit_code)
    yield from (CellFailure(spec, "", FoltrAuditError.exit_code) for spec in missing)


def compare_results(
    root: Path, text: str, how: str, tolerance: NumericTolerance, extra: tuple[str, ...] = ()
) -> BundleCheck:
    """Check that the results are those of a report in JSON; fields in `extra` do not come from the report."""
    stored_text = file_text(root / RESULTS, TraceError)
    if stored_text == text + "\n":  # the usual case; the comparison of values below is slow for large results
        return BundleCheck("results", "holds", (f"{RESULTS} is {how}, byte for byte",))
    stored, found = json_table(stored_text, RESULTS, TraceError), json.loads(text)
    others = [name for name in extra if name in stored and name not in found]
    found |= {name: stored[name] for name in others}
    problems = first_lines(table_differences(stored, found, tolerance))
    if not problems and tolerance == EXACT and stored_text != json_text(found) + "\n":
        problems = [OTHER_BYTES]
    within = f"within {tolerance}" if any(tolerance) else "value by value"
    note = f"; not recomputed: {', '.join(others)}" if others else ""
    return BundleCheck.of(
        "results", (f"{RESULTS}: {line}" for line in problems), f"{RESULTS} is {how}, {within}{note}"
    )


def check_grid(root: Path, runner: Runner, tolerance: NumericTolerance) -> BundleCheck:
    """Check that the grid expands to exactly the listed cells, so that none was selected or renamed.

    Raises:
        CheckUnavailableError: the data are not on this machine.
    """
    folder = ComparisonFolder(root)
    grid, listed = folder.grid, folder.cells()
    axes = (grid.learners, grid.scenarios, grid.click_models, grid.defenses, grid.eps)
    if grid.runs * prod(len(axis) for axis in axes) > MOST_POINTS:
        return BundleCheck("grid", "fails", (f"more than {MOST_POINTS} points",))
    expansion = GridExpansion(grid, runner, _chosen(grid, listed))
    try:
        made = {_place(cell): cell.spec for cell in expansion.cells()}
    except UsageError as error:
        return BundleCheck("grid", "fails", (error_line(error),))
    there = {_place(cell): cell.spec for cell in listed}
    problems = [
        f"{made[place].hash[:12]}: the grid has this cell, and the list does not"
        for place in made.keys() - there
    ]
    problems += [
        f"{there[place].hash[:12]}: the list has this cell, and the grid does not"
        for place in there.keys() - made
    ]
    problems += [
        f"{there[place].hash[:12]}: {'+'.join(there[place].defense)}; expected "
        f"{'+'.join(made[place].defense)}"
        for place in there.keys() & made
        if not _same_chain(there[place].defense, made[place].defense, tolerance)
    ]
    problems += _choice_problems(folder, list(expansion.selection(grid.sensitivity_grid)), tolerance)
    if _combinations(expansion.left_out) != _combinations(folder.left_out()):
        problems.append("the combinations left out are not those that the grid leaves out")
    return BundleCheck.of(
        "grid", first_lines(iter(sorted(problems))), f"it expands to exactly the {len(listed)} listed cells"
    )


def _choice_problems(
    folder: ComparisonFolder, trainings: list[CellPlan], tolerance: NumericTolerance
) -> list[str]:
    """The differences between the stored sensitivities and those that the trainings choose."""
    if not all(folder.done(cell.spec) for cell in trainings):
        return ["trainings that choose a sensitivity are missing"]
    stored = [row.plain() for row in folder.sensitivities()]
    found = [row.plain() for row in read_trials(folder, trainings)]
    differ = table_differences(stored, found, tolerance, "sensitivities")
    return [f"not the choice of the trainings: {line}" for line in differ]


def _place(cell: CellPlan) -> str:
    """The identity of a cell without its defense, whose numbers are computed and may differ a little."""
    table = {name: value for name, value in cell.spec.table().items() if name != "defense"}
    return json_text([cell.kind, list(cell.label), table])


def _same_chain(a: tuple[str, ...], b: tuple[str, ...], tolerance: NumericTolerance) -> bool:
    """Whether two chains are the same except for numbers that agree."""
    pieces, others = (_NUMBER.split(" ".join(chain)) for chain in (a, b))
    return len(pieces) == len(others) and all(
        piece == other or (i % 2 == 1 and tolerance.agree(float(piece), float(other)))
        for i, (piece, other) in enumerate(zip(pieces, others, strict=True))
    )


def _combinations(left_out: Iterable[GridExclusion]) -> set[tuple[str, str]]:
    return {(one.learner, one.defense) for one in left_out}


def _chosen(grid: ComparisonGrid, listed: list[CellPlan]) -> dict[tuple[str, str, str, float], float]:
    """The sensitivities of the cells; the grid uses them only where it leaves the sensitivity open."""
    if not grid.sensitivity_grid:
        return {}
    found = {}
    for cell in listed:
        spec, label = cell.spec, cell.label
        if cell.kind == "attack" and label.eps is not None and label.sensitivity in grid.sensitivity_grid:
            point = (spec.train.learner, spec.population.scenario, spec.train.click_model, label.eps)
            found[point] = float(label.sensitivity)
    return found
