"""Whatever a file holds, it is read or refused in one line, soon and without much memory.

Inputs are numbered: `pytest -m slow tests/fuzz/test_fuzz.py` tries 100,000 of them, the
gate some two thousand.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest

from foltr_audit.errors import TraceError
from tests.fuzz.kinds import KINDS
from tests.fuzz.mutations import ODD, Random, changed_bytes, changed_toml, generator
from tests.fuzz.watch import Feed, failure, failures

LONGEST = 1000
"""Inputs of one test."""

SLICES = [
    (kind, first, min(first + LONGEST, KINDS[kind].inputs))
    for kind in KINDS
    for first in range(0, KINDS[kind].inputs, LONGEST)
]


@pytest.mark.parametrize("kind", KINDS)
def test_a_few_inputs(kind: str, tmp_path: Path) -> None:
    place = tmp_path / "outer" / "inner"
    place.mkdir(parents=True)
    found = failures(kind, KINDS[kind].made(place), range(KINDS[kind].gate))
    assert not found, dict(found)
    beside = [path for path in tmp_path.rglob("*") if not path.is_relative_to(place) and path != place.parent]
    assert not beside, "a reader wrote where it had no business"


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "first", "last"), SLICES)
def test_many_inputs(kind: str, first: int, last: int, tmp_path: Path) -> None:
    found = failures(kind, KINDS[kind].made(tmp_path), range(first, last))
    assert not found, dict(found)


def test_inputs_are_the_same_whatever_was_drawn_before() -> None:
    generator("spec", 3).random()
    first = [changed_bytes(generator("spec", number), b"0123456789" * 9) for number in range(50)]
    assert first == [changed_bytes(generator("spec", number), b"0123456789" * 9) for number in range(50)]
    assert len(set(first)) > 25
    before = repr(ODD)
    for number in range(200):
        changed_toml(generator("odd", number), "a = [1, 2]\n[b]\nc = 1\nd = [{e = 1}]\n")
    assert repr(ODD) == before


# --- it can fail ----------------------------------------------------------------------------------


def loads_json(text: bytes) -> Feed:
    def feed(rng: Random) -> None:
        try:
            json.loads(changed_bytes(rng, text))["a"]
        except (ValueError, TypeError) as error:
            raise TraceError("no JSON") from error

    return feed


def test_a_reader_that_forgets_an_exception_fails() -> None:
    found = failures("x", loads_json(b'{"a": 1}'), range(400))
    assert any("KeyError" in what for what in found)


def endless(rng: Random) -> None:
    while rng.random() < 2:
        pass


@pytest.mark.parametrize(
    ("feed", "problem"),
    [
        (lambda rng: time.sleep(60), "more than"),
        (endless, "more than"),
        (lambda rng: np.ones(3 << 28), "MemoryError"),
        (lambda rng: bytearray(3 << 30), "MemoryError"),
    ],
)
def test_time_and_memory_are_watched(feed: Feed, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.watch.MOST_SECONDS", 0.3)
    told = failure(feed, generator("x", 0))
    assert told is not None
    assert problem in told
