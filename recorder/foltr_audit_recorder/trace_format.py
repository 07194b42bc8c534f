"""The format of a trace: what its header says, and the columns of its tables. Writers and readers use this.

A trace is a folder: `trace.toml`, the header, and parts of whole rounds, each a file for every table and a
marker (`trace_files.py`). A table is an `.npz` file as of `numpy.savez`, an array for each column, with rows
along the first axis. Rows are sorted by round, slot and step. Rows of `truth/messages` are about those of
`observed/messages`, and of `truth/clicks` about those of `observed/interactions`.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .array_layout import ONE_ARRAY, LayoutArray

VERSION = "0.1.0"
"""Version of the recorder."""

SCHEMA = "foltr-audit/trace/1"

OBSERVED = ("observed/rounds", "observed/messages", "observed/interactions")
"""Tables that every part has."""

OBSERVED_TOO = ("observed/candidates", "observed/cohort", "observed/metrics")
"""Tables that a part has where there is something to write in them."""

TRUTH = ("truth/rounds", "truth/messages", "truth/clicks")
"""Tables of a trace with truth."""

WORDS = "uint64"
"""Format of masked messages."""

METRICS = "es"
"""The kind of messages that are metrics, with the seed of a perturbation."""

NO_MODELS = (METRICS, "clicks")
"""Kinds whose messages are no models, so that fact `width` says how many numbers one holds."""

FLOWER_MASKS = "flower-secagg"
"""Value of the fact `masking` for messages of Flower's SecAgg+: a weight, then the parameters."""

FIXED_FACTS = frozenset(
    [
        *("of", "width", "bits", "fraction", "range", "intents", "masking", "clipping_range"),
        *("quantization_range", "modulus_bits", "max_weight"),
    ]
)
"""Facts that say what the columns of a trace hold; no round may have others."""

MOST_TEXT = 200
"""Characters that are kept of a name or reason that others chose: every row takes as many as the longest."""


@dataclass(frozen=True, kw_only=True)
class DatasetFields:
    """The data that the clients searched.

    Attributes:
        source: e.g. a path or `synthetic:mq2007`.
        fold: from 1; 0 where the source has none.
        fingerprint: SHA-256 (hex) of the parsed content.
        normalised: `none`, `zscore`, `zscore-parts` or `query-minmax`.
        parts: names, into which an interaction's `part` is an index.
        rows: SHA-256 (hex) of the order of the files' rows, by which rounds name queries and documents; empty
            where it is not known.
    """

    source: str
    fold: int = 0
    fingerprint: str = ""
    normalised: str = "none"
    parts: tuple[str, ...]
    rows: str = ""


@dataclass(frozen=True, kw_only=True)
class HeaderFields:
    """The content of `trace.toml`.

    Attributes:
        kind: what a message is: `model` (local parameters), `update` (their change), `masked` (one of
            these, encoded as integers; fact `of` says which, and those of `encoding` how), `es` (mean online
            metrics at models perturbed from a seed), or `clicks` (the clicks themselves, one after the other,
            which a central learner gets).
        dtype: the payload's number format: `float16`, `bfloat16`, `float32` or `float64`; `uint64` of masked
            messages. With a `layout` one of its formats, or that of `message_format`.
        parameters: number P of parameters of the global model, the length of a message that is a model.
        k: length of the longest shown list.
        ranker: name of the ranker, e.g. `linear`.
        dataset: the data behind the interactions.
        knowledge: flat facts an observer may know, e.g. `{"learning_rate": 0.1}`; no NaN.
        spec_hash: hash of the Spec that made the trace; `""` for another system's.
        has_truth: whether the truth was recorded as well.
        embeds_features: whether the shown documents' features are stored.
        rounds_per_part: rounds in a part; a killed writer loses at most the open part.
        layout: the arrays of a message, or of what was masked; empty for one array of all its numbers.
        writer: program and version that wrote the trace.
    """

    kind: str
    dtype: str
    parameters: int
    k: int
    dataset: DatasetFields
    has_truth: bool
    ranker: str = "linear"
    knowledge: Mapping[str, Any] = field(default_factory=dict)
    spec_hash: str = ""
    embeds_features: bool = False
    rounds_per_part: int = 10
    layout: tuple[LayoutArray, ...] = ()
    writer: str = f"foltr-audit-recorder {VERSION}"

    @property
    def holds_models(self) -> bool:
        """Whether a message is a model or the change of one, be it masked."""
        return self.kind not in NO_MODELS

    @property
    def masking(self) -> str:
        """How masked messages are encoded: what the fact `masking` says; "" where they are not."""
        return str(self.knowledge.get("masking", "fixed-point")) if self.kind == "masked" else ""

    @property
    def width(self) -> int:
        """Numbers in a message: the P parameters (and a weight), or what the fact `width` says."""
        if self.holds_models:
            return self.parameters + (self.masking == FLOWER_MASKS)
        return int(self.knowledge["width"])

    @property
    def update_width(self) -> int:
        """Numbers in a true update."""
        return self.parameters if self.holds_models else self.width

    @property
    def intents(self) -> int:
        """Number of intents that users have: what the fact `intents` says, else 1."""
        return int(self.knowledge.get("intents", 1))

    @property
    def arrays(self) -> tuple[LayoutArray, ...]:
        """The arrays of a message as it is stored: those of the layout, or its masked words."""
        if self.layout and self.kind != "masked":
            return self.layout
        return (LayoutArray(ONE_ARRAY, (self.width,), self.dtype),)

    @property
    def message_format(self) -> str:
        """Type of messages in records: `uint64`, `float64` where one of their arrays has it, or `float32`."""
        if self.kind == "masked":
            return WORDS
        return "float64" if any(array.dtype == "float64" for array in self.arrays) else "float32"

    @property
    def update_format(self) -> str:
        """`float32` or `float64`: how exact true updates are at best."""
        return "float64" if self.kind == "masked" else self.message_format

    def to_toml(self) -> str:
        """The canonical TOML form: fixed order of fields, knowledge sorted by name."""
        return toml_text(self.table())

    def table(self) -> dict[str, Any]:
        """The fields as TOML has them, tables last."""
        table: dict[str, Any] = {"schema": SCHEMA, **vars(self)}
        for name in ("dataset", "knowledge", "layout"):
            del table[name]
        if self.layout:
            table["layout"] = [{**vars(array), "shape": list(array.shape)} for array in self.layout]
        table["dataset"] = {**vars(self.dataset), "parts": list(self.dataset.parts)}
        return table | {"knowledge": dict(sorted(self.knowledge.items()))}

    @property
    def trace_id(self) -> str:
        """SHA-256 (hex) of the canonical TOML: the id of a trace that is written with this header."""
        return hashlib.sha256(self.to_toml().encode("utf-8")).hexdigest()


