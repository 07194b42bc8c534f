"""From the messages of a round to the columns of its tables."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

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
    widened,
)
from .fact_values import plain_text
from .messages import NodeOutcome, ReceivedMessage
from .round_tables import CohortColumns, MessageColumns
from .weighted_mean import ROUNDING, weighted_mean

MOST_METRICS = 1000
"""Names of metrics that are kept in a round."""


def message_columns(
    messages: Sequence[ReceivedMessage], layout: Sequence[LayoutArray], *, masked: int = 0, bits: int = 64
) -> MessageColumns:
    """The columns of the messages of a round.

    Args:
        messages: M messages.
        layout: the arrays of each message.
        masked: number W of words of a masked message; 0 of messages that are not masked.
        bits: bits of such a word.

    Raises:
        ValueError: a message with another layout, numbers that are not finite or out of range, or senders of
            some messages only.
    """
    if masked:
        words = [_words(message, masked, bits, slot) for slot, message in enumerate(messages)]
        arrays: list[NDArray[np.generic]] = [np.array(words, dtype=np.uint64).reshape(-1, masked)]
    else:
        wanted = list(layout)
        rows = [_values(message, wanted, slot) for slot, message in enumerate(messages)]
        arrays = [_stacked([row[place] for row in rows], entry) for place, entry in enumerate(layout)]
        for values, entry in zip(arrays, layout, strict=True):
            _refuse_not_finite(values, entry, messages)
    senders, seeds = [message.sender for message in messages], [message.seed for message in messages]
    sizes, times = [message.size for message in messages], [message.at for message in messages]
    return MessageColumns(
        arrays=arrays,
        counts=whole_column([message.count for message in messages], "count", 2**63),
        survived=np.ones(len(messages), dtype=np.bool_),
        senders=_all_or_none(senders, "sender"),
        seeds=_all_or_none(seeds, "seed"),
        sizes=whole_column(sizes, "size", 2**63) if any(sizes) else None,
        sent_at=np.array(times, dtype=np.float64) if not all(math.isnan(at) for at in times) else None,
        metrics=_metrics(messages),
    )


def _refuse_not_finite(
    values: NDArray[np.generic], entry: LayoutArray, messages: Sequence[ReceivedMessage]
) -> None:
    if entry.dtype not in FLOATING:
        return
    finite = np.isfinite(widened(values, entry.dtype))
    if not np.all(finite):
        slot = int(np.argmin(finite.reshape(len(values), -1).all(axis=1)))
        raise ValueError(f"{who(messages[slot], slot)} holds a number that is not finite in {entry}")


def _metrics(messages: Sequence[ReceivedMessage]) -> dict[str, NDArray[np.float64]]:
    """Metrics in clear by name, (M,); of very many names those that most messages have."""
    times = Counter(name for message in messages for name in message.metrics)
    columns: dict[str, NDArray[np.float64]] = {}
    for name, _ in times.most_common(MOST_METRICS):
        values = np.array([message.metrics.get(name, math.nan) for message in messages], dtype=np.float64)
        columns.setdefault(plain_text(name), values)
    return columns


def _values(message: ReceivedMessage, layout: Sequence[LayoutArray], slot: int) -> list[NDArray[np.generic]]:
    arrays = named_arrays(message.arrays)
    if [array.place for array in arrays] == layout:
        return [array.values for array in arrays]
    return in_layout(arrays, layout, who(message, slot))


def who(message: ReceivedMessage, slot: int) -> str:
    """How errors name a message."""
    return f"message {slot}" if message.sender is None else f"message of sender {message.sender}"


def _words(message: ReceivedMessage, masked: int, bits: int, slot: int) -> NDArray[np.uint64]:
    words = np.asarray(message.arrays)
    if words.shape != (masked,) or words.dtype.kind not in "iu":
        found = f"{words.dtype}{list(words.shape)}"
        raise ValueError(f"{who(message, slot)} has words {found}; expected {masked} whole numbers")
    for word in (int(words.min()), int(words.max())):
        if not 0 <= word < 2**bits:
            raise ValueError(f"{who(message, slot)} has a word {word}; expected 0 to 2^{bits}-1")
    return words.astype(np.uint64)


def _stacked(values: Sequence[NDArray[np.generic]], entry: LayoutArray) -> NDArray[np.generic]:
    if values:
        return np.stack(values)
    return np.empty((0, *entry.shape), dtype=entry.stored)


def _all_or_none(values: Sequence[int | None], name: str) -> NDArray[np.uint64] | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    if len(known) < len(values):
        raise ValueError(f"{len(known)} of {len(values)} messages have a {name}; expected all or none")
    return whole_column(known, name)


def whole_column(values: Sequence[int], name: str, limit: int = 2**64) -> NDArray[np.uint64]:
    """Whole numbers from 0 on as a column.

    Raises:
        ValueError: something else, or a number that is not below the limit.
    """
    for value in values:
        if not isinstance(value, int | np.integer) or not 0 <= value < limit:
            raise ValueError(f"a {name} is {value!r:.40}; expected 0 to 2^{limit.bit_length() - 1}-1")
    return np.array(values, dtype=np.uint64)


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
        reason=[plain_text(outcome.reason) for outcome in outcomes],
        stage=[plain_text(outcome.stage) for outcome in outcomes],
    )


def is_mean(
    sent: NDArray[np.float64],
    columns: MessageColumns,
    layout: Sequence[LayoutArray],
    aggregate: NDArray[np.float64],
) -> bool:
    """Whether an aggregate is the mean of the messages weighted by their counts, added to `sent`, (P,)."""
    weights = np.asarray(columns.counts, dtype=np.float64)
    if not weights.sum():
        return bool(np.allclose(aggregate, sent, rtol=ROUNDING, atol=0.0))
    mean, largest = weighted_mean(
        weights,
        (
            as_float64(values, entry.dtype).reshape(len(weights), entry.size)
            for values, entry in zip(columns.arrays, layout, strict=True)
            if entry.dtype in FLOATING
        ),
    )
    slack = ROUNDING * (largest + np.abs(sent))
    return bool(np.all(np.abs(aggregate - (sent + mean)) <= slack))
