"""One observer of recorded rounds: what it knows and believes, and the views that it gets of each round.

What a server believes of clicks is learnt from the training split, whose relevance labels a search engine
has: it ranks its queries with the global model and counts grades by position.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.click_models import CascadeClickModel
from foltr_audit.core.plugins import ClickModel, ClientStep
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.rankers import known_ranker, make_ranker
from foltr_audit.core.ranking_metrics import LIST_LENGTH
from foltr_audit.core.records import Collection, Dataset
from foltr_audit.core.records.interactions import RoundRecord
from foltr_audit.core.records.view import Candidates, ClickBelief, Knowledge, View
from foltr_audit.core.shown_lists import lists_in_score_order
from foltr_audit.errors import FoltrAuditError, PluginError, TraceError, UsageError
from foltr_audit.judge.pieces import with_rows
from foltr_audit.privacy.events import Ball, ClickLaw, ClickRandomization
from foltr_audit.rng import Streams
from foltr_audit.trace import TraceHeader
from foltr_audit.trace.declared_header import NoiseDeclaration
from foltr_audit.utils.arrays import Features, Floats, Ints
from foltr_audit.utils.seed_generators import PERTURBATIONS

T = TypeVar("T", bound=np.generic)

_SAME = 1e-6  # difference of a number in float32 and in float64, with room
_FLOAT64_LIKE = 2.0**-40  # encodings of a smaller error are read as exactly as float64


@dataclass(frozen=True, eq=False)
class InteractionPlacement:
    """Place of each interaction of a round in arrays (n, B, ...) with a row for every message.

    The message of each interaction, int64 (I,), and its number within the message, int64 (I,).
    """

    slot: Ints
    place: Ints
    shape: tuple[int, int]

    @classmethod
    def of(cls, record: RoundRecord) -> InteractionPlacement:
        """The placement of a round's interactions, which are sorted by message."""
        first = np.searchsorted(record.slot, record.slot, side="left")
        place = np.arange(record.slot.size) - first
        B = int(place.max()) + 1 if place.size else 0
        return cls(slot=record.slot, place=place, shape=(record.n_messages, B))

    @property
    def rows(self) -> tuple[Ints, Ints]:
        """Index that takes values (n, B, ...) of messages back to those of interactions, (I, ...)."""
        return self.slot, self.place

    def spread(self, values: NDArray[T], fill: float) -> NDArray[T]:
        """Values of the interactions (I, ...) as (n, B, ...), with `fill` where a message has fewer."""
        out = np.full(self.shape + values.shape[1:], fill, dtype=values.dtype)
        out[self.slot, self.place] = values
        return out


def knowledge_of(header: TraceHeader) -> Knowledge:
    """What the server of a trace knows in addition to the messages, from its header."""
    # A header may come from another system: a fact of an unexpected type counts as not known.
    facts = header.knowledge
    texts = {name: fact for name, fact in facts.items() if isinstance(fact, str)}
    numbers = {name: float(fact) for name, fact in facts.items() if isinstance(fact, int | float)}
    norm, order, update_norm = map(numbers.get, ("clip_norm", "clip_ord", "update_clip_norm"))
    order, interactions = order or 2.0, numbers.get("interactions")
    # Seeds drive the generator of `foltr-audit` in its own Runs, else what the header says.
    generator = (
        "foltr-audit" if header.spec_hash and "perturbation" not in facts else texts.get("perturbation")
    )
    coarse = header.encoding is not None and header.encoding.error > _FLOAT64_LIKE
    acts = NoiseDeclaration.of(header).acts or ()
    laws = [act.event.law for act in acts if isinstance(act.event, ClickRandomization)]
    return Knowledge(
        ranker=header.ranker,
        interactions=None if interactions is None else int(interactions),
        lists=texts.get("lists"),
        learning_rate=numbers.get("learning_rate"),
        pairs=texts.get("pairs"),
        normaliser=texts.get("normaliser"),
        rank_with=texts.get("rank_with") or "local",
        clip=Ball(norm=norm, ord=int(order)) if norm is not None and order in (1.0, 2.0) else None,
        clip_without_pairs=facts.get("clip_without_pairs", True) is not False,
        sigma=numbers.get("sigma"),
        metric=texts.get("metric"),
        antithetic=facts.get("antithetic", True) is not False,
        perturbation=generator if generator in PERTURBATIONS else None,
        noise=texts.get("noise") or ("none" if "defense" in facts else None),
        click_law=reduce(ClickLaw.then, laws) if laws else None,
        # That whose precision is nearest to that of the decoded messages.
        number_format="float32" if coarse else header.number_format,
        feature_format=header.feature_format,
        click_model=texts.get("click_model"),
        update_clip=Ball(norm=update_norm, ord=2) if update_norm is not None else None,
    )


