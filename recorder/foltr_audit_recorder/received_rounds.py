"""From the messages of a round, the lists behind them and what clients told, to the columns of its tables."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
from .messages import NodeOutcome, ReceivedMessage, ShownList, is_whole_number
from .round_tables import CohortColumns, TruthColumns
from .toml_text import plain_text

ROUNDING = 1e-5
"""How far a mean may be off, as a share of its largest number: servers may average in float32."""


def weighted_mean(
    weights: NDArray[np.float64], arrays: Iterable[NDArray[np.float64]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The mean of M messages, (P,), and the largest size of each number in a message, (P,).

    Args:
        weights: of the messages (M,), not all of them 0.
        arrays: the arrays of the messages, each (M, p), which make P numbers in a row.
    """
    shares, means, largest = weights / weights.sum(), [np.empty(0)], [np.empty(0)]
    for numbers in arrays:
        means.append(shares @ numbers)
        largest.append(np.abs(numbers).max(axis=0))
    return np.concatenate(means), np.concatenate(largest)


MOST_METRICS = 1000
"""Names of metrics that are kept in a round."""


def message_arrays(
    messages: Sequence[ReceivedMessage], layout: Sequence[LayoutArray], *, masked: int = 0, bits: int = 64
) -> list[NDArray[np.generic]]:
    """The arrays of the messages of a round: one for each of the layout, (M, *shape), or their words (M, W).

    `masked`: number W of words of a masked message; 0 of messages that are not masked. `bits`: bits of such a
    word.
    """
    if masked:
        words = [
            whole_words(message.arrays, masked, bits, who(message, slot))
            for slot, message in enumerate(messages)
        ]
        return [np.array(words, dtype=np.uint64).reshape(-1, masked)]
    wanted = list(layout)
    rows = [_values(message, wanted, slot) for slot, message in enumerate(messages)]
    arrays: list[NDArray[np.generic]] = []
    for place, entry in enumerate(layout):
        column = [row[place] for row in rows]
        values = np.stack(column) if column else np.empty((0, *entry.shape), dtype=entry.stored)
        if entry.dtype in FLOATING and not (finite := np.isfinite(widened(values, entry.dtype))).all():
            slot = int(np.argmin(finite.reshape(len(values), -1).all(axis=1)))
            raise ValueError(f"{who(messages[slot], slot)} holds a number that is not finite in {entry}")
        arrays.append(values)
    return arrays


def message_columns(messages: Sequence[ReceivedMessage]) -> dict[str, Any]:
    """The fields of `RoundColumns` that are about messages.

    Raises:
        ValueError: numbers out of range, or senders of some messages only.
    """
    sizes, times = [message.size for message in messages], [message.at for message in messages]
    return {
        "counts": _weights([message.count for message in messages]),
        "survivors": np.ones(len(messages), dtype=np.bool_),
        "senders": _all_or_none([message.sender for message in messages], "sender"),
        "seeds": _all_or_none([message.seed for message in messages], "seed"),
        "sizes": whole_column(sizes, "size", 2**63) if any(sizes) else None,
        "sent_at": np.array(times, dtype=np.float64) if not all(map(math.isnan, times)) else None,
        "clear": _metrics(messages),
    }


def are_whole(counts: Sequence[float]) -> bool:
    """Whether weights of messages may be numbers of interactions, since all are whole."""
    return all(float(count).is_integer() for count in counts)


def _weights(counts: Sequence[float]) -> NDArray[np.generic]:
    """Weights as a column: of whole numbers, or float64 where one is not whole.

    Raises:
        ValueError: something else than a number from 0 on, such as NaN.
    """
    for count in counts:
        number = isinstance(count, float | np.floating) or is_whole_number(count)
        if not number or not 0 <= count < 2**63:
            raise ValueError(f"a count is {count!r:.40}; expected a number from 0 on, below 2^63")
    if are_whole(counts):
        return np.array([int(count) for count in counts], dtype=np.uint64)
    return np.array(counts, dtype=np.float64)


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


def whole_words(given: object, masked: int, bits: int, who: str) -> NDArray[np.uint64]:
    """Words of a masked message, or their sum, (W,).

    Raises:
        ValueError: something else; it begins with `who`.
    """
    words = np.asarray(given)
    if words.shape != (masked,) or words.dtype.kind not in "iu":
        found = f"{words.dtype}{list(words.shape)}"
        raise ValueError(f"{who} has words {found}; expected {masked} whole numbers")
    for word in (int(words.min()), int(words.max())):
        if not 0 <= word < 2**bits:
            raise ValueError(f"{who} has a word {word}; expected 0 to 2^{bits}-1")
    return words.astype(np.uint64)


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
        if not is_whole_number(value) or not 0 <= value < limit:
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
    messages: Sequence[ReceivedMessage],
    arrays: Sequence[NDArray[np.generic]],
    layout: Sequence[LayoutArray],
    aggregate: NDArray[np.float64],
) -> bool:
    """Whether an aggregate is the mean of the messages weighted by their counts, added to `sent`, (P,)."""
    weights = np.array([message.count for message in messages], dtype=np.float64)
    if not weights.sum():
        return bool(np.allclose(aggregate, sent, rtol=ROUNDING, atol=0.0))
    mean, largest = weighted_mean(
        weights,
        (
            as_float64(values, entry.dtype).reshape(len(weights), entry.size)
            for values, entry in zip(arrays, layout, strict=True)
            if entry.dtype in FLOATING
        ),
    )
    slack = ROUNDING * (largest + np.abs(sent))
    return bool(np.all(np.abs(aggregate - (sent + mean)) <= slack))


