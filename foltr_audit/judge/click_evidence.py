"""Attacked lists with their truth beside what each attack said of them; made by the judge alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from foltr_audit.errors import TraceError

FOLLOWED = ("followed by other lists", "last of its message")
"""Groups of lists: of the first, a client's later lists may tell as well as its message."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ClickGuesses:
    """What one attack answered for L lists of up to k documents.

    Attributes:
        scores: float64 (L, k).
        guess: bool (L, k).
        any_click: how surely a list has any click, float64 (L,).
        surprisal: -log2 of the probability that it gave to the pattern of all clicks on a list, in bits,
            infinite for 0; float64 (L,), NaN where it weighed no patterns, None where it never does.
    """

    scores: NDArray[np.float64]
    guess: NDArray[np.bool_]
    any_click: NDArray[np.float64]
    surprisal: NDArray[np.float64] | None = None

    def at(self, rows: Any) -> ClickGuesses:
        """The answers for some lists."""
        return ClickGuesses(
            scores=self.scores[rows],
            guess=self.guess[rows],
            any_click=self.any_click[rows],
            surprisal=None if self.surprisal is None else self.surprisal[rows],
        )

    @classmethod
    def joined(cls, pieces: Sequence[ClickGuesses]) -> ClickGuesses:
        """Answers one after the other."""
        bits = [piece.surprisal for piece in pieces if piece.surprisal is not None]
        return cls(
            scores=np.concatenate([piece.scores for piece in pieces]),
            guess=np.concatenate([piece.guess for piece in pieces]),
            any_click=np.concatenate([piece.any_click for piece in pieces]),
            surprisal=np.concatenate(bits) if bits and len(bits) == len(pieces) else None,
        )


