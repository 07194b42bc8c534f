"""Messages that no trace can hold: refused by a strict recorder, left out by one that must go on."""

from __future__ import annotations

import logging
import math
import threading
from pathlib import Path

import numpy as np
import pytest
from foltr_audit.recorder import NodeOutcome, ReceivedMessage, Recorder, ShownList
from foltr_audit.recorder.trace_files import HEADER, marker_indices
from numpy.typing import NDArray

from foltr_audit.trace import Trace, validate
from tests.fixtures.there import there

WIDTH = 6
MODEL = np.linspace(-1.0, 1.0, WIDTH, dtype=np.float32)
FLOWER_MASKS = {"of": "model", "masking": "flower-secagg", "clipping_range": 8.0, "max_weight": 1.0}
FLOWER_MASKS |= {"quantization_range": 2**22, "modulus_bits": 32}


def good(sender: int = 1, **fields: object) -> ReceivedMessage:
    return ReceivedMessage(**{"arrays": MODEL + np.float32(sender), "sender": sender, **fields})  # type: ignore[arg-type]


def shown(**fields: object) -> ShownList:
    features: NDArray[np.float64] = np.arange(12.0).reshape(3, 4)
    return ShownList(**{"features": features, "clicks": [1, 0, 0], **fields})  # type: ignore[arg-type]


UNFIT = {
    "another shape": {"arrays": np.zeros(5, np.float32)},
    "another format": {"arrays": MODEL.astype(np.float64)},
    "text": {"arrays": np.array(["a"])},
    "nothing": {"arrays": None},
    "not finite": {"arrays": np.full(WIDTH, np.inf, np.float32)},
    "a huge count": {"count": 10**30},
    "a negative count": {"count": -1},
    "a negative half of a count": {"count": -0.5},
    "a count that is not a number": {"count": math.nan},
    "an infinite count": {"count": math.inf},
    "a count that is true": {"count": True},
    "a count in words": {"count": "3"},
    "half a size": {"size": 2.5},
    "a size that is true": {"size": True},
    "a negative size": {"size": -1},
    "a moment that is text": {"at": "now"},
}
UNFIT_TOLD = {
    "more lists than the count": {"lists": [shown(), shown()]},
    "a negative query": {"lists": [shown(query=-5)]},
    "a part that is not there": {"lists": [shown(part=1)]},
    "an intent that is not there": {"lists": [shown(intent=2)]},
    "features that are not finite": {"lists": [shown(features=np.full((3, 4), np.nan))]},
    "a document twice": {"lists": [shown(shown=[1, 1, 2])]},
    "a longer list": {"lists": [ShownList(features=np.ones((4, 4)))]},
    "a wider list": {"lists": [ShownList(features=np.ones((3, 5)))]},
    "an update of another shape": {"update": np.zeros(5)},
    "an update that is not finite": {"update": np.full(WIDTH, np.inf)},
    "an update beyond float32": {"update": np.full(WIDTH, 1e300)},
}


