"""What the recorder writes and refuses, and when it ends, by NumPy alone; what messages of Flower hold."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import signal
import subprocess
import sys
import time
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from foltr_audit.recorder import ReceivedMessage, Recorder, ShownList
from foltr_audit.recorder.array_layout import npy_array
from foltr_audit.recorder.flower.open_round import SecAggRound
from foltr_audit.recorder.packed_lists import pack_arrays, pack_lists, unpack_arrays, unpack_lists
from foltr_audit.recorder.trace_files import marker_indices
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from numpy.typing import NDArray

from foltr_audit.trace import Trace, validate
from tests.fixtures.command import files, run
from tests.fixtures.import_graph import ROOT
from tests.fixtures.there import there

RNG = np.random.default_rng(5)
MODEL = {"weight": np.zeros((2, 3), dtype=np.float32), "bias": np.zeros(1), "seen": np.array(0)}


def message(node: int = 0, **fields: object) -> ReceivedMessage:
    """A message of some node with the layout of `MODEL`."""
    arrays = {
        "weight": RNG.normal(size=(2, 3)).astype(np.float32),
        "bias": RNG.normal(size=1),
        "seen": np.array(node % 100),
    }
    return ReceivedMessage(**{"arrays": arrays, "sender": node, **fields})  # type: ignore[arg-type]


def mean(messages: Sequence[ReceivedMessage]) -> NDArray[np.float64]:
    """The weighted mean of messages, (7,)."""
    total = sum(each.count for each in messages)
    weighted = (
        each.count / total * np.concatenate([each.arrays["weight"].reshape(-1), each.arrays["bias"]])  # type: ignore[index]
        for each in messages
    )
    return np.asarray(sum(weighted))


def table(folder: Path, name: str, part: int = 0) -> dict[str, NDArray[np.generic]]:
    """The columns of a table of a part."""
    with np.load(folder / f"{name}-{part:05d}.npz", allow_pickle=False) as arrays:
        return dict(arrays)


def header(folder: Path) -> dict[str, object]:
    return tomllib.loads((folder / "trace.toml").read_text())


def shown_list(documents: int = 3, **fields: object) -> ShownList:
    return ShownList(**{"features": RNG.normal(size=(documents, 4)), **fields})  # type: ignore[arg-type]


# --- what is written ------------------------------------------------------------------------------


def test_a_round_of_a_state_dict_is_written_as_it_was(tmp_path: Path) -> None:
    sent = [message(2**64 - 1, count=3, metrics={"loss": 0.5}, size=99, at=7.0), message(5, count=1)]
    after = mean(sent)
    with Recorder(tmp_path, {"learning_rate": 0.1}) as recorder:
        recorder.round(MODEL, sent, aggregate=after, started=1.0, ended=2.0)
    stated = header(tmp_path)
    told = {"kind": "model", "dtype": "float64", "parameters": 7, "has_truth": False}
    assert {name: stated[name] for name in told} == told
    assert stated["layout"] == [
        {"name": "weight", "shape": [2, 3], "dtype": "float32"},
        {"name": "bias", "shape": [1], "dtype": "float64"},
        {"name": "seen", "shape": [], "dtype": "int64"},
    ]
    seen = table(tmp_path, "observed/messages")
    np.testing.assert_array_equal(seen["sender"], np.array([2**64 - 1, 5], dtype=np.uint64))
    for place, name in enumerate(("weight", "bias", "seen")):
        expected = np.stack([each.arrays[name] for each in sent])  # type: ignore[index]
        np.testing.assert_array_equal(seen[f"array-{place}"], expected)
        assert seen[f"array-{place}"].dtype == expected.dtype
    assert seen["count"].tolist() == [3, 1]
    assert seen["bytes"].tolist() == [99, 0]
    rounds = table(tmp_path, "observed/rounds")
    np.testing.assert_array_equal(rounds["aggregate"], after[None])
    np.testing.assert_array_equal(rounds["parameters"], np.zeros((1, 7)))
    assert "facts" not in rounds
    metrics = table(tmp_path, "observed/metrics")
    assert (metrics["slot"].tolist(), metrics["name"].tolist()) == ([0], ["loss"])


def test_another_aggregate_than_the_mean_is_said_by_a_fact_of_the_round(tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder:
        for shift in (0.0, 0.01):
            sent = [message(1), message(2, count=4)]
            recorder.round(MODEL, sent, aggregate=mean(sent) + shift)
        recorder.round(MODEL, [message(1)])
    assert "facts" not in table(tmp_path, "observed/rounds", 0)
    assert table(tmp_path, "observed/rounds", 1)["facts"].tolist() == ['{"aggregate": "other"}']
    assert np.all(np.isnan(table(tmp_path, "observed/rounds", 2)["aggregate"].astype(np.float64)))


@pytest.mark.parametrize("together", [1, 3])
def test_weights_that_are_not_whole_stay_as_they_are(tmp_path: Path, together: int) -> None:
    weights: list[list[float]] = [[0.2, 2.5], [float(np.float32(0.1)), 2], [0, 0.25]]
    with Recorder(tmp_path, {"interactions": 4}, rounds_per_part=together) as recorder:
        for first, second in weights:
            # Two lists fit a message of weight .2: it does not count them.
            sent = [message(1, count=first, lists=[shown_list()] * 2), message(2, count=second)]
            recorder.round(MODEL, sent, aggregate=mean(sent))
    rounds = list(Trace.open(tmp_path).rounds())
    assert [record.counts.tolist() for record in rounds] == weights
    assert not any("aggregate" in record.facts for record in rounds)
    assert validate(tmp_path) == []


def test_whole_weights_are_counts_whatever_their_type(tmp_path: Path) -> None:
    with Recorder(tmp_path / "floats", rounds_per_part=2) as floats:
        floats.round(MODEL, [message(1, count=3.0), message(2, count=np.float64(1))])
        floats.round(MODEL, [message(1, count=0.5), message(2, count=1)])
    first, second = Trace.open(tmp_path / "floats").rounds()
    assert (first.counts.tolist(), second.counts.tolist()) == ([3, 1], [0.5, 1])
    assert first.counts_interactions
    assert not second.counts_interactions
    with Recorder(tmp_path / "stated", {"interactions": 2}) as stated:
        stated.round(MODEL, [message(1, count=3.0)])
    [problem] = validate(tmp_path / "stated")
    assert "knowledge.interactions" in problem


def test_updates_are_added_to_the_model_to_see_whether_the_aggregate_is_their_mean(tmp_path: Path) -> None:
    model = np.arange(7.0)
    sent = [ReceivedMessage(arrays=RNG.normal(size=7)) for _ in range(3)]
    after = model + np.mean([np.asarray(each.arrays) for each in sent], axis=0)
    with Recorder(tmp_path, kind="update") as recorder:
        recorder.round(model, sent, aggregate=after)
        recorder.round(model, sent, aggregate=after - model)
    assert "facts" not in table(tmp_path, "observed/rounds", 0)
    assert table(tmp_path, "observed/rounds", 1)["facts"].tolist() == ['{"aggregate": "other"}']
    assert "sender" not in table(tmp_path, "observed/messages", 0)


def test_who_was_asked_failed_and_never_answered(tmp_path: Path) -> None:
    node = 2**63 + 1
    with Recorder(tmp_path) as recorder:
        recorder.round(MODEL, [message(node)], asked=[node, 4, 6, 8], failures={4: "no battery"}, late=[8])
    cohort = table(tmp_path, "observed/cohort")
    rows = set(zip(*(cohort[name].tolist() for name in ("node", "outcome", "reason")), strict=True))
    assert rows == {(node, "arrived", ""), (4, "failed", "no battery"), (6, "late", ""), (8, "late", "")}


def test_truth_has_a_folder_of_its_own(tmp_path: Path) -> None:
    lists = [shown_list(clicks=[0, 1, 0], query=4), shown_list(2, clicks=[1, 0]), shown_list(1)]
    sent = [message(9, count=3, lists=lists, update=np.arange(7.0)), message(3)]
    with Recorder(tmp_path) as recorder:
        recorder.round(MODEL, sent)
    lists_seen = table(tmp_path, "observed/interactions")
    assert lists_seen["shown"].tolist() == [[1, 2, 3], [1, 2, 0], [1, 0, 0]]
    assert lists_seen["query"].tolist() == [4, 0, 0]
    np.testing.assert_array_equal(lists_seen["features"][1, :2], lists[1].features)
    assert not np.any(lists_seen["features"][1, 2:].astype(np.float64))
    clicks = table(tmp_path, "truth/clicks")
    assert clicks["known"].tolist() == [True, True, False]
    assert clicks["clicks"][0].tolist() == [0, 1, 0]
    truth = table(tmp_path, "truth/messages")
    assert truth["client"].tolist() == [9, 3]
    np.testing.assert_array_equal(truth["update"][0], np.arange(7.0))
    assert np.all(np.isnan(truth["update"][1].astype(np.float64)))


def test_bfloat16_is_kept_bit_for_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for a tensor of PyTorch, which has no NumPy form of bfloat16."""
    bits = np.array([0x3F80, 0xC000, 0x3DCD], dtype=np.uint16)  # 1, -2, and 0.1 as near as bfloat16 has it

    class Tensor:
        dtype = "torch.bfloat16"

        def detach(self) -> Tensor:
            return self

        cpu = contiguous = detach

        def view(self, kind: object) -> Tensor:
            return self

        def numpy(self) -> NDArray[np.int16]:
            return bits.view(np.int16)

    class Torch:
        int16 = "int16"

    monkeypatch.setitem(sys.modules, "torch", Torch)
    with Recorder(tmp_path) as recorder:
        recorder.round({"w": Tensor()}, [ReceivedMessage(arrays={"w": Tensor()})])
    np.testing.assert_array_equal(table(tmp_path, "observed/messages")["array-0"][0], bits)
    sent = table(tmp_path, "observed/rounds")["parameters"][0]
    np.testing.assert_array_equal(sent, np.array([1.0, -2.0, 0.10009765625]))
    assert header(tmp_path)["layout"] == [{"name": "w", "shape": [3], "dtype": "bfloat16"}]


