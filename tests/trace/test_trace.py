"""Traces: what is written comes back, and the same rounds give the same bytes."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from foltr_audit.recorder import atomic_files
from hypothesis import given, settings
from hypothesis import strategies as st

from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.trace import Fact, Trace, TraceDataset, TraceHeader, TraceWriter, info, validate
from foltr_audit.trace.header import read_header
from tests.fixtures.command import files
from tests.fixtures.there import there

DATASET = TraceDataset(
    source="synthetic:mq2007", fold=1, fingerprint="ab" * 32, normalised="zscore", parts=("train", "vali")
)
FACTS: dict[str, Fact] = {"learning_rate": 0.1, "eps_claimed": float("inf"), "defense": ["clip"], "es": False}
HEADER = TraceHeader(
    kind="model", dtype="float32", parameters=3, k=4, dataset=DATASET, has_truth=True, spec_hash="00",
    knowledge={**FACTS, "clients": 9}, rounds_per_part=2,
)  # fmt: skip


def make(
    header: TraceHeader, number: int, m: int, steps: int, d: int = 2
) -> tuple[RoundRecord, RoundTruth | None]:
    """A round of m messages with up to `steps` interactions each, drawn from its number alone."""
    rng = np.random.default_rng([number, m, steps])
    taken = rng.integers(0, steps + 1, size=m)
    rows, k, P = int(taken.sum()), header.k, header.parameters
    lengths = rng.integers(0, k + 1, size=rows)
    padding = np.arange(k) >= lengths[:, None]
    shown = np.argsort(rng.random((rows, k)), axis=1) + rng.integers(0, 500, size=(rows, 1))
    features = rng.normal(size=(rows, k, d)).astype(np.float32)
    features[padding] = 0
    shown[padding] = -1
    record = RoundRecord(
        round=number,
        parameters=rng.normal(size=P),
        aggregate=rng.normal(size=P),
        shares=m,
        survivors=rng.random(m) < 0.9,
        counts=taken + rng.integers(0, 2, size=m),
        messages=rng.normal(size=(m, P)).astype(header.dtype),
        slot=np.repeat(np.arange(m), taken),
        step=np.concatenate([np.arange(t) for t in taken]) if m else np.empty(0, dtype=np.int64),
        part=rng.integers(0, len(header.dataset.parts), size=rows),
        query=rng.integers(0, 1000, size=rows),
        shown=shown,
        features=features if header.embeds_features else None,
    )
    if not header.has_truth:
        return record, None
    return record, RoundTruth(
        clients=rng.integers(0, 2**40, size=m),
        updates=rng.normal(size=(m, P)).astype(header.dtype),
        clicks=(rng.random((rows, k)) < 0.4) & ~padding,
        clipped=rng.random(rows) < 0.3,
        metrics={"online_ndcg@10": float(rng.random()), "maxrr": float("nan")},
    )


def write(folder: Path, header: TraceHeader, sizes: list[tuple[int, int]], d: int = 2) -> None:
    """A trace with a round per (messages, most interactions a message)."""
    with TraceWriter(folder, header) as writer:
        for number, (m, steps) in enumerate(sizes):
            writer.write(*make(header, number, m, steps, d))


def same(a: RoundRecord | RoundTruth, b: RoundRecord | RoundTruth) -> None:
    """Every field is equal, with its type and bytes."""
    for item in fields(a):
        mine, other = getattr(a, item.name), getattr(b, item.name)
        if isinstance(mine, np.ndarray):
            assert mine.dtype == other.dtype
            assert mine.shape == other.shape
            assert mine.tobytes() == other.tobytes()
            assert not other.flags.writeable
        else:
            assert repr(mine) == repr(other)  # NaN equals NaN here


def header_with(changes: dict[str, Any]) -> TraceHeader:
    return replace(HEADER, **changes)


headers = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["float32", "float64"]),
        "parameters": st.integers(1, 5),
        "k": st.integers(1, 6),
        "has_truth": st.booleans(),
        "embeds_features": st.booleans(),
        "rounds_per_part": st.integers(1, 3),
        "kind": st.sampled_from(["model", "update"]),
    }
).map(header_with)


@settings(max_examples=25)
@given(headers, st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), max_size=5), st.integers(1, 3))
def test_round_trip(header: TraceHeader, sizes: list[tuple[int, int]], d: int) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name) / "trace"
        write(folder, header, sizes, d)
        assert validate(folder) == []
        trace = Trace.open(folder)
        made = [make(header, i, m, steps, d) for i, (m, steps) in enumerate(sizes)]
        assert trace.header == header
        assert trace.n_rounds == len(sizes)
        assert trace.n_messages == sum(m for m, _ in sizes)
        assert trace.has_truth == header.has_truth == (folder / "truth").exists()
        for found, (record, _) in zip(trace.rounds(), made, strict=True):
            same(record, found)
        if header.has_truth:
            for truth, (_, expected) in zip(trace.truths(), made, strict=True):
                same(there(expected), truth)
        if sizes:
            np.testing.assert_array_equal(trace.last_model().parameters, made[-1][0].aggregate)


def test_metrics_keep_names_numbers_and_nan(tmp_path: Path) -> None:
    write(tmp_path, HEADER, [(2, 1)] * 3)
    expected = [{"round": i, **there(make(HEADER, i, 2, 1)[1]).metrics} for i in range(3)]
    assert repr(Trace.open(tmp_path).metrics()) == repr(expected)  # NaN equals NaN here


def test_updates_are_rounded_to_the_payload_format(tmp_path: Path) -> None:
    record, truth = make(HEADER, 0, 2, 1)
    fine = replace(there(truth), updates=np.array([[1 / 3, 1e-50, 1e39], [0.1, 0.2, 0.3]]))
    with TraceWriter(tmp_path, HEADER) as writer:
        writer.write(record, fine)
    [found] = Trace.open(tmp_path).truths()
    expected = [[float(np.float32(1 / 3)), 0.0, np.inf], [float(np.float32(x)) for x in (0.1, 0.2, 0.3)]]
    assert found.updates.tolist() == expected
    assert "true updates hold a value that is not finite" in validate(tmp_path)[0]


def test_a_written_round_is_a_copy(tmp_path: Path) -> None:
    record, truth = make(HEADER, 0, 3, 2)
    names = [f.name for f in fields(record) if isinstance(getattr(record, f.name), np.ndarray)]
    mutable = {name: np.array(getattr(record, name)) for name in names}
    with TraceWriter(tmp_path, HEADER) as writer:
        writer.write(replace(record, **mutable), truth)  # type: ignore[arg-type]
        for array in mutable.values():
            array[...] = 0
    [found] = Trace.open(tmp_path).rounds()
    same(record, found)


def test_a_file_is_there_as_a_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, order = tmp_path / "file", []
    atomic_files.write_text(path, "old\n")
    real_sync, real_replace = os.fsync, Path.replace

    def sync(handle: int) -> None:
        order.append("sync")
        assert path.read_bytes() == (b"new\n" if "rename" in order else b"old\n")
        real_sync(handle)

    def rename(source: Path, target: Path) -> Path:
        order.append("rename")
        assert atomic_files.is_temporary(source.name)
        assert source.read_bytes() == b"new\n"
        return real_replace(source, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(Path, "replace", rename)
    atomic_files.write_text(path, "new\n")
    assert order == ["sync", "rename", "sync"]  # the content, its name, the folder that holds the name

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        atomic_files.write_bytes(path, b"lost")
    assert files(tmp_path) == {"file": b"new\n"}


def test_info_counts_what_was_written(tmp_path: Path) -> None:
    write(tmp_path, HEADER, [(3, 2), (0, 0), (5, 1)])
    rounds = [make(HEADER, i, m, s)[0] for i, (m, s) in enumerate([(3, 2), (0, 0), (5, 1)])]
    facts = info(tmp_path)
    size = sum(map(len, files(tmp_path).values()))
    expected: dict[str, object] = {
        "rounds": 3,
        "messages": 8,
        "interactions": sum(r.n_interactions for r in rounds),
        "parts": 2,
        "bytes": size,
        "bytes_per_message": size / 8,
        "has_truth": True,
        "knowledge": {**HEADER.knowledge, "eps_claimed": "inf"},
        "dataset": {**vars(DATASET), "parts": ["train", "vali"]},
    }
    assert {name: facts[name] for name in expected} == expected


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
numbers = st.integers(-(2**62), 2**62) | st.floats(allow_nan=False) | st.booleans()
facts_ = st.one_of(text, numbers, st.lists(text))
names = text.map("own {}".format)  # those of the format itself allow few values


@settings(max_examples=60)
@given(st.dictionaries(names, facts_, max_size=4), text)
def test_header_round_trip(knowledge: dict[str, str | int | float | bool | list[str]], source: str) -> None:
    header = replace(HEADER, knowledge=knowledge, dataset=replace(DATASET, source=source))
    with TemporaryDirectory() as name:
        (Path(name) / "trace.toml").write_bytes(header.to_toml().encode())
        found, trace_id = read_header(Path(name))
    assert found == header
    assert trace_id == header.trace_id
    assert header.first_difference(found) is None


# --- a trace that is written by hand, by the tables of docs/files.md ------------------------------


BY_HAND = """
schema = "foltr-audit/trace/1"
kind = "update"
dtype = "float32"
parameters = 3
k = 2
ranker = "linear"
has_truth = false
embeds_features = true
rounds_per_part = 10
spec_hash = ""

