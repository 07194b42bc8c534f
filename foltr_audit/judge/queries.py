"""Judges attacks that identify the query of a message: the truth among decoys from the same round."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.plugins import Attack, View
from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.core.records.view import Inference
from foltr_audit.judge.bootstrap import QueryBootstrap
from foltr_audit.judge.observer import RoundView, query_names, whole_round, why_not_one_list, with_lists
from foltr_audit.judge.task import Evidence, MessageTask, TaskScore, answer_of, no_rows, refuse_values
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Bools, Floats, Ints

_CHUNK_NUMBERS = 1 << 22  # feature values in one view: bounds its memory
_TIE = 1e-9  # relative difference of probabilities that rounding may cause


@dataclass(frozen=True, kw_only=True, eq=False)
class TruthRanks:
    """How one attack ranked the truth among the choices of L messages.

    Its probability of the truth, float64 (L,), and how many choices are `ahead` of the truth and `tied` with
    it, itself included, int64 (L,).
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

    def metrics(self) -> dict[str, Floats]:
        return {
            "accuracy": self.first,
            "mrr": self.reciprocal_rank,
            "rank": self.rank,
            "probability": self.probability,
        }

    @classmethod
    def of(cls, lists: Floats, truth: Ints) -> TruthRanks:
        """The ranks of the truth (L,) among probabilities (L, m)."""
        own = np.take_along_axis(lists, truth[:, np.newaxis], axis=1)
        near = np.abs(lists - own) <= _TIE * own
        return cls(probability=own[:, 0], ahead=((lists > own) & ~near).sum(axis=1), tied=near.sum(axis=1))


@dataclass(frozen=True, kw_only=True, eq=False)
class QueryEvidence(Evidence):
    """Messages whose query attacks had to identify.

    Attributes:
        has_pairs: whether the clicks form pairs; a message without pairs carries no information, bool (L,).
        choices: queries to choose from for each message, its own included, int64 (L,).
        prior: share of the most frequent of these among all messages of the round that ask one of them,
            float64 (L,).
        asked: how many choices the protocol asks for.
    """

    query: NDArray[np.str_] = no_rows(np.str_)
    has_pairs: Bools = no_rows(np.bool_)
    choices: Ints = no_rows(np.int64)
    prior: Floats = no_rows(np.float64)
    asked: int
    placed: dict[str, TruthRanks] = field(default_factory=dict)

    def scores(self, streams: Streams) -> Iterator[TaskScore]:
        """How often the truth is named, over all messages and, `_with_pairs`, over those with pairs.

        `accuracy` is the share of messages whose query is named, ties broken at random, `mrr` the mean
        reciprocal rank of it, `probability` what it is given on average; `chance` and `chance_mrr` are those
        of guessing. `choices` are the queries to choose from, fewer than the `choices_asked` where a round
        has no more.
        """
        if not self.query.size:
            return
        resamples = QueryBootstrap(self.query, streams)
        facts = {
            **choice_sizes(self.choices, self.asked),
            "messages_with_pairs": int(self.has_pairs.sum()),
            "queries": int(resamples.names.size),
        }
        for label, placed in self.placed.items():
            metrics = {}
            for name, values in placed.metrics().items():
                average = resamples.mean if name == "rank" else resamples.share
                metrics[name] = average(values)
                metrics[f"{name}_with_pairs"] = average(np.where(self.has_pairs, values, np.nan))
            yield TaskScore(
                method=label, facts=facts | chances(self.choices), metrics=metrics, priors=self.prior
            )


def choice_sizes(choices: Ints, asked: int) -> dict[str, float]:
    """How many choices (L,) there were for the L messages that were judged."""
    return {"choices": int(choices.min()), "choices_asked": asked, "messages": int(choices.size)}


def chances(choices: Ints) -> dict[str, float]:
    """Accuracy and mean reciprocal rank of a guess that gives each of (L,) choices the same probability."""
    chance_mrr = [float(np.mean(1.0 / np.arange(1, size + 1))) for size in choices.tolist()]
    return {"chance": float(np.mean(1.0 / choices)), "chance_mrr": float(np.mean(chance_mrr))}