_MOST_PADDED, _PADDED_PER_DOCUMENT = 1 << 24, 1000
"""Places that lists may be padded to: this many, or this many times the number of documents."""


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


def list_columns(
    messages: Sequence[ReceivedMessage], form: ListForm, parts: int, *, counted: bool
) -> dict[str, Any]:
    """The fields of `RoundColumns` that are about lists.

    `counted`: whether the weights of messages are numbers of interactions.

    Raises:
        ValueError: a list that is longer than the trace's, has other features or numbers out of range, or
            more lists of a message than it counts.
    """
    rows = list(_lists(messages))
    for slot, step, shown in rows:
        problem, count = _misfit(shown, form, parts), messages[slot].count
        if not problem and counted and step >= count:
            problem = f"number {step}, but its message counts {count} interactions; expected as many or more"
        if problem:
            raise ValueError(f"list {step} of {who(messages[slot], slot)} has {problem}")
    documents = sum(len(_features(shown)) for _, _, shown in rows)
    if len(rows) * form.length > max(_MOST_PADDED, _PADDED_PER_DOCUMENT * documents):
        raise ValueError(f"{documents} documents in {len(rows)} lists are too few for lists of {form.length}")
    positions = np.full((len(rows), form.length), -1, dtype=np.int64)
    features = np.zeros((len(rows), form.length, form.width), dtype=form.dtype)
    for row, (_, _, shown) in enumerate(rows):
        k = len(_features(shown))
        positions[row, :k], features[row, :k] = np.asarray(shown.shown), shown.features
    candidates = [np.asarray(shown.candidates, dtype=form.dtype) for _, _, shown in rows if form.candidates]
    nobody = np.empty((0, form.width), dtype=form.dtype)
    return {
        "slot": _whole([slot for slot, _, _ in rows]),
        "step": _whole([step for _, step, _ in rows]),
        "part": _whole([shown.part for _, _, shown in rows]),
        "query": _whole([shown.query for _, _, shown in rows]),
        "shown": positions,
        "features": features if form.width else None,
        "candidates": np.concatenate([nobody, *candidates]) if form.candidates else None,
        "n_candidates": _whole([len(each) for each in candidates]) if form.candidates else None,
    }


def _lists(messages: Sequence[ReceivedMessage]) -> Iterator[tuple[int, int, ShownList]]:
    for slot, message in enumerate(messages):
        for step, shown in enumerate(message.lists):
            yield slot, step, shown


def _misfit(shown: ShownList, form: ListForm, parts: int) -> str:
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
    if not 0 <= shown.query < 2**63 or not 0 <= shown.part < parts:
        return f"query {shown.query} of part {shown.part}, expected 0 or more, of one of {parts} parts"
    return _wrong_values(shown, form)


def _wrong_values(shown: ShownList, form: ListForm) -> str:
    documents = np.asarray(shown.shown)
    if len(set(documents.tolist())) < documents.size:
        return "a document twice"
    if not np.all(np.isfinite(_features(shown))):
        return "features that are not finite"
    if not form.candidates or shown.candidates is None:
        return ""
    candidates = np.asarray(shown.candidates)
    if not np.all(np.isfinite(candidates)) or (documents.size and documents.max() >= len(candidates)):
        return "candidates that are not finite, or not all documents among them"
    return ""


def _whole(values: Sequence[int]) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


def truth_columns(
    messages: Sequence[ReceivedMessage],
    form: ListForm,
    layout: Sequence[LayoutArray],
    dtype: str,
    intents: int,
    metrics: Mapping[str, float],
) -> TruthColumns:
    """The columns of what nobody but the laboratory knows of a round.

    `dtype`: `float32` or `float64`, in which updates are stored. `intents`: number of intents that users
    have.
    """
    rows = [shown for _, _, shown in _lists(messages)]
    clicks = np.zeros((len(rows), form.length), dtype=np.bool_)
    for row, shown in enumerate(rows):
        if shown.clicks is not None:
            clicks[row, : len(_features(shown))] = shown.clicks
    clipped = [shown.clipped for shown in rows]
    owners = [message.sender if message.client is None else message.client for message in messages]
    return TruthColumns(
        clients=whole_column(
            [slot if owner is None else owner for slot, owner in enumerate(owners)], "client"
        ),
        clicks=clicks,
        updates=_updates(messages, layout, dtype),
        clipped=np.array(clipped, dtype=np.bool_) if rows and None not in clipped else None,
        known=np.array([shown.clicks is not None for shown in rows], dtype=np.bool_),
        intents=_intents(rows, intents),
        metrics=metrics,
    )


def _intents(rows: Sequence[ShownList], intents: int) -> NDArray[np.int64] | None:
    found = [shown.intent for shown in rows]
    wrong = [intent for intent in found if not 0 <= intent < intents]
    if wrong:
        raise ValueError(f"a list has intent {wrong[0]}; expected one below {intents}, the fact intents")
    return _whole(found) if intents > 1 else None


def _updates(
    messages: Sequence[ReceivedMessage], layout: Sequence[LayoutArray], dtype: str
) -> NDArray[np.floating] | None:
    if all(message.update is None for message in messages):
        return None
    updates = np.full((len(messages), n_parameters(layout)), math.nan, dtype=dtype)
    for slot, message in enumerate(messages):
        if message.update is not None:
            with np.errstate(over="ignore"):
                updates[slot] = parameters_of(message.update, layout, f"update of {who(message, slot)}")
            if not np.all(np.isfinite(updates[slot])):
                raise ValueError(f"update of {who(message, slot)} holds a number that is not finite")
    return updates
