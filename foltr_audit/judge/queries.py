"""Judges attacks that identify the query of a message: the truth among decoys from the same round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.plugins import Attack, View
from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.core.records.view import Inference
from foltr_audit.errors import PluginError, UsageError
from foltr_audit.judge.attack_session import NO_MESSAGE, AttackSession, rounds_with_truth
from foltr_audit.judge.hypothetical_views import whole_round, why_not_one_list, with_lists
from foltr_audit.judge.observer import Observer
from foltr_audit.judge.pieces import join_pieces
from foltr_audit.judge.view_builder import query_names
from foltr_audit.rng import Streams
from foltr_audit.simulation.recorder import RoundStore
from foltr_audit.utils.arrays import Bools, Floats, Ints
from foltr_audit.utils.progress import NO_TICK, Tick

_CHUNK_NUMBERS = 1 << 22  # feature values in one view: bounds its memory
_LISTS_ARE_MADE = frozenset({"query", "shown"})  # whoever makes the list of every query needs neither
_TIE = 1e-9  # relative difference of probabilities that rounding may cause


@dataclass(frozen=True, kw_only=True, eq=False)
class TruthRanks:
    """How one attack ranked the truth among the choices of L messages.

    Attributes:
        probability: that the attack gave the truth, float64 (L,).
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
        most = int((self.ahead + self.tied).max(initial=0))
        harmonic = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, 1 + most))])
        return np.asarray((harmonic[self.ahead + self.tied] - harmonic[self.ahead]) / self.tied)

    @classmethod
    def of(cls, lists: Floats, truth: Ints) -> TruthRanks:
        """The ranks of the truth (L,) among probabilities (L, m)."""
        own = np.take_along_axis(lists, truth[:, np.newaxis], axis=1)
        near = np.abs(lists - own) <= _TIE * own
        return cls(probability=own[:, 0], ahead=((lists > own) & ~near).sum(axis=1), tied=near.sum(axis=1))


@dataclass(frozen=True, kw_only=True, eq=False)
class QueryEvidence:
    """Messages whose query attacks had to identify.

    Attributes:
        query: name of each message's query, (L,).
        has_pairs: whether the clicks form pairs; a message without pairs carries no information, bool (L,).
        choices: queries to choose from for each message, its own included, int64 (L,).
        asked: how many choices the protocol asks for.
        placed: how each attack ranked the truth, by label.
        refused: why an attack could not run, by label.
    """

    query: NDArray[np.str_]
    has_pairs: Bools
    choices: Ints
    asked: int
    placed: dict[str, TruthRanks] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


def judge_queries(
    recording: RoundStore,
    observer: Observer,
    attacks: Sequence[Attack],
    choices: int,
    streams: Streams,
    tick: Tick = NO_TICK,
) -> QueryEvidence:
    """Have attacks identify the query of each recorded message among others of its round.

    Args:
        recording: observed rounds with their truth.
        observer: who sees them.
        attacks: attacks that answer with a query, with different labels.
        choices: how many queries there are to choose from; all of a round where it has fewer.
        streams: named random streams of the decoys and of attacks that draw.
        tick: called after every round.

    Raises:
        UsageError: the recording holds no truth, or no message.
    """
    pieces = []
    for record, truth in rounds_with_truth(recording, tick):
        if record.n_messages:
            session = AttackSession(attacks, streams)
            pieces.append(_judge_round(record, truth, observer, session, choices))
    if not pieces:
        raise UsageError(NO_MESSAGE)
    return join_pieces(pieces)


def _judge_round(
    record: RoundRecord, truth: RoundTruth, observer: Observer, session: AttackSession[Attack], choices: int
) -> QueryEvidence:
    names = query_names(record, observer.header, observer.collection)
    queries = RoundQueries.of(record, names)
    reason = why_not_one_list(record, observer.header) or queries.why_not(choices)
    if reason is not None:
        return QueryEvidence(
            query=names[:0],
            has_pairs=np.zeros(0, np.bool_),
            choices=np.zeros(0, np.int64),
            asked=choices,
            refused={attack.label: reason for attack in session.attacks},
        )
    observer = replace(observer, hidden=observer.hidden - _LISTS_ARE_MADE)
    offered, right = queries.offered(choices, session.streams, record.round)
    for first, view in _views(record, observer, queries.first[offered]):
        for attack, answer in session.answers(view, record.round, f"{record.round}/{first}"):
            session.keep(attack, _lists(attack, view, answer))
    there = record.shown >= 0
    return QueryEvidence(
        query=names,
        has_pairs=truth.clicks.any(axis=1) & (truth.clicks != there).any(axis=1),
        choices=np.full(names.size, offered.shape[1]),
        asked=choices,
        placed={label: TruthRanks.of(lists, right) for label, lists in session.collect().items()},
        refused=session.refused,
    )


def _views(record: RoundRecord, observer: Observer, lists: Ints) -> Iterator[tuple[int, View]]:
    """A round's messages with their choices (M, m), some at a time, and the number of the first."""
    view = whole_round(observer, record)
    size = max(1, _CHUNK_NUMBERS // max(1, lists.shape[1] * view.features[0].size))
    for first in range(0, len(lists), size):
        rows = np.arange(first, min(first + size, len(lists)))
        yield first, with_lists(view, rows, lists[rows])


def _lists(attack: Attack, view: View, answer: Inference) -> Floats:
    """An attack's probabilities of the lists of a view, (n, m)."""
    expected = view.shown.shape[:2]
    if answer.lists is None or answer.lists.shape != expected or not np.all(answer.lists >= 0):
        raise PluginError(f"attack {attack.name}: expected a probability for each list, shape {expected}")
    return answer.lists


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
        # `reshape` below, since NumPy 2.0 gives these numbers another shape than other versions do.
        _, first, query = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        return cls(first, query.reshape(-1), names)

    def why_not(self, choices: int) -> str | None:
        """Why there is no other query to choose, or None."""
        if self.first.size >= 2:
            return None
        return f"a round holds {self.first.size} different queries; expected {choices} to choose from, or 2"

    def offered(self, choices: int, streams: Streams, round_: int) -> tuple[Ints, Ints]:
        """Which queries each message may have asked (M, m), in their order, and which of them it did (M,).

        Decoys are drawn without replacement, for each query from a stream of its own.
        """
        Q = self.first.size
        offered = np.empty((Q, min(choices, Q)), dtype=np.int64)
        for q in range(Q):
            rng = streams.generator(f"decoys/{round_}/{self.names[self.first[q]]}")
            offered[q] = draw_choices(q, Q, offered.shape[1], rng)
        right = (offered == np.arange(Q)[:, np.newaxis]).argmax(axis=1)
        return offered[self.query], right[self.query]


def draw_choices(truth: int, among: int, choices: int, rng: np.random.Generator) -> Ints:
    """The truth and other numbers below `among`, drawn without replacement: int64 (choices,), rising."""
    others = rng.permutation(among - 1)[: choices - 1]
    # In rising order, so that the place of the truth among the choices tells an attack nothing.
    return np.sort(np.append(others + (others >= truth), truth))
