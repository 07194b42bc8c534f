"""Readers of folders: models, traces, Runs, and what a cache keeps of data."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from foltr_audit.core.settings.data import DataSpec
from foltr_audit.data.load import SourceKey, map_entry, store
from foltr_audit.experiments.recorded_attack import TraceAttack
from foltr_audit.experiments.runs.folder import RunFolder, load_model
from foltr_audit.experiments.runs.systems import read_systems
from foltr_audit.experiments.store import read_runs
from foltr_audit.report.attack import recorded_report
from foltr_audit.report.significance import SignificanceReport
from foltr_audit.trace import Trace, validate
from tests.fixtures.stored_runs import rounds_of, write_run, write_system
from tests.fixtures.tiny import tiny_collection
from tests.fuzz.mutations import (
    Random,
    changed_array,
    changed_bytes,
    changed_lines,
    changed_npy,
    changed_text,
    changed_toml,
    changed_value,
    json_bytes,
)
from tests.fuzz.samples import Tree, lay, lines_of, sealed, tree, write_trace
from tests.fuzz.watch import Feed

METHODS = ("olsr", "lad", "map", "tukey", "box-ls", "raifle")


def models(folder: Path) -> Feed:
    """The model of a Run, as --init reads it."""
    path, model = folder / "model.npy", np.linspace(-1.0, 1.0, 8)

    def feed(rng: Random) -> None:
        path.write_bytes(changed_npy(rng, model))
        assert load_model(path, 8).shape == (8,)

    return feed


# --- traces ---------------------------------------------------------------------------------------


def _resealed(files: Tree) -> Tree:
    """The files with markers that name the right hashes, sizes and trace."""
    trace = hashlib.sha256(files.get("trace.toml", b"")).hexdigest()
    found = dict(files)
    for name, content in files.items():
        if not name.startswith("part-"):
            continue
        try:
            marker = json.loads(content)
            marker["trace"] = trace
            for inside, entry in marker["files"].items():
                data = files.get(inside, b"")
                digest = hashlib.sha256(data).hexdigest()
                rows = entry["rows"] if digest == entry["sha256"] else _rows(data, entry["rows"])
                entry |= {"sha256": digest, "size": len(data), "rows": rows}
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
            continue
        found[name] = (json.dumps(marker, indent=1) + "\n").encode("utf-8", "surrogatepass")
    return found


def _rows(data: bytes, otherwise: object) -> object:
    """How many rows a table holds, or else what its marker says."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as columns:
            return len(columns["round"])
    except Exception:  # of any kind: the file is damaged
        return otherwise


def _changed_table(rng: Random, data: bytes) -> bytes:
    """A table with other values, rows, columns, types or compression."""
    with np.load(io.BytesIO(data), allow_pickle=False) as stored:
        columns: dict[str, Any] = {each: np.atleast_1d(values) for each, values in stored.items()}
    way, name = rng.randrange(9), rng.choice(sorted(columns))
    rows = min(len(values) for values in columns.values())
    if way == 0:
        columns = {each: values[: rng.randrange(rows + 1)] for each, values in columns.items()}
    elif way == 1:
        columns = {each: np.concatenate([values] * rng.choice([2, 50])) for each, values in columns.items()}
    elif way == 2:
        del columns[name]
    elif way == 3:
        columns[name] = np.roll(columns[name], 1, axis=0)
    elif way == 4:
        order = np.random.default_rng(rng.randrange(99)).permutation(rows)
        columns = {each: values[order] for each, values in columns.items()}
    else:
        columns[name] = changed_array(rng, columns[name])
    buffer = io.BytesIO()
    (np.savez_compressed if rng.random() < 0.1 else np.savez)(buffer, **columns)
    return buffer.getvalue()


def _changed_trace(rng: Random, files: Tree) -> Tree:
    files = dict(files)
    name = "trace.toml" if rng.random() < 0.25 else rng.choice(sorted(files))
    way = rng.randrange(4)
    if way == 0:
        files[name] = changed_bytes(rng, files[name])
    elif name.endswith(".npz"):
        files[name] = _changed_table(rng, files[name]) if way > 1 else changed_bytes(rng, files[name])
    elif name.endswith(".json") and way > 1:
        files[name] = json_bytes(rng, changed_value(rng, json.loads(files[name])))
    else:
        changed = changed_toml if name == "trace.toml" else changed_text
        files[name] = changed(rng, files[name].decode())
    if rng.random() < 0.05:
        files[rng.choice(["part-99999.json", "part-" + "9" * 50 + ".json", "observed/x"])] = b"{}"
    return _resealed(files) if rng.random() < 0.85 else files


