"""From what a server gives of a round, and what clients told, to the tables of the round."""

from __future__ import annotations

import logging
import math
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .array_layout import (
    FLOATING,
    ONE_ARRAY,
    LayoutArray,
    in_layout,
    n_parameters,
    named_arrays,
    vector,
    widened,
)
from .messages import NodeOutcome, ReceivedMessage, ShownList, is_whole_number
from .round_tables import RoundColumns, Tables, TruthColumns, round_tables
from .trace_files import HEADER, file_name
from .trace_format import METRICS, DatasetFields, HeaderFields, plain_facts, plain_text

LOG = logging.getLogger("foltr_audit_recorder")

ROUNDING = 1e-5
"""How far a mean may be off, as a share of its largest number: servers may average in float32."""


def after_mean(
    origin: NDArray[np.float64],
    start: NDArray[np.float64],
    weights: NDArray[np.float64],
    arrays: Iterable[NDArray[np.float64]],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The model after averaging M messages, and how far rounding may move it, both (P,).

    Args:
        origin: what the mean is added to (P,).
        start: the model sent, or what of it counts for rounding (P,).
        weights: of the messages (M,); if all are 0 the model stays at the origin.
        arrays: the arrays of the messages, each (M, p), which make P numbers in a row.
    """
    if not weights.sum():
        return origin, ROUNDING * np.abs(origin)
    shares, means, largest = weights / weights.sum(), [np.empty(0)], [np.empty(0)]
    for numbers in arrays:
        means.append(shares @ numbers)
        largest.append(np.abs(numbers).max(axis=0))
    return origin + np.concatenate(means), ROUNDING * (np.concatenate(largest) + np.abs(start))


MOST_METRICS = 1000
"""Names of metrics that are kept in a round."""


def message_arrays(messages: Sequence[ReceivedMessage], start: TraceStart) -> list[NDArray[np.generic]]:
    """The arrays of the messages of a round: one for each of the layout, (M, *shape), or their words (M, W).

    Raises:
        ValueError: other arrays than in the layout, or a number that is not finite.
    """
    if start.words:
        words = [
            start.whole_words(message.arrays, who(message, slot)) for slot, message in enumerate(messages)
        ]
        return [np.array(words, dtype=np.uint64).reshape(-1, start.words)]
    layout, rows = [*start.header.layout], []
    for slot, message in enumerate(messages):
        named = named_arrays(message.arrays)
        same = [array.place for array in named] == layout
        rows.append(
            [array.values for array in named] if same else in_layout(named, layout, who(message, slot))
        )
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


def who(message: ReceivedMessage, slot: int) -> str:
    """How errors name a message."""
    return f"message {slot}" if message.sender is None else f"message of sender {message.sender}"


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
        return vector(named)
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
    return vector([given[name] for name in wanted])


def is_mean(
    sent: NDArray[np.float64],
    messages: Sequence[ReceivedMessage],
    arrays: Sequence[NDArray[np.generic]],
    layout: Sequence[LayoutArray],
    aggregate: NDArray[np.float64],
) -> bool:
    """Whether an aggregate is the mean of the messages weighted by their counts, added to `sent`, (P,)."""
    weights = np.array([message.count for message in messages], dtype=np.float64)
    parameters = (
        widened(values, entry.dtype).reshape(len(weights), entry.size).astype(np.float64)
        for values, entry in zip(arrays, layout, strict=True)
        if entry.dtype in FLOATING
    )
    expected, slack = after_mean(sent, sent, weights, parameters)
    return bool(np.all(np.abs(aggregate - expected) <= slack))


_MOST_PADDED, _PADDED_PER_DOCUMENT = 1 << 24, 1000
"""Places that lists may be padded to: this many, or this many times the number of documents."""


@dataclass(frozen=True, kw_only=True)
class TraceStart:
    """What the first round of a trace fixes for all later ones: its header, and the form of its lists.

    Attributes:
        width: number d of features; 0 in a trace without lists.
        dtype: `float32` or `float64`, the format of features.
        candidates: whether the features of all candidates are there.
    """

    header: HeaderFields
    width: int = 0
    dtype: str = "float64"
    candidates: bool = False

    @property
    def model(self) -> tuple[LayoutArray, ...]:
        """The arrays of a model; of kind `es`, whose messages are metrics, one of all parameters."""
        if self.header.kind == METRICS:
            return (LayoutArray(ONE_ARRAY, (self.header.parameters,), "float64"),)
        return self.header.layout

    @property
    def words(self) -> int:
        """Number W of words of a masked message: the parameters, after a weight in Flower's; else 0."""
        return self.header.width if self.header.kind == "masked" else 0

    @property
    def bits(self) -> int:
        """Bits of a masked word, as the facts say; 64 where they do not."""
        facts = self.header.knowledge
        return int(facts.get("modulus_bits", facts.get("bits", 64)))

    def whole_words(self, given: object, who: str) -> NDArray[np.uint64]:
        """Words of a masked message, or their sum, (W,).

        Raises:
            ValueError: something else; it begins with `who`.
        """
        words = np.asarray(given)
        if words.shape != (self.words,) or words.dtype.kind not in "iu":
            found = f"{words.dtype}{list(words.shape)}"
            raise ValueError(f"{who} has words {found}; expected {self.words} whole numbers")
        for word in (int(words.min()), int(words.max())):
            if not 0 <= word < 2**self.bits:
                raise ValueError(f"{who} has a word {word}; expected 0 to 2^{self.bits}-1")
        return words.astype(np.uint64)

    @classmethod
    def read(cls, folder: Path, last_part: int) -> TraceStart:
        """What holds for the trace in a folder, which this version of the recorder has written.

        `last_part`: index of a part whose lists show their form.

        Raises:
            ValueError: a trace of another writer, or a broken one.
        """
        try:
            table = tomllib.loads((folder / HEADER).read_text("utf-8"))
            ours = HeaderFields.writer
            if table["writer"] != ours:
                raise ValueError(f"{folder}: written by {table['writer']}; expected {ours}")
            del table["schema"]
            table["layout"] = tuple(
                LayoutArray(entry["name"], tuple(entry["shape"]), entry["dtype"]) for entry in table["layout"]
            )
            parts = tuple(table["dataset"]["parts"])
            table["dataset"] = DatasetFields(**{**table["dataset"], "parts": parts})
            header = HeaderFields(**table)
            if not header.embeds_features:
                return cls(header=header)
            with np.load(folder / file_name("observed/interactions", last_part), allow_pickle=False) as lists:
                features = lists["features"]
            there = (folder / file_name("observed/candidates", last_part)).exists()
            return cls(header=header, width=features.shape[2], dtype=features.dtype.name, candidates=there)
        except (KeyError, TypeError, tomllib.TOMLDecodeError, OSError) as error:
            raise ValueError(f"{folder}: {HEADER} cannot be read: {error!r}") from None


def _features(shown: ShownList) -> NDArray[np.floating]:
    return np.asarray(shown.features)


def list_columns(messages: Sequence[ReceivedMessage], start: TraceStart, *, counted: bool) -> dict[str, Any]:
    """The fields of `RoundColumns` that are about lists.

    `counted`: whether the weights of messages are numbers of interactions.

    Raises:
        ValueError: a list that is longer than the trace's, has other features or numbers out of range, or
            more lists of a message than it counts.
    """
    length, rows = start.header.k, _lists(messages)
    for slot, step, shown in rows:
        problem, count = _misfit(shown, start), messages[slot].count
        if not problem and counted and step >= count:
            problem = f"number {step}, but its message counts {count} interactions; expected as many or more"
        if problem:
            raise ValueError(f"list {step} of {who(messages[slot], slot)} has {problem}")
    documents = sum(len(_features(shown)) for _, _, shown in rows)
    if len(rows) * length > max(_MOST_PADDED, _PADDED_PER_DOCUMENT * documents):
        raise ValueError(f"{documents} documents in {len(rows)} lists are too few for lists of {length}")
    positions = np.full((len(rows), length), -1, dtype=np.int64)
    features = np.zeros((len(rows), length, start.width), dtype=start.dtype)
    for row, (_, _, shown) in enumerate(rows):
        k = len(_features(shown))
        positions[row, :k], features[row, :k] = np.asarray(shown.shown), shown.features
    found: dict[str, Any] = {
        "slot": [slot for slot, _, _ in rows],
        "step": [step for _, step, _ in rows],
        "part": [shown.part for _, _, shown in rows],
        "query": [shown.query for _, _, shown in rows],
    }
    found = {name: np.array(values, dtype=np.int64) for name, values in found.items()}
    found |= {"shown": positions, "features": features if start.width else None}
    if start.candidates:
        candidates = [np.asarray(shown.candidates, dtype=start.dtype) for _, _, shown in rows]
        nobody = np.empty((0, start.width), dtype=start.dtype)
        found["candidates"] = np.concatenate([nobody, *candidates])
        found["n_candidates"] = np.array([len(each) for each in candidates], dtype=np.int64)
    return found


def _lists(messages: Sequence[ReceivedMessage]) -> list[tuple[int, int, ShownList]]:
    """The lists of a round, each with its message and local step."""
    return [
        (slot, step, shown)
        for slot, message in enumerate(messages)
        for step, shown in enumerate(message.lists)
    ]


def _misfit(shown: ShownList, start: TraceStart) -> str:
    """What a list has that the trace cannot hold; "" where it fits."""
    features, documents = _features(shown), np.asarray(shown.shown)
    (k, d), length, parts = features.shape, start.header.k, len(start.header.dataset.parts)
    if not start.width:
        return "come after a round without lists; give list_length= and features= to begin with such rounds"
    if k > length:
        return f"{k} documents, more than the {length} of the trace; give list_length={k} or more"
    if d != start.width:
        return f"{d} features a document, expected {start.width}"
    if features.dtype == np.float64 and start.dtype == "float32":
        return "features in float64, expected float32 as before"
    if start.candidates and shown.candidates is None:
        return "no candidates, expected some as before"
    if not 0 <= shown.query < 2**63 or not 0 <= shown.part < parts:
        return f"query {shown.query} of part {shown.part}, expected 0 or more, of one of {parts} parts"
    if len(set(documents.tolist())) < documents.size:
        return "a document twice"
    if not np.all(np.isfinite(features)):
        return "features that are not finite"
    candidates = np.asarray(shown.candidates) if start.candidates else features
    if not np.all(np.isfinite(candidates)) or (
        start.candidates and max(documents, default=-1) >= len(candidates)
    ):
        return "candidates that are not finite, or not all documents among them"
    return ""


def truth_columns(
    messages: Sequence[ReceivedMessage], start: TraceStart, metrics: Mapping[str, float]
) -> TruthColumns:
    """The columns of what nobody but the laboratory knows of a round."""
    rows = [shown for _, _, shown in _lists(messages)]
    clicks = np.zeros((len(rows), start.header.k), dtype=np.bool_)
    for row, shown in enumerate(rows):
        if shown.clicks is not None:
            clicks[row, : len(_features(shown))] = shown.clicks
    clipped, intents = [shown.clipped for shown in rows], [shown.intent for shown in rows]
    for intent in intents:
        if not 0 <= intent < start.header.intents:
            most = start.header.intents
            raise ValueError(f"a list has intent {intent}; expected one below {most}, the fact intents")
    owners = [message.sender if message.client is None else message.client for message in messages]
    return TruthColumns(
        clients=whole_column(
            [slot if owner is None else owner for slot, owner in enumerate(owners)], "client"
        ),
        clicks=clicks,
        updates=_updates(messages, start.header),
        clipped=np.array([] if None in clipped else clipped, dtype=np.bool_),
        known=np.array([shown.clicks is not None for shown in rows], dtype=np.bool_),
        intents=np.array(intents, dtype=np.int64) if start.header.intents > 1 else None,
        metrics=metrics,
    )


def _updates(messages: Sequence[ReceivedMessage], header: HeaderFields) -> NDArray[np.floating]:
    """True updates (M, P), rows of NaN where unknown; (M, 0) where all are."""
    if all(message.update is None for message in messages):
        return np.empty((len(messages), 0))
    layout = header.layout
    double = any(place.dtype == "float64" for place in layout)
    updates = np.full((len(messages), n_parameters(layout)), math.nan, "float64" if double else "float32")
    for slot, message in enumerate(messages):
        if message.update is not None:
            with np.errstate(over="ignore"):
                updates[slot] = parameters_of(message.update, layout, f"update of {who(message, slot)}")
            if not np.all(np.isfinite(updates[slot])):
                raise ValueError(f"update of {who(message, slot)} holds a number that is not finite")
    return updates


@dataclass(frozen=True, kw_only=True, eq=False)
class RoundInput:
    """What a server saw of a round.

    Attributes:
        model: the model that was sent: one array, a mapping from names to arrays, a sequence of arrays,
            or one vector of the P parameters, as it must be for kind `es`.
        messages: the messages that arrived.
        aggregate: the model afterwards, in any of these forms; None where unknown. If it is not the mean
            of the messages weighted by their counts, the round gets the fact `aggregate = "other"`.
        asked: numbers of the nodes that were asked; those that neither answered nor failed are late.
        failures: why nodes failed, by their number.
        late: nodes that had not answered when the round ended.
        outcomes: what became of nodes in other stages of the protocol.
        facts: facts that hold in this round instead of those of the trace.
        shares: number of noise shares that the defenses assume; 0 where unknown.
        state: the server's state in addition to the model, of kinds without models.
        total: sum of the masked words modulo 2^bits, uint64 (W,); None where there is none.
        aborted: why there is none.
        started: when the round began, Unix seconds.
        ended: when it ended.
        metrics: utility of the round by name, for truth.
    """

    model: object
    messages: Sequence[ReceivedMessage]
    aggregate: object = None
    asked: Sequence[int] | None = None
    failures: Mapping[int, str] = field(default_factory=dict)
    late: Sequence[int] | None = None
    outcomes: Sequence[NodeOutcome] = ()
    facts: Mapping[str, object] = field(default_factory=dict)
    shares: int = 0
    state: ArrayLike | None = None
    total: ArrayLike | None = None
    aborted: str = ""
    started: float = math.nan
    ended: float = math.nan
    metrics: Mapping[str, float] = field(default_factory=dict)

    def tables(self, start: TraceStart, number: int) -> Tables:
        """The rows of the round in every table.

        Raises:
            ValueError: what no trace of this start can hold.
        """
        arrays = message_arrays(self.messages, start)
        sent = parameters_of(self.model, start.model, "model")
        if not np.all(np.isfinite(sent)):
            raise ValueError("model holds a number that is not finite")
        after = None if self.aggregate is None else parameters_of(self.aggregate, start.model, "aggregate")
        if after is not None and not np.all(np.isfinite(after)):
            after = None
        summed = self.total is not None and start.words
        state = np.empty(0) if start.header.kind == METRICS else None
        state = state if self.state is None else np.asarray(self.state, dtype=np.float64)
        counted = are_whole([message.count for message in self.messages])
        columns = RoundColumns(
            **message_columns(self.messages),
            **list_columns(self.messages, start, counted=counted),
            round=number,
            parameters=sent,
            aggregate=np.full(sent.size, math.nan) if after is None else after,
            shares=self.shares,
            state=state,
            total=start.whole_words(self.total, "total") if summed else None,
            aborted=self.aborted,
            facts=self._stated(start.header, arrays, sent, after),
            started=self.started,
            ended=self.ended,
            cohort=[*_train_outcomes(self), *self.outcomes],
        )
        truth = truth_columns(self.messages, start, self.metrics) if start.header.has_truth else None
        return round_tables(start.header, columns, arrays, truth)

    def _stated(
        self,
        header: HeaderFields,
        arrays: Sequence[NDArray[np.generic]],
        sent: NDArray[np.float64],
        after: NDArray[np.float64] | None,
    ) -> dict[str, object]:
        """The facts of the round; one of them says whether the aggregate is another than the mean."""
        stated = plain_facts(self.facts, of_round=True)
        known = "aggregate" in stated or "aggregate" in header.knowledge
        if after is None or header.kind not in ("model", "update") or known:
            return stated
        origin = np.zeros_like(sent) if header.kind == "model" and self.messages else sent
        if not is_mean(origin, self.messages, arrays, header.layout, after):
            stated["aggregate"] = "other"
        return stated

    def fitting(self, start: TraceStart, number: int) -> RoundInput:
        """The round without what the trace cannot hold, which the log and the cohort say.

        A message that does not fit is left out, and its sender is one of those that failed. Of a message that
        fits, lists or an update that do not are left out.
        """
        kept: list[ReceivedMessage] = []
        failures: dict[int, str] = {}
        why: list[str] = []
        for message in self.messages:
            try:
                message_arrays([message], start)
                message_columns([message])
            except Exception as error:
                why.append(f"a message is left out: {error}")
                if message.sender is not None:
                    failures[message.sender] = f"left out: {error}"
                continue
            kept.append(message)
        counted = are_whole([message.count for message in kept])
        for place, message in enumerate(kept):
            try:
                list_columns([message], start, counted=counted)
                if start.header.has_truth:
                    truth_columns([message], start, {})
            except Exception as error:
                why.append(f"lists and update of a message are left out: {error or type(error).__name__}")
                kept[place] = replace(message, lists=(), update=None)
        if why:
            first = plain_text(why[0])
            LOG.warning("round %d, %d of %d messages: %s", number, len(why), len(self.messages), first)
        others = [each for each in self.outcomes if each.stage or each.node not in failures]
        added = [
            NodeOutcome(node=node, outcome="failed", reason=reason)
            for node, reason in failures.items()
            if 0 <= node < 2**64
        ]
        return replace(self, messages=kept, outcomes=[*others, *added])


def _train_outcomes(round_: RoundInput) -> list[NodeOutcome]:
    """What became of the nodes in the training step: those that arrived, failed, and were late."""
    asked, failures, late = round_.asked, round_.failures, round_.late
    if asked is None and not failures and not late:
        return []
    told = {each.node for each in round_.outcomes if not each.stage}
    arrived = [message.sender for message in round_.messages if message.sender is not None]
    missing = [node for node in asked or () if node not in {*arrived, *failures, *told}]
    return [
        *(NodeOutcome(node=node, outcome="arrived") for node in arrived),
        *(NodeOutcome(node=node, outcome="failed", reason=reason) for node, reason in failures.items()),
        *(NodeOutcome(node=node, outcome="late") for node in dict.fromkeys([*(late or ()), *missing])),
    ]