def test_masked_words_and_their_sum(tmp_path: Path) -> None:
    words = RNG.integers(0, 2**32, size=(3, 8), dtype=np.uint64)
    sent = [ReceivedMessage(arrays=row, sender=place) for place, row in enumerate(words)]
    total = words.sum(axis=0) % np.uint64(2**32)
    with Recorder(tmp_path, {"of": "model"}, kind="masked") as recorder:
        recorder.round(MODEL, sent, total=total)
        recorder.round(MODEL, [], aborted="halted")
    np.testing.assert_array_equal(table(tmp_path, "observed/messages")["array-0"], words)
    rounds = table(tmp_path, "observed/rounds")
    np.testing.assert_array_equal(rounds["total"][0], total)
    assert rounds["has_total"].tolist() == [True]
    assert table(tmp_path, "observed/rounds", 1)["aborted"].tolist() == ["halted"]


def test_the_same_rounds_give_the_same_bytes(tmp_path: Path) -> None:
    sent = [message(1), message(2)]
    for name in ("one", "other"):
        with Recorder(tmp_path / name) as recorder:
            recorder.round(MODEL, sent)
    assert len(files(tmp_path / "one")) == 5
    assert files(tmp_path / "one") == files(tmp_path / "other")


# --- what is refused --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arrays", "told"),
    [
        ({**MODEL, "weight": np.zeros((3, 2), "f4")}, "weight float32[3, 2], expected weight float32[2, 3]"),
        ({**MODEL, "weight": np.zeros((2, 3))}, "array weight float64[2, 3], expected weight float32[2, 3]"),
        ({"weight": MODEL["weight"]}, "lacks array bias float64[1]"),
        ({**MODEL, "more": np.zeros(2)}, "has array more float64[2], which the first message lacks"),
        ({**MODEL, "bias": np.array(["a"])}, "array bias is str32; expected one of"),
    ],
)
def test_another_layout_is_refused_and_named(tmp_path: Path, arrays: object, told: str) -> None:
    recorder = Recorder(tmp_path)
    recorder.round(MODEL, [message(1)])
    with pytest.raises(ValueError, match="round 1: ") as refusal:
        recorder.round(MODEL, [message(1), message(8, arrays=arrays)])
    assert told in str(refusal.value)
    assert "sender 8" in str(refusal.value) or "bias is" in told
    assert recorder.round(MODEL, [message(1)])  # nothing of the refused round is there
    assert table(tmp_path, "observed/rounds", 1)["round"].tolist() == [1]


