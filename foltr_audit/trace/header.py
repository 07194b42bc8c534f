"""The header of a trace, `trace.toml`: what an observer may know before the first message.

The trace id is the SHA-256 of that file. Every part holds it, so that a part of another
trace, or a header changed afterwards, is noticed.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.records.interactions import Payload
from foltr_audit.core.settings.defaults import SEEDED
from foltr_audit.errors import TraceError, UsageError
from foltr_audit.privacy.secure_aggregation.fixed_point import FixedPoint, OffsetEncoding
from foltr_audit.recorder.array_layout import BUFFERS, FLOATING, ONE_ARRAY, LayoutArray, n_parameters, widened
from foltr_audit.recorder.part_files import HEADER, TRACE_SCHEMA
from foltr_audit.recorder.recorder import MOST_HEADER_BYTES
from foltr_audit.recorder.toml_text import FIXED_FACTS, toml_text
from foltr_audit.recorder.trace_start import FLOWER_MASKS
from foltr_audit.utils.reading import file_bytes, is_whole, toml_table, whole_number
from foltr_audit.utils.reading.text import decoded
from foltr_audit.utils.seed_generators import NUMPY_RANDOMSTATE

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

WORDS = "uint64"
"""Format of masked messages."""

MOST_ARRAYS = 10_000
MOST_WHOLE = 2**31 - 1  # of parameters, of documents in a list, and of rounds
_MOST_AXES = 7  # an array in a file has eight, one of them the messages


def check_layout(layout: Sequence[LayoutArray]) -> None:
    """Refuse arrays that no message has."""
    formats = (*FLOATING, *BUFFERS)
    for array in layout:
        who = f"trace: header: layout: {array.name!r:.60}"
        if not isinstance(array.name, str) or array.dtype not in formats:
            raise TraceError(f"{who} is {array.dtype!r:.60}, expected {', '.join(formats)}")
        sizes = len(array.shape) <= _MOST_AXES and all(is_whole(n, 0, MOST_WHOLE) for n in array.shape)
        if not sizes or array.size > MOST_WHOLE:
            raise TraceError(
                f"{who} has shape {list(array.shape)!r:.60}, expected at most {_MOST_AXES} axes and "
                f"{MOST_WHOLE} numbers"
            )
    if len({array.name for array in layout}) < len(layout):
        raise TraceError("trace: header: layout has a name twice, expected different names")


def layout_from(entries: object) -> tuple[LayoutArray, ...]:
    """The layout from the field `layout` of a header; `check_layout` checks its arrays.

    Raises:
        TraceError: no list of tables with a name, a shape and a dtype, or too many.
    """
    expected = "a list of tables {name, shape, dtype}"
    if not isinstance(entries, list) or len(entries) > MOST_ARRAYS:
        raise TraceError(f"trace: header: layout is {entries!r:.60}, expected {expected}")
    made = []
    for entry in entries:
        good = isinstance(entry, Mapping) and set(entry) == {"name", "shape", "dtype"}
        if not good or not isinstance(entry["shape"], list):
            raise TraceError(f"trace: header: layout has {entry!r:.60}, expected {expected}")
        made.append(LayoutArray(entry["name"], tuple(entry["shape"]), entry["dtype"]))
    return tuple(made)


def joined(layout: Sequence[LayoutArray], arrays: Sequence[NDArray[np.generic]], dtype: str) -> Payload:
    """The messages as records hold them, (M, P): the floating arrays (M, *shape), one after the other.

    The type of the result holds every value exactly.
    """
    pieces = [
        widened(values, array.dtype).reshape(len(values), array.size)
        for array, values in zip(layout, arrays, strict=True)
        if array.dtype in FLOATING or dtype == WORDS
    ]
    if len(pieces) == 1:
        return pieces[0].astype(dtype, copy=False)
    return np.concatenate(pieces, axis=1, dtype=dtype)


def split(
    layout: Sequence[LayoutArray], messages: Payload, buffers: Sequence[NDArray[np.generic]], where: str
) -> list[NDArray[np.generic]]:
    """The arrays of messages (M, P), each (M, *shape) in the type in which it is stored.

    Raises:
        UsageError: numbers that the type of their array does not hold, or other buffers than in the layout.
    """
    rows, found, at, left = len(messages), [], 0, list(buffers)
    for array in layout:
        if array.dtype not in FLOATING and messages.dtype != np.uint64:
            if not left:
                raise UsageError(f"{where}: no buffer {array.name!r:.60}, which the layout has")
            values = left.pop(0)
            if values.shape != (rows, *array.shape) or values.dtype != array.stored:
                raise UsageError(
                    f"{where}: buffer {array.name!r:.60} is {values.dtype} of shape {values.shape}, expected "
                    f"{array.dtype} of shape {(rows, *array.shape)}"
                )
            found.append(values)
            continue
        numbers = messages[:, at : at + array.size]
        found.append(_narrowed(array, numbers, where).reshape(rows, *array.shape))
        at += array.size
    if left:
        raise UsageError(f"{where}: {len(left)} buffers more than the layout has")
    return found


def _narrowed(array: LayoutArray, numbers: Payload, where: str) -> NDArray[np.generic]:
    if numbers.dtype == array.stored:
        return numbers
    with np.errstate(over="ignore"):
        if array.dtype == "bfloat16":
            bits = np.ascontiguousarray(numbers, dtype=np.float32).view(np.uint32) >> np.uint32(16)
            stored: NDArray[np.generic] = bits.astype(np.uint16)
        else:
            stored = numbers.astype(array.stored)
    if not np.array_equal(widened(stored, array.dtype), numbers, equal_nan=True):
        raise UsageError(f"{where}: messages hold numbers in {array.name!r:.60} that {array.dtype} does not")
    return stored


SCHEMA = TRACE_SCHEMA

KINDS = ("model", "update", "masked", "es", "clicks")
NO_MODELS = ("es", "clicks")
"""Kinds whose messages are no models, so that fact `width` says how many numbers one holds."""

DTYPES = ("float32", "float64")
"""Number formats of features."""

MASKINGS = ("fixed-point", FLOWER_MASKS)

MOST_PARTS = 256  # a part's index is stored in 8 bits

Fact = str | int | float | bool | list[str]


@dataclass(frozen=True, kw_only=True)
class TraceDataset:
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
    fold: int
    fingerprint: str
    normalised: str
    parts: tuple[str, ...]
    rows: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        check_types(self, "dataset.")
        check(self.fold >= 0, "dataset.fold", self.fold, "0 or more")
        check(len(set(self.parts)) == len(self.parts), "dataset.parts", self.parts, "different names")
        check(0 < len(self.parts) <= MOST_PARTS, "dataset.parts", self.parts, f"1 to {MOST_PARTS} names")


@cache
def _this_program() -> str:
    try:
        return f"foltr-audit {version('foltr-audit')}"
    except PackageNotFoundError:  # an unpacked copy that was never installed
        return "foltr-audit"


@dataclass(frozen=True, kw_only=True)
class TraceHeader:
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

    Raises:
        TraceError: a field of the wrong type or out of range, or an unknown kind.
    """

    kind: str
    dtype: str
    parameters: int
    k: int
    dataset: TraceDataset
    has_truth: bool
    ranker: str = "linear"
    knowledge: dict[str, Fact] = field(default_factory=dict)
    spec_hash: str = ""
    embeds_features: bool = False
    rounds_per_part: int = 10
    layout: tuple[LayoutArray, ...] = ()
    writer: str = field(default_factory=_this_program)

    def __post_init__(self) -> None:
        check_types(self, "")
        check(self.kind in KINDS, "kind", self.kind, " or ".join(KINDS))
        formats = (WORDS,) if self.kind == "masked" else FLOATING
        check(self.dtype in formats, "dtype", self.dtype, f"{' or '.join(formats)} of kind {self.kind}")
        for name in ("parameters", "k", "rounds_per_part"):
            value = getattr(self, name)
            check(1 <= value <= MOST_WHOLE, name, value, f"1 to {MOST_WHOLE}")
        for name, value in self.knowledge.items():
            check(isinstance(name, str), "knowledge", name, "names that are text")
            check_fact(name, value)
        ordered = sorted(self.knowledge.items())
        own = {name: list(fact) if isinstance(fact, list) else fact for name, fact in ordered}
        object.__setattr__(self, "knowledge", own)
        # These refuse facts that are missing or make no sense:
        _ = self.content, self.encoding, self.width, self.intents
        self._check_layout()
        try:
            self.to_toml().encode("utf-8")
        except UnicodeEncodeError as error:
            raise TraceError(f"trace: header: text {error.object[:60]!r} is not valid Unicode") from None

    def _check_layout(self) -> None:
        check_layout(self.layout)
        if not self.layout:
            return
        numbers = n_parameters(self.layout)
        expected = f"{self.update_width} in arrays of floating numbers"
        check(numbers == self.update_width, "layout", f"of {numbers} numbers", expected)
        if self.kind != "masked":
            types = sorted(
                {array.dtype for array in self.layout if array.dtype in FLOATING} | {self.message_format}
            )
            check(self.dtype in types, "dtype", self.dtype, " or ".join(types) + " as in the layout")

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

    def in_round(self, facts: Mapping[str, object]) -> TraceHeader:
        """The header with the facts that hold in one round instead of its own.

        Raises:
            TraceError: a fact of the wrong type, or one that no round may have.
        """
        if not facts:
            return self
        for name in facts:
            check(name not in FIXED_FACTS, f"knowledge.{name} of a round", facts[name], "the header's")
        return replace(self, knowledge={**self.knowledge, **cast("dict[str, Fact]", facts)})

    @property
    def content(self) -> str:
        """The kind of a decoded message: `kind`, or that of what was masked."""
        if self.kind != "masked":
            return self.kind
        content = self.knowledge.get("of")
        check(content in ("model", "update"), "knowledge.of", content, "model or update")
        return str(content)

    @property
    def attacked_kind(self) -> str:
        """The kind of a message for the choice of attacks, see `Spec.attacked_kind`."""
        seeded = self.kind == "es" and self.knowledge.get("perturbation") == NUMPY_RANDOMSTATE
        return SEEDED if seeded else self.content

    @property
    def holds_models(self) -> bool:
        """Whether a message is a model or the change of one, be it masked."""
        return self.kind not in NO_MODELS

    @property
    def width(self) -> int:
        """Numbers in a message: the P parameters (and a weight), or what the fact `width` says."""
        if self.holds_models:
            return self.parameters + (self.masking == FLOWER_MASKS)
        return self._whole("width", "a whole number from 1 on", 1)

    @property
    def update_width(self) -> int:
        """Numbers in a true update."""
        return self.parameters if self.holds_models else self.width

    @property
    def intents(self) -> int:
        """Number of intents that users have: what the fact `intents` says, else 1."""
        if "intents" not in self.knowledge:
            return 1
        return self._whole("intents", f"a whole number from 1 to {MOST_PARTS}", 1, MOST_PARTS)

    def _whole(self, fact: str, expected: str, least: float = -math.inf, most: float = math.inf) -> int:
        value = self.knowledge.get(fact)
        check(is_whole(value, least, most), f"knowledge.{fact}", value, expected)
        return int(value)  # type: ignore[arg-type]

    @property
    def masking(self) -> str:
        """How masked messages are encoded: what the fact `masking` says; "" where they are not."""
        if self.kind != "masked":
            return ""
        found = self.knowledge.get("masking", "fixed-point")
        check(found in MASKINGS, "knowledge.masking", found, " or ".join(MASKINGS))
        return str(found)

    @property
    def encoding(self) -> FixedPoint | OffsetEncoding | None:
        """How messages are encoded as integers; None where they are not.

        By the facts `bits`, `fraction` and `range`; of Flower's masking by `clipping_range`,
        `quantization_range`, `modulus_bits` and `max_weight`.
        """
        if self.kind != "masked":
            return None
        try:
            if self.masking == FLOWER_MASKS:
                return self._offset_encoding()
            bits, fraction = (self._whole(name, "a whole number") for name in ("bits", "fraction"))
            range_ = self.knowledge.get("range")
            check(isinstance(range_, int | float), "knowledge.range", range_, "a number")
            return FixedPoint(bits=bits, fraction=fraction, range=range_)  # type: ignore[arg-type]
        except UsageError as error:
            raise TraceError(f"trace: header: {error}") from None

    def _offset_encoding(self) -> OffsetEncoding:
        whole = {
            name: self._whole(name, "a whole number from 1 on", 1)
            for name in ("quantization_range", "modulus_bits")
        }
        for name in ("clipping_range", "max_weight"):
            value = self.knowledge.get(name)
            good = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
            check(good, f"knowledge.{name}", value, "a number above 0")
        most, weight = self.knowledge["clipping_range"], self.knowledge["max_weight"]
        return OffsetEncoding(
            clipping_range=float(cast("float", most)), max_weight=float(cast("float", weight)), **whole
        )

    @property
    def number_format(self) -> str:
        """How exact messages are: the coarsest format of their arrays, or `float64` of masked ones.

        Where the fact `number_format` says that they hold fewer digits than that, what it says.
        """
        stated = self.knowledge.get("number_format")
        if stated in DTYPES:
            return str(stated)
        if self.kind == "masked":
            return "float64"
        found = {array.dtype for array in self.arrays}
        return next(name for name in ("bfloat16", "float16", "float32", "float64") if name in found)

    @property
    def update_format(self) -> str:
        """`float32` or `float64`: how exact true updates are at best."""
        return "float64" if self.kind == "masked" else self.message_format

    @property
    def feature_format(self) -> str:
        """`float32` or `float64`: how exact the features are that clients learn from.

        What the fact `feature_dtype` says; else float32 in Runs of foltr-audit, and the format of the
        messages in traces of other systems.
        """
        stated = self.knowledge.get("feature_dtype")
        if stated in DTYPES:
            return str(stated)
        return "float32" if self.spec_hash else self.update_format

    def to_toml(self) -> str:
        """The canonical TOML form: fixed order of fields, knowledge sorted by name."""
        return toml_text(self._table())

    def _table(self) -> dict[str, object]:
        table = {"schema": SCHEMA, **vars(self)}
        dataset = {**vars(table.pop("dataset")), "parts": list(self.dataset.parts)}
        del table["layout"]
        if self.layout:
            table["layout"] = [{**vars(array), "shape": list(array.shape)} for array in self.layout]
        return table | {"dataset": dataset, "knowledge": table.pop("knowledge")}

    @property
    def trace_id(self) -> str:
        """SHA-256 (hex) of the canonical TOML: the id of a trace that is written with this header."""
        return hashlib.sha256(self.to_toml().encode("utf-8")).hexdigest()

    def first_difference(self, other: TraceHeader) -> tuple[str, object, object] | None:
        """Name of the first field that differs and both values (None: absent); None where all are equal."""
        mine, theirs = self._flat(), other._flat()
        for name in mine | theirs:
            a, b = mine.get(name), theirs.get(name)
            if type(a) is not type(b) or a != b:
                return name, a, b
        return None

    def _flat(self) -> dict[str, object]:
        flat = self._table()
        for name in ("dataset", "knowledge"):
            flat |= {f"{name}.{key}": fact for key, fact in cast("dict[str, object]", flat.pop(name)).items()}
        return flat


