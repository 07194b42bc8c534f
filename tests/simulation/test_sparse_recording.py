"""Recording some rounds only or none, evaluating not every round, and rounds that another thread writes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import cast

import numpy as np
import pytest

from foltr_audit.simulation.federation import Federation, RoundResult
from foltr_audit.simulation.recorder import BackgroundWriter
from foltr_audit.trace import Trace, validate
from tests.conftest import SetupOf
from tests.fixtures.command import answer, files, refusal, run
from tests.fixtures.tiny import FEATURES

OPTIONS = "--data synthetic:mq2007:30 --clients 20 --rounds 7 --eps 1.2"


def train(folder: Path, *options: object) -> dict[str, bytes]:
    done = run(f"train {OPTIONS}", *options, "--out", folder)
    assert done.code == 0, done.err
    assert validate(folder / "trace") == []
    return files(folder)


@pytest.mark.parametrize("every", [2, 100, 0])
def test_messages_of_every_kth_round_and_everything_else_of_all(tmp_path: Path, every: int) -> None:
    train(tmp_path / "whole")
    train(tmp_path / "sparse", "--trace-every", every)
    whole, sparse = (Trace.open(tmp_path / name / "trace") for name in ("whole", "sparse"))
    pairs = list(zip(whole.rounds(), sparse.rounds(), strict=True))
    assert len(pairs) == 7
    for mine, other in pairs:
        assert np.array_equal(mine.aggregate, other.aggregate)
        kept = every > 0 and mine.round % every == 0
        assert other.n_messages == (20 if kept else 0)
        assert other.n_interactions == (80 if kept else 0)
        if kept:
            assert np.array_equal(mine.messages, other.messages)
            assert np.array_equal(mine.shown, other.shown)
    for one, two in zip(whole.truths(), sparse.truths(), strict=True):
        assert one.metrics == two.metrics
    here, there = (tmp_path / name / "model.npy" for name in ("whole", "sparse"))
    assert here.read_bytes() == there.read_bytes()


def test_no_trace_is_every_0_and_can_be_resumed(tmp_path: Path) -> None:
    whole = train(tmp_path / "run", "--no-trace")
    assert train(tmp_path / "zero", "--trace-every", 0) == whole
    (tmp_path / "run" / "model.npy").unlink()
    (tmp_path / "run" / "trace" / "part-00000.json").unlink()
    assert train(tmp_path / "run", "--no-trace", "--resume") == whole
    refused = run(f"train {OPTIONS} --resume --out", tmp_path / "run")
    assert refused.code == 2
    assert "trace.every is 0 there and 1 here" in refused.err


def test_only_recorded_rounds_are_attacked(tmp_path: Path) -> None:
    training = "attack --target training --method olsr"
    kept = answer(f"{training} {OPTIONS} --trace-every 4 --out", tmp_path / "run")["results"]
    (row,) = [row for row in kept if row["method"].startswith("olsr")]
    assert row["lists"] + row["skipped"] == 2 * 20 * 4  # rounds 0 and 4
    assert answer(f"{training} {OPTIONS} --trace-every 4")["results"] == kept
    assert answer(f"{training} --trace", tmp_path / "run")["results"] == kept


def test_an_attack_on_training_needs_its_messages() -> None:
    assert "target training" in refusal(f"attack {OPTIONS} --target training --method olsr --no-trace")


@pytest.mark.parametrize("every", [1, 3, 10])
def test_evaluation_every_k_rounds_and_after_the_last(every: int, setup_of: SetupOf) -> None:
    whole = [played.metrics for played in Federation(setup_of(rounds=7)).rounds(np.zeros(FEATURES))]
    sparse = Federation(setup_of(rounds=7, train={"evaluate_every": every})).rounds(np.zeros(FEATURES))
    for round_, (mine, played) in enumerate(zip(whole, sparse, strict=True)):
        due = (round_ + 1) % every == 0 or round_ == 6
        assert np.isnan(played.metrics["offline_ndcg@10"]) == (not due)
        for name, value in played.metrics.items():
            assert np.isnan(value) or value == mine[name]


def test_rounds_that_were_not_evaluated_are_null_and_a_dash() -> None:
    asked = f"train {OPTIONS} --evaluate-every 3"
    found = [row["offline_ndcg@10"] for row in answer(asked)["rounds"]]
    assert [value is None for value in found] == [True, True, False, True, True, False, False]
    lines = [line.split() for line in run(f"{asked} --full").out.splitlines()]
    shown = [line[3] for line in lines if len(line) > 7 and line[0] == "1.2"]
    assert [text == "-" for text in shown] == [value is None for value in found]


class Round:
    """A round that is its number."""

    def __init__(self, number: int) -> None:
        self.number = number

    def recorded(self, *, messages: bool) -> tuple[int, bool]:
        return self.number, messages


class Sink:
    """Takes numbers of rounds; it waits in front of one, or fails at one."""

    def __init__(self, *, waits_at: int = -1, fails_at: int = -1) -> None:
        self.waits_at = waits_at
        self.fails_at = fails_at
        self.begun, self.go_on = Event(), Event()
        self.taken: list[int] = []

    def write(self, number: int, messages: bool) -> None:
        if number == self.waits_at:
            self.begun.set()
            assert self.go_on.wait(60)
        if number == self.fails_at:
            raise OSError(f"round {number} cannot be written")
        assert messages == (number % 2 == 0)
        self.taken.append(number)


def behind(trace: Sink, room: int) -> BackgroundWriter:
    return BackgroundWriter(cast("Callable[..., None]", trace.write), room)


def put(writer: BackgroundWriter, number: int) -> None:
    writer.write(cast("RoundResult", Round(number)), messages=number % 2 == 0)


@pytest.mark.parametrize("room", [1, 2, 50])
def test_all_rounds_are_written_in_order(room: int) -> None:
    trace = Sink()
    with behind(trace, room) as writer:
        for number in range(200):
            put(writer, number)
            assert len(trace.taken) >= number - room + 1, "more rounds wait than there is room for"
    assert trace.taken == list(range(200))


def test_rounds_are_played_while_another_is_written() -> None:
    trace = Sink(waits_at=0)
    with behind(trace, 3) as writer:
        for number in range(3):
            put(writer, number)
        assert trace.begun.wait(60)
        assert not trace.taken
        trace.go_on.set()
    assert trace.taken == [0, 1, 2]


def put_all(trace: Sink, rounds: int) -> None:
    with behind(trace, 1) as writer:
        for number in range(rounds):
            put(writer, number)


@pytest.mark.parametrize("after", [0, 5])
def test_what_goes_wrong_is_raised_by_a_later_write_or_at_the_end(after: int) -> None:
    trace = Sink(fails_at=3)
    with pytest.raises(OSError, match="round 3 cannot be written"):
        put_all(trace, 4 + after)
    assert trace.taken == [0, 1, 2]


def interrupted(trace: Sink) -> None:
    with behind(trace, 10) as writer:
        for number in range(4):
            put(writer, number)
        assert trace.begun.wait(60)
        Thread(target=lambda: _when_dropped(writer, trace.go_on)).start()
        raise KeyboardInterrupt


def _when_dropped(writer: BackgroundWriter, event: Event) -> None:
    while not all(written.cancelled() for written in list(writer._written)[2:]):
        time.sleep(0.001)
    event.set()


def test_after_an_exception_waiting_rounds_are_dropped() -> None:
    trace = Sink(waits_at=1)
    with pytest.raises(KeyboardInterrupt):
        interrupted(trace)
    assert trace.taken == [0, 1], "the round that was being written is finished first"
