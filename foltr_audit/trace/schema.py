"""Whether a round fits the header of its trace, and what it contradicts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.errors import TraceError
from foltr_audit.recorder.received_rounds import after_mean
from foltr_audit.trace.facts import problems_of
from foltr_audit.trace.header import TraceHeader
from foltr_audit.utils.reading import is_whole


def fact_problems(header: TraceHeader, record: RoundRecord) -> Iterator[str]:
    """What is wrong with the facts that hold in one round, a line each."""
    try:
        header.in_round(record.facts)
    except TraceError as error:
        yield str(error).removeprefix("trace: header: ")
    else:
        yield from problems_of(record.facts, ours=bool(header.spec_hash))


def misfits(header: TraceHeader, record: RoundRecord) -> Iterator[str]:
    """Why a round does not fit the trace with this header, a line for each reason."""
    rows, width = record.messages.shape
    for what, found, expected in (
        ("parameters P", record.parameters.size, header.parameters),
        ("numbers in a message", width, header.width),
        ("seeds", record.seeds is not None, header.kind == "es"),
        ("state beside the model", record.state is not None, not header.holds_models),
        ("shown lists of k", record.shown.shape[1], header.k),
        ("messages of type", str(record.messages.dtype), header.message_format),
        ("embedded features", record.features is not None, header.embeds_features),
    ):
        if found != expected:
            yield f"{what} {found}, expected {expected} as in the header"
    if (encoding := header.encoding) is not None:
        words = [values for values in (record.messages, record.total) if values is not None]
        most = max(int(values.max(initial=0)) for values in words)
        if most.bit_length() > encoding.bits:
            yield f"a masked number {most}, expected one below 2^{encoding.bits}"
    if record.part.size and record.part.max() >= len(header.dataset.parts):
        yield f"part {record.part.max()}, expected one of {len(header.dataset.parts)}"
    recorded = np.bincount(record.slot, minlength=rows)
    if record.counts_interactions and np.any(recorded > record.counts):
        slot = int(np.argmax(recorded > record.counts))
        yield f"slot {slot} counts {record.counts[slot]} interactions, but {recorded[slot]} are recorded"


def truth_misfits(header: TraceHeader, record: RoundRecord, truth: RoundTruth) -> Iterator[str]:
    """Why a truth does not belong to a round of the trace with this header, a line for each reason."""
    if (truth.intents is not None) != (header.intents > 1):
        given = "no intents" if truth.intents is None else "intents"
        yield f"truth: it has {given}, but the header says {header.intents}"
    elif truth.intents is not None and truth.intents.max(initial=0) >= header.intents:
        yield f"truth: intent {truth.intents.max()}, expected less than {header.intents}"
    known = truth.updates.shape[1:] != (0,)
    for what, found, expected in (
        ("clients", truth.clients.shape, record.counts.shape),
        ("updates", truth.updates.shape, (record.n_messages, header.update_width if known else 0)),
        ("clicks", truth.clicks.shape, record.shown.shape),
    ):
        if found != expected:
            yield f"truth: {what} of shape {found}, expected {expected}"
            return
    if np.any(truth.clicks & (record.shown < 0)):
        yield "truth: a click where the shown list is padded"


def contradictions(header: TraceHeader, record: RoundRecord) -> Iterator[str]:
    """What a round contradicts, a line each.

    Counts are compared with the fact `interactions`, unless they are other weights. In traces of other
    systems, rows of messages that never arrived must be 0 and have no lists, and the aggregate must be the
    mean of the others, unless the fact `aggregate` is other.
    """
    header = header.in_round(record.facts)
    yield from _of_counts(header, record)
    if not header.spec_hash and header.kind in ("model", "update"):
        yield from _of_failed(record)
        yield from _of_aggregate(header, record)


def _of_counts(header: TraceHeader, record: RoundRecord) -> Iterator[str]:
    stated = header.knowledge.get("interactions")
    if not is_whole(stated):
        return
    if record.counts_interactions:
        wrong = np.flatnonzero(record.survivors & (record.counts != stated))
        if wrong.size:
            yield (
                f"counts hold {record.counts[wrong[0]]} for message {wrong[0]}, expected {stated} "
                "as knowledge.interactions says (leave the fact out where messages differ)"
            )
        return
    # What is proven of a sum of so many honest messages is for messages of one weight.
    weights = record.counts[record.survivors]
    if "honest_messages" in header.knowledge and np.any(weights != weights[:1]):
        yield (
            f"counts are weights from {weights.min():.6g} to {weights.max():.6g}, expected one for all, as "
            "knowledge.honest_messages and knowledge.interactions say (leave one out where weights differ)"
        )


def _of_failed(record: RoundRecord) -> Iterator[str]:
    failed = np.flatnonzero(~record.survivors & np.any(record.messages != 0, axis=1))
    if failed.size:
        yield f"messages hold numbers in row {failed[0]}, which survivors says never arrived; expected zeros"
    shown = record.slot[~record.survivors[record.slot]]
    if shown.size:
        yield (
            f"slot holds lists of message {shown[0]}, which survivors says never arrived; leave them out, "
            "since no attack can read them"
        )
    broken = np.flatnonzero(~np.all(np.isfinite(record.messages), axis=1))
    if broken.size:
        yield f"messages hold a value that is not finite in row {broken[0]}; expected finite numbers"


def _of_aggregate(header: TraceHeader, record: RoundRecord) -> Iterator[str]:
    stated = header.knowledge.get("aggregate", "mean")
    if stated != "mean" or not record.n_messages or np.isnan(record.aggregate).all():
        return
    start, arrived = record.parameters, record.survivors
    weights, messages = (values[arrived].astype(np.float64) for values in (record.counts, record.messages))
    update = header.kind == "update" or not weights.sum()
    with np.errstate(all="ignore"):
        expected, slack = after_mean(start if update else np.zeros_like(start), start, weights, [messages])
        left = np.abs(record.aggregate - expected)
        wrong = np.flatnonzero(~(left <= slack))
    if not wrong.size:
        return
    place = int(wrong[0])
    what = "the mean of the messages that arrived, weighted by counts"
    if header.kind == "update":
        what = "parameters plus " + what
    yield (
        f"aggregate is {record.aggregate[place]:.6g} at parameter {place}, expected {expected[place]:.6g}, "
        f"{what} (fact aggregate = 'other' where the server does something else)"
    )