def test_a_model_without_floating_numbers_is_refused(tmp_path: Path) -> None:
    trees = np.frombuffer(b"trees as bytes", np.uint8)
    with pytest.raises(ValueError, match="no floating numbers"):
        Recorder(tmp_path).round(trees, [ReceivedMessage(arrays=trees)])


def test_lists_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.round(MODEL, [message(1, lists=[shown_list(3, clicks=[1, 0, 0])])])
    wide = ShownList(features=np.zeros((2, 5)))
    for one, told in ((shown_list(4), "list_length=4"), (wide, "5 features a document, expected 4")):
        with pytest.raises(ValueError, match=told):
            recorder.round(MODEL, [message(1, lists=[one])])
    late = Recorder(tmp_path / "late")
    late.round(MODEL, [message(1)])
    with pytest.raises(ValueError, match="list_length= and features="):
        late.round(MODEL, [message(1, lists=[shown_list()])])
    with Recorder(tmp_path / "said", list_length=5, features=4) as said:
        said.round(MODEL, [message(1)])
        said.round(MODEL, [message(1, lists=[shown_list()])])


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"clicks": [1, 0]}, "expected 3 of true or false"),
        ({"clicks": [1, 0, 2]}, "expected 3 of true or false"),
        ({"shown": [0, 1]}, "expected 3 whole numbers"),
        ({"shown": [0, 1, -1]}, "expected 3 whole numbers"),
        ({"shown": [0, 1, 2**63 - 1]}, "expected 3 whole numbers"),
        ({"features": np.zeros(3)}, "expected \\(documents, features\\)"),
        ({"candidates": np.zeros((3, 2))}, "expected 4"),
    ],
)
def test_a_list_that_does_not_fit_itself_is_refused(fields: dict[str, object], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        shown_list(**fields)  # type: ignore[arg-type]


def test_a_folder_with_a_trace_is_refused_unless_resumed(tmp_path: Path) -> None:
    with Recorder(tmp_path, {"learning_rate": 0.1}) as recorder:
        recorder.round(MODEL, [message(1, lists=[shown_list(clicks=[1, 0, 0])])])
    with pytest.raises(ValueError, match="holds a trace already"):
        Recorder(tmp_path)
    with pytest.raises(ValueError, match="its kind or facts are others"):
        Recorder(tmp_path, {"learning_rate": 0.2}, resume=True)
    stray = tmp_path / "observed" / "rounds-00001.npz"
    stray.write_bytes(b"of a part that was never committed")
    with Recorder(tmp_path, resume=True) as again:
        assert not stray.exists()
        again.round(MODEL, [message(1, lists=[shown_list(2, clicks=[1, 0])])])
    assert table(tmp_path, "observed/rounds", 1)["round"].tolist() == [1]
    assert table(tmp_path, "observed/interactions", 1)["shown"].tolist() == [[1, 2, 0]]


# --- messages of metrics with seeds ---------------------------------------------------------------


WEIGHTS = np.linspace(-1.0, 1.0, 6)


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
            recorder.round(WEIGHTS + number, sent(number), aggregate=WEIGHTS + number + 1)


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
        np.testing.assert_array_equal(found.parameters, WEIGHTS + number)
        np.testing.assert_array_equal(found.aggregate, WEIGHTS + number + 1)
    done = run("attack", "--trace", tmp_path / "trace", "--method", "es-first-click", "--json")
    assert done.code == 0, done.err


def test_another_model_is_refused(tmp_path: Path) -> None:
    with Recorder(tmp_path / "trace", kind="es") as recorder:
        recorder.round(WEIGHTS, sent(0))
        with pytest.raises(ValueError, match="round 1: model has arrays"):
            recorder.round(np.zeros(5), sent(1))


# --- when recording ends --------------------------------------------------------------------------


def test_recording_stops_at_the_bound_with_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "foltr_audit_recorder"):
        recorder = Recorder(tmp_path, max_bytes=20_000)
        kept = [recorder.round(MODEL, [message(node) for node in range(40)]) for _ in range(10)]
    size = sum(map(len, files(tmp_path).values()))
    assert 10_000 < size <= 20_000
    assert kept == sorted(kept, reverse=True)
    assert len(set(kept)) == 2
    assert marker_indices(tmp_path) == list(range(sum(kept)))
    assert len(caplog.records) == 1
    assert "max_bytes is 20000" in caplog.text


