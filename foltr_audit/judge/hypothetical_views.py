"""Views that show a message with the lists of other messages, one next to the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from foltr_audit.core.records.interactions import RoundRecord
from foltr_audit.core.records.view import View
from foltr_audit.judge.pieces import with_rows
from foltr_audit.trace import TraceHeader
from foltr_audit.utils.arrays import Ints

_PER_MESSAGE = ("parameters", "messages", "seeds", "clients")
_PER_LIST = ("shown", "features", "labels", "intent_labels")


def whole_round(parts: Sequence[View]) -> View:
    """All messages of a round in one view, from its views, of which there is at least one."""
    first = parts[0]
    if len(parts) == 1:
        return first
    given = [name for name in (*_PER_MESSAGE, *_PER_LIST) if getattr(first, name) is not None]
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
        (_PER_MESSAGE, messages),
        (_PER_LIST, (lists, 0)),
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