class QueryTask(MessageTask[QueryEvidence]):
    """Which query is behind each message: its own among others of its round.

    An attack sees each message with the lists of the queries to choose from, and answers with the probability
    of each list. Decoys are drawn from the streams; a round with fewer queries offers all of its own.
    """

    name: ClassVar[str] = "query"
    makes: ClassVar[frozenset[str]] = frozenset({"query", "shown"})

    def begin(self, record: RoundRecord, truth: RoundTruth) -> bool:
        if not super().begin(record, truth):
            return False
        self._views: list[View] = []
        choices, header = self.setting.protocol.choices, self.observer.header
        self._names = query_names(record, header, self.observer.collection)
        self._reason = why_not_one_list(record, header)
        # `reshape` below, since NumPy 2.0 gives these numbers another shape than other versions do.
        keys = np.stack([record.part, record.query], axis=1)
        _, first, query = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        if self._reason is None and first.size < 2:
            self._reason = (
                f"a round holds {first.size} different queries; expected {choices} to choose from, or 2"
            )
        if self._reason is None:
            streams = (f"decoys/{record.round}/{name}" for name in self._names[first])
            drawn = draw_choices(np.arange(first.size), first.size, choices, streams, self.session.streams)
            offered, self._right = (each[query.reshape(-1)] for each in drawn)
            self._lists, self._prior = first[offered], usual_choice(query.reshape(-1), offered)
        return self._reason is None

    def see(self, seen: RoundView) -> None:
        """Keep the view: the lists of a message may be in another one."""
        # A new view without the Jacobian that this one has computed for other tasks.
        self._views.append(replace(seen.view))

    def end(self) -> None:
        if self.record.n_messages and self._reason is None:
            view, lists, round_ = whole_round(self._views), self._lists, self.record.round
            size = max(1, _CHUNK_NUMBERS // max(1, lists.shape[1] * view.features[0].size))
            for first in range(0, len(lists), size):
                rows = np.arange(first, min(first + size, len(lists)))
                self.ask(with_lists(view, rows, lists[rows]), round_, f"{round_}/{first}")
        super().end()

    def checked(self, attack: Attack, view: View, answer: Inference) -> Floats:
        """The probability of each list, (n, m)."""
        what = "a probability for each list"
        found = answer_of(attack, answer, view.shown.shape[:2], what)
        refuse_values(attack, np.all(found >= 0), what)
        return found

    def judged(self, answers: Mapping[str, Floats]) -> QueryEvidence:
        asked, clicks = self.setting.protocol.choices, self.truth.clicks
        if self._reason is not None:
            refused = {attack.label: self._reason for attack in self.session.attacks}
            return QueryEvidence(asked=asked, refused=refused)
        there = self.record.shown >= 0
        return QueryEvidence(
            query=self._names,
            has_pairs=clicks.any(axis=1) & (clicks != there).any(axis=1),
            choices=np.full(self._names.size, self._lists.shape[1]),
            prior=self._prior,
            asked=asked,
            placed={label: TruthRanks.of(lists, self._right) for label, lists in answers.items()},
        )


def usual_choice(query: Ints, offered: Ints) -> Floats:
    """How likely the most frequent of the offered queries (M, m) is the right one, float64 (M,).

    By the query of each message (M,): whoever knows how often each is asked needs no message for that.
    """
    often = np.bincount(query)[offered]
    return np.asarray(often.max(axis=1) / often.sum(axis=1))


def draw_choices(
    truth: Ints, among: int, choices: int, names: Iterable[str], streams: Streams
) -> tuple[Ints, Ints]:
    """The truth (L,) and other numbers below `among`, and which of them is the truth (L,).

    The others are drawn without replacement, for each row from the stream of its name. They come in
    rising order, int64 (L, m), so that the place of the truth tells nothing; m is `choices`, or all that
    there are.
    """
    drawn = np.empty((truth.size, min(choices, among)), dtype=np.int64)
    for row, (own, name) in enumerate(zip(truth.tolist(), names, strict=True)):
        others = streams.generator(name).permutation(among - 1)[: drawn.shape[1] - 1]
        drawn[row] = np.sort(np.append(others + (others >= own), own))
    return drawn, (drawn == truth[:, np.newaxis]).argmax(axis=1)
