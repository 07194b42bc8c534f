"""The header of a trace, `trace.toml`: what an observer may know before the first message.

The trace id is the SHA-256 of that file. Every part holds it, so that a part of another
trace, or a header changed afterwards, is noticed.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

from foltr_audit.core.settings.defaults import SEEDED
from foltr_audit.core.settings.experiment import flat
from foltr_audit.errors import TraceError, UsageError
from foltr_audit.privacy.accounting.walk import Kind, kind_of
from foltr_audit.privacy.events import NoiseAddition, PrivacyEvent, UnknownNoise, parse_event
from foltr_audit.privacy.secure_aggregation.fixed_point import FixedPoint, OffsetEncoding
from foltr_audit.recorder.array_layout import BUFFERS, FLOATING, LayoutArray, n_parameters
from foltr_audit.recorder.trace_files import HEADER, MOST_HEADER_BYTES
from foltr_audit.recorder.trace_format import (
    FIXED_FACTS,
    FLOWER_MASKS,
    SCHEMA,
    WORDS,
    DatasetFields,
    HeaderFields,
)
from foltr_audit.trace.facts import FACTS, MOST_PARTS, Fact, shortened
from foltr_audit.utils.reading import file_bytes, is_whole, toml_table, whole_number
from foltr_audit.utils.reading.text import decoded
from foltr_audit.utils.seed_generators import NUMPY_RANDOMSTATE

KINDS = ("model", "update", "masked", "es", "clicks")

MOST_ARRAYS = 10_000
MOST_WHOLE = 2**31 - 1  # of parameters, of documents in a list, and of rounds
_MOST_AXES = 7  # an array in a file has eight, one of them the messages


@dataclass(frozen=True, kw_only=True)
class TraceDataset(DatasetFields):
    """The data that the clients searched, with the fields of `DatasetFields`.

    Raises:
        TraceError: a field of the wrong type or out of range.
    """

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        _check_types(self, "dataset.")
        check(self.fold >= 0, "dataset.fold", self.fold, "0 or more")
        texts = all(isinstance(part, str) for part in self.parts)
        check(texts, "dataset.parts", self.parts, "a list of texts")
        check(len(set(self.parts)) == len(self.parts), "dataset.parts", self.parts, "different names")
        check(0 < len(self.parts) <= MOST_PARTS, "dataset.parts", self.parts, f"1 to {MOST_PARTS} names")


class ChainAction(NamedTuple):
    """One thing that happens to a message.

    Attributes:
        text: the event or defense as text.
        event: what it is; None where that is not known here.
        law: of noise, its law as text; None where it is not stated.
    """

    text: str
    event: PrivacyEvent | UnknownNoise | None
    law: str | None

    @classmethod
    def of(cls, text: str, event: PrivacyEvent | UnknownNoise | None) -> Self:
        if isinstance(event, NoiseAddition):
            return cls(text, event, event.law.text)
        return cls(text, event, event.law if isinstance(event, UnknownNoise) else None)

    @property
    def kind(self) -> Kind:
        """What it does to a message."""
        return kind_of(self.event)


@cache
def _this_program() -> str:
    try:
        return f"foltr-audit {version('foltr-audit')}"
    except PackageNotFoundError:  # an unpacked copy that was never installed
        return "foltr-audit"


@dataclass(frozen=True, kw_only=True)
class TraceHeader(HeaderFields):
    """The content of `trace.toml`, checked, with the fields of `HeaderFields`.

    Raises:
        TraceError: a field or fact of the wrong type or out of range, or an unknown kind.
    """

    dataset: TraceDataset
    knowledge: dict[str, Fact] = field(default_factory=dict)
    writer: str = field(default_factory=_this_program)

    def __post_init__(self) -> None:
        _check_types(self, "")
        check(self.kind in KINDS, "kind", self.kind, " or ".join(KINDS))
        formats = (WORDS,) if self.kind == "masked" else FLOATING
        check(self.dtype in formats, "dtype", self.dtype, f"{' or '.join(formats)} of kind {self.kind}")
        for name in ("parameters", "k", "rounds_per_part"):
            value = getattr(self, name)
            check(1 <= value <= MOST_WHOLE, name, value, f"1 to {MOST_WHOLE}")
        for name, fact in self.knowledge.items():
            check(isinstance(name, str), "knowledge", name, "names that are text")
            texts = isinstance(fact, list) and all(isinstance(text, str) for text in fact)
            number = isinstance(fact, int | float) and not math.isnan(fact)
            expected = "text, a number (not NaN), true or false, or a list of texts"
            check(texts or number or isinstance(fact, str), f"knowledge.{name}", fact, expected)
        own = {name: list(fact) if isinstance(fact, list) else fact for name, fact in self.knowledge.items()}
        object.__setattr__(self, "knowledge", dict(sorted(own.items())))
        self._check_facts()
        self._check_layout()
        try:
            self.to_toml().encode("utf-8")
        except UnicodeEncodeError as error:
            raise TraceError(f"trace: header: text {error.object[:60]!r} is not valid Unicode") from None

    def _check_facts(self) -> None:
        """Refuse facts that say what the columns of the trace hold, and are missing or make no sense."""
        needed = [] if self.holds_models else ["width"]
        needed += ["intents"] if "intents" in self.knowledge else []
        if self.kind == "masked":
            needed += ["of", *(["masking"] if "masking" in self.knowledge else [])]
            offset = ["clipping_range", "quantization_range", "modulus_bits", "max_weight"]
            needed += offset if self.masking == FLOWER_MASKS else ["bits", "fraction", "range"]
        for name in needed:
            good = self.stated(name) is not None
            check(good, f"knowledge.{name}", self.knowledge.get(name), FACTS[name].values)
        _ = self.encoding

    def _check_layout(self) -> None:
        for array in self.layout:
            who, formats = f"trace: header: layout: {array.name!r:.60}", (*FLOATING, *BUFFERS)
            if not isinstance(array.name, str) or array.dtype not in formats:
                raise TraceError(f"{who} is {array.dtype!r:.60}, expected {', '.join(formats)}")
            sizes = len(array.shape) <= _MOST_AXES and all(is_whole(n, 0, MOST_WHOLE) for n in array.shape)
            if not sizes or array.size > MOST_WHOLE:
                raise TraceError(
                    f"{who} has shape {list(array.shape)!r:.60}, expected at most {_MOST_AXES} axes and "
                    f"{MOST_WHOLE} numbers"
                )
        if len({array.name for array in self.layout}) < len(self.layout):
            raise TraceError("trace: header: layout has a name twice, expected different names")
        if not self.layout:
            return
        numbers = n_parameters(self.layout)
        expected = f"{self.update_width} in arrays of floating numbers"
        check(numbers == self.update_width, "layout", f"of {numbers} numbers", expected)
        if self.kind != "masked":
            types = {array.dtype for array in self.layout if array.dtype in FLOATING} | {self.message_format}
            check(self.dtype in types, "dtype", self.dtype, " or ".join(sorted(types)) + " as in the layout")

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
        return str(self.knowledge["of"]) if self.kind == "masked" else self.kind

    @property
    def events(self) -> tuple[ChainAction, ...] | None:
        """What happens to a message, by the fact `events`; None without it."""
        texts = self.knowledge.get("events")
        if not isinstance(texts, list):
            return None
        return tuple(ChainAction.of(text, parse_event(text)) for text in texts)

    def stated(self, name: str) -> Any:
        """The value of a fact; None where it is no value that the fact may have."""
        value = self.knowledge.get(name)
        return value if FACTS[name].fits(value) else None

    @property
    def attacked_kind(self) -> str:
        """The kind of a message for the choice of attacks, see `Spec.attacked_kind`."""
        seeded = self.kind == "es" and self.knowledge.get("perturbation") == NUMPY_RANDOMSTATE
        return SEEDED if seeded else self.content

    @property
    def encoding(self) -> FixedPoint | OffsetEncoding | None:
        """How messages are encoded as integers; None where they are not.

        By the facts `bits`, `fraction` and `range`; of Flower's masking by `clipping_range`,
        `quantization_range`, `modulus_bits` and `max_weight`.
        """
        facts = cast("dict[str, Any]", self.knowledge)
        if self.kind != "masked":
            return None
        try:
            if self.masking == FLOWER_MASKS:
                whole = {name: facts[name] for name in ("quantization_range", "modulus_bits")}
                return OffsetEncoding(
                    clipping_range=float(facts["clipping_range"]),
                    max_weight=float(facts["max_weight"]),
                    **whole,
                )
            return FixedPoint(bits=facts["bits"], fraction=facts["fraction"], range=facts["range"])
        except UsageError as error:
            raise TraceError(f"trace: header: {error}") from None

    @property
    def number_format(self) -> str:
        """How exact messages are: the coarsest format of their arrays, or `float64` of masked ones.

        Where the fact `number_format` says that they hold fewer digits than that, what it says.
        """
        if (stated := self.stated("number_format")) is not None:
            return str(stated)
        if self.kind == "masked":
            return "float64"
        found = {array.dtype for array in self.arrays}
        return next(name for name in ("bfloat16", "float16", "float32", "float64") if name in found)

    @property
    def feature_format(self) -> str:
        """`float32` or `float64`: how exact the features are that clients learn from.

        What the fact `feature_dtype` says; else float32 in Runs of foltr-audit, and the format of the
        messages in traces of other systems.
        """
        return str(self.stated("feature_dtype") or ("float32" if self.spec_hash else self.update_format))

    def first_difference(self, other: TraceHeader) -> tuple[str, object, object] | None:
        """Name of the first field that differs and both values (None: absent); None where all are equal."""
        mine, theirs = flat(self.table()), flat(other.table())
        for name in mine | theirs:
            a, b = mine.get(name), theirs.get(name)
            if type(a) is not type(b) or a != b:
                return name, a, b
        return None


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
    given: dict[str, Any] = {"layout": [], "writer": "", **table}
    _check_names(given, ["schema", *(f.name for f in fields(TraceHeader))], "")
    del given["schema"]
    for name in ("dataset", "knowledge"):
        check(isinstance(given[name], dict), name, given[name], "a table")
    dataset = {"rows": "", **given["dataset"]}
    _check_names(dataset, [f.name for f in fields(TraceDataset)], "dataset.")
    check(isinstance(dataset["parts"], list), "dataset.parts", dataset["parts"], "a list")
    expected, arrays, layout = "a list of tables {name, shape, dtype}", given["layout"], []
    if not isinstance(arrays, list) or len(arrays) > MOST_ARRAYS:
        raise TraceError(f"trace: header: layout is {arrays!r:.60}, expected {expected}")
    for entry in arrays:
        good = isinstance(entry, Mapping) and set(entry) == {"name", "shape", "dtype"}
        if not good or not isinstance(entry["shape"], list):
            raise TraceError(f"trace: header: layout has {entry!r:.60}, expected {expected}")
        layout.append(LayoutArray(entry["name"], tuple(entry["shape"]), entry["dtype"]))
    return TraceHeader(**{**given, "dataset": TraceDataset(**dataset), "layout": tuple(layout)})


def _check_schema(schema: object) -> None:
    family, _, version = SCHEMA.rpartition("/")
    found, _, other = str(schema).rpartition("/")
    newer = found == family and (whole_number(other, 0, 10**9) or 0) > int(version)
    check(schema == SCHEMA, "schema", schema, SCHEMA + (" (a newer foltr-audit wrote it)" if newer else ""))


def check(good: bool, name: str, value: object, expected: str) -> None:
    """Refuse a field that is not good: a `TraceError` says what was expected."""
    if not good:
        raise TraceError(f"trace: header: {name} is {shortened(value)}, expected {expected}")


def _check_names(table: Mapping[str, object], names: list[str], prefix: str) -> None:
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


def _check_types(record: DatasetFields | HeaderFields, prefix: str) -> None:
    """Refuse a record whose plain fields have other types than they should."""
    for item in fields(record):
        value = getattr(record, item.name)
        if str(item.type) in _TYPES:  # else a record or list, which is checked on its own
            kind, expected = _TYPES[str(item.type)]
            good = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
            check(good, prefix + item.name, value, expected)