@pytest.mark.parametrize("fields", UNFIT.values(), ids=UNFIT)
def test_a_message_that_does_not_fit_is_left_out_and_its_sender_failed(
    tmp_path: Path, fields: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    arrived = [NodeOutcome(node=node, outcome="arrived") for node in (7, 1, 2)]
    with Recorder(tmp_path, strict=False) as recorder, caplog.at_level(logging.WARNING):
        for _ in range(2):  # as the first message of a trace, and later
            sent = [good(7, **fields), good(1), good(2)]
            assert recorder.round(MODEL, sent, outcomes=arrived)
    assert caplog.text.count("1 of 3 messages: a message is left out") == 2
    assert validate(tmp_path) == []
    for record in Trace.open(tmp_path).rounds():
        assert there(record.senders).tolist() == [1, 2]
        np.testing.assert_array_equal(record.messages, [MODEL + 1, MODEL + 2])
        outcomes = {each.node: each.outcome for each in record.cohort}
        assert outcomes == {1: "arrived", 2: "arrived", 7: "failed"}
        assert any("left out" in each.reason for each in record.cohort)


@pytest.mark.parametrize("fields", [*UNFIT.values(), *UNFIT_TOLD.values()], ids=[*UNFIT, *UNFIT_TOLD])
def test_a_strict_recorder_refuses_them_and_their_round(tmp_path: Path, fields: dict[str, object]) -> None:
    recorder = Recorder(tmp_path, truth=True)
    recorder.round(MODEL, [good(lists=[shown()])])
    with pytest.raises((ValueError, TypeError)):
        recorder.round(MODEL, [good(1), good(7, **fields)])
    assert recorder.round(MODEL, [good(1)])
    assert validate(tmp_path) == []
    assert Trace.open(tmp_path).n_rounds == 2


@pytest.mark.parametrize(
    ("dtype", "buffer"), [("int8", 200.0), ("uint8", -1.0), ("int64", math.nan), ("bool", 2.0)]
)
def test_a_buffer_that_became_a_number_of_no_such_format_is_refused(
    tmp_path: Path, dtype: str, buffer: float
) -> None:
    def arrays(seen: NDArray[np.generic]) -> dict[str, object]:
        return {"weight": MODEL, "seen": seen}

    with Recorder(tmp_path) as recorder:
        sent = arrays(np.zeros(1, dtype))
        assert recorder.round(sent, [good(1, arrays=sent)])
        with pytest.raises(ValueError, match="cannot hold"):
            recorder.round(sent, [good(1, arrays=arrays(np.array([buffer])))])
        assert recorder.round(sent, [good(1, arrays=arrays(np.array([0.9])))])
    *_, record = Trace.open(tmp_path).rounds()
    assert record.buffers[0].tolist() == [[1]]


@pytest.mark.parametrize("name", ["query", "part", "intent"])
@pytest.mark.parametrize("value", [0.5, 2.0, math.nan, True, "1", None])
def test_numbers_of_lists_are_whole(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{name} is .*; expected a whole number"):
        shown(**{name: value})


@pytest.mark.parametrize("node", [1.5, 2.0, True, math.nan, -1, 2**64])
def test_numbers_of_nodes_are_whole(tmp_path: Path, node: int) -> None:
    with pytest.raises(ValueError, match=r"node is .*; expected a whole number from 0 to 2\^64-1"):
        NodeOutcome(node=node, outcome="late")
    with Recorder(tmp_path) as recorder, pytest.raises(ValueError, match="node is"):
        recorder.round(MODEL, [good(5)], asked=[node])


@pytest.mark.parametrize("total", [np.full(WIDTH + 1, 2.5), np.full(WIDTH, 2), np.full(WIDTH + 1, 2**32)])
def test_a_sum_of_words_is_of_so_many_whole_numbers(tmp_path: Path, total: NDArray[np.generic]) -> None:
    words = np.arange(WIDTH + 1, dtype=np.uint64)
    with Recorder(tmp_path, FLOWER_MASKS, kind="masked") as recorder:
        with pytest.raises(ValueError, match="total has "):
            recorder.round(MODEL, [good(arrays=words)], total=total)
        assert recorder.round(MODEL, [good(arrays=words)], total=words)
    assert validate(tmp_path) == []


@pytest.mark.parametrize("fields", UNFIT_TOLD.values(), ids=UNFIT_TOLD)
def test_what_a_client_tells_is_left_out_alone(tmp_path: Path, fields: dict[str, object]) -> None:
    with Recorder(tmp_path, truth=True, strict=False, list_length=3, features=4) as recorder:
        assert recorder.round(MODEL, [good(1, lists=[shown()]), good(7, **fields)])
    assert validate(tmp_path) == []
    [record] = Trace.open(tmp_path).rounds()
    assert record.n_messages == 2
    assert record.slot.tolist() == [0]


def test_the_layout_is_that_of_most_messages_that_the_model_fits(tmp_path: Path) -> None:
    wrong = [good(node, arrays=np.zeros(5, np.float32)) for node in range(10, 13)]
    with Recorder(tmp_path, strict=False) as recorder:
        recorder.round(MODEL, [*wrong, good(1), good(2)])
    [record] = Trace.open(tmp_path).rounds()
    assert there(record.senders).tolist() == [1, 2]


def test_masked_words_beyond_the_modulus_are_left_out(tmp_path: Path) -> None:
    fit = np.arange(WIDTH + 1, dtype=np.int64)
    words = {1: fit, 7: fit - 1, 8: fit + 2**32, 9: fit.astype(np.float64), 10: fit[1:]}
    with Recorder(tmp_path, FLOWER_MASKS, kind="masked", strict=False) as recorder:
        recorder.round(MODEL, [good(node, arrays=arrays) for node, arrays in words.items()], aborted="no sum")
    assert validate(tmp_path) == []
    [record] = Trace.open(tmp_path).rounds()
    np.testing.assert_array_equal(record.messages, fit[None])


def test_names_of_metrics_and_reasons_are_one_short_line_of_letters(tmp_path: Path) -> None:
    metrics = {"loss": 0.5, "\x1b[2Jred\n": 1.0, "n" * 10**6: 2.0, "same\0": 3.0, "same": 4.0}
    many = {f"m{number}": 1.0 for number in range(5000)}
    reason = "Traceback:\n  \x1b]0;title\x07" + "x" * 10**6
    with Recorder(tmp_path) as recorder:
        sent = [good(1, metrics=metrics), good(2, metrics=many), good(3, metrics={"loss": 0.25})]
        recorder.round(MODEL, sent, failures={9: reason})
    assert validate(tmp_path) == []
    [record] = Trace.open(tmp_path).rounds()
    texts = (*record.clear, *(each.reason for each in record.cohort))
    assert all(text.isprintable() and len(text) <= 200 for text in texts)
    assert len(record.clear) <= 1000
    np.testing.assert_array_equal(record.clear["loss"], [0.5, np.nan, 0.25])


# --- rounds without messages, facts, and folders --------------------------------------------------------


def test_rounds_without_messages_wait_for_the_first_that_shows_the_lists(tmp_path: Path) -> None:
    with Recorder(tmp_path, strict=False) as recorder:
        model = MODEL.copy()
        assert recorder.round(model, [], asked=[3])
        model += 1.0  # the recorder has a copy
        assert recorder.round(model, [good(lists=[shown()])])
        assert recorder.round_count == 2
    assert validate(tmp_path) == []
    first, second = Trace.open(tmp_path).rounds()
    assert (first.n_messages, second.n_interactions) == (0, 1)
    np.testing.assert_array_equal(first.parameters, MODEL.astype(np.float64))
    with Recorder(tmp_path / "empty", strict=False) as recorder:
        recorder.round(MODEL, [], asked=[3])
    assert Trace.open(tmp_path / "empty").n_rounds == 1


@pytest.mark.parametrize("empty", [0, 1, 2])
def test_a_part_may_hold_a_round_without_messages(tmp_path: Path, empty: int) -> None:
    with Recorder(tmp_path, rounds_per_part=3) as recorder:
        for number in range(3):
            recorder.round(MODEL, [] if number == empty else [good(2**63), good(2)])
    records = list(Trace.open(tmp_path).rounds())
    assert [record.n_messages for record in records] == [0 if number == empty else 2 for number in range(3)]


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        *(({"learning_rate": value}, "expected text, a number") for value in (None, float("nan"), [1, 2])),
        ({"of": "update"}, "expected that of the trace"),
        ({"learning_rate": float("inf")}, "expected a finite number"),
    ],
)
def test_facts_that_no_trace_holds_are_refused_before_anything_is_written(
    tmp_path: Path, facts: dict[str, object], told: str
) -> None:
    if "expected text" in told:
        with pytest.raises(ValueError, match=told):
            Recorder(tmp_path, facts, strict=False)
    with Recorder(tmp_path) as recorder:
        with pytest.raises(ValueError, match=told):
            recorder.round(MODEL, [good()], facts=facts)
        recorder.round(MODEL, [good()], facts={"learning_rate": np.float32(0.5)})
    assert validate(tmp_path) == []


