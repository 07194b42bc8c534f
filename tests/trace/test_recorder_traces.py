"""Traces of others: those of the recorder are attacked, any number format is read, harm is refused."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from foltr_audit.recorder import ReceivedMessage, Recorder, ShownList
from foltr_audit.recorder.trace_files import file_name, marker_name
from numpy.typing import NDArray

import foltr_audit as fa
from foltr_audit.errors import TraceError, UsageError
from foltr_audit.experiments.recorded_attack import TraceAttack
from foltr_audit.trace import Trace, validate
from foltr_audit.utils.formatting import visible
from tests.fixtures import foreign_trace
from tests.fixtures.command import run
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
        assert sum(each.outcome == "failed" for each in record.cohort) == 1
    found = {row["method"]: row for row in fa.attack_trace(folder, ["map", "lad"]).results}["map"]
    assert found.number("exact") == 1.0
    assert (found["unknown"], found["lists"] + found["skipped"]) == (30, 30)


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


# --- number formats -------------------------------------------------------------------------------


def exact(folder: Path, system: System, **formats: Any) -> dict[str, float]:
    """Exact rates of olsr and lad on a trace in some number formats."""
    facts = {"normaliser": "shown", "pairs": None, "learning_rate": None}
    header = foreign_trace.header(system, dtype=formats["dtype"], facts=facts)
    report = fa.attack_trace(
        foreign_trace.write(folder, header, foreign_trace.records(system, **formats)), ["olsr", "lad"]
    )
    return {row["method"]: row.number("exact") for row in report.results if row["method"] in ("olsr", "lad")}


@pytest.mark.parametrize("normaliser", ["shown", "candidates"])
def test_features_rounded_to_float32_cost_a_float64_system_no_list(tmp_path: Path, normaliser: str) -> None:
    """Most documents stand below the last click and have the weight 0, which rounding makes 1e-8."""
    system = System(pairs="last-click+1", normaliser=normaliser, shares=None)
    whole = exact(tmp_path / "whole", system, dtype="float64", feature_dtype="float64")
    rounded = exact(tmp_path / "rounded", system, dtype="float64", feature_dtype="float32")
    assert min(whole.values()) > 0.99
    assert rounded == pytest.approx(whole, abs=0.02)


def test_small_noise_on_a_weight_of_zero_is_no_click(tmp_path: Path) -> None:
    """A hundred shares of the noise leave most numbers as they are to 1e-9 or so, and float64 shows that."""
    system = System(pairs="last-click+1", normaliser="candidates", shares=100)
    found = [
        exact(tmp_path / f"{dtype}-{feature_dtype}", system, dtype=dtype, feature_dtype=feature_dtype)["lad"]
        for dtype, feature_dtype in (("float64", "float64"), ("float64", "float32"), ("float32", "float32"))
    ]
    assert min(found) > 0.93


def test_the_format_of_features_is_that_of_the_clients(tmp_path: Path) -> None:
    """Of a Run it is float32 unless the header says otherwise, of other systems that of the messages."""
    header = foreign_trace.header(System())
    assert header.feature_format == "float64"
    assert replace(header, dtype="float32").feature_format == "float32"
    assert replace(header, spec_hash="ab").feature_format == "float32"
    stated = {**header.knowledge, "feature_dtype": "float64"}
    assert replace(header, spec_hash="ab", knowledge=stated).feature_format == "float64"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_trace_keeps_the_features_that_it_is_given(tmp_path: Path, dtype: str) -> None:
    system = System(rounds=2)
    rounds = foreign_trace.records(system, feature_dtype=dtype)
    folder = foreign_trace.write(tmp_path / "trace", foreign_trace.header(system), rounds)
    assert validate(folder) == []
    for (record, _), read in zip(rounds, Trace.open(folder).rounds(), strict=True):
        assert np.asarray(read.features).dtype == dtype
        np.testing.assert_array_equal(np.asarray(read.features), record.features)


def test_all_rounds_of_a_trace_have_features_in_one_format(tmp_path: Path) -> None:
    system = System(rounds=3)
    wide, narrow = (foreign_trace.records(system, feature_dtype=dtype) for dtype in ("float64", "float32"))
    header = replace(foreign_trace.header(system), rounds_per_part=1)
    for resume in (False, True):
        with fa.TraceWriter(tmp_path, header, resume=resume) as writer:
            writer.write(*wide[writer.next_round])
            with pytest.raises(UsageError, match=r"round \d: features of type float32, expected float64"):
                writer.write(*narrow[writer.next_round])
    assert validate(tmp_path) == []


# --- traces that mean harm ------------------------------------------------------------------------


Table = dict[str, NDArray[np.generic]]
OBEYED = "\x1b[31m\u202e\x07\r\x9b"
PAIRWISE = {"learning_rate": 0.1, "noise": "none", "pairs": "all", "normaliser": "shown"}


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Two rounds of three messages of a list each, of which another document is clicked."""
    rng = np.random.default_rng(3)
    with Recorder(tmp_path / "trace", PAIRWISE) as recorder:
        for _ in range(2):
            rows = np.eye(3) == 1
            lists = [ShownList(features=rng.normal(size=(3, 4)), clicks=clicks) for clicks in rows]
            messages = [
                ReceivedMessage(arrays=rng.normal(size=4), sender=node, lists=[one], metrics={"clicks": 1.0})
                for node, one in enumerate(lists)
            ]
            recorder.round(np.zeros(4), messages, failures={9: "lost"})
    return tmp_path / "trace"


