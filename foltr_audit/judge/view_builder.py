"""From recorded rounds to what one observer sees of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.rankers import make_ranker
from foltr_audit.core.records import Collection
from foltr_audit.core.records.interactions import RoundRecord
from foltr_audit.core.records.view import Knowledge
from foltr_audit.errors import TraceError, UsageError
from foltr_audit.privacy.events import Ball
from foltr_audit.trace import TraceHeader
from foltr_audit.utils.frozen_arrays import Features

T = TypeVar("T", bound=np.generic)

_FLOAT64_LIKE = 2.0**-40  # encodings of a smaller error are read as exactly as float64


@dataclass(frozen=True, eq=False)
class InteractionPlacement:
    """Where each interaction of a round stands when messages become rows.

    Attributes:
        slot: message of each interaction, int64 (I,).
        place: number of the interaction within its message, int64 (I,).
        shape: messages and the largest number of interactions of one, (n, B).
    """

    slot: NDArray[np.int64]
    place: NDArray[np.int64]
    shape: tuple[int, int]

    @classmethod
    def of(cls, record: RoundRecord) -> InteractionPlacement:
        """The placement of a round's interactions, which are sorted by message."""
        first = np.searchsorted(record.slot, record.slot, side="left")
        place = np.arange(record.slot.size) - first
        B = int(place.max()) + 1 if place.size else 0
        return cls(slot=record.slot, place=place, shape=(record.n_messages, B))

    def spread(self, values: NDArray[T], fill: Any) -> NDArray[T]:
        """Values of the interactions (I, ...) as (n, B, ...), filled up where there is none."""
        out = np.full(self.shape + values.shape[1:], fill, dtype=values.dtype)
        out[self.slot, self.place] = values
        return out


def knowledge_of(header: TraceHeader) -> Knowledge:
    """What the server of a trace knows beside the messages, from its header."""
    facts = header.knowledge

    def text(name: str) -> str | None:
        value = facts.get(name)
        return value if isinstance(value, str) else None

    def number(name: str) -> float | None:
        value = facts.get(name)
        return float(value) if isinstance(value, int | float) else None

    norm, order = number("clip_norm"), number("clip_ord") or 2.0
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
    )


def _perturbation(header: TraceHeader) -> str | None:
    """The generator behind seeds: foltr-audit's own in its Runs, of another system what the header says."""
    stated = header.knowledge.get("perturbation", "foltr-audit" if header.spec_hash else "other")
    return "foltr-audit" if stated == "foltr-audit" else None


def _number_format(header: TraceHeader) -> str:
    """The format that messages are about as exact in as they can be read."""
    if header.encoding is not None and header.encoding.error > _FLOAT64_LIKE:
        return "float32"
    return header.number_format


def readable(record: RoundRecord, header: TraceHeader) -> NDArray[np.float64]:
    """A round's messages as numbers (M, P): of masked ones what a server reads that takes them as they are.

    It decodes them and divides by the count that travels in clear; that is noise unless the masks are off.
    """
    encoding = header.encoding
    if encoding is None:
        return record.messages.astype(np.float64)
    return encoding.decode(record.messages.astype(np.uint64)) / np.maximum(record.counts, 1)[:, np.newaxis]


@dataclass(frozen=True, kw_only=True, eq=False)
class CohortSum:
    """What a server learns of one round by secure aggregation: the aggregate view.

    Attributes:
        round: number of the round.
        kind: what is summed, `model` or `update`.
        parameters: the global model that the clients start from, float64 (P,).
        sum: counts times messages, summed over the survivors, float64 (P,); None in a round that aborted.
        survivors: whose messages are in it, bool (M,).
        counts: interactions behind each message, which travel in clear, int64 (M,).
        aborted: why there is no sum; else empty.
    """

    round: int
    kind: str
    parameters: NDArray[np.float64]
    sum: NDArray[np.float64] | None
    survivors: NDArray[np.bool_]
    counts: NDArray[np.int64]
    aborted: str

    @property
    def mean(self) -> NDArray[np.float64] | None:
        """The average message by counts, float64 (P,); None without a sum or without any count."""
        weight = int(self.counts[self.survivors].sum())
        return None if self.sum is None or weight == 0 else np.asarray(self.sum / weight)


def cohort_sum(record: RoundRecord, header: TraceHeader) -> CohortSum:
    """The aggregate view of a round; of messages that are not masked, what it would be with masks."""
    encoding, total = header.encoding, None
    if not header.holds_models:
        raise UsageError(f"trace: messages of kind {header.kind} are never summed; expected models")
    if encoding is None:
        weighted = record.messages.astype(np.float64) * record.counts[:, np.newaxis]
        total = weighted[record.survivors].sum(axis=0)
    elif record.total is not None:
        total = encoding.decode(record.total)
    return CohortSum(
        round=record.round,
        kind=header.content,
        parameters=record.parameters,
        sum=total,
        survivors=record.survivors,
        counts=record.counts,
        aborted=record.aborted,
    )


def check_collection(header: TraceHeader, collection: Collection) -> None:
    """Refuse data that are not what a trace was recorded on.

    Raises:
        TraceError: another fingerprint, or another normalisation.
    """
    expected = header.dataset
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


def features_of(record: RoundRecord, header: TraceHeader, collection: Collection | None) -> Features:
    """Feature rows of every shown document of a round, (I, k, d), zero at the padding.

    Raises:
        UsageError: features are neither embedded nor is the data set given.
        TraceError: an interaction points outside the data set.
    """
    if record.features is not None:
        _check_width(header, record.features.shape[2])
        return record.features
    if collection is None:
        raise UsageError("trace: features are not embedded; give the data set with --data")
    _check_width(header, collection.n_features)
    rows: Features = np.zeros((*record.shown.shape, collection.n_features), collection.train.features.dtype)
    for index in np.unique(record.part):
        data, here = collection.part(header.dataset.parts[index]), record.part == index
        query, shown = record.query[here], record.shown[here]
        if query.max(initial=-1) >= data.n_queries or np.any(shown >= data.lengths[query][:, np.newaxis]):
            raise TraceError(f"trace: round {record.round} shows documents that the data set does not have")
        rows[here] = data.shown_features(query, shown)
    return rows


def _check_width(header: TraceHeader, features: int) -> None:
    expected = make_ranker(header.ranker, features).n_parameters
    if expected != header.parameters:
        raise TraceError(
            f"trace: {features} features, but a {header.ranker} ranker of {header.parameters} parameters"
        )


def query_names(record: RoundRecord, header: TraceHeader, collection: Collection | None) -> NDArray[np.str_]:
    """Name of the query of each interaction, (I,); without the data set it is `part:index`."""
    names = []
    for part, query in zip(record.part.tolist(), record.query.tolist(), strict=True):
        name = header.dataset.parts[part]
        names.append(f"{name}:{query}" if collection is None else collection.query_name(name, query))
    return np.array(names, dtype=np.str_)
