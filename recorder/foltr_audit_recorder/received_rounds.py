"""From the messages of a round to the columns of its tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .array_layout import (
    FLOATING,
    LayoutArray,
    as_float64,
    in_layout,
    n_parameters,
    named_arrays,
    vector,
)
from .messages import NodeOutcome, ReceivedMessage, ShownList
from .round_tables import CohortColumns, ListColumns, MessageColumns, TruthColumns

_ROUNDING = 1e-5  # of the largest number in a mean: servers may average in float32


@dataclass(frozen=True, kw_only=True)
class ListForm:
    """What all lists of a trace have in common.

    Attributes:
        length: number k of documents in the longest list.
        width: number d of features; 0 in a trace without lists.
        dtype: `float32` or `float64`, the format of features.
        candidates: whether the features of all candidates are there.
    """

    length: int = 1
    width: int = 0
    dtype: str = "float64"
    candidates: bool = False

    @classmethod
    def of(cls, messages: Sequence[ReceivedMessage], length: int | None, width: int) -> ListForm:
        """The form of the lists of a trace's first round."""
        lists = [shown for message in messages for shown in message.lists]
        if not lists:
            return cls(length=length or 1, width=width)
        return cls(
            length=length or max(len(_features(shown)) for shown in lists),
            width=_features(lists[0]).shape[1],
            dtype=np.result_type(*{_features(shown).dtype for shown in lists}).name,
            candidates=all(shown.candidates is not None for shown in lists),
        )


def _features(shown: ShownList) -> NDArray[np.floating]:
    return np.asarray(shown.features)


def message_columns(
    messages: Sequence[ReceivedMessage], layout: Sequence[LayoutArray], *, masked: int = 0
) -> MessageColumns:
    """The columns of the messages of a round.

    Args:
        messages: M messages.
        layout: the arrays of each message.
        masked: number W of words of a masked message; 0 of messages that are not masked.

    Raises:
        ValueError: a message with another layout, or senders of some messages only.
    """
    if masked:
        words = [_words(message, masked, slot) for slot, message in enumerate(messages)]
        arrays: list[NDArray[np.generic]] = [np.array(words, dtype=np.uint64).reshape(-1, masked)]
    else:
        wanted = list(layout)
        rows = [_values(message, wanted, slot) for slot, message in enumerate(messages)]
        arrays = [_stacked([row[place] for row in rows], entry) for place, entry in enumerate(layout)]
    senders, seeds = [message.sender for message in messages], [message.seed for message in messages]
    sizes, times = [message.size for message in messages], [message.at for message in messages]
    names = dict.fromkeys(name for message in messages for name in message.metrics)
    return MessageColumns(
        arrays=arrays,
        counts=np.array([message.count for message in messages], dtype=np.int64),
        survived=np.ones(len(messages), dtype=np.bool_),
        senders=_all_or_none(senders, "sender"),
        seeds=_all_or_none(seeds, "seed"),
        sizes=np.array(sizes, dtype=np.int64) if any(sizes) else None,
        sent_at=np.array(times) if not all(math.isnan(at) for at in times) else None,
        metrics={
            name: np.array([message.metrics.get(name, math.nan) for message in messages], dtype=np.float64)
            for name in names
        },
    )


def _values(message: ReceivedMessage, layout: Sequence[LayoutArray], slot: int) -> list[NDArray[np.generic]]:
    arrays = named_arrays(message.arrays)
    if [array.place for array in arrays] == layout:
        return [array.values for array in arrays]
    return in_layout(arrays, layout, _who(message, slot))


def _who(message: ReceivedMessage, slot: int) -> str:
    return f"message {slot}" if message.sender is None else f"message {slot} of sender {message.sender}"


def _words(message: ReceivedMessage, masked: int, slot: int) -> NDArray[np.uint64]:
    words = np.asarray(message.arrays)
    if words.shape != (masked,) or words.dtype.kind not in "iu":
        found = f"{words.dtype}{list(words.shape)}"
        raise ValueError(f"{_who(message, slot)} has words {found}; expected {masked} whole numbers")
    return words.astype(np.uint64)


def _stacked(values: Sequence[NDArray[np.generic]], entry: LayoutArray) -> NDArray[np.generic]:
    if values:
        return np.stack(values)
    return np.empty((0, *entry.shape), dtype="uint16" if entry.dtype == "bfloat16" else entry.dtype)


def _all_or_none(values: Sequence[int | None], name: str) -> NDArray[np.uint64] | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    if len(known) < len(values):
        raise ValueError(f"{len(known)} of {len(values)} messages have a {name}; expected all or none")
    if min(known) < 0 or max(known) >= 2**64:
        raise ValueError(f"a {name} is {min(known) if min(known) < 0 else max(known)}; expected 0 to 2^64-1")
    return np.array(known, dtype=np.uint64)