class Column(NamedTuple):
    """What a column holds.

    Attributes:
        kind: a type of NumPy; `text`; `number` (float32 or float64); or whole numbers from 0 on, which are
            written in the smallest unsigned type and read in any: `whole`, below 2^63; `word`, below 2^64;
            `weight`, as `whole`, or float64.
        axes: lengths of the axes after that of the rows; None where it may be any.
        required: whether every part has it.
        filled: what stands in the rows of rounds without it, if a part has it; None if all have it or none.
    """

    kind: str
    axes: tuple[int | None, ...] = ()
    required: bool = True
    filled: Any = None

    @property
    def text(self) -> str:
        """What is expected, in words."""
        names = {"whole": "whole numbers", "word": "whole numbers", "number": "float32 or float64"}
        names["weight"] = "whole numbers or float64"
        shape = ", ".join("any" if length is None else str(length) for length in self.axes)
        return names.get(self.kind, self.kind) + (f" of shape (rows, {shape})" if shape else "")

    def fits(self, values: NDArray[np.generic], longest: int) -> bool:
        """Whether an array has this type and these axes; one that is free and without values is not long."""
        axes, dtype = values.shape[1:], values.dtype.newbyteorder("=")
        wanted = {
            "text": dtype.kind == "U",
            "number": dtype in (np.float32, np.float64),
            "weight": dtype.kind in "iu" or dtype == np.float64,
            **dict.fromkeys(("whole", "word"), dtype.kind in "iu"),
        }
        if not (wanted[self.kind] if self.kind in wanted else dtype == np.dtype(self.kind)):
            return False
        return len(axes) == len(self.axes) and all(
            found == length or (length is None and (len(values) > 0 or found <= longest))
            for length, found in zip(self.axes, axes, strict=True)
        )

    def stored(self, values: NDArray[Any]) -> NDArray[np.generic]:
        """Values as a file has them."""
        if self.kind in ("text", "number") or (
            self.kind == "weight" and values.dtype.kind == "f" and values.size
        ):
            return values
        if self.kind in ("whole", "word", "weight"):
            return values.astype(np.min_scalar_type(int(values.max()) if values.size else 0))
        return values.astype(self.kind, copy=False)


WHOLE, BOOL, TEXT, FLOAT = Column("whole"), Column("bool"), Column("text"), Column("float64")


