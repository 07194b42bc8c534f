"""Rounds that contradict themselves or the facts of their trace."""

from __future__ import annotations

import numpy as np

from foltr_audit.core.records.interactions import RoundRecord
from foltr_audit.recorder.received_rounds import ROUNDING, weighted_mean
from foltr_audit.trace.header import TraceHeader
from foltr_audit.utils.arrays import Floats
from foltr_audit.utils.reading import is_whole


def contradiction(header: TraceHeader, record: RoundRecord) -> str | None:
    """What a round contradicts, in one line; None where it is consistent.

    Counts are compared with the fact `interactions`. In traces of other systems, rows of messages that never
    arrived must be 0 and have no lists, and the aggregate must be the mean of the others, unless the fact
    `aggregate` is other.
    """
    header = header.in_round(record.facts)
    problem = _of_counts(header, record)
    if problem is None and not header.spec_hash and header.kind in ("model", "update"):
        problem = _of_failed(record) or _of_aggregate(header, record)
    return None if problem is None else f"round {record.round}: {problem}"


def _of_counts(header: TraceHeader, record: RoundRecord) -> str | None:
    stated = header.knowledge.get("interactions")
    if not is_whole(stated):
        return None
    wrong = np.flatnonzero(record.survivors & (record.counts != stated))
    if not wrong.size:
        return None
    return (
        f"counts hold {record.counts[wrong[0]]} for message {wrong[0]}, expected {stated} "
        "as knowledge.interactions says (leave the fact out where messages differ)"
    )


def _of_failed(record: RoundRecord) -> str | None:
    failed = np.flatnonzero(~record.survivors & np.any(record.messages != 0, axis=1))
    if failed.size:
        return f"messages hold numbers in row {failed[0]}, which survivors says never arrived; expected zeros"
    shown = record.slot[~record.survivors[record.slot]]
    if shown.size:
        return (
            f"slot holds lists of message {shown[0]}, which survivors says never arrived; leave them out, "
            "since no attack can read them"
        )
    broken = np.flatnonzero(~np.all(np.isfinite(record.messages), axis=1))
    if broken.size:
        return f"messages hold a value that is not finite in row {broken[0]}; expected finite numbers"
    return None


def _of_aggregate(header: TraceHeader, record: RoundRecord) -> str | None:
    stated = header.knowledge.get("aggregate", "mean")
    if stated != "mean" or not record.n_messages or np.isnan(record.aggregate).all():
        return None
    with np.errstate(all="ignore"):
        expected, slack = _mean(header.kind, record)
        left = np.abs(record.aggregate - expected)
        wrong = np.flatnonzero(~(left <= slack))
    if not wrong.size:
        return None
    place = int(wrong[0])
    what = "the mean of the messages that arrived, weighted by counts"
    if header.kind == "update":
        what = "parameters plus " + what
    return (
        f"aggregate is {record.aggregate[place]:.6g} at parameter {place}, expected {expected[place]:.6g}, "
        f"{what} (fact aggregate = 'other' where the server does something else)"
    )


def _mean(kind: str, record: RoundRecord) -> tuple[Floats, Floats]:
    """The model after plain averaging, and how far rounding may move it, both (P,)."""
    weights = record.counts[record.survivors].astype(np.float64)
    start, arrived = record.parameters, record.messages[record.survivors].astype(np.float64)
    if not weights.sum():
        return start, ROUNDING * np.abs(start)
    mean, largest = weighted_mean(weights, [arrived])
    expected = start + mean if kind == "update" else mean
    return expected, ROUNDING * (largest + np.abs(start))
