"""From the shown lists of the messages of a round, and what clients told of them, to columns."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .array_layout import LayoutArray, n_parameters
from .messages import ReceivedMessage, ShownList
from .received_rounds import parameters_of, who, whole_column
from .round_tables import ListColumns, TruthColumns

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


def list_columns(messages: Sequence[ReceivedMessage], form: ListForm, parts: int) -> ListColumns:
    """The columns of the lists of a round.

    Args:
        messages: M messages.
        form: the form of the trace's lists.
        parts: number of parts of the data.

    Raises:
        ValueError: a list that is longer than the trace's, has other features or numbers out of range, or
            more lists of a message than its count.
    """
    rows = list(_lists(messages))
    for slot, step, shown in rows:
        problem = _misfit(shown, form, parts) or _beyond(messages[slot], step)
        if problem:
            raise ValueError(f"list {step} of {who(messages[slot], slot)} has {problem}")
    if not form.width:
        return ListColumns.none(form.length)
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


def _beyond(message: ReceivedMessage, step: int) -> str:
    if step < message.count:
        return ""
    return f"number {step}, but its message counts {message.count} interactions; expected as many or more"


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

    Args:
        messages: M messages.
        form: the form of the trace's lists.
        layout: the arrays of each message.
        dtype: `float32` or `float64`, in which updates are stored.
        intents: number of intents that users have.
        metrics: utility of the round by name.

    Raises:
        ValueError: an update with another layout or numbers that are not finite, or an intent out of range.
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