def read_header(folder: Path) -> tuple[TraceHeader, str]:
    """The header of the trace in a folder, and the trace id.

    Raises:
        TraceError: no header, broken TOML, a newer schema, a missing, unknown or bad field.
    """
    path = folder / HEADER
    if not path.is_file():
        raise TraceError(f"trace: {folder}: no {HEADER} in it, so it is not a trace")
    where = f"trace: {path}"
    data = file_bytes(path, TraceError, MOST_HEADER_BYTES, "trace: ")
    table = toml_table(decoded(data, where, TraceError), where, TraceError)
    try:
        return header_from(table), hashlib.sha256(data).hexdigest()
    except TraceError as error:
        raise TraceError(str(error).replace("trace: header:", f"{where}:", 1)) from None


def header_from(table: Mapping[str, object]) -> TraceHeader:
    """The header from its parsed TOML; each field must be there but `layout` and `writer`, and no other."""
    if "schema" in table:  # first: a newer schema may well have other fields
        _check_schema(table["schema"])
    table = {"layout": [], "writer": "", **table}
    check_names(table, ["schema", *(f.name for f in fields(TraceHeader))], "")
    del table["schema"]
    for name in ("dataset", "knowledge"):
        check(isinstance(table[name], dict), name, table[name], "a table")
    dataset = cast("dict[str, Any]", table["dataset"])  # the classes check the types of their fields
    dataset = {"rows": "", **dataset}
    check_names(dataset, [f.name for f in fields(TraceDataset)], "dataset.")
    check(isinstance(dataset["parts"], list), "dataset.parts", dataset["parts"], "a list")
    parsed = {**table, "dataset": TraceDataset(**dataset), "layout": layout_from(table["layout"])}
    return TraceHeader(**cast("dict[str, Any]", parsed))