def readable(record: RoundRecord, header: TraceHeader) -> Floats:
    """A round's messages as numbers (M, P).

    Masked messages are decoded as if they had no masks and divided by the count or weight that travels with
    them. With masks, the result is noise.
    """
    encoding = header.encoding
    if encoding is None:
        return record.messages.astype(np.float64)
    return encoding.decode_messages(record.messages.astype(np.uint64), record.counts)


def check_collection(header: TraceHeader, collection: Collection) -> None:
    """Refuse data other than those that a trace was recorded on.

    A trace with features and without a fingerprint shows by its features whether the data are its own
    (`features_of`).
    """
    expected = header.dataset
    if not expected.fingerprint and header.embeds_features:
        return
    if collection.fingerprint != expected.fingerprint:
        raise TraceError(
            f"trace: recorded on {expected.source} (fingerprint {expected.fingerprint[:12]}), not on "
            f"{collection.source} ({collection.fingerprint[:12]}); give its own data with --data"
        )
    if expected.rows and collection.row_order != expected.rows:
        raise TraceError(
            f"trace: recorded on {expected.source}, whose rows are in another order than those of "
            f"{collection.source}; give its own data with --data"
        )
    if collection.normalised != expected.normalised:
        raise TraceError(
            f"trace: recorded on {expected.normalised} features, not {collection.normalised}; "
            "expected the recorded normalisation"
        )


def features_of(
    record: RoundRecord, header: TraceHeader, collection: Collection | None, *, own_step: bool = False
) -> Features:
    """Feature rows of every shown document of a round, (I, k, d), zero at the padding.

    With an own client step the header's ranker need not fit the features.
    """
    if record.features is None and collection is None:
        raise UsageError("trace: features are not embedded; give the data set with --data")
    width = n_features(record, collection)
    if not own_step and not fits_ranker(header, width):
        if not known_ranker(header.ranker):
            raise UsageError(
                f"trace: ranker {header.ranker!r} is not known; give what its clients compute with "
                "--client-step"
            )
        raise TraceError(
            f"trace: {width} features, but a {header.ranker} ranker of {header.parameters} parameters"
        )
    if collection is None or (record.features is not None and header.dataset.fingerprint):
        return cast(Features, record.features)
    found = _features_in(record, header, collection)
    if record.features is None:
        return found
    if width != found.shape[2] or not np.allclose(record.features, found, _SAME, _SAME):
        raise TraceError(
            f"trace: round {record.round} shows documents with other features than {collection.source} has "
            "under these numbers; give its own data with --data"
        )
    return record.features


def n_features(record: RoundRecord, collection: Collection | None) -> int:
    if record.features is not None:
        return int(record.features.shape[2])
    return 0 if collection is None else collection.n_features


def fits_ranker(header: TraceHeader, features: int) -> bool:
    """Whether the header's ranker is known, and has as many parameters as the models of the trace."""
    if not known_ranker(header.ranker):
        return False
    return make_ranker(header.ranker, features).n_parameters == header.parameters


def _features_in(record: RoundRecord, header: TraceHeader, collection: Collection) -> Features:
    """Feature rows of every shown document of a round in a data set, (I, k, d), zero at the padding."""
    rows: Features = np.zeros((*record.shown.shape, collection.n_features), collection.train.features.dtype)
    for index in np.unique(record.part):
        data, here = collection.part(header.dataset.parts[index]), record.part == index
        query, shown = record.query[here], record.shown[here]
        # The numbers come from a file, and features lie in one flat array: a place beyond the end of a query
        # would silently be a document of the next one.
        if query.max(initial=-1) >= data.n_queries or np.any(shown >= data.lengths[query][:, np.newaxis]):
            raise TraceError(f"trace: round {record.round} shows documents that the data set does not have")
        rows[here] = data.shown_features(query, shown)
    return rows


def query_names(record: RoundRecord, header: TraceHeader, collection: Collection | None) -> NDArray[np.str_]:
    """Name of the query of each interaction, (I,); without the data set it is `part:index`."""
    names = []
    for part, query in zip(record.part.tolist(), record.query.tolist(), strict=True):
        name = header.dataset.parts[part]
        names.append(f"{name}:{query}" if collection is None else collection.query_name(name, query))
    return np.array(names, dtype=np.str_)


_ROWS_OF_MESSAGES = ("parameters", "messages", "seeds", "clients")
_ROWS_OF_LISTS = ("shown", "features", "labels", "intent_labels")


