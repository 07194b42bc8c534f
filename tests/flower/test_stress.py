"""What a server that cheats gets out of the clients of Flower's SecAgg+."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.fixtures.command import run
from tests.fixtures.flower import flower_python

BROKEN = {
    "counts in clear",
    "both shares",
    "two lists, threshold of the server",
    "impersonated keys",
    "inconsistent models",
    "seeds of 32 bits",
}
HELD = {"look at a message", "replayed round", "seed reuse"}
COMMAND = ("stress", "secure-aggregation", "--clients", 8, "--parameters", 5)


def test_each_attempt_on_flower_comes_out_as_its_clients_allow() -> None:
    python = flower_python()
    if python is None:
        pytest.skip("no environment with Flower 1.41; `make flower` makes it")
    done = run(*COMMAND, "--flower", python, "--json").json()
    outcomes = {row["name"]: row["outcome"] for row in done["attempts"]}
    assert outcomes == dict.fromkeys(BROKEN, "broken") | dict.fromkeys(HELD, "held")
    assert done["defense"].startswith("SecAgg+ of Flower 1.41")
    assert done["kept"] is True
    assert all(row["answer"] for row in done["attempts"] if row["outcome"] == "broken")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--flower", "/no/such/python"), "expected the Python of an environment with Flower"),
        (("--flower", sys.executable), "No module named 'flwr'"),
        (("--flower", "x", "--clients", 2), "expected at least 4"),
        (("--flower", "x", "--defense", "secure-aggregation:masks=false"), "not with --flower"),
    ],
)
def test_wrong_input_is_refused_in_one_line(options: tuple[object, ...], words: str) -> None:
    done = run(*COMMAND, *options)
    assert (done.code, done.out) == (2, "")
    assert words in done.err
    assert done.err.count("\n") == 1


def test_a_program_that_prints_no_attempts_is_refused(tmp_path: Path) -> None:
    false = tmp_path / "python"
    false.write_text("#!/bin/sh\necho '{\"rows\": [{}]}'\n", encoding="utf-8")
    false.chmod(0o755)
    done = run(*COMMAND, "--flower", false)
    assert done.code == 2
    assert "printed no attempts" in done.err