def list_columns(messages: Sequence[ReceivedMessage], form: ListForm) -> ListColumns:
    """The columns of the lists of a round.

    Raises:
        ValueError: a list that is longer than the trace's, or has other features.
    """
    rows = list(_lists(messages))
    for slot, step, shown in rows:
        problem = _misfit(shown, form)
        if problem:
            raise ValueError(f"list {step} of {_who(messages[slot], slot)} has {problem}")
    if not form.width:
        return ListColumns.none(form.length)
    positions = np.full((len(rows), form.length), -1, dtype=np.int64)
    features = np.zeros((len(rows), form.length, form.width), dtype=form.dtype)
    for row, (_, _, shown) in enumerate(rows):
        k = len(_features(shown))
        positions[row, :k], features[row, :k] = np.asarray(shown.shown), shown.features
    candidates = [np.asarray(shown.candidates, dtype=form.dtype) for _, _, shown in rows if form.candidates]
    nobody = np.empty((0, form.width), dtype=form.dtype)
    return ListColumns(
        slot=_whole([slot for slot, _, _ in rows]),
        step=_whole([step for _, step, _ in rows]),
        part=_whole([shown.part for _, _, shown in rows]),
        query=_whole([shown.query for _, _, shown in rows]),
        shown=positions,
        features=features,
        candidates=np.concatenate([nobody, *candidates]) if form.candidates else None,
        n_candidates=_whole([len(each) for each in candidates]) if form.candidates else None,
    )


def _lists(messages: Sequence[ReceivedMessage]) -> Iterator[tuple[int, int, ShownList]]:
    for slot, message in enumerate(messages):
        for step, shown in enumerate(message.lists):
            yield slot, step, shown


def _misfit(shown: ShownList, form: ListForm) -> str:
    (k, d), dtype = _features(shown).shape, _features(shown).dtype
    if not form.width:
        return "come after a round without lists; give list_length= and features= to begin with such rounds"
    if k > form.length:
        return f"{k} documents, more than the {form.length} of the trace; give list_length={k} or more"
    if d != form.width:
        return f"{d} features a document, expected {form.width}"
    if dtype == np.float64 and form.dtype == "float32":
        return "features in float64, expected float32 as before"
    if form.candidates and shown.candidates is None:
        return "no candidates, expected some as before"
    return ""


def _whole(values: Sequence[int]) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


def truth_columns(
    messages: Sequence[ReceivedMessage],
    form: ListForm,
    layout: Sequence[LayoutArray],
    dtype: str,
    metrics: Mapping[str, float],
) -> TruthColumns:
    """The columns of what nobody but the laboratory knows of a round.

    Args:
        messages: M messages.
        form: the form of the trace's lists.
        layout: the arrays of each message.
        dtype: `float32` or `float64`, in which updates are stored.
        metrics: utility of the round by name.

    Raises:
        ValueError: an update with another layout.
    """
    rows = [shown for _, _, shown in _lists(messages)]
    clicks = np.zeros((len(rows), form.length), dtype=np.bool_)
    canaries = np.zeros((len(rows), 2, form.length), dtype=np.bool_)
    coins = np.full(len(rows), -1, dtype=np.int8)
    for row, shown in enumerate(rows):
        k = len(_features(shown))
        if shown.clicks is not None:
            clicks[row, :k] = shown.clicks
        if shown.canary is not None:
            canaries[row, :, :k], coins[row] = shown.canary.patterns, shown.canary.side
    clipped = [shown.clipped for shown in rows]
    owners = [message.sender if message.client is None else message.client for message in messages]
    return TruthColumns(
        clients=np.array(
            [slot if owner is None else owner for slot, owner in enumerate(owners)], dtype=np.uint64
        ),
        clicks=clicks,
        updates=_updates(messages, layout, dtype),
        clipped=np.array(clipped, dtype=np.bool_) if rows and None not in clipped else None,
        known=np.array([shown.clicks is not None for shown in rows], dtype=np.bool_),
        intents=_whole([shown.intent for shown in rows]) if any(shown.intent for shown in rows) else None,
        canaries=canaries if np.any(coins >= 0) else None,
        coins=coins if np.any(coins >= 0) else None,
        metrics=metrics,
    )


def _updates(
    messages: Sequence[ReceivedMessage], layout: Sequence[LayoutArray], dtype: str
) -> NDArray[np.floating] | None:
    if all(message.update is None for message in messages):
        return None
    updates = np.full((len(messages), n_parameters(layout)), math.nan, dtype=dtype)
    for slot, message in enumerate(messages):
        if message.update is not None:
            updates[slot] = parameters_of(message.update, layout, f"update of {_who(message, slot)}")
    return updates