[dataset]
source = "my system"
fold = 0
fingerprint = ""
normalised = "none"
parts = ["live"]

[knowledge]
interactions = 1
"""


def test_a_trace_written_by_hand_is_valid(tmp_path: Path) -> None:
    """Two lists of two documents, one message each."""
    features = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    tables: dict[str, dict[str, Any]] = {
        "rounds": {"parameters": np.zeros((1, 3)), "aggregate": np.full((1, 3), np.nan), "shares": [0]},
        "messages": {"slot": [0, 1], "count": [1, 1], "survived": [True, True], "array-0": features[:, 0]},
        "interactions": {
            "slot": [0, 1],
            "step": [0, 0],
            "part": [0, 0],
            "query": [7, 8],
            "shown": [[4, 1], [2, 5]],  # places from 1; 0 is padding
            "features": features,
        },
    }
    (tmp_path / "observed").mkdir()
    (tmp_path / "trace.toml").write_text(BY_HAND)
    files = {}
    for name, columns in tables.items():
        rows = len(columns["slot"]) if "slot" in columns else 1
        path = tmp_path / "observed" / f"{name}-00000.npz"
        np.savez(path, round=np.zeros(rows, dtype=np.int64), **columns)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        files[f"observed/{path.name}"] = {"rows": rows, "size": path.stat().st_size, "sha256": digest}
    marker = {
        "schema": "foltr-audit/trace-part/1",
        "trace": hashlib.sha256(BY_HAND.encode()).hexdigest(),
        "index": 0,
        "first_round": 0,
        "last_round": 0,
        "files": files,
    }
    (tmp_path / "part-00000.json").write_text(json.dumps(marker))
    assert not validate(tmp_path)
