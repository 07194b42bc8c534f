"""Attacked lists with truth, prior probabilities and each attack's answers; only the judge makes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.records.view import View
from foltr_audit.errors import TraceError
from foltr_audit.inference.pattern_decoder import PatternDecoder, why_too_long
from foltr_audit.judge.pieces import SUMMED, RowIndex, find_refusals, join_pieces, with_rows
from foltr_audit.judge.task import Evidence
from foltr_audit.utils.arrays import Bools, Floats, Ints


@dataclass(frozen=True, kw_only=True, eq=False)
class ClickPriors:
    """Probabilities of clicks on L lists of up to k documents, float64; NaN where they are not known.

    Attributes:
        clicked: of each document, given that its list has a click, as judged lists have, (L, k).
        pattern: the largest of any pattern of clicks, given that the list has one, (L,).
        any_click: that the list has a click, (L,).
    """

    clicked: Floats
    pattern: Floats
    any_click: Floats

    @classmethod
    def unknown(cls, shape: tuple[int, ...]) -> Self:
        """No probability is known; `shape` is (L, k)."""
        clicked, pattern, any_click = (np.full(axes, np.nan) for axes in (shape, shape[:-1], shape[:-1]))
        return cls(clicked=clicked, pattern=pattern, any_click=any_click)

    def at(self, rows: RowIndex) -> ClickPriors:
        return with_rows(self, (("clicked", "pattern", "any_click"), rows))


def click_priors(view: View, intents: int) -> ClickPriors:
    """The probabilities for the lists of n messages of up to B lists each, with shapes (n, B, k) and (n, B).

    Not known unless users follow a cascade with known probabilities, all with one intent, and lists are short
    enough to weigh every pattern.
    """
    from foltr_audit.kernels.patterns import marginals

    k = view.shown.shape[2]
    found = ClickPriors.unknown(view.shown.shape)
    if view.knowledge.belief is None or view.labels is None or intents > 1 or why_too_long(view):
        return found
    decoder = PatternDecoder(view, "relevance")
    for messages, b in decoder.lists():
        beliefs, lengths, which = decoder.distinct_log_priors(messages, b)
        logs = beliefs.copy()
        logs[:, 0] = -np.inf  # the list has a click
        clicked, _, _, total = marginals(logs, lengths, k)
        possible = np.isfinite(total)
        clicked[~possible] = np.nan
        most = np.full(total.size, np.nan)
        most[possible] = np.exp(logs[possible].max(axis=1) - total[possible])
        found.clicked[messages, b], found.pattern[messages, b] = clicked[which], most[which]
        found.any_click[messages, b] = np.exp(total)[which]
    return found


FOLLOWED = ("followed by other lists", "last of its message")
"""Groups of lists: of the first, a client's later lists may reveal as much as its message."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ClickGuesses:
    """What one attack answered for L lists of up to k documents, (L, k).

    Attributes:
        any_click: how surely a list has any click, float64 (L,).
        surprisal: -log2 of the probability that it gave to the pattern of all clicks on a list, in bits,
            infinite for 0; float64 (L,), NaN where it weighed no patterns, None where it never does.
    """

    scores: Floats
    guess: Bools
    any_click: Floats
    surprisal: Floats | None = None

    def at(self, rows: RowIndex) -> ClickGuesses:
        return with_rows(self, (("scores", "guess", "any_click", "surprisal"), rows))


