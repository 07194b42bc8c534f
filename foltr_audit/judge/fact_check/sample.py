"""A bounded sample of the messages of a trace, with the models of the rounds before and after."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from foltr_audit.core.records.interactions import RoundRecord
from foltr_audit.core.records.view import View
from foltr_audit.errors import TraceError
from foltr_audit.judge.observer import Observer
from foltr_audit.judge.pieces import with_messages, with_rows
from foltr_audit.trace import Trace
from foltr_audit.utils.arrays import Floats, Ints

MOST_MESSAGES = 200
_MOST_PARTS = 10


@dataclass(frozen=True, eq=False)
class RoundSample:
    """Sampled messages of one round, each with one list.

    Attributes:
        view: the messages, n of them with B = 1.
        before: the global model of the round before, (P,); None where it is not recorded.
        after: the global model after the round, (P,); None where it is not known.
    """

    view: View
    before: Floats | None
    after: Floats | None

    def first(self, count: int) -> RoundSample:
        """The same piece with its first messages only."""
        return self if count >= len(self.view) else replace(self, view=rows_of(self.view, slice(count)))


@dataclass
class MessageSample:
    """What was sampled of a trace.

    Attributes:
        pieces: sampled messages by round.
        lists: numbers of lists that the examined messages hold, from one on.
        silent: messages of one list that do not differ from the global model.
        contradictions: what the counts of a round contradict, one line each.
    """

    pieces: list[RoundSample] = field(default_factory=list)
    lists: set[int] = field(default_factory=set)
    silent: int = 0
    contradictions: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Number of sampled messages."""
        return sum(len(piece.view) for piece in self.pieces)

    def smaller(self, count: int) -> list[RoundSample]:
        """About `count` of the messages, as many from each round."""
        each = max(1, count // max(1, len(self.pieces)))
        step = max(1, len(self.pieces) // count)
        return [piece.first(each) for piece in self.pieces[::step]]


def sample_of(trace: Trace, observer: Observer) -> MessageSample:
    """Messages with one list that changed the model, from rounds spread evenly over a trace.

    Raises:
        TraceError: a part that is damaged, or a number that is not finite.
    """
    found, before = MessageSample(), None
    trace = thinned(trace)
    quota = -(-MOST_MESSAGES // max(1, trace.n_rounds))
    for record in trace.rounds():
        _check_interactions(found, trace, record)
        follows = before is not None and before.round + 1 == record.round
        slots = _slots(found, trace, record)
        if slots.size and found.size < MOST_MESSAGES:
            most = min(quota, MOST_MESSAGES - found.size)
            spread = np.unique(np.linspace(0, slots.size - 1, min(most, slots.size)).astype(np.int64))
            earlier = before.parameters if follows and before is not None else None
            for view in _views(observer, with_messages(record, slots[spread])[0]):
                after = None if np.isnan(record.aggregate).all() else record.aggregate
                found.pieces.append(RoundSample(view, earlier, after))
        before = record
    return found


def thinned(trace: Trace) -> Trace:
    """The trace with a few of its parts."""
    if len(trace.parts) <= _MOST_PARTS:
        return trace
    chosen = np.linspace(0, len(trace.parts) - 1, _MOST_PARTS).astype(np.int64)
    return replace(trace, parts=tuple(trace.parts[index] for index in chosen.tolist()))


def _check_interactions(found: MessageSample, trace: Trace, record: RoundRecord) -> None:
    stated = trace.header.knowledge.get("interactions")
    if isinstance(stated, bool) or not isinstance(stated, int) or found.contradictions:
        return
    wrong = record.counts[record.survivors & (record.counts != stated)]
    if wrong.size:
        found.contradictions.append(
            f"interactions is {stated}, but a message of round {record.round} counts {wrong[0]}"
        )


def _slots(found: MessageSample, trace: Trace, record: RoundRecord) -> Ints:
    """Messages with one list of two documents or more that differ from the global model."""
    if not record.n_messages:
        return np.empty(0, dtype=np.int64)
    lists = np.bincount(record.slot, minlength=record.n_messages)
    found.lists |= set(np.unique(lists[lists > 0]).tolist())
    long = np.zeros(record.n_messages, dtype=np.bool_)
    long[record.slot[record.lengths > 1]] = True
    single = (lists == 1) & long & record.survivors
    start = record.parameters if trace.header.content == "model" else np.zeros(1)
    moves = np.any(record.messages.astype(np.float64) != start, axis=1)
    found.silent += int((single & ~moves).sum())
    return np.flatnonzero(single & moves)


def _views(observer: Observer, record: RoundRecord) -> Iterator[View]:
    known = np.isfinite(record.aggregate)
    if known.any() and not known.all():
        raise TraceError(f"trace: round {record.round} holds a number that is not finite")
    for seen in observer.views(record):
        yield seen.view.trimmed()


def rows_of(view: View, rows: slice | Ints) -> View:
    """Some messages of a view, without labels."""
    candidates = view.candidates
    return with_rows(
        view,
        (("parameters", "messages", "shown", "features", "clients"), rows),
        candidates=None if candidates is None else replace(candidates, query=candidates.query[rows]),
        labels=None,
        intent_labels=None,
    )
