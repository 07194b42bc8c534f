"""Writes rounds in a thread of its own while the next ones are played."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

from foltr_audit.simulation.rounds import RoundResult
from foltr_audit.trace import TraceWriter


class BackgroundWriter:
    """Makes records of played rounds and hands them to a trace writer, in order, some rounds behind.

    As a context manager it waits for all of them at the end. After an exception the rounds that
    wait are dropped: as without the thread, whole parts stay.
    """

    def __init__(self, writer: TraceWriter, room: int) -> None:
        """At most `room` rounds wait."""
        self.writer = writer
        self.room = room
        self._waiting: deque[Future[None]] = deque()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="trace")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            while kind is None and self._waiting:
                self._waiting.popleft().result()
        finally:
            self._thread.shutdown(wait=True, cancel_futures=True)

    def write(self, played: RoundResult, *, messages: bool) -> None:
        """Take one round, with its messages or without.

        Raises:
            FoltrAuditError: an earlier round could not be written.
        """
        while self._waiting and (self._waiting[0].done() or len(self._waiting) >= self.room):
            self._waiting.popleft().result()
        self._waiting.append(self._thread.submit(self._write, played, messages))

    def _write(self, played: RoundResult, messages: bool) -> None:
        self.writer.write(*played.recorded(messages=messages))
