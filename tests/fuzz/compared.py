"""Readers of comparisons and bundles whose hashes were put right again."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from foltr_audit.evidence.bundle import pack
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.report.compare import CompareReport
from foltr_audit.report.notebook import csv_text
from foltr_audit.utils.formatting import json_text
from tests.fixtures.bundles import content, verify, write_bundle
from tests.fuzz.mutations import (
    Random,
    changed_array,
    changed_bytes,
    changed_lines,
    changed_npy,
    changed_toml,
    changed_value,
    changed_zip,
    json_bytes,
    npy,
)
from tests.fuzz.samples import Tree, lay, lines_of, sealed, tree, write_comparison
from tests.fuzz.watch import Feed


def _members(archive: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(archive)) as stored:
        return {name: stored.read(name) for name in stored.namelist()}


def _changed_member(rng: Random, name: str, data: bytes) -> bytes:
    del name
    array = np.load(io.BytesIO(data), allow_pickle=False)
    return npy(changed_array(rng, array)) if rng.random() < 0.7 else changed_npy(rng, array)


def _changed_cell(rng: Random, files: Tree, at: str) -> Tree:
    """A cell with another record or other arrays, and the right hash of these."""
    arrays, records = files[f"{at}/arrays.npz"], files[f"{at}/records.jsonl"]
    if rng.random() < 0.5:
        records = changed_lines(rng, records)
    else:
        arrays = changed_zip(rng, _members(arrays), _changed_member)
        records = sealed(lines_of(records), arrays) if rng.random() < 0.95 else records
    return {f"{at}/arrays.npz": arrays, f"{at}/records.jsonl": records}


def _changed_comparison(rng: Random, files: Tree) -> Tree:
    cells = sorted({name.rpartition("/")[0] for name in files if name.startswith("cells/")})
    way = rng.randrange(8)
    if way <= 5:
        return files | _changed_cell(rng, files, rng.choice(cells))
    name = rng.choice(sorted(files))
    if name.endswith(".json") and way == 6:
        return files | {name: json_bytes(rng, changed_value(rng, json.loads(files[name])))}
    if name.endswith(".toml"):
        return files | {name: changed_toml(rng, files[name].decode())}
    return files | {name: changed_bytes(rng, files[name])}


def _told(folder: ComparisonFolder) -> None:
    report = CompareReport.of(folder, partial=True)
    report.json()
    report.to_frame()
    csv_text(report.rows())


def comparisons(folder: Path) -> Feed:
    """Comparisons whose cells, list or grid were changed."""
    write_comparison(folder / "compared")
    files = tree(folder / "compared")
    _told(ComparisonFolder.open(folder / "compared"))

    def feed(rng: Random) -> None:
        lay(folder / "compared", _changed_comparison(rng, files))
        _told(ComparisonFolder.open(folder / "compared"))

    return feed


def bundles(folder: Path) -> Feed:
    """Bundles: other bytes, other names, other entries, or a forged comparison under right hashes."""
    write_comparison(folder / "compared")
    pack(folder / "compared", folder / "good.zip")
    good, files = (folder / "good.zip").read_bytes(), content(folder / "good.zip")
    path = folder / "bad.zip"
    assert verify(folder / "good.zip", sample=0, seed=1)["verdict"] == "verified"

    def feed(rng: Random) -> None:
        way = rng.randrange(4)
        if way == 0:
            path.write_bytes(changed_bytes(rng, good))
        elif way == 1:
            path.write_bytes(changed_zip(rng, files, lambda r, _, data: changed_bytes(r, data)))
        else:
            inside = {name: data for name, data in files.items() if name != "manifest.json"}
            _forge(rng, path, _changed_comparison(rng, inside), json.loads(files["manifest.json"]))
        json_text(verify(path, sample=0, seed=1))

    return feed


def _forge(rng: Random, path: Path, files: Tree, manifest: Any) -> None:
    manifest["files"] = {
        name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in files.items()
    }
    if rng.random() < 0.2:
        manifest = changed_value(rng, manifest)
    text = json.dumps(manifest, indent=1, sort_keys=True) + "\n"
    ordered = {name: files[name] for name in sorted(files)}
    write_bundle(path, {**ordered, "manifest.json": text.encode("utf-8", "surrogatepass")})