def test_rounds_before_one_that_is_refused_are_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder(tmp_path, strict=False, rounds_per_part=10)
    models = (MODEL, MODEL, np.zeros(5), MODEL)
    assert [recorder.round(model, [good()]) for model in models] == [True, True, False, False]
    assert Trace.open(tmp_path).n_rounds == 2
    assert [record.message.partition(" stops at ")[2][:7] for record in caplog.records] == ["round 2"]


def test_two_recorders_never_write_into_one_folder(tmp_path: Path) -> None:
    one, other = Recorder(tmp_path), Recorder(tmp_path)
    one.round(MODEL, [good(1)])
    with pytest.raises(OSError, match="another recorder"):
        other.round(MODEL, [good(2)])
    resumed = Recorder(tmp_path, resume=True)
    one.round(MODEL, [good(3)])
    with pytest.raises(OSError, match="another writer"):
        resumed.round(MODEL, [good(4)])
    assert [there(record.senders).tolist() for record in Trace.open(tmp_path).rounds()] == [[1], [3]]


@pytest.mark.parametrize(("asked", "takes"), [(None, False), (False, False), (True, True)])
def test_clients_tell_the_truth_only_where_asked_for(tmp_path: Path, asked: bool | None, takes: bool) -> None:
    with Recorder(tmp_path, truth=asked) as recorder:
        assert recorder.takes_truth is takes
        recorder.round(MODEL, [good()])
    assert Recorder(tmp_path, resume=True).takes_truth is takes
    assert Trace.open(tmp_path).header.has_truth is takes


def test_threads_may_share_a_recorder(tmp_path: Path) -> None:
    def play(node: int) -> None:
        for _ in range(8):
            assert recorder.round(MODEL, [good(node)])

    with Recorder(tmp_path) as recorder:
        threads = [threading.Thread(target=play, args=(node,)) for node in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert validate(tmp_path) == []
    assert Trace.open(tmp_path).n_rounds == 32


def test_a_recorder_killed_before_its_first_part_is_resumed_from_the_beginning(tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder:
        recorder.round(MODEL, [good(1)])
    (tmp_path / "part-00000.json").unlink()
    assert (tmp_path / HEADER).exists()
    with Recorder(tmp_path, {"learning_rate": 0.5}, resume=True) as again:
        again.round(MODEL, [good(2)])
    assert marker_indices(tmp_path) == [0]
    assert validate(tmp_path) == []
    assert Trace.open(tmp_path).header.knowledge == {"learning_rate": 0.5}
