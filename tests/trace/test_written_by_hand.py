"""A trace that is written with NumPy, JSON and SHA-256 alone, by the tables of docs/files.md, is valid."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from foltr_audit.trace import validate

HEADER = """
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
            "shown": [[3, 0], [1, 4]],
            "features": features,
        },
    }
    (tmp_path / "observed").mkdir()
    (tmp_path / "trace.toml").write_text(HEADER)
    files = {}
    for name, columns in tables.items():
        rows = len(columns["slot"]) if "slot" in columns else 1
        path = tmp_path / "observed" / f"{name}-00000.npz"
        np.savez(path, round=np.zeros(rows, dtype=np.int64), **columns)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        files[f"observed/{path.name}"] = {"rows": rows, "size": path.stat().st_size, "sha256": digest}
    marker = {
        "schema": "foltr-audit/trace-part/1",
        "trace": hashlib.sha256(HEADER.encode()).hexdigest(),
        "index": 0,
        "first_round": 0,
        "last_round": 0,
        "files": files,
    }
    (tmp_path / "part-00000.json").write_text(json.dumps(marker))
    assert not validate(tmp_path)
