"""Judges attacks that ask for counts: sums over all clients who saw one list, with their clicks beside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.plugins import Attack, View
from foltr_audit.core.records.interactions import RoundRecord
from foltr_audit.errors import UsageError
from foltr_audit.inference.click_rates import cascade_rates, median_rates, weighted_median
from foltr_audit.judge.click_evidence import answered, refused_in
from foltr_audit.judge.clicks import able, checked_answer
from foltr_audit.judge.hypothetical_views import whole_round, why_not_one_list, with_lists
from foltr_audit.judge.observer import Observer
from foltr_audit.judge.view_builder import query_names
from foltr_audit.rng import Streams
from foltr_audit.simulation.recorder import RoundStore
from foltr_audit.utils.arrays import Floats, Ints
from foltr_audit.utils.progress import NO_TICK, Tick


@dataclass(frozen=True, kw_only=True, eq=False)
class CountEvidence:
    """L lists, each shown to several clients whose updates were summed.

    Attributes:
        query: name of each list's query, (L,).
        clients: clients of each sum, int64 (L,).
        shown: position of each shown document inside its query, int64 (L, k), padded with -1.
        counts: clients that clicked each document, the truth, int64 (L, k).
        estimates: each attack's estimate of it, float64 (L, k), by label.
        baselines: estimates without a message, float64 (L, k), by name.
        refused: why an attack could not run, by label.
    """

    query: NDArray[np.str_]
    clients: Ints
    shown: Ints
    counts: Ints
    estimates: dict[str, Floats] = field(default_factory=dict)
    baselines: dict[str, Floats] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    @property
    def is_document(self) -> NDArray[np.bool_]:
        """False at the padding, bool (L, k)."""
        return self.shown >= 0


def combined_counts(pieces: Sequence[CountEvidence]) -> CountEvidence:
    """Evidence of several rounds or repetitions as one; an attack that any of them refused is refused."""
    refused = refused_in(pieces)

    def joined(parts: Sequence[dict[str, Floats]]) -> dict[str, Floats]:
        names = answered(parts, refused)
        return {name: np.concatenate([part[name] for part in parts]) for name in names}

    return CountEvidence(
        query=np.concatenate([piece.query for piece in pieces]),
        clients=np.concatenate([piece.clients for piece in pieces]),
        shown=np.concatenate([piece.shown for piece in pieces]),
        counts=np.concatenate([piece.counts for piece in pieces]),
        estimates=joined([piece.estimates for piece in pieces]),
        baselines=joined([piece.baselines for piece in pieces]),
        refused=refused,
    )


def judge_counts(
    recording: RoundStore,
    observer: Observer,
    attacks: Sequence[Attack],
    streams: Streams,
    tick: Tick = NO_TICK,
) -> CountEvidence:
    """Sum the updates of all clients who saw the same list, and have attacks count their clicks.

    Attacks that read single messages are refused.

    Args:
        recording: observed rounds with their truth.
        observer: who sees the sums.
        attacks: the attacks, with different labels.
        streams: named random streams for attacks that draw.
        tick: called after every round.

    Raises:
        UsageError: the recording holds no truth, no message, or lists that are not deterministic.
    """
    totals = ListTotals.of(recording, observer)
    pieces = []
    for record in recording.rounds():
        rows = totals.begun(record)
        if rows.size:
            pieces.append(_judged(record, rows, totals, observer, attacks, streams))
        tick()
    return combined_counts(pieces)


@dataclass(frozen=True, eq=False)
class ListTotals:
    """Sums over all clients who started from the same model and saw the same list.

    Attributes:
        first: round and message that each sum begins with, int64 (L, 2).
        updates: sums of updates that arrived, float64 (L, P).
        clients: how many those are, int64 (L,).
        counts: how many of them clicked each document, int64 (L, k).
    """

    first: Ints
    updates: Floats
    clients: Ints
    counts: Ints

    @classmethod
    def of(cls, recording: RoundStore, observer: Observer) -> ListTotals:
        """The sums of recorded rounds.

        Raises:
            UsageError: as `judge_counts`.
        """
        if not recording.has_truth:
            raise UsageError("trace: it holds no truth, so nothing can be scored")
        if observer.header.kind == "masked":
            raise UsageError(
                "view aggregate: the messages are masked one by one; expected a chain without "
                "secure-aggregation, whose sums this view stands for"
            )
        numbers: dict[bytes, int] = {}
        first: list[tuple[int, int]] = []
        updates, clients, counts = [], [], []
        for record, truth in zip(recording.rounds(), recording.truths(), strict=True):
            reason = why_not_one_list(record, observer.header) if record.n_messages else None
            if reason is not None:
                raise UsageError(f"view aggregate: {reason}")
            model = record.parameters if observer.header.kind == "model" else 0.0
            for row in np.flatnonzero(record.survivors).tolist():
                number = numbers.setdefault(_key(record, row), len(numbers))
                if number == len(first):
                    first.append((record.round, row))
                    updates.append(np.zeros(record.parameters.size))
                    clients.append(0)
                    counts.append(np.zeros(record.shown.shape[1], dtype=np.int64))
                updates[number] += record.messages[row].astype(np.float64) - model
                clients[number] += 1
                counts[number] += truth.clicks[row]
        if not first:
            raise UsageError("trace: it holds no message yet")
        return cls(np.array(first), np.array(updates), np.array(clients), np.array(counts))

    def begun(self, record: RoundRecord) -> Ints:
        """Numbers of the sums that begin in a round."""
        return np.flatnonzero(self.first[:, 0] == record.round)


def _key(record: RoundRecord, row: int) -> bytes:
    """What the clients of one sum have in common."""
    asked = record.part[row : row + 1].tobytes() + record.query[row : row + 1].tobytes()
    return bytes(asked + record.shown[row].tobytes() + record.parameters.tobytes())


def _judged(
    record: RoundRecord,
    rows: Ints,
    totals: ListTotals,
    observer: Observer,
    attacks: Sequence[Attack],
    streams: Streams,
) -> CountEvidence:
    from threadpoolctl import threadpool_limits

    messages = totals.first[rows, 1]
    view = _seen(observer, record, messages, totals, rows)
    estimates: dict[str, Floats] = {}
    refused: dict[str, str] = {}
    with threadpool_limits(limits=1, user_api="blas"):
        for attack, rng in able(attacks, view, streams, f"sums/{record.round}", refused):
            scores = checked_answer(attack, view, rng).scores[:, 0]
            estimates[attack.label] = _in_order(scores, view.shown[:, 0], record.shown[messages])
    knowing = (
        view if observer.knowing is observer else _seen(observer.knowing, record, messages, totals, rows)
    )
    shown, counts = record.shown[messages], totals.counts[rows]
    return CountEvidence(
        query=query_names(record, observer.header, observer.collection)[messages],
        clients=totals.clients[rows],
        shown=shown,
        counts=counts,
        estimates=estimates,
        baselines=dict(_baselines(knowing, counts)),
        refused=refused,
    )


def _seen(observer: Observer, record: RoundRecord, messages: Ints, totals: ListTotals, rows: Ints) -> View:
    """Some sums as an observer sees them, whose lists are those of messages of a round."""
    view = with_lists(whole_round(observer, record), messages, messages[:, np.newaxis])
    return replace(
        view,
        observer="aggregate",
        kind="update",
        messages=totals.updates[rows],
        clients=totals.clients[rows],
    )


def _in_order(values: Floats, seen: Ints, recorded: Ints) -> Floats:
    """Values (L, k) of documents as they were seen, in the order in which the same ones were recorded."""
    out = np.empty_like(values)
    sorted_values = np.take_along_axis(values, np.argsort(seen, axis=1, kind="stable"), axis=1)
    np.put_along_axis(out, np.argsort(recorded, axis=1, kind="stable"), sorted_values, axis=1)
    return out


def _baselines(view: View, counts: Ints) -> Iterator[tuple[str, Floats]]:
    """Estimates (L, k) without a message: the best constant rate in hindsight, and what is usual."""
    clients, here = view.clients[:, np.newaxis], view.is_document[:, 0]
    rates = np.divide(counts, clients)[here]
    best = weighted_median(rates, np.ones(rates.size)) if rates.size else 0.0
    yield "constant", np.where(here, best * clients, 0.0)
    belief = view.knowledge.belief
    if belief is None:
        return
    k = here.shape[1]
    yield "position-prior", np.where(here, cascade_rates(*belief.by_position(k)) * clients, 0.0)
    yield "position-prior:median", np.where(here, median_rates(belief, k) * clients, 0.0)
    if view.labels is not None:
        yield (
            "relevance-prior",
            np.where(here, cascade_rates(*belief.by_grade(view.labels[:, 0])) * clients, 0.0),
        )
