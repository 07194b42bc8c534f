"""Rounds that another thread writes: all, in order, none after a gap, and none after the end."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event, Thread
from typing import cast

import pytest

from foltr_audit.simulation.federation import RoundResult
from foltr_audit.simulation.recorder import BackgroundWriter


class Round:
    """A round that is its number."""

    def __init__(self, number: int) -> None:
        self.number = number

    def recorded(self, *, messages: bool) -> tuple[int, bool]:
        return self.number, messages


class Trace:
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


def behind(trace: Trace, room: int) -> BackgroundWriter:
    return BackgroundWriter(cast("Callable[..., None]", trace.write), room)


def put(writer: BackgroundWriter, number: int) -> None:
    writer.write(cast("RoundResult", Round(number)), messages=number % 2 == 0)


@pytest.mark.parametrize("room", [1, 2, 50])
def test_all_rounds_are_written_in_order(room: int) -> None:
    trace = Trace()
    with behind(trace, room) as writer:
        for number in range(200):
            put(writer, number)
            assert len(trace.taken) >= number - room + 1, "more rounds wait than there is room for"
    assert trace.taken == list(range(200))


def test_rounds_are_played_while_another_is_written() -> None:
    trace = Trace(waits_at=0)
    with behind(trace, 3) as writer:
        for number in range(3):
            put(writer, number)
        assert trace.begun.wait(60)
        assert not trace.taken
        trace.go_on.set()
    assert trace.taken == [0, 1, 2]


def put_all(trace: Trace, rounds: int) -> None:
    with behind(trace, 1) as writer:
        for number in range(rounds):
            put(writer, number)


@pytest.mark.parametrize("after", [0, 5])
def test_what_goes_wrong_is_raised_by_a_later_write_or_at_the_end(after: int) -> None:
    trace = Trace(fails_at=3)
    with pytest.raises(OSError, match="round 3 cannot be written"):
        put_all(trace, 4 + after)
    assert trace.taken == [0, 1, 2]


def interrupted(trace: Trace) -> None:
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
    trace = Trace(waits_at=1)
    with pytest.raises(KeyboardInterrupt):
        interrupted(trace)
    assert trace.taken == [0, 1], "the round that was being written is finished first"
