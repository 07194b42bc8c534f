"""`foltr-audit check` with a limit on what proofs leave to attacks: runs, comparisons, recorded Runs."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.cli.test_foreign_trace import one_round, written
from tests.fixtures.command import run

TINY = ("--data", "synthetic:mq2007:60", "--clients", "20", "--rounds", "2")
ONE = (*TINY, "--click-model", "perfect", "--method", "olsr")
LAPLACE = "clip:norm=1.5,ord=1+laplace:eps=1.2,sensitivity=3"
PURE = 1 / (1 + math.exp(-1.2))


def limits(folder: Path, most: float, more: str = "") -> Path:
    path = folder / "limits.toml"
    path.write_text(f"max_ceiling_auc = {most}\n{more}")
    return path


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The comparison that a check of a chain and of no defense leaves behind; no defense breaks the limit."""
    folder = tmp_path_factory.mktemp("promises")
    both = ("--defense", LAPLACE, "--defense", "none")
    done = run("check", limits(folder, PURE), *ONE, *both, "--out", folder / "kept")
    assert done.code == 1
    broken = [line for line in done.err.splitlines() if line.startswith("broken: ")]
    assert len(broken) == 1
    assert "none, perfect clicks: 1.000; at most .768" in broken[0]
    assert "nothing is proven: nothing randomises what a client sends" in broken[0]
    return folder / "kept"


@pytest.mark.parametrize(
    ("most", "more", "code"),
    [
        (PURE, "", 0),
        (0.6, "", 1),
        (PURE, 'view = "individual+lists"\n', 1),  # four lists a message, which follow earlier clicks
        (0.7, 'view = "aggregate"\n', 0),  # the noise of all clients
    ],
)
def test_a_comparison_by_what_is_proven_of_its_chain(
    kept: Path, tmp_path: Path, most: float, more: str, code: int
) -> None:
    asked = ("check", limits(tmp_path, most, more), "--comparison", kept, "--defense", LAPLACE)
    done = run(*asked, "--json")
    assert done.code == code, done.err
    (outcome,) = done.json()["outcomes"]
    assert outcome["limit"] == "max_ceiling_auc"
    assert outcome["value"] <= PURE or "learnt from earlier clicks" in outcome["about"]


def test_a_recorded_run_by_its_spec(tmp_path: Path) -> None:
    made = run("attack", *ONE, "--defense", LAPLACE, "--out", tmp_path / "run")
    assert made.code == 0
    assert run("check", limits(tmp_path, PURE), "--trace", tmp_path / "run").code == 0
    done = run("check", limits(tmp_path, 0.6), "--trace", tmp_path / "run")
    assert done.code == 1
    assert "broken: max_ceiling_auc" in done.err


def test_a_trace_without_a_spec_cannot_be_judged(tmp_path: Path) -> None:
    live = written(tmp_path / "live", *one_round())
    done = run("check", limits(tmp_path, 0.6), "--trace", live)
    assert done.code == 2
    assert "the trace holds no Spec" in done.err
