"""Views whose lists are those of other messages, put side by side."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from foltr_audit.core.records.interactions import RoundRecord
from foltr_audit.core.records.view import View
from foltr_audit.judge.observer import Observer
from foltr_audit.trace import TraceHeader
from foltr_audit.utils.arrays import Ints


def whole_round(observer: Observer, record: RoundRecord) -> View:
    """All messages of a round, at least one, in one view."""
    parts = [seen.view for seen in observer.views(record)]
    first = parts[0]
    candidates, labels, under = first.candidates, first.labels, first.intent_labels
    if candidates is not None:
        query = np.concatenate([part.candidates.query for part in parts if part.candidates is not None])
        candidates = replace(candidates, query=query)
    if labels is not None:
        labels = np.concatenate([part.labels for part in parts if part.labels is not None])
    if under is not None:
        under = np.concatenate([part.intent_labels for part in parts if part.intent_labels is not None])
    return replace(
        first,
        parameters=np.concatenate([part.parameters for part in parts]),
        messages=np.concatenate([part.messages for part in parts]),
        shown=np.concatenate([part.shown for part in parts]),
        features=np.concatenate([part.features for part in parts]),
        candidates=candidates,
        labels=labels,
        intent_labels=under,
        clients=np.concatenate([part.clients for part in parts]),
    )


def with_lists(view: View, messages: Ints, lists: Ints) -> View:
    """Some messages (n,) of a view of one list each, with the lists of other messages (n, B) as theirs."""
    candidates, labels, under = view.candidates, view.labels, view.intent_labels
    return replace(
        view,
        parameters=view.parameters[messages],
        messages=view.messages[messages],
        shown=view.shown[lists, 0],
        features=view.features[lists, 0],
        candidates=None if candidates is None else replace(candidates, query=candidates.query[lists, 0]),
        labels=None if labels is None else labels[lists, 0],
        intent_labels=None if under is None else under[lists, 0],
        clients=view.clients[messages],
    )


def why_not_one_list(record: RoundRecord, header: TraceHeader) -> str | None:
    """Why a round's messages do not stand for one list each that depends on the query alone, or None."""
    lists = header.knowledge.get("lists", "of an unknown kind")
    if lists != "deterministic":
        return f"it needs deterministic lists, and the recorded ones are {lists}"
    if not np.array_equal(record.slot, np.arange(record.n_messages)):
        return "it needs messages of one interaction each"
    return None
