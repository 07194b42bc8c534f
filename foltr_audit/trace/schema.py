"""Columns of the tables of a trace, and whether a round fits the header of its trace."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.recorder.received_rounds import ROUNDING, weighted_mean
from foltr_audit.recorder.table_files import LEFT_OUT
from foltr_audit.trace.differences import model_arrays, step_type
from foltr_audit.trace.header import TraceHeader
from foltr_audit.utils.arrays import Floats
from foltr_audit.utils.reading import is_whole
from foltr_audit.utils.reading.arrays import LONGEST


class ColumnForm(NamedTuple):
    """What a column holds, and whether every part has it.

    The kind is `whole` (any type of whole numbers), `weight` (the same or float64), `number` (float32 or
    float64), `text`, `bits` (k truth values, or eight of them in each byte of uint8), or a type of NumPy. A
    length of an axis after that of the
    rows is None where it may be any.
    """

    kind: str
    axes: tuple[int | None, ...] = ()
    required: bool = True

    def fits(self, values: NDArray[np.generic]) -> bool:
        """Whether an array has this type and these axes."""
        if self.kind == "bits" and values.dtype == np.uint8:
            return ColumnForm("uint8", tuple((length or 0) + 7 >> 3 for length in self.axes)).fits(values)
        axes = values.shape[1:]
        same = len(axes) == len(self.axes) and all(
            found == wanted or (wanted is None and (len(values) > 0 or found <= LONGEST))
            for wanted, found in zip(self.axes, axes, strict=True)
        )
        kind = values.dtype.kind
        if self.kind == "whole":
            return same and kind in "iu"
        if self.kind == "weight":
            return same and (kind in "iu" or values.dtype.newbyteorder("=") == np.float64)
        if self.kind == "number":
            return same and values.dtype.newbyteorder("=") in (np.float32, np.float64)
        if self.kind in ("text", "bits"):
            return same and kind == {"text": "U", "bits": "b"}[self.kind]
        return same and values.dtype.newbyteorder("=") == np.dtype(self.kind)

    @property
    def text(self) -> str:
        """What is expected, in words."""
        names = {"whole": "whole numbers", "number": "float32 or float64", "bits": "bool or packed bits"}
        names["weight"] = "whole numbers or float64"
        shape = ", ".join("any" if length is None else str(length) for length in self.axes)
        return names.get(self.kind, self.kind) + (f" of shape (rows, {shape})" if shape else "")


class FeatureFormat(NamedTuple):
    """How embedded features are stored: how many of a document, and as `float32` or `float64`."""

    width: int
    dtype: str

    @classmethod
    def of(cls, features: NDArray[np.generic]) -> FeatureFormat:
        return cls(int(features.shape[-1]), str(features.dtype.newbyteorder("=")))


_WHOLE, _BOOL, _TEXT, _FLOAT = (ColumnForm(kind) for kind in ("whole", "bool", "text", "float64"))


def _maybe(form: ColumnForm) -> ColumnForm:
    return form._replace(required=False)


def columns(header: TraceHeader, table: str) -> dict[str, ColumnForm]:
    makers = {
        "observed/rounds": _rounds,
        "observed/messages": _messages,
        "observed/interactions": _interactions,
        "truth/messages": _true_messages,
        "truth/clicks": _clicks,
    }
    rest = makers[table](header) if table in makers else _PLAIN[table]
    optional = {name for group in LEFT_OUT.get(table, ()) for name in group}
    every = {"round": _WHOLE, **rest}
    return {name: _maybe(form) if name in optional else form for name, form in every.items()}


_PLAIN: dict[str, dict[str, ColumnForm]] = {
    "observed/candidates": {"slot": _WHOLE, "step": _WHOLE, "features": ColumnForm("number", (None,))},
    "observed/cohort": {"node": _WHOLE, "outcome": _TEXT, "reason": _maybe(_TEXT), "stage": _maybe(_TEXT)},
    "observed/metrics": {"slot": _WHOLE, "name": _TEXT, "value": _FLOAT},
    "truth/rounds": {"name": _TEXT, "value": _FLOAT},
}


def _rounds(header: TraceHeader) -> dict[str, ColumnForm]:
    vector = ColumnForm("float64", (header.parameters,))
    found = {"shares": _WHOLE, "parameters": vector, "aggregate": vector, "facts": _maybe(_TEXT)}
    found |= dict.fromkeys(("started", "ended"), _maybe(_FLOAT))
    if header.kind == "masked":
        found |= {"total": ColumnForm("uint64", (header.width,)), "has_total": _BOOL, "aborted": _TEXT}
    if not header.holds_models:
        found["state"] = ColumnForm("float64", (None,))
    return found


def _messages(header: TraceHeader) -> dict[str, ColumnForm]:
    found = {"slot": _WHOLE, "count": ColumnForm("weight"), "survived": _BOOL}
    for number, array in enumerate(header.arrays):
        found[f"array-{number}"] = ColumnForm(str(array.stored), array.shape)
    for each in model_arrays(header):  # one of both is there, see `differences`
        found[each.name] = _maybe(found[each.name])
        found[each.differs] = _maybe(ColumnForm(step_type(each.kind), each.shape))
    if header.kind == "es":
        found["seed"] = _WHOLE
    return found | {"sender": _maybe(_WHOLE), "bytes": _maybe(_WHOLE), "sent_at": _maybe(_FLOAT)}


def _interactions(header: TraceHeader) -> dict[str, ColumnForm]:
    found = dict.fromkeys(("slot", "step", "part", "query"), _WHOLE)
    found["shown"] = ColumnForm("whole", (header.k,))
    if header.embeds_features:
        found["features"] = ColumnForm("number", (header.k, None))
    return found


def _true_messages(header: TraceHeader) -> dict[str, ColumnForm]:
    # Beside masked messages recorders write updates in the format of what was masked.
    kind = "number" if header.kind == "masked" else header.update_format
    update = ColumnForm(kind, (header.update_width,), required=False)
    # In the place of `update`, see `differences`.
    corrected = {
        "scale": ColumnForm(header.update_format),
        "correction": ColumnForm(step_type(header.update_format), (header.update_width,)),
        "check": ColumnForm("uint32"),
    }
    found = {"slot": _WHOLE, "client": _WHOLE, "update": update}
    return found | {name: _maybe(form) for name, form in corrected.items()}


def _clicks(header: TraceHeader) -> dict[str, ColumnForm]:
    found = {"slot": _WHOLE, "step": _WHOLE, "clicks": ColumnForm("bits", (header.k,))}
    if header.intents > 1:
        found["intent"] = _WHOLE
    return found | {"known": _maybe(_BOOL), "clipped": _maybe(_BOOL)}


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