def parameters_of(arrays: object, layout: Sequence[LayoutArray], who: str) -> NDArray[np.float64]:
    """The parameters (P,) of a model or update: one vector, or arrays with the names and shapes of a layout.

    Raises:
        ValueError: another number of parameters, names or shapes; it begins with `who`.
    """
    named = named_arrays(arrays)
    P = n_parameters(layout)
    if len(named) == 1 and named[0].values.shape == (P,):
        return vector([named[0].values], [named[0].place])
    names = {place.name for place in layout}
    given = {array.place.name: array for array in named}
    if names.isdisjoint(given) and len(named) == len(layout):
        # Servers and clients that name their arrays differently keep their order.
        given = {place.name: array for place, array in zip(layout, named, strict=True)}
    wanted = {place.name: place.shape for place in layout if place.dtype in FLOATING}
    if not given.keys() <= names or any(
        name not in given or given[name].values.shape != shape for name, shape in wanted.items()
    ):
        told = ", ".join(str(array.place) for array in named)
        raise ValueError(f"{who} has arrays {told:.200}; expected {', '.join(map(str, layout)):.200}")
    # By the layout: a mean makes floating numbers of buffers, which are no parameters all the same.
    return vector([given[name].values for name in wanted], [given[name].place for name in wanted])


def cohort_columns(outcomes: Sequence[NodeOutcome]) -> CohortColumns | None:
    """The columns of what became of the nodes that were asked; None where nothing is known."""
    if not outcomes:
        return None
    return CohortColumns(
        node=np.array([outcome.node for outcome in outcomes], dtype=np.uint64),
        outcome=[outcome.outcome for outcome in outcomes],
        reason=[outcome.reason for outcome in outcomes],
        stage=[outcome.stage for outcome in outcomes],
    )


def is_mean(
    kind: str,
    sent: NDArray[np.float64],
    columns: MessageColumns,
    layout: Sequence[LayoutArray],
    aggregate: NDArray[np.float64],
) -> bool:
    """Whether an aggregate (P,) is the mean of messages by counts; of updates, that mean added to `sent`.

    True of kinds whose messages are no models or updates in clear.
    """
    if kind not in ("model", "update"):
        return True
    weights = np.asarray(columns.counts, dtype=np.float64)
    if not weights.sum():
        return bool(np.allclose(aggregate, sent, rtol=_ROUNDING, atol=0.0))
    mean, largest, begin = (np.zeros_like(sent) if kind == "model" else sent.copy()), np.abs(sent), 0
    for values, entry in zip(columns.arrays, layout, strict=True):
        if entry.dtype not in FLOATING:
            continue
        numbers = as_float64(values, entry.dtype).reshape(len(weights), -1)
        end = begin + numbers.shape[1]
        mean[begin:end] += weights @ numbers / weights.sum()
        largest[begin:end] += np.abs(numbers).max(axis=0)
        begin = end
    return bool(np.all(np.abs(aggregate - mean) <= _ROUNDING * largest))


def finite_messages(
    messages: Sequence[ReceivedMessage], layout: Sequence[LayoutArray], *, masked: int = 0
) -> tuple[Sequence[ReceivedMessage], MessageColumns]:
    """The messages whose parameters are finite, and their columns.

    A client that diverges sends NaN, which no attack reads and no trace holds.

    Raises:
        ValueError: as `message_columns`.
    """
    columns = message_columns(messages, layout, masked=masked)
    finite = np.ones(len(messages), dtype=np.bool_)
    for values, entry in zip(columns.arrays, () if masked else layout, strict=not masked):
        if entry.dtype in FLOATING:
            finite &= _is_finite(values, entry.dtype).all(axis=tuple(range(1, values.ndim)))
    if finite.all():
        return messages, columns
    kept = [message for message, good in zip(messages, finite, strict=True) if good]
    return kept, message_columns(kept, layout, masked=masked)


def _is_finite(values: NDArray[np.generic], dtype: str) -> NDArray[np.bool_]:
    if dtype == "bfloat16":
        return np.asarray((values.astype(np.uint16) & np.uint16(0x7F80)) != 0x7F80)
    return np.asarray(np.isfinite(values.astype(dtype, copy=False)))


def with_broken(
    outcomes: Sequence[NodeOutcome], messages: Sequence[ReceivedMessage], kept: Sequence[ReceivedMessage]
) -> list[NodeOutcome]:
    """Outcomes in which the senders of messages that were left out have failed."""
    if len(kept) == len(messages):
        return list(outcomes)
    whole = {id(message) for message in kept}
    broken = {m.sender for m in messages if id(m) not in whole and m.sender is not None}
    others = [each for each in outcomes if each.stage or each.node not in broken]
    reason = "sent numbers that are not finite"
    return [*others, *(NodeOutcome(node=node, outcome="failed", reason=reason) for node in sorted(broken))]