PER_LIST = (
    "query",
    "message",
    "shown",
    "clicks",
    "observed",
    "told",
    "rank",
    "unknowns",
    "surprisal",
    "group",
)
"""Fields of `ClickEvidence` that have a row for every list."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ClickEvidence:
    """Attacked lists, in the order of their messages.

    Attributes:
        query: name of each list's query, (L,).
        message: number of each list's message, int64 (L,).
        shown: position of each shown document inside its query, int64 (L, k), padded with -1.
        clicks: the truth, bool (L, k).
        observed: documents that took part in any pair, bool (L, k); of the others nothing is sent.
        told: documents that a message without noise tells, bool (L, k): their column is no combination of
            the others', and their coefficient is not lost in rounding.
        rank: rank of the message's system of equations, int64 (L,).
        unknowns: its unknowns, int64 (L,).
        guessed: each attack's answers, by label.
        baselines: labels of the attacks that are shown for comparison only.
        probabilities: labels of the attacks whose scores are probabilities.
        surprisal: -log2 of the probability of a list's clicks before any message, in bits, for who knows the
            click model and the grades of the documents, float64 (L,); NaN where they are not known.
        exact: labels of the attacks whose patterns were weighed by their true posterior.
        same_message: whether all and none clicked send the same message, as gradients of pairs do.
        group: which of `groups` each list's client belongs to, int64 (L,).
        groups: names of the groups of clients, one where they do not differ.
        refused: why an attack could not run, by label.
        steps, clipped: local steps behind all lists, and how many of them were clipped.
    """

    query: NDArray[np.str_]
    message: NDArray[np.int64]
    shown: NDArray[np.int64]
    clicks: NDArray[np.bool_]
    observed: NDArray[np.bool_]
    told: NDArray[np.bool_]
    rank: NDArray[np.int64]
    unknowns: NDArray[np.int64]
    guessed: dict[str, ClickGuesses]
    baselines: frozenset[str] = frozenset()
    probabilities: frozenset[str] = frozenset()
    surprisal: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    exact: frozenset[str] = frozenset()
    same_message: bool = True
    group: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    groups: tuple[str, ...] = ("everybody",)
    refused: dict[str, str]
    steps: int
    clipped: int

    @property
    def is_document(self) -> NDArray[np.bool_]:
        """False at the padding, bool (L, k)."""
        return self.shown >= 0

    def by_followers(self) -> ClickEvidence:
        """The same lists grouped by whether other lists of their message follow them.

        One group where a message has one list.
        """
        followed = np.zeros(self.message.size, dtype=np.bool_)
        followed[:-1] = self.message[1:] == self.message[:-1]
        if not followed.any():
            return replace(self, group=np.zeros(followed.size, dtype=np.int64), groups=("everybody",))
        return replace(self, group=np.where(followed, 0, 1), groups=FOLLOWED)

    @property
    def has_click(self) -> NDArray[np.bool_]:
        """Whether a list has a click; the published protocol leaves the others out, bool (L,)."""
        return np.asarray(self.clicks.any(axis=1))

    @property
    def ties(self) -> NDArray[np.bool_]:
        """Lists of which everything or nothing was clicked, bool (L,); see `same_message`."""
        return np.asarray(~self.has_click | (self.clicks == self.is_document).all(axis=1))

    @property
    def identifiable(self) -> NDArray[np.bool_]:
        """Documents that could be told if there were no noise, of models by a regression, bool (L, k).

        An attack that knows how much each pair weighs may tell twins apart as well, which count as not told.
        """
        unclear = self.ties & self.same_message
        return np.asarray(self.told & ~unclear[:, np.newaxis] & self.is_document)

    def __post_init__(self) -> None:
        if self.surprisal.size != self.query.size:
            object.__setattr__(self, "surprisal", np.full(self.query.size, np.nan))
        if self.group.size != self.query.size:
            object.__setattr__(self, "group", np.zeros(self.query.size, dtype=np.int64))

    def at(self, rows: NDArray[Any]) -> ClickEvidence:
        """The evidence on some lists."""
        return replace(
            self,
            **{name: getattr(self, name)[rows] for name in PER_LIST},
            guessed={label: guessed.at(rows) for label, guessed in self.guessed.items()},
        )


class _SupportsRefusals(Protocol):
    @property
    def refused(self) -> dict[str, str]: ...


def refused_in(pieces: Sequence[_SupportsRefusals]) -> dict[str, str]:
    """Why attacks could not run in some of several pieces of evidence, by label."""
    return {label: why for piece in pieces for label, why in piece.refused.items()}


def answered(parts: Sequence[Mapping[str, object]], refused: Mapping[str, str]) -> list[str]:
    """Names that every part has something of, without those that are refused anywhere."""
    return [name for name in parts[0] if name not in refused and all(name in part for part in parts)]


def _refuse_other_sorts(
    pieces: Sequence[ClickEvidence], with_lists: Sequence[ClickEvidence], labels: Sequence[str]
) -> None:
    """Refuse pieces that cannot be of one system, as cells of unknown origin may be.

    Raises:
        TraceError: their lists have room for other numbers of documents, or other attacks answered.
    """
    rooms = {piece.shown.shape[1] for piece in pieces}
    if len(rooms) > 1:
        raise TraceError(f"judged lists with room for {sorted(rooms)} documents; expected one number")
    for piece in with_lists:
        missing = [label for label in labels if label not in piece.guessed]
        if missing:
            raise TraceError(f"judged lists without the answers of {missing[0]}; expected them of every cell")


def combined(pieces: Sequence[ClickEvidence]) -> ClickEvidence:
    """Evidence of several rounds or repetitions as one; an attack that any of them refused is refused."""
    refused = refused_in(pieces)
    with_lists = [piece for piece in pieces if piece.query.size] or pieces[:1]
    labels = [label for label in with_lists[0].guessed if label not in refused]
    _refuse_other_sorts(pieces, with_lists, labels)
    counts = [int(piece.message.max()) + 1 if piece.message.size else 0 for piece in pieces]
    firsts = np.concatenate([[0], np.cumsum(counts)])[:-1]
    arrays = {
        each.name: np.concatenate([getattr(piece, each.name) for piece in pieces])
        for each in fields(ClickEvidence)
        if each.name in ("query", "shown", "clicks", "observed", "told", "rank", "unknowns", "surprisal")
    }
    groups = tuple(dict.fromkeys(name for piece in pieces for name in piece.groups))
    places = [np.array([groups.index(name) for name in piece.groups]) for piece in pieces]
    return ClickEvidence(
        **arrays,
        group=np.concatenate([place[piece.group] for piece, place in zip(pieces, places, strict=True)]),
        groups=groups,
        message=np.concatenate([piece.message + first for piece, first in zip(pieces, firsts, strict=True)]),
        guessed={
            label: ClickGuesses.joined([piece.guessed[label] for piece in with_lists]) for label in labels
        },
        baselines=pieces[0].baselines,
        probabilities=pieces[0].probabilities,
        exact=frozenset.intersection(*(piece.exact for piece in with_lists)),
        same_message=pieces[0].same_message,
        refused=refused,
        steps=sum(piece.steps for piece in pieces),
        clipped=sum(piece.clipped for piece in pieces),
    )