def rewrite(folder: Path, table: str, change: Callable[[Table], None]) -> None:
    """Change a table of the first part, and its marker with it."""
    path, marker = folder / file_name(table, 0), folder / marker_name(0)
    with np.load(path, allow_pickle=False) as arrays:
        columns = {name: arrays[name].copy() for name in arrays.files}
    change(columns)
    np.savez(path, **columns)
    data = path.read_bytes()
    stated = json.loads(marker.read_text())
    stated["files"][file_name(table, 0)] |= {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
    marker.write_text(json.dumps(stated))


def test_clicks_in_another_order_than_their_lists_are_refused_and_never_scored(trace: Path) -> None:
    def swap(columns: Table) -> None:
        for name in ("slot", "step", "clicks", "known"):
            columns[name][:2] = columns[name][1::-1].copy()

    rewrite(trace, "truth/clicks", swap)
    problem = "truth/clicks-00000.npz: rows differ from those of observed/interactions"
    assert len(list(Trace.open(trace).rounds())) == 2
    with pytest.raises(TraceError, match=problem):
        list(Trace.open(trace).truths())
    done = run("attack", "--trace", trace, "--method", "olsr")
    assert done.code not in (0, 1)
    assert problem in done.err
    assert any(problem in line for line in validate(trace))


@pytest.mark.parametrize("name", ["observed/messages-00000.npz", "part-00000.json"])
def test_a_pipe_among_the_files_is_refused_and_not_waited_for(trace: Path, name: str) -> None:
    (trace / name).unlink()
    os.mkfifo(trace / name)
    with pytest.raises(TraceError, match="no regular file"):
        Trace.open(trace)
    assert any("no regular file" in line for line in validate(trace))


def test_a_round_without_messages_of_a_large_model_is_read(tmp_path: Path) -> None:
    model = np.zeros((1 << 20) + 5, dtype=np.float32)
    with Recorder(tmp_path) as recorder:
        recorder.round(model, [], asked=[3])
    assert validate(tmp_path) == []
    [record] = Trace.open(tmp_path).rounds()
    assert record.messages.shape == (0, model.size)


def test_an_empty_table_may_claim_no_features_without_end(tmp_path: Path) -> None:
    with Recorder(tmp_path, list_length=3, features=4) as recorder:
        recorder.round(np.zeros(4), [])
    endless = np.empty((0, 3, 1 << 30))
    rewrite(tmp_path, "observed/interactions", lambda columns: columns.update(features=endless))
    assert any("column features is float64" in line for line in validate(tmp_path))


def test_texts_of_a_trace_move_no_cursor(trace: Path) -> None:
    def spoil(name: str) -> Callable[[Table], None]:
        return lambda columns: columns.update({name: np.char.add(OBEYED, columns[name].astype(np.str_))})

    rewrite(trace, "observed/metrics", spoil("name"))
    rewrite(trace, "observed/cohort", spoil("reason"))
    header = (trace / "trace.toml").read_text()
    spoilt = header.replace('source = "recorded"', 'source = "\\u001b[2Jhere\\u009b[bold]"')
    assert spoilt != header
    (trace / "trace.toml").write_text(spoilt)
    for part in range(2):
        stated = json.loads((trace / marker_name(part)).read_text())
        stated["trace"] = hashlib.sha256(spoilt.encode()).hexdigest()
        (trace / marker_name(part)).write_text(json.dumps(stated))
    for words in (("trace", "info"), ("trace", "lint"), ("trace", "validate"), ("attack", "--trace")):
        done = run(*words, trace)
        assert done.code in (0, 1), done.err
        printed = done.out + done.err
        assert visible(printed) == printed
    assert "?[2Jhere?[bold]" in run("trace", "info", trace).out