def test_a_full_disk_stops_a_lenient_recorder_and_breaks_a_strict_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    recorders = Recorder(tmp_path / "strict"), Recorder(tmp_path / "lenient", strict=False)
    for recorder in recorders:
        recorder.round(MODEL, [message(1)])

    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("foltr_audit.recorder.atomic_files.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        recorders[0].round(MODEL, [message(1)])
    assert not recorders[1].round(MODEL, [message(1)])
    assert "No space left on device" in caplog.text
    assert [marker_indices(recorder.folder) for recorder in recorders] == [[0], [0]]


# --- a killed server ----------------------------------------------------------------------------------

SERVER = """
import sys, time
import numpy as np
from foltr_audit.recorder import ReceivedMessage, Recorder
recorder = Recorder(sys.argv[1])
number = 0
while True:
    messages = [ReceivedMessage(arrays=np.full(5_000, number, np.float32), sender=i) for i in range(20)]
    recorder.round(np.zeros(5_000, np.float32), messages)
    number += 1
    open(sys.argv[1] + ".count", "w").write(str(number))
"""


def test_a_killed_server_loses_at_most_the_open_round(tmp_path: Path) -> None:
    folder = tmp_path / "trace"
    counter = tmp_path / "trace.count"
    paths = {**os.environ, "PYTHONPATH": str(ROOT)}
    server = subprocess.Popen([sys.executable, "-c", SERVER, str(folder)], env=paths)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and len(marker_indices(folder)) < 4:
        time.sleep(0.01)
    server.send_signal(signal.SIGKILL)
    server.wait()
    told = int(counter.read_text() or 0)
    parts = marker_indices(folder)
    assert parts == list(range(len(parts)))
    assert len(parts) >= max(told, 4)
    for part in parts:
        messages = table(folder, "observed/messages", part)
        np.testing.assert_array_equal(messages["array-0"], np.full((20, 5_000), part, np.float32))
    with Recorder(folder, resume=True) as again:
        assert again.round_count == len(parts)
        again.round(np.zeros(5_000, np.float32), [])


def test_the_last_files_of_a_process_that_ends_are_written(tmp_path: Path) -> None:
    """Flower's server lets go of its recorder when Python is about to end, and starts no thread any more."""
    program = (
        "import atexit, concurrent.futures.thread, sys; from pathlib import Path; "
        "from foltr_audit_recorder.atomic_files import write_files; "
        "atexit.register(write_files, Path(sys.argv[1]), {'first': b'1', 'second': b'2'})"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], cwd=ROOT / "recorder", check=True)
    assert [path.read_bytes() for path in sorted(tmp_path.iterdir())] == [b"1", b"2"]


