"""Messages of metrics with seeds, of kind `es`: fewer numbers than the model, whose size is its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from foltr_audit.recorder import ReceivedMessage, Recorder, ShownList

from foltr_audit.trace import Trace
from tests.fixtures.command import run
from tests.fixtures.there import there

MODEL = np.linspace(-1.0, 1.0, 6)


def sent(number: int) -> list[ReceivedMessage]:
    rng = np.random.default_rng([3, number])
    return [
        ReceivedMessage(
            arrays=rng.random(2),
            seed=int(rng.integers(2**32)),
            lists=[ShownList(features=rng.normal(size=(4, 6)), clicks=rng.random(4) < 0.5) for _ in range(2)],
            count=2,
        )
        for _ in range(5)
    ]


def record(folder: Path, rounds: range, **more: bool) -> None:
    facts = {"sigma": 0.1, "metric": "maxrr", "noise": "none", "lists": "deterministic"}
    with Recorder(folder, facts, kind="es", **more) as recorder:  # type: ignore[arg-type]
        for number in rounds:
            recorder.round(MODEL + number, sent(number), aggregate=MODEL + number + 1)


def test_seeds_metrics_and_the_model_are_read_back(tmp_path: Path) -> None:
    record(tmp_path / "trace", range(2))
    record(tmp_path / "trace", range(2, 3), resume=True)
    assert run("trace", "validate", tmp_path / "trace").code == 0
    trace = Trace.open(tmp_path / "trace")
    assert (trace.header.parameters, trace.header.width) == (6, 2)
    for number, found in enumerate(trace.rounds()):
        expected = sent(number)
        assert there(found.seeds).tolist() == [message.seed for message in expected]
        np.testing.assert_array_equal(found.messages, [message.arrays for message in expected])
        np.testing.assert_array_equal(found.parameters, MODEL + number)
        np.testing.assert_array_equal(found.aggregate, MODEL + number + 1)
    done = run("attack", "--trace", tmp_path / "trace", "--method", "es-first-click", "--json")
    assert done.code == 0, done.err


def test_another_model_is_refused(tmp_path: Path) -> None:
    with Recorder(tmp_path / "trace", kind="es") as recorder:
        recorder.round(MODEL, sent(0))
        with pytest.raises(ValueError, match="round 1: model has arrays"):
            recorder.round(np.zeros(5), sent(1))