PER_LIST = (
    *("query", "message", "shown", "clicks", "observed", "told"),
    *("rank", "unknowns", "surprisal", "group"),
)
"""Fields of `ClickEvidence` that have a row for every list."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ClickEvidence(Evidence):
    """Attacked lists, in the order of their messages.

    Attributes:
        query: name of each list's query, (L,).
        message: number of each list's message, int64 (L,).
        shown: position of each shown document inside its query, int64 (L, k), padded with -1.
        clicks: the truth, bool (L, k).
        observed: documents that took part in any pair, bool (L, k); of the others nothing is sent.
        told: documents that a message without noise reveals, bool (L, k): their column is no combination of
            the others', and their coefficient is not lost in rounding.
        rank: rank of the message's system of equations, int64 (L,).
        unknowns: its unknowns, int64 (L,).
        guessed: each attack's answers, by label.
        baselines: labels of the attacks that are shown for comparison only.
        probabilities: labels of the attacks whose scores are probabilities.
        surprisal: -log2 of the probability of a list's clicks before any message, in bits, given the click
            model and the grades of the documents, float64 (L,); NaN where they are not known.
        exact: labels of the attacks whose patterns were weighed by their true posterior.
        same_message: whether all and none clicked send the same message, as gradients of pairs do.
        group: which of `groups` each list's client belongs to, int64 (L,).
        steps, clipped: local steps behind all lists, and how many of them were clipped.
        unknown: lists whose clicks nobody knows, which are left out.
    """

    query: NDArray[np.str_]
    message: Ints
    shown: Ints
    clicks: Bools
    observed: Bools
    told: Bools
    rank: Ints
    unknowns: Ints
    guessed: dict[str, ClickGuesses]
    baselines: frozenset[str] = frozenset()
    probabilities: frozenset[str] = frozenset()
    surprisal: Floats = field(default_factory=lambda: np.empty(0))
    priors: ClickPriors = field(default_factory=lambda: ClickPriors.unknown((0, 0)))
    exact: frozenset[str] = frozenset()
    same_message: bool = True
    group: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    groups: tuple[str, ...] = ("everybody",)
    steps: int = field(metadata=SUMMED)
    clipped: int = field(metadata=SUMMED)
    unknown: int = field(default=0, metadata=SUMMED)

    @property
    def is_document(self) -> Bools:
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
    def has_click(self) -> Bools:
        """Whether a list has a click; the published protocol leaves the others out, bool (L,)."""
        return np.asarray(self.clicks.any(axis=1))

    @property
    def ties(self) -> Bools:
        """Lists of which everything or nothing was clicked, bool (L,); see `same_message`."""
        return np.asarray(~self.has_click | (self.clicks == self.is_document).all(axis=1))

    @property
    def identifiable(self) -> Bools:
        """Documents whose clicks could be found without noise, of models by a regression, bool (L, k).

        An attack that knows how much each pair weighs may distinguish identical documents as well, which do
        not count here.
        """
        unclear = self.ties & self.same_message
        return np.asarray(self.told & ~unclear[:, np.newaxis] & self.is_document)

    def __post_init__(self) -> None:
        if self.surprisal.size != self.query.size:
            object.__setattr__(self, "surprisal", np.full(self.query.size, np.nan))
        if self.priors.pattern.size != self.query.size:
            object.__setattr__(self, "priors", ClickPriors.unknown(self.shown.shape))
        if self.group.size != self.query.size:
            object.__setattr__(self, "group", np.zeros(self.query.size, dtype=np.int64))

    def at(self, rows: RowIndex) -> ClickEvidence:
        guessed = {label: guessed.at(rows) for label, guessed in self.guessed.items()}
        return with_rows(self, (PER_LIST, rows), guessed=guessed, priors=self.priors.at(rows))

    @classmethod
    def combined(cls, pieces: Sequence[Self]) -> Self:
        """Evidence of several rounds or repetitions as one; an attack that any of them refused is refused.

        Messages are numbered on from piece to piece, and groups are those of any piece.

        Raises:
            TraceError: pieces that cannot be of one system, as cells of unknown origin may be: their lists
                have room for other numbers of documents, or other attacks answered.
        """
        refused = find_refusals(pieces)
        groups = tuple(dict.fromkeys(name for piece in pieces for name in piece.groups))
        rooms = {piece.shown.shape[1] for piece in pieces}
        if len(rooms) > 1:
            raise TraceError(f"judged lists with room for {sorted(rooms)} documents; expected one number")
        # A round without lists has no answers, which does not mean that an attack failed.
        with_lists = [piece for piece in pieces if piece.query.size] or pieces[:1]
        numbered, first = [], 0
        for piece in with_lists:
            missing = [label for label in with_lists[0].guessed if label not in {*refused, *piece.guessed}]
            if missing:
                raise TraceError(
                    f"judged lists without the answers of {missing[0]}; expected them of every cell"
                )
            places = np.array([groups.index(name) for name in piece.groups])
            numbered.append(replace(piece, message=piece.message + first, group=places[piece.group]))
            first = int(numbered[-1].message.max(initial=first - 1)) + 1
        exact = frozenset.intersection(*(piece.exact for piece in with_lists))
        return replace(join_pieces(numbered, refused), groups=groups, exact=exact)
