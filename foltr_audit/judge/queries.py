"""Judges attacks that ask which query was asked: the truth among decoys from the same recording."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.plugins import Attack, View
from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.errors import PluginError, UsageError
from foltr_audit.judge.click_evidence import answered, refused_in
from foltr_audit.judge.clicks import able, checked_answer
from foltr_audit.judge.hypothetical_views import whole_round, why_not_one_list, with_lists
from foltr_audit.judge.observer import Observer
from foltr_audit.judge.view_builder import query_names
from foltr_audit.rng import Streams
from foltr_audit.simulation.recorder import RoundStore
from foltr_audit.utils.arrays import Floats, Ints
from foltr_audit.utils.progress import NO_TICK, Tick

_CHUNK_NUMBERS = 1 << 22  # feature values in one view: bounds its memory
_LISTS_ARE_MADE = frozenset({"query", "shown"})  # not needed by who makes the list of every query
_TIE = 1e-9  # relative difference of probabilities that counts as none


@dataclass(frozen=True, kw_only=True, eq=False)
class TruthRanks:
    """Where one attack put the truth among the choices of L messages.

    Attributes:
        probability: what it gave the truth, float64 (L,).
        ahead: choices more probable than the truth, int64 (L,).
        tied: choices as probable as the truth, itself included, int64 (L,).
    """

    probability: Floats
    ahead: Ints
    tied: Ints

    @property
    def first(self) -> Floats:
        """Chance that the truth is named when ties are broken at random, float64 (L,)."""
        return np.where(self.ahead == 0, 1.0 / self.tied, 0.0)

    @property
    def rank(self) -> Floats:
        """Expected rank of the truth, from 1: ties count as half, float64 (L,)."""
        return self.ahead + (self.tied + 1) / 2

    @property
    def reciprocal_rank(self) -> Floats:
        """Expected 1 / rank of the truth when ties are broken at random, float64 (L,)."""
        harmonic = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, 1 + self._most))])
        return np.asarray((harmonic[self.ahead + self.tied] - harmonic[self.ahead]) / self.tied)

    @property
    def _most(self) -> int:
        return int((self.ahead + self.tied).max(initial=0))

    @classmethod
    def of(cls, lists: Floats, truth: Ints) -> TruthRanks:
        """The places of the truth (L,) among probabilities (L, m)."""
        own = np.take_along_axis(lists, truth[:, np.newaxis], axis=1)
        near = np.abs(lists - own) <= _TIE * own
        return cls(
            probability=own[:, 0],
            ahead=((lists > own) & ~near).sum(axis=1),
            tied=near.sum(axis=1),
        )

    @classmethod
    def joined(cls, pieces: Sequence[TruthRanks]) -> TruthRanks:
        """Places one after the other."""
        return cls(
            probability=np.concatenate([piece.probability for piece in pieces]),
            ahead=np.concatenate([piece.ahead for piece in pieces]),
            tied=np.concatenate([piece.tied for piece in pieces]),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class QueryEvidence:
    """Messages whose query was asked for.

    Attributes:
        query: name of each message's query, (L,).
        has_pairs: whether anything was learnt from the clicks; else the message says nothing, bool (L,).
        choices: queries that each message had to be told from, its own included, int64 (L,).
        asked: how many were asked for.
        placed: where each attack put the truth, by label.
        refused: why an attack could not run, by label.
    """

    query: NDArray[np.str_]
    has_pairs: NDArray[np.bool_]
    choices: Ints
    asked: int
    placed: dict[str, TruthRanks] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


def combined_queries(pieces: Sequence[QueryEvidence]) -> QueryEvidence:
    """Evidence of several rounds or repetitions as one; an attack that any of them refused is refused."""
    refused = refused_in(pieces)
    labels = answered([piece.placed for piece in pieces], refused)
    return QueryEvidence(
        query=np.concatenate([piece.query for piece in pieces]),
        has_pairs=np.concatenate([piece.has_pairs for piece in pieces]),
        choices=np.concatenate([piece.choices for piece in pieces]),
        asked=pieces[0].asked,
        placed={label: TruthRanks.joined([piece.placed[label] for piece in pieces]) for label in labels},
        refused=refused,
    )


def judge_queries(
    recording: RoundStore,
    observer: Observer,
    attacks: Sequence[Attack],
    choices: int,
    streams: Streams,
    tick: Tick = NO_TICK,
) -> QueryEvidence:
    """Have attacks tell each recorded message's query from others of its round.

    Args:
        recording: observed rounds with their truth.
        observer: who sees them.
        attacks: attacks that ask for a query, with different labels.
        choices: how many queries there are to choose from; all of a round where it has fewer.
        streams: named random streams of the decoys and of attacks that draw.
        tick: called after every round.

    Raises:
        UsageError: the recording holds no truth, or no message.
    """
    if not recording.has_truth:
        raise UsageError("trace: it holds no truth, so nothing can be scored")
    pieces = []
    for record, truth in zip(recording.rounds(), recording.truths(), strict=True):
        if record.n_messages:
            pieces.append(_judged(record, truth, observer, attacks, choices, streams))
        tick()
    if not pieces:
        raise UsageError("trace: it holds no message yet")
    return combined_queries(pieces)


def _judged(
    record: RoundRecord,
    truth: RoundTruth,
    observer: Observer,
    attacks: Sequence[Attack],
    choices: int,
    streams: Streams,
) -> QueryEvidence:
    from threadpoolctl import threadpool_limits

    names = query_names(record, observer.header, observer.collection)
    pages = RoundQueries.of(record, names)
    reason = why_not_one_list(record, observer.header) or pages.why_not(choices)
    labels = [attack.label for attack in attacks]
    observer = replace(observer, hidden=observer.hidden - _LISTS_ARE_MADE)
    if reason is not None:
        return QueryEvidence(
            query=names[:0],
            has_pairs=np.zeros(0, np.bool_),
            choices=np.zeros(0, np.int64),
            asked=choices,
            refused=dict.fromkeys(labels, reason),
        )
    offered, right = pages.offered(choices, streams, record.round)
    pieces: dict[str, list[Floats]] = {label: [] for label in labels}
    refused: dict[str, str] = {}
    with threadpool_limits(limits=1, user_api="blas"):
        for first, view in _views(record, observer, pages.first[offered]):
            for attack, rng in able(attacks, view, streams, f"{record.round}/{first}", refused):
                pieces[attack.label].append(_lists(attack, view, rng))
    there = record.shown >= 0
    return QueryEvidence(
        query=names,
        has_pairs=truth.clicks.any(axis=1) & (truth.clicks != there).any(axis=1),
        choices=np.full(names.size, offered.shape[1]),
        asked=choices,
        placed={
            label: TruthRanks.of(np.concatenate(mine), right)
            for label, mine in pieces.items()
            if mine and label not in refused
        },
        refused=refused,
    )


def _views(record: RoundRecord, observer: Observer, lists: Ints) -> Iterator[tuple[int, View]]:
    """A round's messages with their choices (M, m), some at a time, and the number of the first."""
    view = whole_round(observer, record)
    size = max(1, _CHUNK_NUMBERS // max(1, lists.shape[1] * view.features[0].size))
    for first in range(0, len(lists), size):
        rows = np.arange(first, min(first + size, len(lists)))
        yield first, with_lists(view, rows, lists[rows])


def _lists(attack: Attack, view: View, rng: np.random.Generator) -> Floats:
    """An attack's probabilities of the lists of a view, (n, m)."""
    lists = checked_answer(attack, view, rng).lists
    expected = view.shown.shape[:2]
    if lists is None or lists.shape != expected or not np.all(lists >= 0):
        raise PluginError(f"attack {attack.name}: expected a probability for each list, shape {expected}")
    return lists


@dataclass(frozen=True, eq=False)
class RoundQueries:
    """The different queries of a round of M messages, sorted by their number.

    Attributes:
        first: the first message of each query, int64 (Q,).
        query: which of them each message asked, int64 (M,).
        names: name of each message's query, (M,).
    """

    first: Ints
    query: Ints
    names: NDArray[np.str_]

    @classmethod
    def of(cls, record: RoundRecord, names: NDArray[np.str_]) -> RoundQueries:
        """The queries of a round whose messages hold one interaction each."""
        keys = np.stack([record.part, record.query], axis=1)
        _, first, query = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        return cls(first, query.reshape(-1), names)

    def why_not(self, choices: int) -> str | None:
        """Why no query can be told from others, or None."""
        if self.first.size >= 2:
            return None
        return f"a round holds {self.first.size} different queries; expected {choices} to choose from, or 2"

    def offered(self, choices: int, streams: Streams, round_: int) -> tuple[Ints, Ints]:
        """Which queries each message may have asked (M, m), in their order, and which of them it did (M,).

        Decoys are drawn without replacement, for each query from a stream of its own.
        """
        Q = self.first.size
        m = min(choices, Q)
        offered = np.empty((Q, m), dtype=np.int64)
        for q in range(Q):
            rng = streams.generator(f"decoys/{round_}/{self.names[self.first[q]]}")
            others = rng.permutation(Q - 1)[: m - 1]
            offered[q] = np.sort(np.append(others + (others >= q), q))
        right = (offered == np.arange(Q)[:, np.newaxis]).argmax(axis=1)
        return offered[self.query], right[self.query]
