"""From recorded rounds to what one observer sees of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.rankers import known_ranker, make_ranker
from foltr_audit.core.records import Collection
from foltr_audit.core.records.interactions import RoundRecord
from foltr_audit.core.records.view import Knowledge, View
from foltr_audit.errors import TraceError, UsageError
from foltr_audit.judge.pieces import with_rows
from foltr_audit.privacy.events import Ball
from foltr_audit.trace import TraceHeader
from foltr_audit.utils.arrays import Features, Floats, Ints
from foltr_audit.utils.seed_generators import PERTURBATIONS

T = TypeVar("T", bound=np.generic)

_SAME = 1e-6  # difference of a number in float32 and in float64, with room
_FLOAT64_LIKE = 2.0**-40  # encodings of a smaller error are read as exactly as float64


@dataclass(frozen=True, eq=False)
class InteractionPlacement:
    """Place of each interaction of a round in arrays with a row for every message.

    Attributes:
        slot: message of each interaction, int64 (I,).
        place: number of the interaction within its message, int64 (I,).
        shape: messages and the largest number of interactions of one, (n, B).
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
    facts = header.knowledge

    # A header may come from another system: a fact of an unexpected type counts as not known.
    def text(name: str) -> str | None:
        value = facts.get(name)
        return value if isinstance(value, str) else None

    def number(name: str) -> float | None:
        value = facts.get(name)
        return float(value) if isinstance(value, int | float) else None

    norm, order, update_norm = number("clip_norm"), number("clip_ord") or 2.0, number("update_clip_norm")
    interactions = number("interactions")
    noise = text("noise") or ("none" if "defense" in facts else None)
    return Knowledge(
        ranker=header.ranker,
        interactions=None if interactions is None else int(interactions),
        lists=text("lists"),
        learning_rate=number("learning_rate"),
        pairs=text("pairs"),
        normaliser=text("normaliser"),
        rank_with=text("rank_with") or "local",
        clip=Ball(norm=norm, ord=int(order)) if norm is not None and order in (1.0, 2.0) else None,
        clip_without_pairs=facts.get("clip_without_pairs", True) is not False,
        sigma=number("sigma"),
        metric=text("metric"),
        antithetic=facts.get("antithetic", True) is not False,
        perturbation=_perturbation(header),
        noise=noise,
        number_format=_number_format(header),
        feature_format=header.feature_format,
        click_model=text("click_model"),
        update_clip=Ball(norm=update_norm, ord=2) if update_norm is not None else None,
    )


def _perturbation(header: TraceHeader) -> str | None:
    """The generator behind seeds: `foltr-audit` in its own Runs, else what the header says; None: another."""
    stated = header.knowledge.get("perturbation", "foltr-audit" if header.spec_hash else "other")
    return stated if isinstance(stated, str) and stated in PERTURBATIONS else None


def _number_format(header: TraceHeader) -> str:
    """The number format whose precision is nearest to that of the decoded messages."""
    if header.encoding is not None and header.encoding.error > _FLOAT64_LIKE:
        return "float32"
    return header.number_format


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

    Raises:
        TraceError: another fingerprint, or another normalisation.
    """
    expected = header.dataset
    if not expected.fingerprint and header.embeds_features:
        return
    if collection.fingerprint != expected.fingerprint:
        raise TraceError(
            f"trace: recorded on {expected.source} (fingerprint {expected.fingerprint[:12]}), not on "
            f"{collection.source} ({collection.fingerprint[:12]}); give its own data with --data"
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

    Raises:
        UsageError: features are not embedded, and the data set is not given.
        TraceError: an interaction points outside the data set, or its documents have other features there.
    """
    if record.features is not None:
        if not own_step:
            _check_width(header, record.features.shape[2])
        if collection is not None and not header.dataset.fingerprint:
            _check_documents(record, header, collection)
        return record.features
    if collection is None:
        raise UsageError("trace: features are not embedded; give the data set with --data")
    if not own_step:
        _check_width(header, collection.n_features)
    return _features_in(record, header, collection)


def _check_documents(record: RoundRecord, header: TraceHeader, collection: Collection) -> None:
    """Refuse data whose documents are not those that a round shows.

    Raises:
        DataError: a part that data sets do not have.
        TraceError: documents outside of the part, or other features.
    """
    given, expected = record.features, _features_in(record, header, collection)
    if given is None or given.shape != expected.shape or not np.allclose(given, expected, _SAME, _SAME):
        raise TraceError(
            f"trace: round {record.round} shows documents with other features than {collection.source} has "
            "under these numbers; give its own data with --data"
        )


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


def _check_width(header: TraceHeader, features: int) -> None:
    if not known_ranker(header.ranker):
        raise UsageError(
            f"trace: ranker {header.ranker!r} is not known; give what its clients compute with --client-step"
        )
    expected = make_ranker(header.ranker, features).n_parameters
    if expected != header.parameters:
        raise TraceError(
            f"trace: {features} features, but a {header.ranker} ranker of {header.parameters} parameters"
        )


def fits_ranker(header: TraceHeader, features: int) -> bool:
    """Whether the header's ranker is known, and has as many parameters as the models of the trace."""
    if not known_ranker(header.ranker):
        return False
    return make_ranker(header.ranker, features).n_parameters == header.parameters


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


def with_lists(view: View, messages: Ints, lists: Ints) -> View:
    """Some messages (n,) of a view of one list each, with the lists of other messages (n, B) as theirs."""
    candidates = view.candidates
    return with_rows(
        view,
        (_ROWS_OF_MESSAGES, messages),
        (_ROWS_OF_LISTS, (lists, 0)),
        candidates=None if candidates is None else replace(candidates, query=candidates.query[lists, 0]),
    )


def why_not_one_list(record: RoundRecord, header: TraceHeader) -> str | None:
    """Why a round's messages do not stand for one list each that depends on the query alone, or None."""
    lists = header.knowledge.get("lists", "of an unknown kind")
    if lists != "deterministic":
        return f"it needs deterministic lists, and the recorded ones are {lists}"
    if not np.array_equal(record.slot, np.arange(record.n_messages)):
        return "it needs messages of one interaction each"
    return None