def whole_round(parts: Sequence[View]) -> View:
    """All messages of a round in one view, from its views, of which there is at least one."""
    first = parts[0]
    if len(parts) == 1:
        return first
    given = [name for name in (*_ROWS_OF_MESSAGES, *_ROWS_OF_LISTS) if getattr(first, name) is not None]
    arrays: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in given}
    candidates = first.candidates
    if candidates is not None:
        query = np.concatenate([part.candidates.query for part in parts if part.candidates is not None])
        candidates = replace(candidates, query=query)
    return replace(first, candidates=candidates, **arrays)


def with_lists(view: View, messages: Ints, lists: Ints | None = None) -> View:
    """Some messages (n,) of a view; of a view of one list each also with lists of others (n, B) as theirs."""
    at = messages if lists is None else (lists, 0)
    candidates = view.candidates
    return with_rows(
        view,
        (_ROWS_OF_MESSAGES, messages),
        (_ROWS_OF_LISTS, at),
        candidates=None if candidates is None else replace(candidates, query=candidates.query[at]),
    )


def why_not_one_list(record: RoundRecord, header: TraceHeader) -> str | None:
    """Why a round's messages do not stand for one list each that depends on the query alone, or None."""
    lists = header.knowledge.get("lists", "of an unknown kind")
    if lists != "deterministic":
        return f"it needs deterministic lists, and the recorded ones are {lists}"
    if not np.array_equal(record.slot, np.arange(record.n_messages)):
        return "it needs messages of one interaction each"
    return None


_UNSEEN = 0.5  # counts of every grade before the first list, so that no grade is impossible


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
        _last[collection] = key, _usual_grades(collection.train, ranker, parameters, len(click), sampled)
    return ClickBelief(click=np.array(click), stop=np.array(stop), grades=_last[collection][1])


_last: WeakKeyDictionary[Collection, tuple[tuple[str, bytes, bool, int], Floats]] = WeakKeyDictionary()
"""The last grades of each data set: counting ranks the whole training split, and click models, observers, and
repetitions of fresh clients share it. Weak keys do not keep a data set alive."""


def _usual_grades(train: Dataset, ranker: str, parameters: Floats, grades: int, sampled: bool) -> Floats:
    """P(grade | position) for G grades in the lists of all training queries under a model, float64 (k, G)."""
    from foltr_audit.kernels.plackett_luce import sampled_lists

    queries = np.arange(train.n_queries)
    scores, starts = make_ranker(ranker, train.n_features).scores(parameters[np.newaxis], train, queries)
    # A fixed seed: the belief is stored under model and settings, and must not depend on which experiment
    # asked for it first.
    streams = Streams(0).clients("belief", 0, queries)
    if sampled:
        key, purpose = np.uint64(streams.key), streams.purpose_code
        shown = sampled_lists(scores, starts, LIST_LENGTH, 0, streams.clients, streams.round, purpose, key)
    else:
        shown = lists_in_score_order(scores, starts, train, queries, streams)
    labels = train.shown_labels(queries, shown)
    counts = np.stack([(labels == grade).sum(axis=0) for grade in range(grades)], axis=1) + _UNSEEN
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))


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
    """Some messages of a round, as an observer sees them; in full, as one from whom nothing is hidden."""

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

    Without a data set the features are embedded. What is `hidden` of `KNOWLEDGE` is withheld from it. Clients
    that do not run PDGD take a client step.
    """

    header: TraceHeader
    collection: Collection | None
    hidden: frozenset[str] = field(default_factory=frozenset)
    client_step: ClientStep | None = None

    def views(self, record: RoundRecord) -> Iterator[RoundView]:
        """The views of a round's messages, in chunks of messages."""
        # A trace may come from anyone. One number that is not finite would spread through every regression.
        if not (np.all(np.isfinite(record.messages)) and np.all(np.isfinite(record.parameters))):
            raise TraceError(f"trace: round {record.round} holds a number that is not finite")
        header = self.header.in_round(record.facts)
        placement = InteractionPlacement.of(record)
        features = features_of(record, header, self.collection, own_step=self.client_step is not None)
        step = self.client_step
        problem = (
            None
            if step is None
            else step.why_not(record.parameters.size, n_features(record, self.collection))
        )
        if step is not None and problem is not None:
            raise PluginError(f"client step {step.text}: it does not fit the trace: {problem}")
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
            ranker_fits = fits_ranker(self.header, n_features(record, self.collection))
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

    def _as_seen(self, view: View, record: RoundRecord) -> View:
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
