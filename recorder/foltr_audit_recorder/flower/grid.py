"""A Flower grid that records: every message of every strategy passes through it."""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from ..array_layout import NamedArray, named_arrays, npy_array, vector
from ..recorder import Recorder
from .client_records import take_truth
from .open_round import EVALUATE, OpenRound, round_key, same_arrays, stage_of
from .payload import COUNT, array_records, flower_array, model_in

if TYPE_CHECKING:
    from flwr.app import Message
    from flwr.serverapp import Grid

LOG = logging.getLogger("foltr_audit_recorder")


class RecordingGrid:
    """Hands everything on to a grid of Flower, and writes down what the server sees.

    In a ServerApp:

        strategy.start(RecordingGrid(grid, "trace"), initial_arrays=..., num_rounds=...)

    Messages of training are recorded, of evaluation only who answered. A round is written when the model of
    the next one goes out, which is its aggregate; the last one when `close` is called or Python ends. Records
    of consenting clients (`record_truth`, `recording_mod`) are taken out before the strategy sees a reply.

    - Node ids are whole numbers from 0 to 2^64-1: half of them do not fit int64.
    - Apps made with `ServerApp(server_fn=...)` hand out no grid: use `record_app`.
    - Under SecAgg+ (`SecAggPlusWorkflow`) the masked messages are recorded, and the unmasked sum where the
      next model shows it. It needs the legacy client API. A `max_weight` far above `num_examples` rounds
      updates away, which is said in the log.
    - SuperNodes of Flower 1.41 connect to the address of the SuperLink itself; `--fleet-api-address` is
      accepted and does nothing.

    An error of recording never stops the federation: recording stops, with one warning in the log.

    Args:
        grid: the grid to hand everything on to.
        trace: folder of the trace, or a recorder.
        facts: what everybody may know of the system, as for `Recorder`.
        count_key: name of the metric that the strategy weighs replies by.
        kind: what a message is: `model`, as Flower's own clients send, or `update`. Masked messages are
            noticed.
        truth: whether to record what consenting clients tell, for laboratories. Else it is thrown away:
            whoever may send a reply could tell something.
        options: `list_length`, `features`, `ranker`, `source`, `parts`, `max_bytes`, as for `Recorder`.

    Raises:
        ValueError: the folder holds a trace already: said before the federation begins.
    """

    def __init__(
        self,
        grid: Grid,
        trace: str | Path | Recorder = "trace",
        *,
        facts: Mapping[str, object] | None = None,
        count_key: str = COUNT,
        kind: str = "model",
        truth: bool = False,
        **options: Any,
    ) -> None:
        self._grid, self._count_key = grid, count_key
        if not isinstance(trace, Recorder):
            options = {"source": "Flower", **options}
            trace = Recorder(trace, facts, kind=kind, truth=truth, strict=False, **options)
        self.recorder = trace
        self._consent = self.recorder.takes_truth
        self._lock = threading.RLock()
        self._open: OpenRound | None = None
        self._before: OpenRound | None = None  # ended, but the model that follows has not gone out yet
        self._by_id: dict[str, Exchange] = {}
        self._told_of_truth = False
        self._shown: dict[str, object] = {}  # facts that rounds have shown and the header has
        atexit.register(self.close)

    def __getattr__(self, name: str) -> object:
        return getattr(self.__dict__["_grid"], name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """Send messages and wait for their replies, as the grid does; both are recorded."""
        going = list(messages)
        exchanges = self._sending(going)
        replies = list(self._grid.send_and_receive(going, timeout=timeout))
        self._receiving(replies, lambda reply: _asked_in(exchanges, reply))
        return replies

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        """Send messages, as the grid does; they are recorded."""
        going = list(messages)
        exchanges = self._sending(going)
        ids = list(self._grid.push_messages(going))
        with self._lock:
            for message, message_id in zip(going, ids, strict=False):
                exchange = exchanges.get(_goes_to(message))
                if message_id and exchange is not None:
                    self._by_id[str(message_id)] = exchange
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """Get replies, as the grid does; they are recorded."""
        replies = list(self._grid.pull_messages(message_ids))
        self._receiving(replies, lambda reply: self._by_id.pop(reply.metadata.reply_to_message_id, None))
        return replies

    def aggregated(self, arrays: object) -> None:
        """Tell what the strategy made of the replies of the open round; `RecordingStrategy` does.

        Args:
            arrays: an `ArrayRecord`, or what `Recorder.round` takes; None is ignored.
        """
        self._guarded(lambda: self._note_aggregate(arrays))

    def unmasked(self, arrays: object) -> None:
        """Tell the mean that secure aggregation gave, before the strategy changes it."""
        self._guarded(lambda: self._note_unmasked(arrays))

    def close(self, arrays: object = None) -> None:
        """Write the last round.

        Args:
            arrays: the final model, `result.arrays`, where no evaluation or strategy has shown it.
        """
        atexit.unregister(self.close)
        self._guarded(lambda: self._close(arrays))

    def _sending(self, messages: Sequence[Message]) -> dict[tuple[int, str], Exchange]:
        exchanges: dict[tuple[int, str], Exchange] = {}
        self._guarded(lambda: self._note_sent(messages, exchanges))
        return exchanges

    def _receiving(
        self, replies: Sequence[Message], exchange_of: Callable[[Message], Exchange | None]
    ) -> None:
        self._guarded(lambda: self._note_received(replies, exchange_of))
        if self.recorder.stopped:  # whatever became of the recording, strategies do not see what clients told
            for reply in replies:
                if reply.has_content():
                    take_truth(reply.content)

    def _guarded(self, action: Callable[[], None]) -> None:
        """Do something about the trace. What goes wrong stops the recording and never the federation."""
        if self.recorder.stopped:
            return
        try:
            with self._lock:
                action()
        except Exception as error:
            self.recorder.stop(f"{type(error).__name__}: {error}")

    def _note_sent(self, messages: Sequence[Message], exchanges: dict[tuple[int, str], Exchange]) -> None:
        last: tuple[object, str] | None = None
        exchange: Exchange | None = None
        for message in messages:
            if not message.has_content():
                continue
            # A strategy sends the same content to all nodes: what it holds is looked at once.
            this = message.content, message.metadata.message_type
            if last is None or this[0] is not last[0] or this[1] != last[1]:
                last, exchange = this, self._exchange_of(message)
            if exchange is not None:
                exchange.round.asked(message, exchange.stage)
                node, category = _goes_to(message)
                exchanges[node, category] = exchanges[node, ""] = exchange

    def _exchange_of(self, message: Message) -> Exchange | None:
        stage = stage_of(message)
        if stage is None:
            return None
        if stage == EVALUATE:
            if self._open is not None and self._open.answered:
                self._note_aggregate(model_in(message.content))
            return None if self._open is None else Exchange(self._open, stage)
        current = self._round_of(message, stage)
        current.shows(message, stage)
        if self._before is not None and current.model is not None:
            if self._before.aggregate is None and _follows(self._before.key, current.key):
                self._before.aggregate = current.model
            self._write(self._before)
            self._before = None
        return Exchange(current, stage)

    def _round_of(self, message: Message, stage: str) -> OpenRound:
        key = round_key(message)
        if self._open is not None and _continues(self._open, key, message, stage):
            return self._open
        if self._before is not None:
            self._write(self._before)
        self._before, self._open = self._open, OpenRound(key, self._count_key, self._consent)
        if self._before is not None and self._before.aggregate is not None:
            self._write(self._before)
            self._before = None
        return self._open

    def _note_received(
        self, replies: Sequence[Message], exchange_of: Callable[[Message], Exchange | None]
    ) -> None:
        for reply in replies:
            exchange = exchange_of(reply)
            if exchange is not None and not exchange.round.written:
                try:
                    exchange.round.received(reply, exchange.stage)
                except Exception as error:  # one client must not end the recording of all
                    exchange.round.leaves_out(reply, exchange.stage, error)
            elif reply.has_content():
                take_truth(reply.content)

    def _note_aggregate(self, arrays: object) -> None:
        if self._open is not None and self._open.aggregate is None and arrays is not None:
            self._open.aggregate = _named(arrays) or None

    def _note_unmasked(self, arrays: object) -> None:
        if self._open is not None and self._open.secagg is not None:
            self._open.secagg.mean = vector(_named(arrays))

    def _close(self, arrays: object) -> None:
        if arrays is not None:
            self._note_aggregate(arrays)
        for round_ in (self._before, self._open):
            if round_ is not None and not round_.written:
                self._write(round_)
        self.recorder.close()

    def _write(self, round_: OpenRound) -> None:
        round_.written = True
        if round_.model is None:
            LOG.warning("round %s is not recorded: no model went out", round_.key or "?")
            return
        if round_.unasked and not self._told_of_truth:
            self._told_of_truth = True
            LOG.warning("clients tell what they saw or clicked; it is recorded with truth=True only")
        secagg, aborted = round_.secagg, ""
        facts = dict(round_.facts)
        if secagg is not None:
            facts |= secagg.facts
            aborted = secagg.missing_sum(len(round_.messages))
            if not self._shown:
                secagg.warn_of_rounding([message.count for message in round_.messages])
        if not self.recorder.begun:
            self._shown = dict(facts)
            # Lists come from clients, if from anybody: a Flower server does not have them.
            lists = {"lists_known": "auditor"} if self._consent else {}
            self.recorder.declare({**lists, **facts}, kind=None if secagg is None else "masked")
        elif not self._shown:  # a trace that is resumed
            self._shown = self.recorder.facts
        self.recorder.round(
            round_.model,
            round_.messages,
            aggregate=round_.aggregate,
            outcomes=round_.cohort(),
            facts={name: value for name, value in facts.items() if self._shown.get(name) != value},
            total=round_.total(),
            aborted=aborted,
            started=round_.started,
            ended=round_.ended,
        )
        round_.forget()  # messages that nobody answers keep their round


class Exchange(NamedTuple):
    """Messages of one stage that go out together."""

    round: OpenRound
    stage: str


def _follows(before: str, after: str) -> bool:
    """Whether a round begins with the model of the one before: numbers that fall begin another training."""
    return not (before.isdecimal() and after.isdecimal()) or int(before) < int(after)


def _goes_to(message: Message) -> tuple[int, str]:
    return message.metadata.dst_node_id, message.metadata.message_type


def _asked_in(exchanges: Mapping[tuple[int, str], Exchange], reply: Message) -> Exchange | None:
    """The exchange of a reply. Errors that the SuperLink makes may have another type than the message."""
    node = reply.metadata.src_node_id
    return exchanges.get((node, reply.metadata.message_type)) or exchanges.get((node, ""))


def _continues(current: OpenRound, key: str, message: Message, stage: str) -> bool:
    """Whether a message belongs to the open round: by its number; without one, by who gets which model."""
    records = array_records(message.content)
    record = next(iter(records.values()), None)
    same = record is None or current.record is None or same_arrays(record, current.record)
    if key or current.key:
        return key == current.key and (same or not current.answered)
    return same and not current.asks(message.metadata.dst_node_id, stage)


def _named(arrays: object) -> list[NamedArray]:
    """Arrays of a model, which may be those of Flower's records or of its legacy messages; [] without any."""
    if hasattr(arrays, "tensors"):
        return [npy_array(str(place), data) for place, data in enumerate(arrays.tensors)]
    if isinstance(arrays, Mapping) and all(hasattr(array, "stype") for array in arrays.values()):
        return [flower_array(name, array) for name, array in arrays.items() if array.data]
    return named_arrays(arrays)
