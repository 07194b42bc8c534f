"""Rounds as a server of secure aggregation sees them: the sum of all messages, next to all lists."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.core.records.round_context import SECOND_TOTAL, SUBTRACTED, TARGET
from foltr_audit.core.records.view import Knowledge, View
from foltr_audit.errors import TraceError, UsageError
from foltr_audit.judge.observer import Observer
from foltr_audit.judge.pieces import with_rows
from foltr_audit.privacy.noise import parse_law
from foltr_audit.simulation.recorder import ObservedRounds
from foltr_audit.trace import TraceHeader
from foltr_audit.utils.arrays import Bools, Floats, Ints, freeze
from foltr_audit.utils.reading import is_whole

_PER_LIST = ("part", "query", "shown", "features", "n_candidates")


@dataclass(frozen=True, kw_only=True, eq=False)
class SummedRound(RoundRecord):
    """A round with one message: the model plus the sum of all updates that arrived, with all their lists.

    What the server can take out of the sum is not in it.

    Clients whose messages count more than others' weigh accordingly; the sum is divided by the mean weight.

    Attributes:
        clients: how many messages are summed.
        origins: which of them each list belongs to, int64 (I,).
        alike: whether all weigh the same.
        unlisted: clients with interactions of which no list is recorded: their updates are in the sum.
        rounding: largest error of a number from encoding it as an integer; 0 without.
        isolated: whether it is one client's update, and only its lists are kept.
        weights: how much each update counts in the sum, 1 on average, float64 (clients,); of an isolated
            client, its own alone, (1,).
    """

    clients: int
    origins: Ints
    alike: bool
    unlisted: int = 0
    rounding: float = 0.0
    isolated: bool = False
    weights: Floats

    def __post_init__(self) -> None:
        super().__post_init__()
        freeze(self, origins=np.int64, weights=np.float64)

    @property
    def of_one_list(self) -> bool:
        """Whether every client saw the same list, and no other."""
        alone = np.array_equal(self.origins, np.arange(self.clients))
        same = [np.all(values == values[:1]) for values in (self.shown, self.query, self.part)]
        return alone and all(same)


@dataclass(frozen=True, kw_only=True, eq=False)
class SummedTruth(RoundTruth):
    """What is behind a sum, and behind each message in it: its client (n,) and the update of that, (n, P)."""

    members: Ints
    member_updates: Floats

    def __post_init__(self) -> None:
        super().__post_init__()
        freeze(self, members=self.members.dtype, member_updates=np.float64)


@dataclass(frozen=True, eq=False)
class RoundSums:
    """Recorded rounds, each as one sum; rounds in which nothing arrived are left out."""

    source: ObservedRounds

    @property
    def header(self) -> TraceHeader:
        """The header, with sums as plain messages."""
        header = self.source.header
        if header.kind != "masked":
            return header
        return replace(header, kind=header.content, dtype="float64", layout=())

    def rounds(self) -> Iterator[SummedRound]:
        """The sums of the rounds, in order."""
        for record in self.source.rounds():
            if (read := self._read(record)) is not None:
                yield self._sum(read)

    def truths(self) -> Iterator[SummedTruth]:
        for record, truth in zip(self.source.rounds(), self.source.truths(), strict=True):
            if (read := self._read(record)) is not None:
                yield _summed_truth(read, truth)

    def _read(self, record: RoundRecord) -> RoundRecord | None:
        """A round in which fact `target` names the client that is alone in the sum; None: nothing arrived."""
        return record if is_read(record) else None

    def _sum(self, record: RoundRecord) -> SummedRound:
        """What is attacked of a round, whole sums; a subclass attacks something else."""
        return summed(record, self.source.header)


def summed(record: RoundRecord, header: TraceHeader) -> SummedRound:
    """The sum of the messages of a round that arrived, of which there is at least one.

    Of masked messages it is the result of secure aggregation, else of plain addition in float64.
    """
    where = f"view aggregate: round {record.round}"
    if not header.holds_models:
        raise UsageError(f"{where}: messages of kind {header.kind} are no models; expected models or updates")
    counts, target = record.counts[not_subtracted(record)], isolated_client(record)
    total = _total(record, header)
    if total is None or not np.all(np.isfinite(total)):
        raise UsageError(f"{where}: the sum of its messages is not recorded; expected `total` or `aggregate`")
    if target is not None and header.content == "model":
        raise UsageError(f"{where}: its clients start from different models; expected updates as messages")
    change = total - counts.sum() * record.parameters if header.content == "model" else total
    error = 0.0
    if (encoding := header.encoding) is not None:
        words = np.zeros(1, dtype=np.uint64) if record.total is None else record.total
        error = encoding.error_of_sum(words, counts) / weight_in_sum(record)
    return added_up(record, header, change, "view aggregate", error)


def added_up(
    record: RoundRecord, header: TraceHeader, change: Floats, view: str, rounding: float = 0.0
) -> SummedRound:
    """A round with a sum of its clients' updates in the place of their messages, and with their lists.

    `change` is the sum of counts times updates, (P,), whose numbers rounding may have put `rounding` off; in
    a round with a fact `target` only one client is in it. Errors name the `view`.
    """
    here, target, weight = not_subtracted(record), isolated_client(record), weight_in_sum(record)
    kept, counts = _in_sum(record)[record.slot], record.counts[here]
    if counts.any() and not kept.any():
        raise UsageError(
            f"{view}: round {record.round}: no shown list is recorded; expected the clients' lists, without "
            "which a sum tells nothing"
        )
    start = record.parameters if header.content == "model" else 0.0
    origins = np.zeros(kept.sum(), dtype=np.int64)
    if target is None:
        origins = np.cumsum(here)[record.slot[kept]] - 1
    given = {one.name: getattr(record, one.name) for one in fields(RoundRecord)}
    rows = {name: None if given[name] is None else given[name][kept] for name in _PER_LIST}
    return SummedRound(
        **given
        | rows
        | {
            "survivors": np.ones(1, dtype=np.bool_),
            "counts": counts.sum(keepdims=True),
            "messages": (start + change / weight)[np.newaxis],
            "slot": np.zeros(origins.size, dtype=np.int64),
            "step": np.arange(origins.size),
            **dict.fromkeys(("total", "seeds", "state", "senders", "sizes", "sent_at")),
            "candidates": record.candidates_of(kept),
            "buffers": (),
            "clear": {},
        },
        clients=counts.size,
        origins=origins,
        alike=bool(np.all(counts == counts[0])),
        unlisted=0 if target is not None else int(np.count_nonzero(counts)) - np.unique(origins).size,
        rounding=rounding,
        isolated=target is not None,
        weights=record.counts[_in_sum(record)] / weight,
    )


def weight_in_sum(record: RoundRecord) -> float:
    """What the messages of a round weigh on average, or the isolated one; 1 where they weigh nothing."""
    target = isolated_client(record)
    return (
        float(record.counts[not_subtracted(record)].mean() if target is None else record.counts[target])
        or 1.0
    )


def _total(record: RoundRecord, header: TraceHeader) -> Floats | None:
    """The sum of counts times messages over what arrived and cannot be subtracted, (P,).

    None where it is not recorded. The messages of a server's own clients are 0.
    """
    here = not_subtracted(record)
    counts = record.counts[here].astype(np.float64)
    if header.kind != "masked":
        return np.asarray(counts @ record.messages[here].astype(np.float64))
    if record.total is not None and header.encoding is not None:
        left = np.asarray(record.total - _second_total(record), dtype=np.uint64)
        return header.encoding.decode_sum(left, record.counts[here])
    if header.knowledge.get("aggregate", "mean") != "mean":
        return None
    mean = record.aggregate if header.content == "model" else record.aggregate - record.parameters
    return np.asarray(counts.sum() * mean)


def isolated_client(record: RoundRecord) -> int | None:
    """Place of the client whose update the server of a round isolates; None if there is none."""
    target = record.facts.get(TARGET)
    if target is None:
        return None
    if not is_whole(target, 0) or int(str(target)) >= record.n_messages:
        raise TraceError(
            f"trace: round {record.round}: target is {target!r:.40}; expected a message of the round"
        )
    return int(str(target))


def not_subtracted(record: RoundRecord) -> Bools:
    """Which messages arrived and cannot be subtracted by the server, bool (M,)."""
    left = record.survivors.copy()
    places = _whole_numbers(record, SUBTRACTED, "messages of the round", record.n_messages)
    left[np.array(places, dtype=np.int64)] = False
    return left


def _second_total(record: RoundRecord) -> NDArray[np.uint64]:
    """The sum of the encodings that the server subtracts, (W,) or (1,) where they are 0."""
    words = _whole_numbers(record, SECOND_TOTAL, "a sum", 2**64)
    if words and (record.total is None or len(words) != record.total.size):
        raise TraceError(
            f"trace: round {record.round}: {SECOND_TOTAL} has {len(words)} numbers; expected as many as a sum"
        )
    return np.array(words or [0], dtype=np.uint64)


def _whole_numbers(record: RoundRecord, fact: str, expected: str, limit: int) -> list[int]:
    """The numbers from 0 on, below a limit, that a fact lists as texts; none where it is not given."""
    texts = record.facts.get(fact, [])
    known = isinstance(texts, list) and all(
        isinstance(text, str) and text.isascii() and text.isdigit() and len(text) <= 20 for text in texts
    )
    numbers = [int(text) for text in texts] if known and isinstance(texts, list) else []
    if not known or max(numbers, default=-1) >= limit:
        raise TraceError(f"trace: round {record.round}: {fact} is {texts!r:.40}; expected {expected}")
    return numbers


def is_read(record: RoundRecord) -> bool:
    """Whether a round has a sum, and the client in it that its server isolates, if any."""
    return not record.aborted and bool(_in_sum(record).any())


def _in_sum(record: RoundRecord) -> Bools:
    """Whose updates the sum of a round tells of, bool (M,): all that are unknown, or the isolated one."""
    target, unknown = isolated_client(record), not_subtracted(record)
    return unknown if target is None else unknown & (np.arange(record.n_messages) == target)


def _summed_truth(record: RoundRecord, truth: RoundTruth) -> SummedTruth:
    here = _in_sum(record)
    kept = here[record.slot]
    lists = ("clicks", "intents", "known")
    total = with_rows(
        truth,
        ((*lists, "clipped") if truth.knows_clips else lists, np.flatnonzero(kept)),
        clients=np.zeros(1, dtype=np.int64),
        updates=truth.updates[here].sum(axis=0, keepdims=True),
    )
    given = {one.name: getattr(total, one.name) for one in fields(RoundTruth)}
    return SummedTruth(**given, members=truth.clients[here], member_updates=truth.updates[here])


class SumObserver(Observer):
    """A server that sees the sum of each round, and the lists of its clients.

    The sum of a single message is that message, and its view is `individual`.
    """

    def _everything(self, record: RoundRecord) -> Knowledge:
        known = super()._everything(record)
        if not isinstance(record, SummedRound):
            return known
        if record.unlisted:  # what their clients learnt hides the others as noise of an unknown law does
            return known.having(noise=None, encoding_error=record.rounding)
        law = None if known.noise is None else parse_law(known.noise)
        noise = known.noise if law is None else law.summed(record.clients).text
        return known.having(noise=noise, encoding_error=record.rounding)

    def _as_seen(self, view: View, record: RoundRecord) -> View:
        if not isinstance(record, SummedRound) or record.clients == 1 or record.isolated:
            return view
        return replace(
            view,
            observer="aggregate",
            clients=np.array([record.clients]),
            senders=record.origins[np.newaxis] if record.alike else None,
        )
