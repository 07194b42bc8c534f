"""The same bytes on every machine: runs against stored digests, under several sets of instructions.

What servers receive, models, lists, clicks and metrics have the same bits everywhere. Attacks may call LAPACK
and NumPy's own functions, whose last digits depend on the processor: they name the same documents, and their
scores differ by at most `TOLERANCE` times the largest.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foltr_audit.core.plugins import Attack
from foltr_audit.core.plugins.registry import names
from tests import digests

TOLERANCE = 1e-6
ROOT = Path(__file__).resolve().parents[2]

LIBRARIES = {
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F",
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
    "OPENBLAS_CORETYPE": "Nehalem",
}
"""What makes the libraries compute as on a processor of 2009."""


@cache
def stored() -> dict[str, dict[str, Any]]:
    """What was found on another machine."""
    return json.loads(digests.STORED.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def differences(found: dict[str, dict[str, Any]]) -> list[str]:
    """Names of what is not as stored."""
    other = [name for name, value in stored()["runs"].items() if found["runs"].get(name) != value]
    for name, said in stored()["attacks"].items():
        mine = found["attacks"][name]
        close = np.allclose(mine["scores"], said["scores"], rtol=0, atol=TOLERANCE)
        if not close or mine["names"] != said["names"]:
            other.append(f"attack {name}")
    return other


def elsewhere(**environment: str) -> dict[str, dict[str, Any]]:
    """What a fresh process with other settings finds."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.digests", "-"],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def test_every_plugin_has_a_stored_digest() -> None:
    assert set(stored()["runs"]) == set(digests.runs())
    assert set(stored()["attacks"]) == set(names(Attack))


@pytest.mark.parametrize("name", digests.runs())
def test_a_run_has_the_stored_bytes(name: str) -> None:
    """`python -m tests.digests` stores new ones, if a change was meant to move numbers."""
    assert digests.runs()[name]() == stored()["runs"][name]


@pytest.mark.parametrize("name", names(Attack))
def test_an_attack_says_what_is_stored(name: str) -> None:
    found = {"runs": stored()["runs"], "attacks": stored()["attacks"] | {name: digests.attacked(name)}}
    assert not differences(found)


def test_libraries_of_an_older_processor_change_nothing() -> None:
    assert not differences(elsewhere(**LIBRARIES))


@pytest.mark.slow
@pytest.mark.parametrize("processor", ["generic", "x86-64-v2", "x86-64-v3"])
def test_kernels_for_another_processor_give_the_same_bytes(processor: str) -> None:
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        pytest.skip("these are names of x86-64 processors")
    assert not differences(elsewhere(NUMBA_CPU_NAME=processor, NUMBA_CPU_FEATURES=""))


def test_a_last_bit_is_a_difference() -> None:
    array = np.linspace(0.0, 1.0, 7)
    other = array.copy()
    other[3] = np.nextafter(other[3], 2.0)
    assert digests.digest([("a", array)]) != digests.digest([("a", other)])
    assert digests.digest([("a", array)]) != digests.digest([("b", array)])
    assert digests.digest([("a", array)]) != digests.digest([("a", array.astype(np.float32))])
    moved = json.loads(json.dumps(stored()))
    moved["attacks"]["olsr"]["scores"][0] += 1e-4
    moved["runs"]["learner fpdgd"] = "0" * 16
    assert differences(moved) == ["learner fpdgd", "attack olsr"]
