"""Judges attacks that count clicks: sums over all clients who saw one list, compared with their clicks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.plugins import Attack, View
from foltr_audit.core.records.interactions import RoundRecord
from foltr_audit.errors import UsageError
from foltr_audit.inference.click_rates import cascade_rates, median_rates, weighted_median
from foltr_audit.judge.attack_session import NO_MESSAGE, AttackSession, rounds_with_truth
from foltr_audit.judge.hypothetical_views import whole_round, why_not_one_list, with_lists
from foltr_audit.judge.observer import Observer
from foltr_audit.judge.pieces import join_pieces
from foltr_audit.judge.view_builder import query_names
from foltr_audit.rng import Streams
from foltr_audit.simulation.recorder import RoundStore
from foltr_audit.utils.arrays import Bools, Floats, Ints
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
    def is_document(self) -> Bools:
        """False at the padding, bool (L, k)."""
        return self.shown >= 0


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
        rows = totals.beginning_in(record)
        if rows.size:
            pieces.append(_judge_round(record, rows, totals, observer, AttackSession(attacks, streams)))
        tick()
    return join_pieces(pieces)


@dataclass(frozen=True, eq=False)
class ListTotals:
    """Sums over all clients who started from the same model and saw the same list.

    Attributes:
        first: round and number of the first message of each sum, int64 (L, 2).
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
        if observer.header.kind == "masked":
            raise UsageError(
                "view aggregate: the messages are masked one by one; expected a chain without "
                "secure-aggregation, whose sums this view stands for"
            )
        numbers: dict[bytes, int] = {}
        first: list[tuple[int, int]] = []
        updates, clients, counts = [], [], []
        for record, truth in rounds_with_truth(recording):
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
                # In float64: a sum of many float32 messages would lose digits that clicks are read from.
                updates[number] += record.messages[row].astype(np.float64) - model
                clients[number] += 1
                counts[number] += truth.clicks[row]
        if not first:
            raise UsageError(NO_MESSAGE)
        return cls(np.array(first), np.array(updates), np.array(clients), np.array(counts))

    def beginning_in(self, record: RoundRecord) -> Ints:
        """Numbers of the sums that begin in a round."""
        return np.flatnonzero(self.first[:, 0] == record.round)


def _key(record: RoundRecord, row: int) -> bytes:
    """What the clients of one sum have in common."""
    asked = record.part[row : row + 1].tobytes() + record.query[row : row + 1].tobytes()
    return bytes(asked + record.shown[row].tobytes() + record.parameters.tobytes())


def _judge_round(
    record: RoundRecord, rows: Ints, totals: ListTotals, observer: Observer, session: AttackSession[Attack]
) -> CountEvidence:
    """Evidence on the sums that begin in a round."""
    messages = totals.first[rows, 1]
    shown, counts = record.shown[messages], totals.counts[rows]
    view = full = _seen(observer, record, messages, totals, rows)
    if observer.knowing is not observer:
        full = _seen(observer.knowing, record, messages, totals, rows)
    for attack, answer in session.answers(view, record.round, f"sums/{record.round}"):
        session.keep(attack, _in_order(answer.scores[:, 0], view.shown[:, 0], shown))
    return CountEvidence(
        query=query_names(record, observer.header, observer.collection)[messages],
        clients=totals.clients[rows],
        shown=shown,
        counts=counts,
        estimates=session.collect(),
        baselines=dict(_baselines(full, counts)),
        refused=session.refused,
    )


def _seen(observer: Observer, record: RoundRecord, messages: Ints, totals: ListTotals, rows: Ints) -> View:
    """Some sums as an observer sees them, whose lists are those of messages of a round."""
    view = with_lists(whole_round(observer, record), messages, messages[:, np.newaxis])
    return replace(
        view, observer="aggregate", kind="update", messages=totals.updates[rows], clients=totals.clients[rows]
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
    rates_by = {
        "position-prior": cascade_rates(*belief.by_position(k)),
        "position-prior:median": median_rates(belief, k),
    }
    if view.labels is not None:
        rates_by["relevance-prior"] = cascade_rates(*belief.by_grade(view.labels[:, 0]))
    for name, usual in rates_by.items():
        yield name, np.where(here, usual * clients, 0.0)