DTYPES = ("<f8", "<f4", "<f2", ">f8", "<i8", "<u2", "|b1", "|i1")
SETTINGS = {"clipping_range": 8.0, "target_range": 2**22, "mod_range": 2**32, "max_weight": 1000.0}
SETTINGS |= {"share_num": 5, "threshold": 3}

# --- arrays -----------------------------------------------------------------------------------------


SHAPES = arrays_of.array_shapes(min_dims=0, max_dims=3)
ARRAYS = st.sampled_from(DTYPES).flatmap(lambda dtype: arrays_of.arrays(np.dtype(dtype), SHAPES))


def saved(values: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, values, allow_pickle=True)
    return stream.getvalue()


@given(ARRAYS, st.booleans())
def test_an_array_is_what_numpy_reads(values: np.ndarray, by_columns: bool) -> None:
    data = saved(np.asfortranarray(values) if by_columns and values.ndim else values)
    found = npy_array("weight", data)
    np.testing.assert_array_equal(found.values, values)
    assert (found.place.name, found.place.shape) == ("weight", values.shape)
    assert found.place.dtype == values.dtype.name


def test_arrays_of_something_else_than_numbers_are_refused() -> None:
    others: list[list[object]] = [["a"], [1j], [np.datetime64("2026-11-23")], [{}]]
    for values in others:
        with pytest.raises(ValueError, match=r"array weight.* expected numbers"):
            npy_array("weight", saved(np.array(values)))
    with pytest.raises(ValueError, match="magic string"):
        npy_array("weight", b"no array at all")


# --- secure aggregation ------------------------------------------------------------------------------


@given(st.integers(0, 10**6), st.lists(st.integers(1, 900), min_size=2, max_size=6), st.integers(1, 5))
def test_the_sum_is_found_from_the_mean_that_a_server_made(seed: int, counts: list[int], width: int) -> None:
    """Clients and server by the words of the protocol: quantise, add up, subtract the offsets, divide."""
    rng = np.random.default_rng(seed)
    clip, levels = SETTINGS["clipping_range"], int(SETTINGS["target_range"])
    words = []
    for count in counts:
        ratio = round(count / SETTINGS["max_weight"] * levels)
        model = np.clip(rng.normal(size=width) * (ratio / levels), -clip, clip)
        words.append([ratio, *np.floor((model + clip) * levels / (2 * clip)).astype(int)])
    total = np.sum(words, axis=0)
    mean = total[1:] * (2 * clip / levels) - clip - (len(counts) - 1) * clip
    mean = mean * (levels / total[0])
    found = there(SecAggRound(settings=dict(SETTINGS)).total(mean, counts))
    np.testing.assert_array_equal(found, total.astype(np.uint64))
    # A mean that was changed afterwards, here by half a word, is no mean of words: nothing is told.
    half = (clip / levels) * (levels / total[0])
    assert SecAggRound(settings=dict(SETTINGS)).total(mean + half, counts) is None


