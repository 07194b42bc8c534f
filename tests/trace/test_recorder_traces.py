"""Traces that the recorder writes are read, validated and attacked like those of foltr-audit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from foltr_audit.recorder import ReceivedMessage, Recorder, ShownList

import foltr_audit as fa
from foltr_audit.experiments.recorded_attack import TraceAttack
from foltr_audit.trace import Trace, validate
from tests.fixtures import foreign_trace
from tests.fixtures.foreign_trace import System
from tests.fixtures.there import there

FACTS = {"learning_rate": 0.1, "pairs": "all", "normaliser": "candidates", "lists": "sampled"}
FACTS["noise"] = "none"
NODE = 2**64 - 40


def recorded(folder: Path, system: System, *, consent: int = 2) -> Path:
    """A federation as its server would record it: every `consent`-th client tells what was clicked."""
    data = foreign_trace.pool()
    with Recorder(folder, FACTS, kind="update") as recorder:
        for played in foreign_trace.rounds_of(system):
            messages = []
            for client in range(system.clients):
                shown = played.shown[client][played.shown[client] >= 0]
                a_list = ShownList(
                    features=played.features[client, : shown.size],
                    candidates=data[played.query[client]][0],
                    shown=shown,
                    clicks=None if client % consent else played.clicks[client, : shown.size],
                )
                arrays = {"weight": played.updates[client].astype(np.float32).reshape(2, 23)}
                own: dict[str, Any] = {"sender": NODE + client, "metrics": {"loss": 0.5}, "lists": [a_list]}
                messages.append(ReceivedMessage(arrays=arrays, **own))
            failures = {NODE + 39: "out of memory"}
            assert recorder.round(played.model, messages, aggregate=played.after, failures=failures)
    return folder


def test_a_recorded_federation_is_attacked(tmp_path: Path) -> None:
    system = System(clients=30, rounds=2, shares=None, normaliser="candidates")
    folder = recorded(tmp_path / "t", system)
    assert validate(folder) == []
    trace = Trace.open(folder)
    assert trace.header.writer.startswith("foltr-audit-recorder ")
    for record, played in zip(trace.rounds(), foreign_trace.rounds_of(system), strict=True):
        np.testing.assert_array_equal(record.messages, played.updates.astype(np.float32))
        np.testing.assert_array_equal(record.features, played.features)
        assert int(there(record.senders)[0]) == NODE
        assert record.clear["loss"].tolist() == [0.5] * 30
        assert there(record.cohort).outcome.count("failed") == 1
    found = {row.method: row.found for row in fa.attack_trace(folder, ["map", "lad"]).results}
    assert found["map"].exact.value == 1.0
    assert (found["map"].unknown, found["map"].lists + found["map"].skipped) == (30, 30)


def test_a_recorded_laboratory_tells_its_clicks(tmp_path: Path) -> None:
    shown = ShownList(features=np.eye(2, 46), clicks=[True, False], clipped=True)
    message = ReceivedMessage(arrays=np.ones(46), sender=3, lists=[shown], update=np.ones(46), count=1)
    with Recorder(tmp_path / "t", FACTS, kind="update") as recorder:
        recorder.round(np.zeros(46), [message], aggregate=np.ones(46))
    assert validate(tmp_path / "t") == []
    [truth] = Trace.open(tmp_path / "t").truths()
    assert truth.clicks[0, :2].tolist() == [True, False]
    assert truth.clipped.tolist() == [True]


def test_masked_words_of_a_federation(tmp_path: Path) -> None:
    """The weight and the words of Flower's SecAgg+, whose sum is read and whose single messages are not."""
    facts = {"of": "update", "masking": "flower-secagg", "aggregate": "other", "clipping_range": 8.0}
    facts |= {"quantization_range": 2**22, "modulus_bits": 32, "max_weight": 1.0}
    rng = np.random.default_rng(0)
    updates = rng.normal(size=(3, 4))
    words = np.rint((updates + 8) * 2**22 / 16).astype(np.uint64)
    total = np.concatenate([[3 * 2**22], words.sum(axis=0)]).astype(np.uint64) % 2**32
    sent = rng.integers(2**32, size=(3, 5), dtype=np.uint64)
    masked = [ReceivedMessage(arrays=row, sender=node) for node, row in enumerate(sent)]
    with Recorder(tmp_path / "t", facts, kind="masked", list_length=2) as recorder:
        recorder.round({"w": np.zeros((2, 2), dtype=np.float32)}, masked, total=total)
    assert validate(tmp_path / "t") == []
    trace = Trace.open(tmp_path / "t")
    [record] = trace.rounds()
    encoding = trace.header.encoding
    assert encoding is not None
    found = encoding.decode_sum(there(record.total), record.counts)
    np.testing.assert_allclose(found, updates.sum(axis=0), atol=1e-4)
    attack = TraceAttack.open(tmp_path / "t", changes={"methods": ["olsr"]})
    [note] = attack.notes()
    assert note.text == "messages are masked; --view aggregate attacks their sums"
