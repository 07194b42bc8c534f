"""Whether a round fits the header of its trace, and what it contradicts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.errors import TraceError
from foltr_audit.recorder.received_rounds import after_mean
from foltr_audit.trace.facts import problems_of
from foltr_audit.trace.header import TraceHeader
from foltr_audit.utils.reading import is_whole


class FeatureFormat(NamedTuple):
    """How embedded features are stored: how many of a document, and as `float32` or `float64`."""

    width: int
    dtype: str

    @classmethod
    def of(cls, features: NDArray[np.generic]) -> FeatureFormat:
        return cls(int(features.shape[-1]), str(features.dtype.newbyteorder("=")))


def fact_problem(header: TraceHeader, record: RoundRecord) -> str | None:
    """What is wrong with the facts that hold in one round, in one line; None where nothing is."""
    try:
        header.in_round(record.facts)
    except TraceError as error:
        return f"round {record.round}: {str(error).removeprefix('trace: header: ')}"
    problems = problems_of(record.facts, ours=bool(header.spec_hash))
    return f"round {record.round}: {problems[0]}" if problems else None


def misfit(header: TraceHeader, record: RoundRecord) -> str | None:
    """Why a round does not fit the trace with this header; None where it does."""
    rows, width = record.messages.shape
    facts = [
        ("parameters P", record.parameters.size, header.parameters),
        ("numbers in a message", width, header.width),
        ("seeds", record.seeds is not None, header.kind == "es"),
        ("state beside the model", record.state is not None, not header.holds_models),
        ("shown lists of k", record.shown.shape[1], header.k),
        ("messages of type", str(record.messages.dtype), header.message_format),
        ("embedded features", record.features is not None, header.embeds_features),
    ]
    for what, found, expected in facts:
        if found != expected:
            return f"round {record.round}: {what} {found}, expected {expected} as in the header"
    encoding = header.encoding
    if encoding is not None:
        most = max(
            int(values.max(initial=0)) for values in (record.messages, record.total) if values is not None
        )
        if most.bit_length() > encoding.bits:
            return f"round {record.round}: a masked number {most}, expected one below 2^{encoding.bits}"
    if record.part.size and record.part.max() >= len(header.dataset.parts):
        return f"round {record.round}: part {record.part.max()}, expected one of {len(header.dataset.parts)}"
    recorded = np.bincount(record.slot, minlength=rows)
    if record.counts_interactions and np.any(recorded > record.counts):
        slot = int(np.argmax(recorded > record.counts))
        return (
            f"round {record.round}: slot {slot} counts {record.counts[slot]} interactions, "
            f"but {recorded[slot]} are recorded"
        )
    return None


def truth_misfit(header: TraceHeader, record: RoundRecord, truth: RoundTruth) -> str | None:
    """Why a truth does not belong to a round of the trace with this header; None where it does."""
    if (truth.intents is not None) != (header.intents > 1):
        given = "no intents" if truth.intents is None else "intents"
        return f"round {record.round}: truth: it has {given}, but the header says {header.intents}"
    if truth.intents is not None and truth.intents.max(initial=0) >= header.intents:
        return (
            f"round {record.round}: truth: intent {truth.intents.max()}, expected less than {header.intents}"
        )
    known = truth.updates.shape[1:] != (0,)
    pairs = [
        ("clients", truth.clients.shape, record.counts.shape),
        ("updates", truth.updates.shape, (record.n_messages, header.update_width if known else 0)),
        ("clicks", truth.clicks.shape, record.shown.shape),
    ]
    for what, found, expected in pairs:
        if found != expected:
            return f"round {record.round}: truth: {what} of shape {found}, expected {expected}"
    if np.any(truth.clicks & (record.shown < 0)):
        return f"round {record.round}: truth: a click where the shown list is padded"
    return None


def contradiction(header: TraceHeader, record: RoundRecord) -> str | None:
    """What a round contradicts, in one line; None where it is consistent.

    Counts are compared with the fact `interactions`, unless they are other weights. In traces of other
    systems, rows of messages that never arrived must be 0 and have no lists, and the aggregate must be the
    mean of the others, unless the fact `aggregate` is other.
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
    if not record.counts_interactions:
        return _of_weights(header, record)
    wrong = np.flatnonzero(record.survivors & (record.counts != stated))
    if not wrong.size:
        return None
    return (
        f"counts hold {record.counts[wrong[0]]} for message {wrong[0]}, expected {stated} "
        "as knowledge.interactions says (leave the fact out where messages differ)"
    )


def _of_weights(header: TraceHeader, record: RoundRecord) -> str | None:
    # What is proven of a sum of so many honest messages is for messages of one weight.
    weights = record.counts[record.survivors]
    if "honest_messages" not in header.knowledge or not np.any(weights != weights[:1]):
        return None
    return (
        f"counts are weights from {weights.min():.6g} to {weights.max():.6g}, expected one for all, as "
        "knowledge.honest_messages and knowledge.interactions say (leave one out where weights differ)"
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
    start, arrived = record.parameters, record.survivors
    weights, messages = (values[arrived].astype(np.float64) for values in (record.counts, record.messages))
    update = header.kind == "update" or not weights.sum()
    with np.errstate(all="ignore"):
        expected, slack = after_mean(start if update else np.zeros_like(start), start, weights, [messages])
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