def test_why_there_is_no_sum() -> None:
    seen = SecAggRound(settings=dict(SETTINGS))
    assert seen.missing_sum(0) == "no masked message arrived"
    assert seen.missing_sum(4) == "halted before the unmask stage"
    for node in range(4):
        seen.sent(node, {"stage": "unmask", "active_nids": [0, 1, 2], "dead_nids": [3]})
    for node in range(3):
        seen.answered(node, {"nids": [0, 1, 2, 3], "shares": [b""] * 4})
        assert bool(seen.missing_sum(4)) == (node < 2)
    assert {(row.node, row.stage) for row in seen.outcomes} == {
        *((node, "unmask: shares of the mask seed") for node in range(3)),
        (3, "unmask: shares of the secret key"),
    }


def test_a_coarse_weight_is_said_with_the_size_of_its_steps(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "foltr_audit_recorder"):
        SecAggRound(settings=dict(SETTINGS)).warn_of_rounding([500, 300])
        assert not caplog.records
        SecAggRound(settings=dict(SETTINGS)).warn_of_rounding([1, 1])
    assert "steps of 0.0038; with max_weight=1 to steps of 3.8e-06" in caplog.text


# --- lists of clients -----------------------------------------------------------------------------


FIELDS = ("features", "clicks", "shown", "candidates")


@st.composite
def shown_lists(draw: st.DrawFn) -> ShownList:
    """A list of 1 to 5 documents with 2 features, with some of what a client may tell."""
    k, seed = draw(st.integers(1, 5)), draw(st.integers(0, 10**6))
    rng = np.random.default_rng(seed)
    return ShownList(
        features=rng.normal(size=(k, 2)),
        clicks=rng.random(k) < 0.5 if draw(st.booleans()) else None,
        shown=rng.permutation(9)[:k],
        query=draw(st.integers(0, 10**9)),
        part=draw(st.integers(0, 4)),
        candidates=rng.normal(size=(9, 2)) if draw(st.booleans()) else None,
        intent=draw(st.integers(0, 3)),
        clipped=draw(st.sampled_from([None, True, False])),
    )


@given(st.lists(shown_lists(), max_size=4))
def test_lists_come_back_as_they_went(lists: list[ShownList]) -> None:
    back = unpack_lists(pack_lists(lists))
    assert len(back) == len(lists)
    for one, other in zip(lists, back, strict=True):
        for name in FIELDS:
            mine, theirs = getattr(one, name), getattr(other, name)
            assert (mine is None) == (theirs is None)
            if mine is not None:
                np.testing.assert_array_equal(mine, theirs)
        assert (one.query, one.part, one.intent, one.clipped) == (
            *(other.query, other.part, other.intent, other.clipped),
        )


@given(st.data())
def test_damaged_bytes_are_refused_or_read_and_never_break(data: st.DataObject) -> None:
    """A server reads what anybody sends: it may get other numbers, and nothing worse than a ValueError."""
    good = bytearray(pack_lists([ShownList(features=np.ones((3, 2)), clicks=[1, 0, 0])]))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(good) - 1))
        good[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(good)))
    for broken in (bytes(good), bytes(good[:cut])):
        with contextlib.suppress(ValueError):
            unpack_lists(broken)


def archive(content: bytes, name: str = "a.npy", way: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", way) as made:
        made.writestr(name, content)
    return stream.getvalue()


def npy(values: NDArray[np.generic]) -> bytes:
    stream = io.BytesIO()
    np.save(stream, values, allow_pickle=True)
    return stream.getvalue()


def test_bytes_that_promise_too_much_allocate_nothing() -> None:
    endless = npy(np.zeros(1)).replace(b"(1,), }" + b" " * 18, b"(1000000000000000000,), }")
    objects = npy(np.array([None]))
    for data in (archive(endless), archive(objects), archive(npy(np.zeros(9)), way=zipfile.ZIP_DEFLATED)):
        with pytest.raises(ValueError, match="these bytes hold no packed arrays"):
            unpack_arrays(data)
    with pytest.raises(ValueError, match="expected numbers"):
        pack_arrays({"a": np.array(["text"])})