def table_columns(header: HeaderFields, table: str) -> dict[str, Column]:
    """The columns of a table of a trace, by name; the one place that declares them."""
    P, W, k = header.parameters, header.width, header.k
    if table == "observed/rounds":
        found = {
            "parameters": Column("float64", (P,)),
            "aggregate": Column("float64", (P,)),
            "shares": WHOLE,
            "facts": Column("text", (), False, ""),
            **dict.fromkeys(("started", "ended"), Column("float64", (), False, math.nan)),
        }
        if header.kind == "masked":
            found |= {"total": Column(WORDS, (W,)), "has_total": BOOL, "aborted": TEXT}
        if not header.holds_models:
            found["state"] = Column("float64", (None,))
    elif table == "observed/messages":
        arrays = {f"array-{i}": Column(str(a.stored), a.shape) for i, a in enumerate(header.arrays)}
        found = {"slot": WHOLE, "count": Column("weight"), "survived": BOOL, **arrays}
        if header.kind == METRICS:
            found["seed"] = Column("word")
        found |= {"sender": Column("word", (), False), "bytes": Column("whole", (), False, 0)}
        found["sent_at"] = Column("float64", (), False, math.nan)
    elif table == "observed/interactions":
        found = dict.fromkeys(("slot", "step", "part", "query"), WHOLE)
        found |= {"shown": Column("whole", (k,)), "candidates": Column("whole", (), False, 0)}
        if header.embeds_features:
            found["features"] = Column("number", (k, None))
    elif table == "truth/messages":
        # Beside masked messages recorders write updates in the format of what was masked.
        kind = "number" if header.kind == "masked" else header.update_format
        update = Column(kind, (header.update_width,), False, math.nan)
        found = {"slot": WHOLE, "client": Column("word"), "update": update}
    elif table == "truth/clicks":
        found = {"slot": WHOLE, "step": WHOLE, "clicks": Column("bool", (k,))}
        found |= {"known": Column("bool", (), False, True), "clipped": Column("bool", (), False)}
        found |= {"intent": WHOLE} if header.intents > 1 else {}
    else:
        found = _PLAIN[table]
    return {"round": WHOLE, **found}


_PLAIN: dict[str, dict[str, Column]] = {
    "observed/candidates": {"features": Column("number", (None,))},
    "observed/cohort": {
        "node": Column("word"),
        "outcome": TEXT,
        **dict.fromkeys(("reason", "stage"), Column("text", (), False, "")),
    },
    "observed/metrics": {"slot": WHOLE, "name": TEXT, "value": FLOAT},
    "truth/rounds": {"name": TEXT, "value": FLOAT},
}


def plain_facts(facts: Mapping[str, object], *, of_round: bool = False) -> dict[str, object]:
    """Facts with NumPy's numbers as plain ones; `of_round`: they hold in one round only.

    Raises:
        ValueError: a fact that is no text, number, true or false, or list of texts; of a round one of
            `FIXED_FACTS`, or a number that is not finite.
    """
    found = {name: value.item() if isinstance(value, np.generic) else value for name, value in facts.items()}
    for name, value in found.items():
        texts = isinstance(value, list | tuple) and all(isinstance(text, str) for text in value)
        number = isinstance(value, int | float) and not math.isnan(value)
        if not isinstance(name, str) or not (texts or number or isinstance(value, str)):
            raise ValueError(
                f"fact {name} is {value!r:.80}; expected text, a number (not NaN), true or false, or texts"
            )
        if of_round and (name in FIXED_FACTS or (isinstance(value, float) and math.isinf(value))):
            expected = "that of the trace" if name in FIXED_FACTS else "a finite number"
            raise ValueError(f"fact {name} of a round is {value!r:.80}; expected {expected}")
    return found


def plain_text(text: str) -> str:
    """A text that others chose: one line of at most `MOST_TEXT` characters, all of them printable."""
    if len(text) <= MOST_TEXT and text.isprintable():
        return text
    line = " ".join(text[: 4 * MOST_TEXT].split())[:MOST_TEXT]
    return "".join(letter if letter.isprintable() else "?" for letter in line)


def toml_text(table: Mapping[str, object]) -> str:
    """A table as TOML, which the standard library only reads: first its plain values, then its tables.

    A value is text, a number (not NaN), true or false, or a list of such values or of flat tables.

    Raises:
        ValueError: text that is not valid Unicode.
    """
    plain = [name for name, value in table.items() if not isinstance(value, Mapping)]
    lines = [f"{_key(name)} = {_value(table[name])}" for name in plain]
    for name, value in table.items():
        if isinstance(value, Mapping):
            lines += [
                "",
                f"[{_key(name)}]",
                *(f"{_key(key)} = {_value(inner)}" for key, inner in value.items()),
            ]
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    bare = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
    return name if bare else _value(name)


def _value(value: object) -> str:
    if isinstance(value, str):
        value.encode("utf-8")  # a lone surrogate has no place in a file
        # JSON's escapes are also TOML's, except that TOML also refuses a bare 0x7f.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(key)} = {_value(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, Sequence):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, float):
        return repr(float(value))
    return str(value).lower()
