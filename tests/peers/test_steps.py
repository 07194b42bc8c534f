"""The published clients' own code as a client step: it explains their messages, and `map` reads all by it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.peers.test_recipes import DATA, ROOT, Recipe, checkout, environment, record

pytestmark = pytest.mark.slow

PLAY = ("--rounds", "1", "--clients", "30", "--interactions", "1")


@pytest.mark.parametrize(
    ("variable", "recipe", "step"),
    [
        ("FPDGD", "fpdgd_ictir2021.py", "fpdgd_ictir2021_step.py:clipped_step"),
        ("PHAM", "foltr_pdgd.py", "foltr_pdgd_step.py:clipped_step"),
        ("RAIFLE", "raifle.py", "raifle_step.py:step"),
    ],
)
def test_published_code_reads_its_own_messages(tmp_path: Path, variable: str, recipe: str, step: str) -> None:
    place, _ = checkout(variable)
    if variable == "RAIFLE":
        pytest.importorskip("torch", reason="PyTorch is not installed")
    noise = () if variable == "RAIFLE" else ("--noise-clients", "1000")
    trace = record(Recipe(variable, recipe, (*PLAY, *noise), (), {}), tmp_path)
    named = environment(
        PYTHONPATH=str(ROOT),
        FOLTR_AUDIT_PEER_LETOR=str(DATA / "train.txt"),
        **{f"FOLTR_AUDIT_PEER_{variable}": str(place)},
    )
    command = [
        sys.executable,
        "-m",
        "foltr_audit",
        "attack",
        "--trace",
        str(trace),
        "--method",
        "map",
        "--json",
    ]
    step_file = str(ROOT / "examples" / "peers" / step)
    done = subprocess.run(
        [*command, "--client-step", step_file], env=named, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout[done.stdout.index("{") :])
    (found,) = [row for row in report["results"] if row["method"] == "map"]
    assert found["exact"] >= 0.95
