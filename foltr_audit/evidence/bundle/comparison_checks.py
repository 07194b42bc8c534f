"""Whether what a comparison's bundle holds fits together: grid, cells and results."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from math import prod
from pathlib import Path

from foltr_audit.core.spec.experiment import Spec
from foltr_audit.errors import FoltrAuditError, TraceError, UsageError
from foltr_audit.evidence.bundle.contents import failed_key, failures, missing_cells
from foltr_audit.evidence.bundle.differences import (
    EXACT,
    OTHER_BYTES,
    NumericTolerance,
    named,
    table_differences,
)
from foltr_audit.evidence.bundle.integrity import FOREIGN, BundleCheck, CheckUnavailableError, said
from foltr_audit.evidence.bundle.manifest import BundleManifest
from foltr_audit.experiments.comparison.compare import tried_in
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
"""A grid of more points is not spelt out."""

_NUMBER = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?![\w.])")


def finished_specs(root: Path, manifest: BundleManifest) -> list[Spec]:
    """The Specs of the cells that are in a bundle, in order of their names."""
    folder = ComparisonFolder(root)
    specs = (Spec.from_toml(file_text(root / name, UsageError), name) for name in sorted(manifest.specs))
    return [spec for spec in specs if folder.done(spec)]


def check_cells(root: Path, manifest: BundleManifest) -> BundleCheck:
    """Whether each cell is of its Spec and whole, and none is missing that the list of cells names."""
    folder = ComparisonFolder(root)
    cells, known = folder.cells(), {name for name, _ in failures(root)}
    missing = [cell for cell in missing_cells(folder) if failed_key(cell.spec) not in known]
    problems = [] if manifest.partial else [f"{folder.cell(cell.spec).name}: missing" for cell in missing]
    problems += [
        f"{cell.spec.hash[:12]}: a cell to {cell.kind} has another Spec" for cell in _mistaken(cells)
    ]
    specs = finished_specs(root, manifest)
    for spec in specs:
        try:
            _check_cell(folder, spec, lists=manifest.lists)
        except FOREIGN as error:
            problems.append(f"{spec.hash[:12]}: {said(error)}".replace(f"{root}/", ""))
    lost = f", {len(missing)} missing" if missing else ""
    failed = f", {len(known)} that could not be run" if known else ""
    return BundleCheck.of("cells", problems, f"{len(specs)}, whole and of their Specs{lost}{failed}")


def _mistaken(cells: list[CellPlan]) -> Iterator[CellPlan]:
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
    """Whether the results are what the report makes of the cells."""
    if not (root / RESULTS).is_file():
        raise CheckUnavailableError(f"there is no {RESULTS}: the comparison was packed before its end")
    folder = ComparisonFolder(root)
    report = CompareReport.of(folder, list(_failed(folder)), progress)
    return compare_results(root, report.json(), "recomputed from the cells", tolerance)


def _failed(folder: ComparisonFolder) -> Iterator[CellFailure]:
    """The cells that are not there, in the order of the results that name them."""
    missing = [cell.spec for cell in missing_cells(folder)]
    for name, why in failures(folder.path):
        spec = next((spec for spec in missing if failed_key(spec) == name), None)
        if spec is not None:
            missing.remove(spec)
            yield CellFailure(spec, why, FoltrAuditError.exit_code)
    yield from (CellFailure(spec, "", FoltrAuditError.exit_code) for spec in missing)


def compare_results(
    root: Path, text: str, how: str, tolerance: NumericTolerance, beside: tuple[str, ...] = ()
) -> BundleCheck:
    """Whether the results are those of a report in JSON; fields `beside` it are not of the report."""
    stored_text = file_text(root / RESULTS, TraceError)
    if stored_text == text + "\n":
        return BundleCheck("results", "holds", (f"{RESULTS} is {how}, byte for byte",))
    stored, found = json_table(stored_text, RESULTS, TraceError), json.loads(text)
    others = [name for name in beside if name in stored and name not in found]
    found |= {name: stored[name] for name in others}
    problems = named(table_differences(stored, found, tolerance))
    if not problems and tolerance == EXACT and stored_text != json_text(found) + "\n":
        problems = [OTHER_BYTES]
    within = f"within {tolerance}" if any(tolerance) else "value by value"
    note = f"; not recomputed: {', '.join(others)}" if others else ""
    return BundleCheck.of(
        "results", (f"{RESULTS}: {line}" for line in problems), f"{RESULTS} is {how}, {within}{note}"
    )


def check_grid(root: Path, study: Runner, tolerance: NumericTolerance) -> BundleCheck:
    """Whether the grid makes exactly the listed cells under their names, so that none was picked or renamed.

    Raises:
        NotPossibleError: the data are not here.
    """
    folder = ComparisonFolder(root)
    grid, listed = folder.grid, folder.cells()
    axes = (grid.learners, grid.scenarios, grid.click_models, grid.defenses, grid.eps)
    if grid.runs * prod(len(axis) for axis in axes) > MOST_POINTS:
        return BundleCheck("grid", "fails", (f"more than {MOST_POINTS} points",))
    expansion = GridExpansion(grid, study, _chosen(grid, listed))
    try:
        made = {_place(cell): cell.spec for cell in expansion.cells()}
    except UsageError as error:
        return BundleCheck("grid", "fails", (said(error),))
    there = {_place(cell): cell.spec for cell in listed}
    problems = [
        f"{made[place].hash[:12]}: not listed, and the grid makes it" for place in made.keys() - there
    ]
    problems += [
        f"{there[place].hash[:12]}: listed, and not made by the grid" for place in there.keys() - made
    ]
    problems += [
        f"{there[place].hash[:12]}: {'+'.join(there[place].defense)}, where the grid makes "
        f"{'+'.join(made[place].defense)}"
        for place in there.keys() & made
        if not _same_chain(there[place].defense, made[place].defense, tolerance)
    ]
    problems += _choice_problems(folder, list(expansion.selection(grid.sensitivity_grid)), tolerance)
    if _combinations(expansion.left_out) != _combinations(folder.left_out()):
        problems.append("other combinations were left out than the grid leaves out")
    return BundleCheck.of(
        "grid", named(iter(sorted(problems))), f"it makes exactly the {len(listed)} listed cells"
    )


def _choice_problems(
    folder: ComparisonFolder, trainings: list[CellPlan], tolerance: NumericTolerance
) -> list[str]:
    """Whether the sensitivities follow from the trainings that choose them, as far as these are there."""
    if not all(folder.done(cell.spec) for cell in trainings):
        return ["trainings that choose a sensitivity are missing"]
    found = [row._asdict() for row in tried_in(folder, trainings)]
    differ = table_differences({"sensitivities": folder.sensitivities()}, {"sensitivities": found}, tolerance)
    return [f"chosen otherwise than the trainings say: {line}" for line in differ]


def _place(cell: CellPlan) -> str:
    """A cell without the numbers of its defense, which were computed."""
    table = {name: value for name, value in cell.spec.table().items() if name != "defense"}
    return json_text([cell.kind, list(cell.label), table])


def _same_chain(a: tuple[str, ...], b: tuple[str, ...], tolerance: NumericTolerance) -> bool:
    """Whether two chains are the same but for numbers that agree."""
    pieces, others = (_NUMBER.split(" ".join(chain)) for chain in (a, b))
    return len(pieces) == len(others) and all(
        piece == other or (i % 2 == 1 and tolerance.agree(float(piece), float(other)))
        for i, (piece, other) in enumerate(zip(pieces, others, strict=True))
    )


def _combinations(left_out: Iterable[GridExclusion]) -> set[tuple[str, str]]:
    return {(one.learner, one.defense) for one in left_out}


def _chosen(grid: ComparisonGrid, listed: list[CellPlan]) -> dict[tuple[str, str, str, float], float]:
    """The sensitivities that the cells were made with; they count only where the grid leaves them open."""
    if not grid.sensitivity_grid:
        return {}
    found = {}
    for cell in listed:
        spec, label = cell.spec, cell.label
        if cell.kind == "attack" and label.eps is not None and label.sensitivity in grid.sensitivity_grid:
            point = (spec.train.learner, spec.population.scenario, spec.train.click_model, label.eps)
            found[point] = float(label.sensitivity)
    return found
