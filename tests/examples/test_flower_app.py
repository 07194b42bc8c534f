"""The example app in an environment with Flower: its traces are read, checked and attacked."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import foltr_audit as fa
from foltr_audit.trace import Trace, validate
from foltr_audit.trace.lint import LintResult, lint
from tests.fixtures.doc_examples import ROOT
from tests.fixtures.flower import flower_python
from tests.fixtures.lint_traces import leaks, only, outcome

PROGRAM = ROOT / "examples" / "flower" / "in_process.py"
WAIT = 120.0  # seconds that a federation may take


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The trace of each federation."""
    python = flower_python()
    if python is None:
        pytest.skip("no environment with Flower 1.41; `make flower` makes it")
    folder, settings = tmp_path_factory.mktemp("flower-app"), {"FLWR_TELEMETRY_ENABLED": "0"}
    environment = {**os.environ, **settings, "PYTHONPATH": str(ROOT / "recorder"), "FLWR_HOME": str(folder)}
    runs = {
        "noise": ("nodes=20", "rounds=3", "epsilon=1.2", "noise-clients=20"),
        "secure": ("nodes=6", "rounds=2", "secure=true"),
        "local": ("nodes=20", "rounds=2", "flower-dp=local", "list-length=2"),
    }
    programs = {
        name: subprocess.Popen(
            [str(python), str(PROGRAM), *given, f"trace={folder / name}"],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        for name, given in runs.items()
    }
    for name, program in programs.items():
        _, told = program.communicate(timeout=WAIT)
        assert program.returncode == 0, f"{name}: {told.decode()[-2000:]}"
    return {name: folder / name for name in runs}


def exact(trace: Path, method: str) -> float:
    """The share of lists that an attack reads without an error."""
    rows = fa.attack_trace(trace, [method]).results
    (found,) = [row.number("exact") for row in rows if row["method"] == method]
    return found


def linted(trace: Path) -> LintResult:
    assert validate(trace) == []
    return lint(trace)


def test_messages_that_the_server_reads_give_every_list_away(recorded: dict[str, Path]) -> None:
    trace = Trace.open(recorded["noise"])
    assert (trace.n_rounds, trace.header.parameters) == (3, 46)
    senders = [record.senders for record in trace.rounds()]
    assert all(each is not None and each.size == 20 for each in senders)
    # The published noise hides no click: 60 lists are all read, but for ties.
    assert exact(recorded["noise"], "map") >= 0.95
    assert "clear-fields" not in leaks(linted(recorded["noise"]).findings)


def test_masked_messages_hide_lists_and_their_seeds_are_short(recorded: dict[str, Path]) -> None:
    done = linted(recorded["secure"])
    assert "a seed of 32 bits" in only(done.findings, "mask-seeds").text
    assert outcome(done, "both-shares").state == "clean"
    assert all(record.total is not None for record in Trace.open(recorded["secure"]).rounds())
    assert exact(recorded["secure"], "olsr") < 0.5


def test_a_sensitivity_apart_from_the_clip_is_found(recorded: dict[str, Path]) -> None:
    (declared,) = fa.lint(recorded["local"]).systems
    assert any("sensitivity of 0.05" in finding["follows"] for finding in declared["findings"])


def test_clients_that_learnt_nothing_fail_behind_the_clip_of_flower(recorded: dict[str, Path]) -> None:
    """Of two documents often both are clicked, or none: a zero update. Flower's clip divides by its norm."""
    assert any("had no answer" in finding.text for finding in linted(recorded["local"]).findings)