def _check_schema(schema: object) -> None:
    family, _, version = SCHEMA.rpartition("/")
    found, _, other = str(schema).rpartition("/")
    newer = found == family and (whole_number(other, 0, 10**9) or 0) > int(version)
    check(schema == SCHEMA, "schema", schema, SCHEMA + (" (a newer foltr-audit wrote it)" if newer else ""))


def check(good: bool, name: str, value: object, expected: str) -> None:
    """Refuse a field that is not good: a `TraceError` says what was expected."""
    if not good:
        raise TraceError(f"trace: header: {name} is {shortened(value)}, expected {expected}")


def shortened(value: object) -> str:
    """A value as Python writes it, at most 80 characters of it."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def check_names(table: Mapping[str, object], names: list[str], prefix: str) -> None:
    """Refuse a table that lacks a field or has another one."""
    for name in names:
        if name not in table:
            raise TraceError(f"trace: header: field {prefix}{name} is missing")
    for name in table:
        if name not in names:
            raise TraceError(f"trace: header: unknown field {prefix}{name}")


_TYPES: dict[str, tuple[type, str]] = {
    "str": (str, "text"),
    "int": (int, "a whole number"),
    "bool": (bool, "true or false"),
    "dict[str, Fact]": (dict, "a table"),
}


def check_types(record: DataclassInstance, prefix: str) -> None:
    """Refuse a record whose plain fields have other types than they should."""
    for item in fields(record):
        value = getattr(record, item.name)
        if item.name == "parts":
            check(all(isinstance(part, str) for part in value), prefix + "parts", value, "a list of texts")
        elif str(item.type) in _TYPES:  # else a record, which checks itself
            kind, expected = _TYPES[str(item.type)]
            good = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
            check(good, prefix + item.name, value, expected)


def check_fact(name: str, value: object) -> None:
    """Refuse a fact that is neither text, a number, true or false, nor a list of texts."""
    texts = isinstance(value, list) and all(isinstance(text, str) for text in value)
    good = texts or (
        isinstance(value, str | int | float) and not (isinstance(value, float) and math.isnan(value))
    )
    check(good, f"knowledge.{name}", value, "text, a number (not NaN), true or false, or a list of texts")
