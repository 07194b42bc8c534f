"""One observer of recorded rounds: what it knows and believes, and the views that it gets of each round.

What a server believes of clicks is learnt from the training split, whose relevance labels a search engine
has: it ranks its queries with the global model and counts grades by position.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar, cast
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.click_models import CascadeClickModel
from foltr_audit.core.plugins import ClickModel, ClientStep
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.rankers import make_ranker
from foltr_audit.core.ranking_metrics import LIST_LENGTH
from foltr_audit.core.records import Collection, Dataset
from foltr_audit.core.records.interactions import RoundRecord
from foltr_audit.core.records.view import Candidates, ClickBelief, Knowledge, View
from foltr_audit.errors import FoltrAuditError, PluginError, TraceError
from foltr_audit.judge.view_builder import (
    InteractionPlacement,
    features_of,
    fits_ranker,
    knowledge_of,
    readable,
)
from foltr_audit.rng import Streams
from foltr_audit.trace import TraceHeader
from foltr_audit.utils.arrays import Features, Floats, Ints

_UNSEEN = 0.5  # counts of every grade before the first list, so that no grade is impossible

_last: WeakKeyDictionary[Collection, tuple[tuple[str, bytes, bool, int], Floats]] = WeakKeyDictionary()
"""The last grades by position counted in each data set. Counting ranks the whole training split; click
models, observers, and repetitions of fresh clients share it. Weak keys do not keep a data set alive."""


def click_belief(
    collection: Collection, ranker: str, parameters: Floats, click_model: str | None, lists: str | None
) -> ClickBelief | None:
    """The belief of a server with this global model (P,); None where the click model is no cascade."""
    if click_model is None:
        return None
    try:
        model = make(ClickModel, click_model)
        if not isinstance(model, CascadeClickModel):
            return None
        click, stop = model.setting(collection.largest_label)
    except FoltrAuditError:  # a click model of another system, or no published setting
        return None
    sampled = lists not in ("deterministic", "interleaved")
    key = (ranker, parameters.tobytes(), sampled, len(click))
    if collection not in _last or _last[collection][0] != key:
        _last[collection] = key, _count_grades(collection.train, ranker, parameters, len(click), sampled)
    return ClickBelief(click=np.array(click), stop=np.array(stop), grades=_last[collection][1])


def _count_grades(train: Dataset, ranker: str, parameters: Floats, grades: int, sampled: bool) -> Floats:
    """P(grade | position) for G grades, float64 (k, G)."""
    labels = train.shown_labels(np.arange(train.n_queries), _shown(train, ranker, parameters, sampled))
    counts = np.stack([(labels == grade).sum(axis=0) for grade in range(grades)], axis=1) + _UNSEEN
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))


def _shown(train: Dataset, ranker: str, parameters: Floats, sampled: bool) -> Ints:
    """The list of every training query under the model, int64 (queries, k)."""
    from foltr_audit.kernels.plackett_luce import sampled_lists
    from foltr_audit.kernels.ranking import top_lists

    queries = np.arange(train.n_queries)
    scores, starts = make_ranker(ranker, train.n_features).scores(parameters[np.newaxis], train, queries)
    if not sampled:
        return top_lists(scores, starts, LIST_LENGTH)
    # A fixed seed: the belief is stored under model and settings, and must not depend on which experiment
    # asked for it first.
    streams = Streams(0).clients("belief", 0, queries)
    key, purpose = np.uint64(streams.key), streams.purpose_code
    return sampled_lists(scores, starts, LIST_LENGTH, 0, streams.clients, streams.round, purpose, key)


T = TypeVar("T", bound=np.generic)

# A view has at most `_CHUNK` messages, and `_CHUNK_NUMBERS` numbers (256 MB) in their Jacobian: attacks hold
# several arrays of this size at once.
_CHUNK = 2048
_CHUNK_NUMBERS = 1 << 25

UNKNOWN_RANKER = "unknown"
"""The ranker of a system of which only the client step is known."""

_SHARED = (
    *("ranker", "updates", "models", "step_effects", "click_updates", "jacobian", "columns"),
    *("score_changes", "scores_before"),
)
"""Cached properties of a view that hold whatever its observer knows of the lists."""


@dataclass(frozen=True, eq=False)
class RoundView:
    """A part of a round, as an observer sees it.

    Attributes:
        rows: which messages of the round.
        full: what an observer would see of them from whom nothing is hidden.
        knowledge: what this observer knows.
    """

    rows: slice
    full: View
    knowledge: Knowledge

    @cached_property
    def order(self) -> Ints | None:
        """Position of each document of `view` in the recorded list, int64 (n, B, k); None if the same."""
        if self.knowledge.order:
            return None
        shown = self.full.shown
        return np.argsort(np.where(shown < 0, shown.max(initial=0) + 1, shown))

    @cached_property
    def view(self) -> View:
        """What this observer sees of the messages; arrays that `full` has computed are not computed again."""
        if self.knowledge is self.full.knowledge:
            return self.full
        full, known, order = self.full, self.knowledge, self.order
        labels, grades = full.labels, full.intent_labels

        def moved(values: NDArray[T]) -> NDArray[T]:
            if order is None:
                return values
            return np.take_along_axis(values, order.reshape(order.shape + (1,) * (values.ndim - 3)), axis=2)

        view = replace(
            full,
            shown=moved(full.shown),
            features=cast(Features, moved(full.features)),
            candidates=full.candidates if known.candidates else None,
            labels=moved(labels) if labels is not None and known.relevance else None,
            intent_labels=moved(grades) if grades is not None and known.intents else None,
            knowledge=known,
        )
        if order is None:
            vars(view).update({name: vars(full)[name] for name in _SHARED if name in vars(full)})
        return view

    def restored(self, answers: NDArray[T]) -> NDArray[T]:
        """Answers (n, B, k) about the view's documents, in the recorded order."""
        if self.order is None:
            return answers
        out = np.empty_like(answers)
        np.put_along_axis(out, self.order, answers, axis=2)
        return out