def traces(folder: Path) -> Feed:
    """Every table of a trace, hashes put right."""
    write_trace(folder / "trace")
    files = tree(folder / "trace")

    def read() -> None:
        validate(folder / "trace")
        trace = Trace.open(folder / "trace")
        list(trace.rounds())
        if trace.has_truth:
            list(trace.truths())
            trace.metrics()
        trace.last_model()

    def feed(rng: Random) -> None:
        lay(folder / "trace", _changed_trace(rng, files))
        read()

    read()
    return feed


def attacked(folder: Path) -> Feed:
    """Attacks on a trace whose numbers are extreme."""
    write_trace(folder / "trace")
    files = tree(folder / "trace")
    tables = [name for name in sorted(files) if name.endswith(".npz")]

    def read(method: str) -> None:
        recorded_report(TraceAttack.open(folder / "trace", changes={"methods": (method,)})).json()

    def feed(rng: Random) -> None:
        changed = dict(files)
        for _ in range(rng.choice([1, 1, 2])):
            name = rng.choice(tables)
            changed[name] = _changed_table(rng, changed[name])
        lay(folder / "trace", _resealed(changed))
        read(rng.choice(METHODS))

    for method in METHODS:
        read(method)  # kernels are compiled here, and not in an input's time
    return feed


# --- Runs -----------------------------------------------------------------------------------------


def _changed_file(rng: Random, name: str, content: bytes) -> bytes:
    if name.endswith(".toml") and rng.random() < 0.8:
        return changed_toml(rng, content.decode())
    if name.endswith(".jsonl") and rng.random() < 0.8:
        return changed_lines(rng, content)
    if name.endswith(".npz") and rng.random() < 0.8:
        return _changed_table(rng, content)
    return changed_bytes(rng, content)


def runs(folder: Path) -> Feed:
    """Runs, as `significance` and `train --resume` read them."""
    write_run(folder / "a", rounds_of(0.5, [0.4, 0.5]))
    write_system(folder / "c", [0.5, 0.6, 0.7])
    write_system(folder / "d", [0.4, 0.7, 0.5], defense=("clip:norm=3",))
    files = {name: tree(folder / name) for name in ("a", "c")}

    def metrics() -> None:
        _ = RunFolder(folder / "a").problems()
        for run in read_runs(folder / "a").values():
            _ = run.metrics, run.world

    def tests() -> None:
        read_runs(folder / "c")
        SignificanceReport.of(read_systems([folder / "d", folder / "c"]), ()).json()

    def feed(rng: Random) -> None:
        for name, original in files.items():
            changed = dict(original)
            inside = rng.choice(sorted(changed))
            changed[inside] = _changed_file(rng, inside, changed[inside])
            at = inside.rpartition("/")[0]
            if inside.endswith("arrays.npz") and rng.random() < 0.8:
                records = str(Path(at) / "records.jsonl")
                changed[records] = sealed(lines_of(changed[records]), changed[inside])
            lay(folder / name, changed)
        rng.choice([metrics, tests])()

    metrics()
    tests()
    return feed


# --- the cache of data ----------------------------------------------------------------------------


def cache_entries(folder: Path) -> Feed:
    place, data = folder / "entry", tiny_collection()
    origin = SourceKey(DataSpec(source="x"))
    store(place, data, "identity")
    files = tree(place)

    def feed(rng: Random) -> None:
        changed = dict(files)
        if rng.random() < 0.5:
            table = changed_value(rng, json.loads(files["facts.json"]))
            changed["facts.json"] = json_bytes(rng, table)
        else:
            name = rng.choice([name for name in sorted(files) if name.endswith(".npy")])
            changed[name] = changed_npy(rng, np.load(io.BytesIO(files[name]), allow_pickle=False))
        lay(place, changed)
        found = map_entry(place, origin, "identity")
        if found is not None:
            list(found.train.document_ids)

    return feed
