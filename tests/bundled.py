"""A tiny comparison, its bundle, and bundles that were made from it with something changed."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from foltr_audit.evidence.bundle.archive import entry
from foltr_audit.evidence.bundle.manifest import NAME, Manifest
from foltr_audit.experiments.comparison.expansion import Expansion
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.comparison.grid import Grid
from foltr_audit.experiments.comparison.runner import run_cells
from foltr_audit.experiments.comparison.workers import Workers
from foltr_audit.experiments.runner import Study
from foltr_audit.report.results.compare import CompareReport

Files = dict[str, bytes]

GRID = {
    "runs": 1,
    "eps": [1.2],
    "defenses": ["none", "published"],
    "attacks": ["olsr"],
    "click_models": ["perfect"],
    "audit": False,
    "spec": {
        "data": {"source": "synthetic:mq2007:60"},
        "population": {"clients": 5},
        "train": {"rounds": 2},
        "attack": {"on": ["test"]},
    },
}


def write_comparison(path: Path, table: Mapping[str, Any] = GRID) -> ComparisonFolder:
    """A finished comparison."""
    grid, study = Grid.parse(dict(table)), Study(with_undefended=False)
    folder = ComparisonFolder.create(path, resume=False, overwrite=False)
    expansion = Expansion(grid, study, {})
    cells = expansion.cells()
    folder.save_index(grid, cells, list(expansion.left_out))
    assert not run_cells([cell.spec for cell in cells], folder, Workers(jobs=1))
    folder.save_results(CompareReport.of(folder).json())
    return folder


def content(path: Path) -> Files:
    """The files of a bundle, in order."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_bundle(path: Path, files: Files) -> Path:
    """A zip file of the form that bundles have, whatever is in it."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(entry(name), data)
    return path


def forged(path: Path, files: Files, **changes: Any) -> Path:
    """A bundle whose manifest agrees with its files, as somebody would forge it."""
    there = {name: data for name, data in files.items() if name != NAME}
    table = json.loads(files[NAME])
    table["files"] = {
        name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in there.items()
    }
    manifest = Manifest.model_validate({**table, **changes})
    ordered = {name: there[name] for name in sorted(there)}
    return write_bundle(path, {**ordered, NAME: manifest.text.encode()})


def changed_json(data: bytes, change: Callable[[Any], None]) -> bytes:
    """A JSON file with a change."""
    table = json.loads(data)
    change(table)
    return (json.dumps(table, indent=1, sort_keys=True) + "\n").encode()