@dataclass(frozen=True, eq=False)
class Observer:
    """A server that sees each message of some recorded rounds; masked ones it reads as they are.

    Attributes:
        header: of the recorded rounds.
        collection: the data set; None if the features are embedded.
        hidden: names of `KNOWLEDGE` that are withheld from the observer.
        client_step: what the clients compute from a list and its clicks, if it is not PDGD.
    """

    header: TraceHeader
    collection: Collection | None
    hidden: frozenset[str] = field(default_factory=frozenset)
    client_step: ClientStep | None = None

    def views(self, record: RoundRecord) -> Iterator[RoundView]:
        """The views of a round's messages, in chunks of messages.

        Raises:
            TraceError: a number that is not finite, or documents that the data set does not have.
            UsageError: features are not embedded, and the data set is not given.
            PluginError: the client step is of other models.
        """
        # A trace may come from anyone. One number that is not finite would spread through every regression.
        if not (np.all(np.isfinite(record.messages)) and np.all(np.isfinite(record.parameters))):
            raise TraceError(f"trace: round {record.round} holds a number that is not finite")
        header = self.header.in_round(record.facts)
        placement = InteractionPlacement.of(record)
        features = features_of(record, header, self.collection, own_step=self.client_step is not None)
        self._check_step(record)
        messages, everything = readable(record, header), self._everything(record)
        knowledge = everything.without(self.hidden)
        each = max(1, placement.shape[1] * record.shown.shape[1] * record.parameters.size)
        most = max(1, min(_CHUNK, _CHUNK_NUMBERS // each))
        for first in range(0, record.n_messages, most):
            rows = slice(first, min(first + most, record.n_messages))
            full = self._full(record, messages[rows], placement, features, everything, rows)
            yield RoundView(rows, self._as_seen(full, record), knowledge)

    def knowledge(self, record: RoundRecord) -> Knowledge:
        return self._everything(record).without(self.hidden)

    def _everything(self, record: RoundRecord) -> Knowledge:
        """What is known in a round if nothing is hidden."""
        given = knowledge_of(self.header.in_round(record.facts))
        ranker_fits = True
        if self.client_step is not None:
            ranker_fits = fits_ranker(self.header, self._features(record))
            ranker = given.ranker if ranker_fits else UNKNOWN_RANKER
            given = given.having(client_step=self.client_step, ranker=ranker)
        if self.collection is not None:
            belief = None
            if ranker_fits:
                belief = click_belief(
                    self.collection, given.ranker, record.parameters, given.click_model, given.lists
                )
            several = self.collection.n_intents > 1
            return given.having(candidates=True, relevance=True, intents=several, belief=belief)
        return given.having(candidates=record.candidates is not None)

    def _check_step(self, record: RoundRecord) -> None:
        step = self.client_step
        problem = None if step is None else step.why_not(record.parameters.size, self._features(record))
        if step is not None and problem is not None:
            raise PluginError(f"client step {step.text}: it does not fit the trace: {problem}")

    def _features(self, record: RoundRecord) -> int:
        """Number of features of a document; 0 without any."""
        if record.features is not None:
            return int(record.features.shape[2])
        return 0 if self.collection is None else self.collection.n_features

    def _as_seen(self, view: View, record: RoundRecord) -> View:
        """A view of some messages of a round, as observers of this kind have it."""
        return view

    def _full(
        self,
        record: RoundRecord,
        messages: Floats,
        placement: InteractionPlacement,
        features: Features,
        knowledge: Knowledge,
        rows: slice,
    ) -> View:
        here = (placement.slot >= rows.start) & (placement.slot < rows.stop)
        size = rows.stop - rows.start, placement.shape[1]
        part = InteractionPlacement(placement.slot[here] - rows.start, placement.place[here], size)
        shown, rows_of = part.spread(record.shown[here], -1), part.spread(features[here], 0)
        candidates, labels, intent_labels = None, None, None
        if self.collection is not None:
            data, numbers = self._queries(self.collection, record)
            query = part.spread(numbers[here], -1)
            candidates = Candidates(features=data.features, offsets=data.offsets, query=query)
            labels = _labels(data, query, shown)
            if knowledge.intents:
                each = [_labels(data.under(intent), query, shown) for intent in range(data.n_intents)]
                intent_labels = np.stack(each, axis=-1)
        elif record.candidates is not None and record.n_candidates is not None:
            offsets = np.concatenate([[0], np.cumsum(record.n_candidates)])
            query = part.spread(np.flatnonzero(here), -1)  # each list has candidates of its own
            candidates = Candidates(features=record.candidates, offsets=offsets, query=query)
        return View(
            observer="individual",
            kind=self.header.content,
            parameters=np.tile(record.parameters, (part.shape[0], 1)),
            messages=messages,
            seeds=None if record.seeds is None else record.seeds[rows],
            shown=shown,
            features=cast(Features, rows_of),
            candidates=candidates,
            labels=labels,
            intent_labels=intent_labels,
            knowledge=knowledge,
        )

    def _queries(self, collection: Collection, record: RoundRecord) -> tuple[Dataset, Ints]:
        """The parts of the data set that a round's lists come from, joined, and each list's query in them."""
        used = np.unique(record.part).tolist() or [0]
        names = [self.header.dataset.parts[part] for part in used]
        first = np.zeros(len(self.header.dataset.parts), dtype=np.int64)
        first[used] = np.cumsum([0, *(collection.part(name).n_queries for name in names[:-1])])
        return collection.joined_parts(names), np.asarray(first[record.part] + record.query)


def _labels(data: Dataset, query: Ints, shown: Ints) -> Ints:
    """Grade of each shown document (n, B, k) of queries (n, B), -1 at the padding."""
    flat = data.shown_labels(np.maximum(query, 0).reshape(-1), shown.reshape(-1, shown.shape[2]))
    return flat.reshape(shown.shape)
